"""The architecture page has every package and names files that exist; the reference has every key."""

import dataclasses
import pathlib
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import Any

import pytest

from ripieno.descriptors.json_schema import FILES, reference
from ripieno.descriptors.reader.keys import Key, Table

ROOT = pathlib.Path(__file__).parents[2]
SOURCES = ROOT / "sources" / "ripieno"


def test_the_picture_has_every_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "documentation" / "extensions"))
    import packages  # pyright: ignore[reportMissingImports]

    try:
        rows = packages.layers((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        drawn = ET.fromstring(packages.svg(rows))
    finally:
        del sys.modules["packages"]
    names = {path.stem for path in SOURCES.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert {name for row in rows for name in row} == {one for one in names if not one.startswith("__")} - {"data"}
    texts = {text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")}
    assert texts >= {name for row in rows for name in row}


def test_the_files_that_the_page_names_exist() -> None:
    page = (ROOT / "documentation" / "architecture" / "index.rst").read_text(encoding="utf-8")
    named = set(re.findall(r"``([a-z_]+(?:/[a-z_]+)+(?:\.py|/)?|[a-z_]+(?:\.py|/))``", page))
    assert len(named) > 30
    assert [name for name in sorted(named) if not (SOURCES / name).exists() and not (ROOT / name).exists()] == [
        "ripieno/data"
    ]


def tables(value: Any) -> Iterator[Table]:
    """All tables in a table, however deep."""
    if isinstance(value, Table):
        yield value
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            part = getattr(value, field.name)
            for one in part if isinstance(part, tuple) else (part,):
                if isinstance(one, Key) or dataclasses.is_dataclass(one):
                    yield from tables(one)


@pytest.mark.parametrize("kind", FILES)
def test_every_key_of_every_table_has_a_reference(kind: str) -> None:
    text = reference(kind)
    keys = {key.name for table in tables(FILES[kind]) for key in table.keys}
    assert len(keys) > 5
    # The form ``source = "FILE"`` of a table is part of what its key expects.
    assert [name for name in sorted(keys - {"source"}) if f"``{name}``\n" not in text] == []
