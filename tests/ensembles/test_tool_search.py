"""Searchable tools: which they are, how they are found and called, and that the list of tools never changes."""

import itertools
import math
from collections import Counter
from typing import Any

import pytest
from frozendict import frozendict
from hypothesis import given
from hypothesis import strategies as st

from ripieno.approvals import Approve, Deny
from ripieno.canisters import Controls, InvocationCanister, ResultCanister, UserCanister
from ripieno.canisters.controls import Limits, Rules
from ripieno.canisters.faults import Fault
from ripieno.conducting import conduct
from ripieno.ensembles import Context, Ensemble, Surroundings
from ripieno.ensembles.offers import Offer
from ripieno.ensembles.tool_search import Catalogue
from ripieno.ensembles.tool_search.ranking import Ranking, words_of
from ripieno.exceptions import NameAbsence, PermissionFault, ValidationFault
from ripieno.execution import Circumstances, Execution
from ripieno.execution.preparation import find_earlier
from ripieno.jsonvalues import freeze, parse
from ripieno.models.protocol import Request
from ripieno.models.protocols.anthropic import PROTOCOL as MESSAGES
from ripieno.models.protocols.gemini import PROTOCOL as GEMINI
from ripieno.models.protocols.openai_chat import PROTOCOL as CHAT
from ripieno.models.protocols.openai_responses import PROTOCOL as RESPONSES
from tests.support.scripted_models import Person, Recording, ensemble, invoke, invokes, says, scripted, tool

CHOOSING = frozendict[str, Any]({"tool_choice": True})
HELPERS = ("search_tools", "call_tool")
NUMBER = {"properties": {"number": {"type": "integer", "description": "How much to add"}}, "required": ["number"]}
RETRY = {"properties": {"invocation": {"type": "string"}}, "required": ["invocation"]}


def add(context: Context, arguments: dict[str, Any]) -> str:
    return f"It is {arguments['number'] + 1}."


def house(**policy: Any) -> Ensemble:
    """One tool that is sent, and three that are not."""
    return ensemble(
        tool("look"),
        tool("add_number", add, schema=NUMBER, **{"tool_search": True, **policy}),
        tool("forecast", tool_search=True),
        tool("tear_down", effect="destructive", tool_search=True),
        name="house",
        description="Whatever a house needs",
    )


def called(name: str, arguments: Any = None, identifier: str = "c") -> InvocationCanister:
    """A call of a tool by way of ``call_tool``."""
    given = {"name": name} if arguments is None else {"name": name, "arguments": arguments}
    return InvocationCanister(identifier=identifier, name="call_tool", arguments=freeze(given))


def lent(over: int | None) -> Surroundings:
    unused: Any = None
    return Surroundings(workspace=unused, spawner=unused, secrets={}, alert=lambda _: None, search_over=over)


# Which they are.


def test_searchable_tools_are_not_sent_and_its_helpers_come_last() -> None:
    offer = Offer.of([house()])
    assert offer.names == ("look", *HELPERS)
    assert [one.exposed for one in offer.searchable] == ["add_number", "forecast", "tear_down"]
    assert [one.exposed for one in offer.everything] == ["add_number", "forecast", "look", "tear_down"]
    assert Offer.of([house()], tools=["house.look"]).names == ("look",)
    assert Offer.of([house()], tools=["house.forecast"]).names == HELPERS


@pytest.mark.parametrize(("over", "sent"), [(None, 4), (4, 4), (3, 2), (0, 2)])
def test_beyond_a_number_all_other_tools_are_searchable(over: int | None, sent: int) -> None:
    found = ensemble(
        tool("a"),
        tool("b"),
        tool("always", tool_search=False),
        tool("submit", terminal=True),
        tool("never", tool_search=True),
        surroundings=lent(over),
    )
    names = [name for name in Offer.of([found]).names if name not in HELPERS]
    assert len(names) == sent
    assert {"always", "submit"} <= set(names)
    assert "never" not in names


def test_what_is_run_elsewhere_is_sent() -> None:
    found = ensemble(tool("theirs", hosted="caller", tool_search=True), surroundings=lent(0))
    assert Offer.of([found]).names == ("theirs",)


