"""The picture of the package layout, drawn from the import contracts whenever the documentation is built."""

import ast
import html
import pathlib
import re
import textwrap
import tomllib

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = ROOT / "sources" / "ripieno"

_WIDTH = 760
_ROW = 46
_GAP = 8


def layers(pyproject: str) -> list[list[str]]:
    """The packages of each layer, top down, as the contract ``layers`` in ``pyproject.toml`` has them."""
    contracts = tomllib.loads(pyproject)["tool"]["importlinter"]["contracts"]
    (contract,) = [one for one in contracts if one["id"] == "layers"]
    rows = [re.findall(r"\w+", layer) for layer in contract["layers"]]
    return [[name for name in row if not name.startswith("__")] for row in rows if row != ["__main__"]]


def purpose(name: str) -> str:
    """The first sentence of a package's or module's docstring."""
    path = PACKAGE / name / "__init__.py"
    text = (path if path.is_file() else PACKAGE / f"{name}.py").read_text(encoding="utf-8")
    return re.split(r"(?<=\.)\s", ast.get_docstring(ast.parse(text)) or "", maxsplit=1)[0]


def svg(rows: list[list[str]]) -> str:
    """One row of boxes for each layer. Text and lines take the colour of the page, so that dark pages work too."""
    height = len(rows) * (_ROW + _GAP)
    parts = [f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" xmlns="http://www.w3.org/2000/svg">']
    parts.append("<title>The packages of ripieno, top down: a package imports those below it</title>")
    for number, row in enumerate(rows):
        width = (_WIDTH - _GAP * (len(row) - 1)) / len(row)
        for place, name in enumerate(row):
            parts += _box(name, place * (width + _GAP), number * (_ROW + _GAP), width)
    return "".join([*parts, "</svg>"])


def _box(name: str, left: float, top: float, width: float) -> list[str]:
    lines = textwrap.wrap(purpose(name).replace("``", ""), int((width - 130) / 5.7))[:3]
    first = top + _ROW / 2 + 4 - 6.5 * (len(lines) - 1)
    text = [
        f'<text x="{left + 122:.0f}" y="{first + 13 * row:.0f}" font-size="11">{html.escape(line)}</text>'
        for row, line in enumerate(lines)
    ]
    return [
        f'<rect x="{left + 1:.0f}" y="{top + 1}" width="{width - 2:.0f}" height="{_ROW - 2}" rx="6" fill="none"',
        ' stroke="currentColor"/>',
        f'<g fill="currentColor" font-family="sans-serif"><text x="{left + 12:.0f}" y="{top + _ROW / 2 + 4:.0f}"',
        f' font-size="13" font-weight="bold">{name}</text>{"".join(text)}</g>',
    ]
