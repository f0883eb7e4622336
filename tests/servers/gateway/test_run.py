"""Runs told as one answer: what a client is shown, what it sends back, and what it cannot bring about."""

import asyncio
import json
import pathlib
from typing import Any

import pytest
from frozendict import frozendict

from ripieno.approvals import DeferredConfirmer
from ripieno.canisters import OpaqueContent, TextualContent
from ripieno.canisters.conversation import Usage
from ripieno.canisters.events import (
    ArgumentsDelta,
    ContentSealed,
    Event,
    InvocationBegan,
    InvocationSealed,
    ReasoningDelta,
    TextDelta,
    TurnBegan,
    TurnEnded,
)
from ripieno.ensembles import Context
from ripieno.exceptions import NameAbsence, ProviderRefusal, ToolExecutionFailure
from ripieno.models.protocols.openai_responses.finish import ending_of
from ripieno.servers.gateway.history_checks import check
from ripieno.testing import call, turn
from ripieno.testing.wires import model_of
from tests.support.hosted_runs import Counted, asks, calls_in, end_of, items_of, output, results_in, sends, staged
from tests.support.runs import kinds
from tests.support.scripted_models import ensemble, invoke, invokes, says, scripted, tool

# One answer.


@pytest.mark.parametrize("protocol", ["openai-chat", "anthropic", "openai-responses"])
async def test_a_whole_run_is_one_answer_over_every_wire(tmp_path: pathlib.Path, protocol: str) -> None:
    """Files of the toolset, in the order in which they are read, and what is written to them."""
    turns = [
        turn("I look.", calls=[call("read_file", "a", path="a.txt"), call("read_file", "b", path="b.txt")]),
        turn("I write.", calls=[call("write_file", path="c.txt", content="{a}+{b}")]),
        turn("It is done."),
    ]
    configuration = {"confirmation": {"approve": ["io.write_file"]}}
    async with staged(tmp_path, configuration=configuration, ensembles=("io",)) as played:
        (tmp_path / "workspace" / "a.txt").write_text("one")
        (tmp_path / "workspace" / "b.txt").write_text("two")
        events = await played.answer(model_of(turns, protocol=protocol), asks())
        assert "one" in (tmp_path / "workspace" / "c.txt").read_text()
    assert [event for event in events if isinstance(event, TurnBegan)] == [TurnBegan(model="small", turn=1)]
    ended = end_of(events)
    assert (ended.finish, ended.turn) == ("stop", 1)
    told = [kind for kind in kinds(events) if kind in ("ContentSealed", "InvocationSealed", "ResultReady")]
    assert told == [
        *("ContentSealed", "InvocationSealed", "InvocationSealed", "ResultReady", "ResultReady"),
        *("ContentSealed", "InvocationSealed", "ResultReady", "ContentSealed"),
    ]
    sealed = [event for event in events if isinstance(event, InvocationSealed)]
    assert [event.index for event in sealed] == [0, 1, 2]
    assert [event.index for event in events if isinstance(event, InvocationBegan)] == [0, 1, 2]
    for event in sealed:
        text = "".join(one.text for one in events if isinstance(one, ArgumentsDelta) and one.index == event.index)
        assert json.loads(text) == dict(event.invocation.arguments)
    assert [identifier for identifier, _ in results_in(events)] == [one.identifier for one in calls_in(events)]
    assert len({one.identifier for one in calls_in(events)}) == 3


async def test_usage_is_that_of_all_turns_and_the_reason_that_of_the_last(tmp_path: pathlib.Path) -> None:
    model = scripted(
        invokes(invoke("look"), usage=Usage(input_tokens=3, output_tokens=1)),
        [TurnBegan(), TurnEnded(finish="length", usage=Usage(input_tokens=5, output_tokens=2), reason="max")],
    )
    async with staged(tmp_path, ensemble(tool("look"))) as played:
        events = await played.answer(model, asks())
    usage = Usage(input_tokens=8, output_tokens=3)
    assert events[-1] == TurnEnded(finish="length", usage=usage, reason="max", turn=1)


@pytest.mark.parametrize(("settings", "controls"), [({"max_turns": 2}, {}), ({}, {"tool_calls": 1})])
async def test_a_limit_that_is_reached_ends_the_answer_as_one(
    tmp_path: pathlib.Path, settings: dict[str, Any], controls: dict[str, Any]
) -> None:
    look = Counted()
    model = scripted(*(invokes(invoke("look", f"c{number}", n=number)) for number in range(5)))
    async with staged(tmp_path, ensemble(tool("look", look)), **settings) as played:
        events = await played.answer(model, asks(**controls))
    assert end_of(events).finish == "limit"
    assert len(look.runs) == (2 if settings else 1)
    assert len(calls_in(events)) == len(results_in(events)) == 2


async def test_the_limit_on_repeats_has_its_own_reason(tmp_path: pathlib.Path) -> None:
    model = scripted(*(invokes(invoke("look", f"c{number}")) for number in range(9)))
    async with staged(tmp_path, ensemble(tool("look"))) as played:
        events = await played.answer(model, asks())
    assert ending_of(end_of(events))[1]["incomplete_details"] == {"reason": "repeated_calls"}


