"""Positions: the line of every key path, in generated documents and in a corpus of nasty ones."""

import json
import pathlib
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
import tomli_w
from hypothesis import example, given
from hypothesis import strategies as st

from ripieno.descriptors.reader.positions import Path, Positions

NASTY = (pathlib.Path(__file__).parent / "unusual_layout.toml").read_text(encoding="utf-8")


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """All values that hold no others, with their paths."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield path, value
    else:
        for name, item in items:
            yield from leaves(item, (*path, name))


def found(positions: Positions, path: Path) -> tuple[int, str]:
    """The line of a path, which is there."""
    place = positions.find(path)
    assert place is not None
    return place


def numbered(value: Any) -> Any:
    """The same shape, with a different text for every leaf."""
    counter = iter(range(10**6))

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: walk(item) for name, item in value.items()}
        if isinstance(value, list):
            return [walk(item) for item in value]
        return f"<{next(counter)}>" if value else f"first\n<{next(counter)}>\n"

    return walk(value)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_corpus(newline: str) -> None:
    text = NASTY.replace("\n", newline)
    positions = Positions(text, strict=True)
    named = 0
    for path, value in leaves(tomllib.loads(text)):
        assert path in positions
        if isinstance(value, str) and value.strip('"').startswith("L"):
            named += 1
            number, line = found(positions, path)
            assert (number, path) == (int(value.strip('"')[1:]), path)
            assert line == text.split("\n")[number - 1].rstrip("\r")
    assert named == NASTY.count('"L')


def test_tables_are_found_at_their_names() -> None:
    positions = Positions(NASTY)
    lines = {
        ("table",): "[table]",
        ("table", "sub.table"): '[ table . "sub.table" ] # L29',
        ("array",): "[[array]]",
        ("array", 1): "[[array]]",
        ("array", 0, "nested", 1, "deep"): "[array.nested.'deep']",
        ("a", "b"): "[a.b.c]",
        ("a",): "[a]",
        ("inline", "b", "e"): 'inline = { a = "L27", b = { "c.d" = "L27", e = [ "L27",',
    }
    for path, line in lines.items():
        assert found(positions, path)[1] == line
    assert positions.find(("array", 1)) == (43, "[[array]]")


def test_what_is_missing_is_found_at_its_nearest_ancestor() -> None:
    positions = Positions(NASTY)
    assert positions.find(("array", 0, "nested", 1, "absent", 3)) == (39, "[[array.nested]]")
    assert positions.find(("absent",)) is None
    assert positions.find(()) is None


KEYS = st.text(st.sampled_from("ab-_1 .#=[]{}\"'\\é\n\t,"), min_size=0, max_size=4)
SHAPES = st.recursive(
    st.booleans(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=20
)


@given(st.dictionaries(KEYS, SHAPES, max_size=4), st.booleans())
def test_every_leaf_of_a_written_document(shape: dict[str, Any], multiline: bool) -> None:
    value = numbered(shape)
    text = tomli_w.dumps(value, multiline_strings=multiline)
    assert tomllib.loads(text) == value
    positions = Positions(text, strict=True)
    for path, leaf in leaves(value):
        at = text.index(f"<{leaf.split('<')[1].split('>')[0]}>")
        if multiline and "\n" in leaf:
            at = text.rindex('"""', 0, at)
        assert path in positions
        assert found(positions, path)[0] == text.count("\n", 0, at) + 1


@given(st.dictionaries(KEYS, SHAPES, max_size=4), st.sampled_from([None, 1]))
def test_every_leaf_of_json(shape: dict[str, Any], indent: int | None) -> None:
    value = numbered(shape)
    text = json.dumps(value, indent=indent)
    positions = Positions(text, json=True, strict=True)
    for path, leaf in leaves(value):
        at = text.index(f"<{leaf.split('<')[1].split('>')[0]}>")
        assert path in positions
        assert found(positions, path)[0] == text.count("\n", 0, at) + 1


TOKENS = st.sampled_from([*"ab1 .#=[]{}\"'\\\n,", '"""', "'''", "[[", "]]", "\r\n", "a = ", "1", "true", "\\u0061"])


@given(st.lists(TOKENS, max_size=30).map("".join))
@example('a = """x"""""\nb = 1')
@example("a = '''x'''''\nb = 1")
@example('a = """\\""""\nb = 1')
def test_whatever_the_library_reads_is_scanned(text: str) -> None:
    """The bounds are checked by scanning, so nothing that the library reads may escape the scan."""
    positions = Positions(text)
    try:
        value = tomllib.loads(text)
    except ValueError:
        return
    assert positions.failure is None
    for path, _ in leaves(value):
        assert not path or path in positions


@pytest.mark.parametrize(
    "unit",
    ['"', "'", "[", "{a=", "a.", '"\\', "a=1\n", "[[a]]\n", "#\n", "\\", "''' ", 'a="""\\', "[a]\na.b=1\n", '"".'],
)
def test_hostile_texts_end(unit: str) -> None:
    """A quarter of a million characters of anything; quadratic time would take hours."""
    text = unit * (250_000 // len(unit))
    positions = Positions(text, parts=64, depth=32)
    assert positions.failure is not None or positions.find(("a",)) is not None or unit == "#\n"


def test_scanning_goes_as_far_as_it_makes_sense() -> None:
    positions = Positions('a = 1\n"\\x" = 2\nb = 3\n')
    assert positions.find(("a",)) == (1, "a = 1")
    assert positions.find(("b",)) is None
    assert positions.failure is not None
    assert positions.failure.line == 2
