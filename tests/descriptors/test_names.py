"""Names: what every provider takes, the same each time, and patterns that never fit more than they say."""

import fnmatch
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.descriptors.names import ENSEMBLE_NAME, EXPOSED_NAME, expose, is_wildcard, matches, split

#: What the providers document, each with its own pattern.
PROVIDERS = (r"[a-zA-Z0-9_-]{1,64}", r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
ensembles = st.from_regex(ENSEMBLE_NAME, fullmatch=True).map(lambda name: name.strip()[:40])
tools = st.text(min_size=1, max_size=90) | st.from_regex(r"[a-z_]{1,80}", fullmatch=True)


@given(tools, st.just("") | ensembles)
def test_every_exposed_name_is_legal_and_stays(tool: str, prefix: str) -> None:
    name = expose(tool, prefix)
    assert EXPOSED_NAME.match(name)
    assert all(re.fullmatch(pattern, name) for pattern in PROVIDERS)
    assert expose(tool, prefix) == name
    assert expose(name) == name
    assert prefix or name == tool or not EXPOSED_NAME.match(tool)


@given(st.lists(tools, min_size=2, max_size=30, unique=True), ensembles)
def test_two_tools_of_an_ensemble_have_two_names(names: list[str], prefix: str) -> None:
    for before in ("", prefix):
        assert len({expose(name, before) for name in names}) == len(names)


@pytest.mark.parametrize("tool", ["get.user", "1st", "a" * 65, "naïve", "read file", "read_file\n", "-x", "\ud800"])
def test_an_odd_name_is_made_legal_with_a_tail(tool: str) -> None:
    assert re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_-]*_[0-9a-f]{8}", expose(tool))
    assert expose(tool) != expose(f"{tool}.")


def test_the_tail_depends_on_the_name_alone() -> None:
    assert expose("get.user") == "get_user_9c0265de"
    assert expose("get.user", "crm") == expose("crm__get.user")


def test_an_identity_splits_at_the_first_dot() -> None:
    assert split("io.read_file") == ("io", "read_file")
    assert split("crm.get.user") == ("crm", "get.user")
    assert split("io") == ("io", "")


@given(ensembles, tools)
def test_an_identity_fits_itself_and_its_ensemble(ensemble: str, tool: str) -> None:
    identity = f"{ensemble}.{tool}"
    assert matches(identity, identity)
    assert matches(ensemble, identity)
    assert matches(f"{ensemble}.*", identity)
    assert not matches(f"{ensemble}x.*", identity)


@given(st.text("aAb.*?[]", max_size=6), st.text("aAb", min_size=1, max_size=3), st.text("ab.[]", max_size=4))
def test_a_star_never_crosses_the_first_dot(pattern: str, ensemble: str, tool: str) -> None:
    first, dot, second = pattern.partition(".")
    fits = fnmatch.fnmatchcase(ensemble, first) and (not dot or fnmatch.fnmatchcase(tool, second))
    assert matches(pattern, f"{ensemble}.{tool}") is (fits or pattern == f"{ensemble}.{tool}")


@pytest.mark.parametrize("pattern", ["*", "io", "io.*", "*.read_file", "io.read_?", "io.[r]ead"])
def test_a_wildcard_is_what_can_fit_more_than_one(pattern: str) -> None:
    assert is_wildcard(pattern)
    assert not is_wildcard("io.read_file")