def test_a_helper_gives_way_to_a_tool_of_its_name() -> None:
    offer = Offer.of([ensemble(tool("call_tool"), tool("far", tool_search=True))])
    assert offer.names == ("call_tool", "search_tools", "tool_search_call_tool")
    assert offer.helpers is not None
    assert "tool_search_call_tool" in offer.helpers.search.description


def test_names_of_searchable_tools_can_be_allowed_and_not_be_forced() -> None:
    offer = Offer.of([house()])
    narrowed = offer.narrow(Controls(allowed_tools=("forecast",)), strict=True)
    assert narrowed.allowed_tools == ("forecast", *HELPERS)
    assert offer.narrow(narrowed, strict=True) is narrowed
    for protocol in (MESSAGES, CHAT, RESPONSES, GEMINI):
        with pytest.raises(NameAbsence):
            protocol.request(request(protocol, offer, Controls(tool_choice="forecast")))
    capabilities = frozendict[str, Any]({"allowed_tools": True, "tool_choice": True})
    for protocol in (CHAT, RESPONSES, GEMINI):
        said = protocol.request(request(protocol, offer, narrowed, capabilities))
        assert b"search_tools" in said
        assert b"forecast" not in said


# What is sent stays the same.


def request(protocol: Any, offer: Offer, controls: Controls, capabilities: Any = CHOOSING) -> Any:
    return Request(
        model="m", canisters=(UserCanister.of("Hello"),), offer=offer, controls=controls, capabilities=capabilities
    )


@pytest.mark.parametrize("protocol", [MESSAGES, CHAT, RESPONSES, GEMINI], ids=lambda one: one.name)
async def test_the_list_of_tools_is_the_same_bytes_while_tools_are_found_and_called(protocol: Any) -> None:
    found = house()
    model = scripted(
        invokes(invoke("search_tools", "s", query="add a number")),
        invokes(called("add_number", {"number": 1}, "c")),
        says(),
    )
    conversation = await conduct(model, "Add one to 1", ensembles=[found])
    results = [one for one in conversation.canisters if isinstance(one, ResultCanister)]
    assert [one.error for one in results] == [None, None]
    assert results[1].text == "It is 2."
    sent: list[Any] = [protocol.invocations.prepare_tools(offer) for _, offer, _ in model.asked]
    again = [protocol.request(request(protocol, offer, Controls())) for _, offer, _ in model.asked]
    assert len(sent) == 3
    assert sent[0] == sent[1] == sent[2]
    assert again[0] == again[1] == again[2]
    # Nor do they depend on which of its tools an ensemble has, as long as there are searchable ones.
    other = Offer.of(
        [ensemble(tool("look"), tool("else", tool_search=True), name="house", description=found.description)]
    )
    assert protocol.request(request(protocol, other, Controls())) == again[0]


# How they are found.


def search(offer: Offer, query: str, limit: int = 5) -> list[str]:
    return [one.exposed for one in Catalogue(offer.searchable).search(query, limit)]


async def test_a_search_gives_names_descriptions_and_schemas() -> None:
    found = await Execution().execute(invoke("search_tools", query="numbers"), ensembles=[house()])
    told: Any = parse(found.text)
    assert [one["name"] for one in told["tools"]] == ["add_number"]
    assert told["tools"][0]["arguments"]["properties"]["number"]["description"] == "How much to add"
    assert "call_tool(name, arguments)" in told["note"]
    nothing: Any = parse((await Execution().execute(invoke("search_tools", query="zebra"), ensembles=[house()])).text)
    assert nothing["tools"] == []
    assert "3 tools" in nothing["note"]


def test_names_arguments_and_descriptions_are_searched_and_the_very_name_leads() -> None:
    deep = {"properties": {"place": {"type": "object", "properties": {"zipCode": {"type": "string"}}}}}
    offer = Offer.of(
        [
            ensemble(
                tool("readFiles", tool_search=True),
                tool("file", tool_search=True),
                tool("weather", schema=deep, tool_search=True),
                tool("read_file_read_file", tool_search=True),
            )
        ]
    )
    assert search(offer, "code") == ["weather"]
    assert set(search(offer, "READ a")) == {"readFiles", "read_file_read_file"}
    assert search(offer, "file")[0] == "file"
    assert set(search(offer, "files", 9)) == {"file", "readFiles", "read_file_read_file"}
    assert search(offer, "") == []
    assert len(search(offer, "read file", 1)) == 1


