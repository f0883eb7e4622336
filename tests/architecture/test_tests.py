"""The rules of ``tests/README.rst`` that the text of tests can show."""

import ast
import pathlib
from collections.abc import Iterator

TESTS = pathlib.Path(__file__).parents[1]
LEFT_OUT = {"skip", "skipif", "xfail", "importorskip", "SkipTest", "skipIf", "skipUnless", "expectedFailure"}


def names_in(text: str) -> Iterator[tuple[int, str]]:
    """The attributes that a module uses and the names that it imports, with their lines."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, alias.name) for alias in node.names)


#: The one module that may skip tests.
EXCEPT = "skips.py"


def test_none_is_skipped_or_expected_to_fail() -> None:
    files = sorted(TESTS.rglob("*.py"))
    assert len(files) > 100
    found = [
        f"{file.relative_to(TESTS)}:{line}: {name}"
        for file in files
        if file != TESTS / EXCEPT and any(name in (text := file.read_text(encoding="utf-8")) for name in LEFT_OUT)
        for line, name in names_in(text)
        if name in LEFT_OUT
    ]
    assert found == []


def test_a_skip_would_be_seen() -> None:
    text = (
        "from pytest import xfail\n@pytest.mark.skipif(True, reason='x')\ndef test() -> None:\n    pytest.skip('y')\n"
    )
    assert {name for _, name in names_in(text)} & LEFT_OUT == {"skip", "skipif", "xfail"}