async def test_a_turn_that_the_wall_cuts_leaves_no_call_without_a_result(tmp_path: pathlib.Path) -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    sealed = [InvocationSealed(index=place, invocation=invoke(name)) for place, name in enumerate(("look", "write"))]
    model = scripted([TurnBegan(), *sealed, forever])
    tools = ensemble(tool("look"), tool("write", effect="write"))
    async with staged(tmp_path, tools, seconds=0.2) as played:
        events = await played.answer(model, asks())
    assert end_of(events).finish == "limit"
    looked, (identifier, lost) = results_in(events)
    assert looked == ("look", "look")
    assert identifier == "write"
    assert "reached its limit" in lost


async def test_a_terminal_tool_ends_the_answer_as_a_stop(tmp_path: pathlib.Path) -> None:
    async with staged(tmp_path, ensemble(tool("submit", terminal=True))) as played:
        events = await played.answer(scripted(invokes(invoke("submit")), says()), asks())
    assert end_of(events).finish == "stop"
    assert results_in(events) == [("submit", "submit")]


async def test_a_failure_raises(tmp_path: pathlib.Path) -> None:
    async def broken(context: Context, arguments: dict[str, Any]) -> str:
        raise RuntimeError("a bug")

    tools = ensemble(tool("look"), tool("broken", broken, on_error="abort"))
    async with staged(tmp_path, tools) as played:
        refusal = ProviderRefusal("score", "No.")
        with pytest.raises(ProviderRefusal):
            await played.answer(scripted(invokes(invoke("look")), [TurnBegan(), refusal]), asks())
        with pytest.raises(ToolExecutionFailure, match=r"mine\.broken"):
            await played.answer(scripted(invokes(invoke("broken"))), asks())
        with pytest.raises(NameAbsence, match=r"'lok'\. Did you mean 'look'"):
            await played.answer(scripted(says()), asks(allowed_tools=("lok",)))


# Tools of the client.


async def test_in_a_mixed_turn_ours_run_first_and_the_follow_up_repeats_nothing(tmp_path: pathlib.Path) -> None:
    look = Counted()
    turns = [
        turn(
            "Both.", calls=[call("look", "seen"), call("shell", "ran", command="ls"), call("look", "more", deep=True)]
        ),
        turn("{seen}, {more} and {ran}"),
    ]
    async with staged(tmp_path, ensemble(tool("look", look))) as played:
        model = model_of(turns)
        events = await played.answer(model, asks(tools=["shell"]))
        assert end_of(events).finish == "open"
        first, shell, second = calls_in(events)
        assert [identifier for identifier, _ in results_in(events)] == [first.identifier, second.identifier]
        asked = sends([*items_of(events), output(shell.identifier, "a.txt")], tools=["shell"])
        check(asked.canisters)
        again = await played.answer(model, asked)
        assert end_of(again).finish == "stop"
        assert [one["content"] for one in items_of(again)] == ["result 1, result 2 and a.txt"]
    assert len(look.runs) == 2


async def test_what_the_client_forbids_is_neither_run_nor_told(tmp_path: pathlib.Path) -> None:
    look, find = Counted(), Counted()
    tools = ensemble(tool("look", look), tool("find", find))
    steps = [invoke("look"), invoke("shell"), invoke("edit")]
    async with staged(tmp_path, tools) as played:

        async def told(**controls: Any) -> tuple[list[str], str]:
            look.runs.clear()
            events = await played.answer(scripted(invokes(*steps), says()), asks(tools=["shell", "edit"], **controls))
            return [one.name for one in calls_in(events)], end_of(events).finish

        assert await told() == (["look", "shell", "edit"], "open")
        assert await told(allowed_tools=("look", "edit")) == (["look", "edit"], "open")
        assert await told(allowed_tools=("look",)) == (["look"], "stop")
        assert await told(parallel=False) == (["look"], "stop")
        assert len(look.runs) == 1
        assert await told(allowed_tools=("edit",)) == (["look", "edit"], "open")
        assert await told(tool_choice="none") == (["look"], "stop")
        assert await told(tool_choice="edit") == (["look", "edit"], "open")
        assert look.runs == []


async def test_a_forced_tool_is_the_only_one_in_its_turn_alone(tmp_path: pathlib.Path) -> None:
    look = Counted()
    asked = asks(tools=["shell", "edit"], tool_choice="look")
    async with staged(tmp_path, ensemble(tool("look", look))) as played:
        model = scripted(invokes(invoke("shell", "a"), invoke("look", "b")), invokes(invoke("edit", "c")))
        events = await played.answer(model, asked)
    assert ([one.name for one in calls_in(events)], end_of(events).finish) == (["look", "edit"], "open")
    assert len(look.runs) == 1


# Clients that are shown texts and their own calls alone.


