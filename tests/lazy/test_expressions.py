"""A regular expression is compiled when it is first used, and has the methods of a compiled one."""

import re

import pytest

from ripieno.lazy.expressions import expression


def test_it_matches_as_a_compiled_one() -> None:
    found = expression(r"(?P<word>[a-z]+)!", re.IGNORECASE)
    assert found.pattern == r"(?P<word>[a-z]+)!"
    for _ in range(2):
        match = found.fullmatch("Hello!")
        assert match is not None
        assert match["word"] == "Hello"
    assert found.sub(r"\g<word>?", "one! two!") == "one? two?"
    assert found.groupindex == {"word": 1}


def test_it_is_not_compiled_before_it_is_used() -> None:
    broken = expression("(")
    with pytest.raises(re.error):
        broken.match("")
    with pytest.raises(AttributeError):
        expression("a").matches  # type: ignore[attr-defined]  # noqa: B018