def test_words_are_those_of_any_spelling() -> None:
    assert words_of("readHTTPFile read_http-file Überläufe") == ["read", "http", "file"] * 2 + ["überläufe"]


@given(
    st.lists(st.lists(st.sampled_from("abcdefg"), max_size=12).map(" ".join), max_size=12),
    st.lists(st.sampled_from("abcdefgz"), min_size=1, max_size=4, unique=True),
)
def test_the_ranking_is_the_formula(texts: list[str], query: list[str]) -> None:
    count, words = len(texts), [Counter(text.split()) for text in texts]
    mean = (sum(one.total() for one in words) / count if count else 0) or 1

    def score(own: Counter[str]) -> float:
        total = 0.0
        for word in query:
            having = sum(word in one for one in words)
            idf = math.log(1 + (count - having + 0.5) / (having + 0.5))
            total += idf * own[word] * 2.2 / (own[word] + 1.2 * (0.25 + 0.75 * own.total() / mean))
        return total

    scores = [score(own) for own in words]
    ranked = Ranking(texts).rank(" ".join(query), 99)
    assert sorted(ranked) == [number for number in range(count) if scores[number] > 0]
    for better, worse in itertools.pairwise(ranked):
        assert scores[better] >= scores[worse] - 1e-9


# A call of one is a call of that.


def text_of(result: ResultCanister) -> str:
    return result.text if result.error is None else result.error.text()


async def test_a_call_is_recorded_as_that_of_the_tool() -> None:
    recording = Recording()
    execution = Execution(recorder=recording)
    call = called("add_number", {"number": 41}, "c")
    assert text_of(await execution.execute(call, ensembles=[house()])) == "It is 42."
    assert [(one.stage, one.tool) for one in recording.records] == [
        ("started", "house.add_number"),
        ("finished", "house.add_number"),
    ]
    started = recording.records[0].invocation
    assert started is not None
    assert (started.identifier, started.name, started.arguments) == ("c", "add_number", {"number": 41})


async def test_a_model_that_remembers_its_name_may_call_it() -> None:
    assert text_of(await Execution().execute(invoke("add_number", number=1), ensembles=[house()])) == "It is 2."


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"name": "add_number", "arguments": {"number": "many"}}, "number"),
        ({"name": "add_number"}, "number"),
        ({"name": "add_number", "arguments": '{"number": 4}'}, "It is 5."),
        ({"name": "look"}, "look"),
        ({"name": "call_tool", "arguments": {"name": "look"}}, "does not call itself"),
        ({"name": "house.forecast"}, 'call_tool(name="forecast"'),
        ({"name": "house.forecast"}, "There is no tool named 'house.forecast'"),
        ({"arguments": {}}, "name"),
    ],
)
async def test_what_is_called_is_validated(arguments: dict[str, Any], said: str) -> None:
    assert said in text_of(
        await Execution().execute(
            InvocationCanister(identifier="c", name="call_tool", arguments=freeze(arguments)), ensembles=[house()]
        )
    )


async def test_rules_and_people_judge_the_tool_that_is_called() -> None:
    person = Person(Deny(advice="Not today."), Approve())
    execution = Execution(confirmer=person, rules=Rules(deny=("house.forecast",), approve=("tool_search.*",)))
    call = called("tear_down")
    assert "Not today" in text_of(await execution.execute(call, ensembles=[house()]))
    assert text_of(await execution.execute(call, ensembles=[house()])) == "tear_down"
    assert [one.tool for one in person.requests] == ["house.tear_down"] * 2
    own = Execution(rules=Rules(deny=("tool_search.call_tool",)))
    for one, denied in ((execution, called("forecast")), (own, called("add_number", {"number": 1}))):
        result = await one.execute(denied, ensembles=[house()])
        assert result.error is not None
        assert result.error.category == "denied"