async def test_without_words_for_it_nothing_of_what_runs_here_is_told(tmp_path: pathlib.Path) -> None:
    look = Counted()
    turns = [turn("I look.", calls=[call("look", "a"), call("shell", "x")]), turn("{a} {x}")]
    alone = [turn("One.", calls=[call("look", "a")]), turn("", calls=[call("look", "b", n=1)]), turn("{a}"), turn("?")]
    async with staged(tmp_path, ensemble(tool("look", look))) as played:
        for protocol in ("openai-chat", "anthropic"):
            events = await played.answer(model_of(turns, protocol=protocol), asks(tools=["shell"]), shows=False)
            assert [one.name for one in calls_in(events)] == ["shell"]
            assert {one.index for one in events if isinstance(one, ArgumentsDelta | InvocationBegan)} <= {0}
            assert results_in(events) == []
            assert end_of(events).finish == "open"
            look.runs.clear()
            events = await played.answer(model_of(alone, protocol=protocol), asks(), shows=False)
            assert len(look.runs) == 2
            look.runs.clear()
            sealed = [one.content for one in events if isinstance(one, ContentSealed)]
            # Texts of different turns are parted, in the deltas as in what is sealed.
            assert [one.text for one in sealed if isinstance(one, TextualContent)] == ["One.", "\n\nresult 1"]
            assert "".join(one.text for one in events if isinstance(one, TextDelta)) == "One.\n\nresult 1"
            assert set(kinds(events)) <= {"TurnBegan", "TextDelta", "ContentSealed", "TurnEnded"}


def thought(name: str) -> list[Event]:
    """Reasoning that its provider wants back."""
    return [ReasoningDelta("Hm."), ContentSealed(OpaqueContent(protocol="p", kind=name, data=frozendict()))]


async def test_reasoning_is_told_with_what_it_led_to_or_not_at_all(tmp_path: pathlib.Path) -> None:
    calls = (invoke("look"), invoke("shell"), invoke("look", "again", n=1))
    sealed = [InvocationSealed(index=place, invocation=one) for place, one in enumerate(calls)]
    ends, begins = TurnEnded(finish="invocations"), TurnBegan()
    turns: list[list[Event]] = [
        [begins, *thought("to look"), sealed[0], ends],
        [begins, *thought("to say"), TextDelta("I"), ContentSealed(TextualContent(text="I")), sealed[0], ends],
        [begins, *thought("of nothing"), sealed[0], *thought("to both"), sealed[2], sealed[1], *thought("last"), ends],
    ]
    async with staged(tmp_path, ensemble(tool("look"))) as played:

        async def told(*, shows: bool) -> list[str]:
            events = await played.answer(scripted(*turns), asks(tools=["shell"]), shows=shows)
            contents = [one.content for one in events if isinstance(one, ContentSealed)]
            return [content.kind for content in contents if isinstance(content, OpaqueContent)]

        assert await told(shows=False) == ["to say", "of nothing", "to both", "last"]
        assert await told(shows=True) == ["to look", "to say", "of nothing", "to both", "last"]
        events = await played.answer(scripted(*turns), asks(tools=["shell"]), shows=True)
        assert kinds(events)[:4] == ["TurnBegan", "ReasoningDelta", "ContentSealed", "InvocationSealed"]


# People who are not there.


async def test_what_a_person_would_be_asked_about_is_denied_and_says_what_the_operator_can_do(
    tmp_path: pathlib.Path,
) -> None:
    turns = [turn("", calls=[call("write_file", "w", path="a", content="b")]), turn("{w.error}")]
    async with staged(tmp_path, ensembles=("io",)) as played:
        events = await played.answer(model_of(turns), asks())
    (denied,) = results_in(events)
    assert "ripieno serve responses --approve io.write_file" in denied[1]
    assert end_of(events).finish == "stop"
    assert not (tmp_path / "workspace" / "a").exists()


@pytest.mark.parametrize("mixed", [True, False])
async def test_one_who_would_rather_answer_later_denies(tmp_path: pathlib.Path, mixed: bool) -> None:
    write = Counted()
    tools = ensemble(tool("write", write, effect="write"), tool("look"))
    calls = [invoke("write"), invoke("look"), *([invoke("shell")] if mixed else [])]
    model = scripted(invokes(*calls), says("Then not."))
    async with staged(tmp_path, tools, confirmer=DeferredConfirmer(), max_turns=2) as played:
        events = await played.answer(model, asks(tools=["shell"]))
        results = dict(results_in(events))
        assert "needs the approval of a person" in results["write"]
        assert list(results) == ["write", "look"]
        assert end_of(events).finish == ("open" if mixed else "stop")
        assert len(model.asked) == (1 if mixed else 2)
        # Whoever asks again and again comes to the limit all the same.
        endless = scripted(*(invokes(invoke("write", f"w{number}", n=number)) for number in range(5)))
        events = await played.answer(endless, asks())
        assert end_of(events).finish == "limit"
        assert (len(endless.asked), len(results_in(events))) == (2, 2)
    assert write.runs == []
