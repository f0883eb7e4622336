"""The page and the chart that `make bench` writes."""

import re
import xml.etree.ElementTree as xml

from benchmarks.measurement import Row
from benchmarks.page import CHART, PAGE, chart, page
from benchmarks.programs import OURS, UNIT

ROWS = [
    Row(what="whole, 20 turns: the limit", measured=250.0, budget=None, unit=UNIT),
    Row(what=f"whole, 20 turns: {OURS}", measured=1000.0, budget=None, unit=UNIT),
    Row(what="streamed, 20 turns: <another>", measured=4000.0, budget=None, unit=UNIT),
    Row(what="parse", measured=7.25, budget=8.0, unit="µs"),
    Row(what="growth", measured=1.5, budget=1.3, unit="times"),
    Row(what="page", measured=None, budget=500.0, unit="ms", detail="skipped: no Chromium"),
]


def test_the_longest_bar_is_the_most_and_each_has_its_figure() -> None:
    drawn = xml.fromstring(chart(ROWS[:3]))
    bars = [int(one.attrib["width"]) for one in drawn.findall(".//{*}rect")]
    assert bars == [bars[2] // 16, bars[2] // 4, bars[2]]
    texts = [one.text for one in drawn.findall(".//{*}text")]
    assert texts[:3] == [f"whole, 20 turns, {UNIT}", "the limit", "250"]
    assert "<another>" in texts
    assert [one.attrib.get("class") for one in drawn.findall(".//{*}rect")] == [None, "ours", None]


def test_the_table_has_what_was_measured_and_whether_it_is_within_its_budget() -> None:
    text = page(ROWS, "Measured somewhere.", charted=True)
    table = text[text.index(".. list-table::") :]
    rows = [re.findall(r"- (.*)$", one, re.MULTILINE) for one in table.split("   * ")[2:]]
    assert rows[3] == ["parse", "7.25 µs", "≤ 8", "kept"]
    assert rows[4] == ["growth", "1.50 times", "≤ 1.3", "**missed**"]
    assert len(rows) == 5


def test_what_is_published_is_what_was_measured_last() -> None:
    names = [one.text for one in xml.fromstring(CHART.read_text(encoding="utf-8")).findall(".//{*}text")]
    assert {"the limit", "a loop by hand", OURS, "official SDK", "pydantic-ai", "openai-agents"} <= set(names)
    for figure in (name for name in names if name is not None and re.fullmatch(r"[\d,]{3,}", name)):
        assert f"{figure} {UNIT}" in PAGE.read_text(encoding="utf-8")
