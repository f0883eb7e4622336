"""Claims of calls: resources from templates, overlaps and conflicts."""

import os
import pathlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.ensembles import Invoker
from ripieno.execution.claims import ALONE, READER, Claims, Resource, claims_of
from tests.support.scripted_models import Listening, ensemble, tool


def made(workspace: pathlib.Path | None = None, **policy: Any) -> Invoker:
    surroundings = None if workspace is None else Listening(workspace).surroundings
    return ensemble(tool("work", **policy), surroundings=surroundings).access_invoker("work")


def writing(path: str, workspace: pathlib.Path | None = None) -> Claims:
    return claims_of(made(workspace, effect="write", writes=("file:{path}",)), {"path": path})


def reading(path: str, workspace: pathlib.Path | None = None) -> Claims:
    return claims_of(made(workspace, reads=("file:{path}",)), {"path": path})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("src/a.py", "src/a.py"),
        ("src", "src/a.py"),
        ("src/", "./src//a.py"),
        (".", "src/a.py"),
        ("src/b/../a.py", "src/a.py"),
        ("src/./a.py/", "src/a.py"),
        ("../other", "src"),
        ("/somewhere", "src"),
        ("/", "/x"),
        ("//x", "/x/y"),
    ],
)
def test_paths_that_overlap(one: str, other: str) -> None:
    assert writing(one).conflicts(reading(other))
    assert reading(one).conflicts(writing(other))
    assert not reading(one).conflicts(reading(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [("src/a.py", "src/b.py"), ("src", "srcs"), ("a/b", "a/c/b"), ("A", "a"), ("/x", "/y"), ("src/../a", "src")],
)
def test_paths_that_do_not(one: str, other: str) -> None:
    assert not writing(one).conflicts(writing(other))


def test_the_workspaces_own_path_is_the_workspace(tmp_path: pathlib.Path) -> None:
    assert writing(f"{tmp_path}/src/a.py", tmp_path).conflicts(reading("src", tmp_path))
    assert not writing(f"{tmp_path}/src/a.py", tmp_path).conflicts(reading("doc", tmp_path))
    assert writing("../x", tmp_path).conflicts(reading(str(tmp_path.parent / "x"), tmp_path))


def test_links_are_followed_and_what_is_written_counts_as_well(tmp_path: pathlib.Path) -> None:
    (tmp_path / "true").mkdir()
    os.symlink("true", tmp_path / "link")
    assert writing("link/a", tmp_path).conflicts(reading("true/a", tmp_path))
    assert writing("link", tmp_path).conflicts(reading("link/a", tmp_path))
    assert writing("link/../a", tmp_path).conflicts(reading("a", tmp_path))
    assert not writing("link/a", tmp_path).conflicts(reading("other/a", tmp_path))


def test_a_path_that_no_file_can_have_is_taken_as_it_is(tmp_path: pathlib.Path) -> None:
    assert writing("a\0b", tmp_path).conflicts(reading("a\0b", tmp_path))


def test_lists_make_one_resource_each() -> None:
    work = made(effect="write", writes=("table:{names}",))
    assert set(claims_of(work, {"names": ["a", "b"]}).writes) == {Resource("table", "a"), Resource("table", "b")}


def test_equal_numbers_are_the_same_resource() -> None:
    work = made(effect="write", writes=("row:{number}",))
    assert claims_of(work, {"number": 1}).conflicts(claims_of(work, {"number": 1.0}))
    assert not claims_of(work, {"number": 1}).conflicts(claims_of(work, {"number": 2}))


@pytest.mark.parametrize("arguments", [{}, {"path": None}, {"path": []}, {"path": ["a", None]}, {"path": ""}])
def test_an_argument_that_is_absent_claims_the_whole_kind(arguments: dict[str, Any]) -> None:
    work = made(effect="write", writes=("file:{path}",))
    assert claims_of(work, arguments).writes == (Resource("file"),)
    assert claims_of(work, arguments).conflicts(reading("x"))


def test_kinds_do_not_meet() -> None:
    network = claims_of(made(effect="write", writes=("network",)), {})
    process = claims_of(made(effect="write", writes=("process",)), {})
    assert network.conflicts(network)
    assert not network.conflicts(process)
    assert not network.conflicts(writing("network"))


def test_presets_count_as_arguments() -> None:
    work = made(effect="write", writes=("file:{path}",), presets={"path": "a"})
    assert claims_of(work, {}).conflicts(reading("a"))
    assert not claims_of(work, {}).conflicts(reading("b"))


def test_what_is_not_declared() -> None:
    assert claims_of(made(), {}) is READER
    assert claims_of(made(effect="none"), {}) is READER
    assert claims_of(made(effect="write"), {}) is ALONE
    assert claims_of(made(effect="write", reads=("file:{path}",)), {"path": "a"}) is ALONE
    assert READER.conflicts(writing("a"))
    assert not READER.conflicts(reading("a"))
    assert not READER.conflicts(READER)
    assert ALONE.conflicts(Claims())
    assert Claims().conflicts(ALONE)


def test_an_empty_list_is_a_declaration() -> None:
    nothing = claims_of(made(effect="none", reads=()), {})
    assert nothing.declared
    assert not nothing.conflicts(writing("a"))
    assert not claims_of(made(effect="write", writes=()), {}).conflicts(writing("a"))


def test_a_template_that_cannot_be_read_stands_for_its_kind() -> None:
    assert claims_of(made(effect="write", writes=("file:{",)), {}).writes == (Resource("file"),)


_PARTS = st.lists(st.sampled_from(["a", "b", "A", ".", "..", ""]), max_size=5)


@given(_PARTS, _PARTS, st.sampled_from(["/w", "/w/a", "/"]))
def test_law_overlap_is_that_of_normal_paths(one: list[str], other: list[str], workspace: str) -> None:
    place = pathlib.Path(workspace)
    mine, theirs = "/".join(one) or ".", "/".join(other) or "."
    first, second = (os.path.normpath(os.path.join(workspace, path)) for path in (mine, theirs))
    first, second = ("/" + path.strip("/") for path in (first, second))
    beneath = (first == second) or any(a == "/" or b.startswith(a + "/") for a, b in ((first, second), (second, first)))
    assert writing(mine, place).conflicts(writing(theirs, place)) is beneath
    assert writing(theirs, place).conflicts(writing(mine, place)) is beneath
    # Without a workspace there may be more, never less.
    assert writing(mine).conflicts(writing(theirs)) >= (os.path.normpath(mine) == os.path.normpath(theirs))
