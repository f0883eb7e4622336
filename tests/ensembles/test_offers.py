"""Offers: which invokers a turn has, under which names, and what is said of those it has not."""

import dataclasses

import pytest

from ripieno.descriptors import Policy
from ripieno.ensembles import Ensemble
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import ConfigurationInvalidity, NameAbsence
from tests.support.scripted_models import ensemble, tool

IO = ensemble(tool("read_file"), tool("write_file"), name="io")
GIT = ensemble(tool("log"), tool("status"), name="git", prefix="git")


def names(*found: Ensemble, tools: list[str] | None = None) -> tuple[str, ...]:
    return Offer.of(found, tools=tools).names


def test_patterns_choose_without_changing_the_order() -> None:
    assert names(GIT, IO) == ("git__log", "git__status", "read_file", "write_file")
    assert names(IO, GIT, tools=["git.status", "io.*"]) == ("read_file", "write_file", "git__status")
    assert names(IO, GIT, tools=["git"]) == ("git__log", "git__status")
    assert names(IO, GIT, tools=[]) == ()
    assert names() == ()


def test_a_pattern_that_fits_nothing_is_an_error() -> None:
    with pytest.raises(NameAbsence, match=r"no tool named 'io\.raed_file'\. Did you mean 'io\.read_file'"):
        names(IO, GIT, tools=["io.*", "io.raed_file"])


def test_two_tools_of_one_name_are_an_error_that_names_both() -> None:
    other = ensemble(tool("read_file"), name="notes")
    with pytest.raises(ConfigurationInvalidity) as caught:
        names(IO, other)
    text = str(caught.value)
    assert "notes.read_file and io.read_file would both be offered as 'read_file'" in text
    assert """Give 'notes' a prefix: Ensemble.of_functions("notes", …, prefix="notes").""" in text
    assert names(IO, other, tools=["io.*"]) == ("read_file", "write_file")


def test_two_ensembles_of_one_name_are_an_error() -> None:
    with pytest.raises(ConfigurationInvalidity, match="2 ensembles are named 'io'"):
        names(IO, ensemble(tool("look"), name="io"))


def test_a_bundled_tool_of_two_bundled_ensembles_is_offered_once() -> None:
    shared = dataclasses.replace(tool("read_file"), bundled="read_file.toml")
    starter, files = ensemble(shared, name="io"), ensemble(shared, tool("head"), name="file_read")
    offer = Offer.of([starter, files])
    assert [one.identity for one in offer.everything] == ["io.read_file", "file_read.head"]
    assert names(starter, files, tools=["file_read.*"]) == ("head", "read_file")
    # One that the user configured is preferred, in any order.
    mine = ensemble(dataclasses.replace(shared, configuration={"key": 1}), name="file_read")
    for order in ([starter, mine], [mine, starter]):
        assert [one.identity for one in Offer.of(order).everything] == ["file_read.read_file"]
    # With another policy, it is another tool.
    for other in (
        dataclasses.replace(shared, policy=Policy(effect="read", timeout=1)),
        dataclasses.replace(shared, bundled="other.toml"),
        dataclasses.replace(shared, bundled=None),
    ):
        with pytest.raises(ConfigurationInvalidity, match="would both be offered"):
            Offer.of([starter, ensemble(other, name="file_read")])


def test_a_latecomer_is_left_out_and_told() -> None:
    other = ensemble(tool("read_file"), tool("note"), name="notes")
    told: list[tuple[str, str]] = []
    offer = Offer.of(
        [IO, other],
        tools=["io.*", "notes.*", "gone.*"],
        left_out=lambda newcomer, holder: told.append((newcomer.identity, holder.identity)),
    )
    assert offer.names == ("read_file", "write_file", "note")
    assert told == [("notes.read_file", "io.read_file")]
    found = offer.named("read_file")
    assert found is not None
    assert found.identity == "io.read_file"


def test_a_name_is_found_exactly() -> None:
    offer = Offer.of([IO])
    assert offer.named("read_file") is IO.access_invoker("read_file")
    assert offer.named("Read_File") is None
    assert offer.named("io.read_file") is None


def test_an_absence_names_what_is_most_like_it() -> None:
    fault = Offer.of([IO]).absence("raed_file")
    assert (fault.category, fault.message) == ("unknown_tool", "There is no tool named 'raed_file'.")
    assert fault.suggestion == "Did you mean read_file or write_file?"
    assert fault.details["nearest"] == ("read_file", "write_file")
    assert Offer.of([IO]).absence("xyz").suggestion == "Known tools: read_file, write_file."
    assert Offer.of([]).absence("xyz").suggestion == "Known tools: none."
    many = Offer.of([ensemble(*(tool(f"tool_{number:02}") for number in range(30)))])
    advice = many.absence("xyz").suggestion
    assert advice is not None
    assert advice.endswith("tool_22, tool_23 and 6 more.")
