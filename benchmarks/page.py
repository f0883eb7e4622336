"""Writes the measured rows into the documentation: a page with a table, and a chart of the programs."""

import datetime
import html
import importlib.metadata
import os
import pathlib
import platform
from collections.abc import Sequence

from benchmarks.measurement import Row
from benchmarks.programs import OURS, UNIT

DOCUMENTATION = pathlib.Path(__file__).parents[1] / "documentation"
PAGE = DOCUMENTATION / "reference" / "benchmarks.rst"
CHART = DOCUMENTATION / "pictures" / "benchmarks.svg"
#: Whose versions the page names, as far as they are installed.
_PACKAGES = ("ripieno", "aiohttp", "orjson", "httpx2", "openai", "pydantic-ai-slim", "openai-agents", "llm")
#: Sizes in the chart, in its own units: a bar with its gap, the names before the bars, the bars, and the figures.
_ROW, _HEAD, _NAMES, _BARS, _FIGURES = 26, 40, 150, 480, 90
_STYLE = """
text { font: 14px system-ui, sans-serif; fill: #1d1d1f }
.title { font-weight: 600 }
rect { fill: #9aa3ad } .ours { fill: #b4532a }
@media (prefers-color-scheme: dark) { text { fill: #e8e8ea } rect { fill: #6b747e } .ours { fill: #e08a5f } }
"""


def write_page(rows: Sequence[Row]) -> None:
    """Writes both. A page without the figures of the programs has no chart."""
    charted = [row for row in rows if row.unit == UNIT]
    if charted:
        CHART.write_text(chart(charted), encoding="utf-8")
    PAGE.write_text(page(rows, machine(), charted=bool(charted)), encoding="utf-8")


def machine() -> str:
    """The date, the machine and the versions, as a sentence each."""
    versions: list[str] = []
    for name in _PACKAGES:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    today = datetime.datetime.now(datetime.UTC).date()
    return (
        f"Measured on {today}, Python {platform.python_version()}, {os.cpu_count()} processors "
        f"({platform.machine()}). Versions: {', '.join(versions)}."
    )


def page(rows: Sequence[Row], where: str, *, charted: bool) -> str:
    """The page, in reStructuredText. Rows that could not be measured are left out."""
    lines = [
        "Benchmarks",
        "==========",
        "",
        "``make bench`` measures what Ripieno promises about speed, and writes this page. All figures are processor",
        "time over the loopback network of one machine, unless a row says otherwise. *The limit* is a loop with the",
        "fastest libraries: it encodes each message once, and validates and reports nothing. *The floor* is a loop",
        "by hand with an HTTP client. Ripieno's figures have validation, rules, events and one result for each call in",
        "them.",
        "",
        where,
        "",
    ]
    if charted:
        lines += [
            ".. image:: ../pictures/benchmarks.svg",
            "   :alt: Processor time of one turn: the limit, a loop by hand, Ripieno, and other programs.",
            "",
            "*Processor time of one turn with four calls, over chat completions: shorter is better.*",
            "",
        ]
    lines += [".. list-table::", "   :header-rows: 1", "   :widths: 36 20 10 34", ""]
    for cells in (("what", "measured", "budget", ""), *map(_cells, (row for row in rows if row.measured is not None))):
        first, *others = cells
        lines += [f"   * - {first}", *(f"     - {one}".rstrip() for one in others)]
    return "\n".join((*lines, ""))


def _cells(row: Row) -> tuple[str, str, str, str]:
    budget = "" if row.budget is None else f"≤ {row.budget:g}"
    word = {None: "", True: "kept", False: "**missed**"}[row.kept]
    remark = "; ".join(one for one in (word, row.detail) if one)
    return row.what, f"{_figure(row.measured or 0)} {row.unit}", budget, remark


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def chart(rows: Sequence[Row]) -> str:
    """Bars, a group for each kind of conversation, as SVG. Errors: ``ValueError`` for no rows."""
    groups: dict[str, list[tuple[str, float]]] = {}
    for row in rows:
        kind, _, name = row.what.partition(": ")
        groups.setdefault(kind, []).append((name, row.measured or 0))
    most = max(value for bars in groups.values() for _, value in bars)
    drawn: list[str] = []
    top = 0
    for kind, bars in groups.items():
        drawn.append(f'<text class="title" x="0" y="{top + 24}">{html.escape(kind)}, {UNIT}</text>')
        top += _HEAD
        for name, value in bars:
            width = max(1, round(value / most * _BARS))
            ours = ' class="ours"' if name == OURS else ""
            drawn.append(f'<text x="0" y="{top + 14}">{html.escape(name)}</text>')
            drawn.append(f'<rect{ours} x="{_NAMES}" y="{top}" width="{width}" height="{_ROW - 8}" rx="2"/>')
            drawn.append(f'<text x="{_NAMES + width + 8}" y="{top + 14}">{value:,.0f}</text>')
            top += _ROW
    size = f'viewBox="0 0 {_NAMES + _BARS + _FIGURES} {top}" width="{_NAMES + _BARS + _FIGURES}"'
    body = "\n".join(drawn)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n<style>{_STYLE}</style>\n{body}\n</svg>\n'