async def test_limits_and_bugs_are_those_of_the_tool_that_is_called() -> None:
    def broken(context: Context, arguments: dict[str, Any]) -> str:
        raise RuntimeError

    def long(context: Context, arguments: dict[str, Any]) -> str:
        return "x" * 99

    found = ensemble(
        tool("broken", broken, tool_search=True, on_error="report"), tool("long", long, tool_search=True, output=10)
    )
    calls = [called(name, {}, name) for name in ("broken", "long")]
    conversation = await conduct(scripted(invokes(*calls), says()), "Go", ensembles=[found], limits=Limits(calls=2))
    first, second = (one for one in conversation.canisters if isinstance(one, ResultCanister))
    assert first.error is not None
    assert "'broken' failed" in first.error.message
    assert "89 bytes left out" in second.text


async def test_what_may_be_called_in_a_turn_holds_for_the_tool_that_is_called() -> None:
    call = called("forecast")
    model = scripted(invokes(call), says())
    allowed = Controls(allowed_tools=("look", "call_tool"))
    conversation = await conduct(model, "Go", ensembles=[house()], controls=allowed)
    result = next(one for one in conversation.canisters if isinstance(one, ResultCanister))
    assert result.error is not None
    assert "may not be called" in result.error.message


async def test_a_forced_helper_may_call_what_it_finds() -> None:
    model = scripted(invokes(called("forecast")), says())
    conversation = await conduct(model, "Go", ensembles=[house()], controls=Controls(tool_choice="call_tool"))
    result = next(one for one in conversation.canisters if isinstance(one, ResultCanister))
    assert result.error is None


async def test_the_helper_alone_calls_nothing() -> None:
    offer = Offer.of([house()])
    assert offer.helpers is not None
    unused: Any = None
    with pytest.raises(Exception, match="without the pipeline"):
        await offer.helpers.call(unused, {"name": "look"})


# What is not there.


def test_an_absent_name_is_told_the_searchable_ones_that_are_like_it() -> None:
    fault = Offer.of([house()]).absence("get_forecast")
    assert fault.category == "unknown_tool"
    assert fault.details["nearest"] == ("forecast",)
    assert 'search_tools(query="forecast")' in str(fault.suggestion)
    assert 'call_tool(name="forecast", arguments)' in str(fault.suggestion)
    near = Offer.of([house()]).absence("looks")
    assert str(near.suggestion).startswith("Did you mean look?")
    assert "Known tools: look" in str(Offer.of([house()]).absence("zzz").suggestion)


# Calling it again.


def test_a_call_of_unknown_outcome_is_not_run_again_under_another_name() -> None:
    found = ensemble(
        tool("write", effect="write", tool_search=True),
        tool("retry", effect="none", again_argument="invocation", schema=RETRY),
    )
    offer = Offer.of([found])
    unknown = Fault(category="outcome_unknown", message="?")
    ways: tuple[Any, ...] = ({}, '{"path": 1}')
    for arguments in ways:
        call = called("write", arguments, "c")
        with pytest.raises(PermissionFault):
            find_earlier("c", [call, ResultCanister(invocation_id="c", error=unknown)], offer)
        earlier = find_earlier("c", [call, ResultCanister(invocation_id="c")], offer)
        assert (earlier.name, earlier.identifier) == ("write", "c")
        assert find_earlier("write", [call], offer).identifier == "c"


async def test_calls_that_stand_for_each_other_come_to_an_end() -> None:
    found = ensemble(
        tool("far", tool_search=True), tool("retry", effect="none", again_argument="invocation", schema=RETRY)
    )
    again = called("retry", {"invocation": "a"}, "a")
    nested = called("call_tool", {"name": "retry", "arguments": {"invocation": "b"}}, "b")
    for call in (again, nested):
        around = Circumstances(history=[call])
        for one in (call, invoke("retry", "r", invocation=call.identifier)):
            result = await Execution().execute(one, ensembles=[found], circumstances=around)
            assert result.error is not None
    with pytest.raises(ValidationFault, match="ran another call"):
        find_earlier("a", [again], Offer.of([found]))
