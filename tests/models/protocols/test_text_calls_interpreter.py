"""The events of answers whose calls are in the text: order, identifiers, finish, and what native calls change."""

from collections.abc import Sequence
from typing import Any

import pytest

from ripieno.canisters import (
    AssistantCanister,
    DocumentCanister,
    InvocationCanister,
    ResultCanister,
    TextualContent,
    UserCanister,
)
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
    collect,
)
from ripieno.models.protocol import Identifiers
from ripieno.models.protocols.text_calls.interpreter import Interpreter
from tests.models.protocols.text_call_examples import TOOLS

CALL = '<tool_call>\n{"name": "read", "arguments": {"path": "a.txt"}}\n</tool_call>'


def heard(events: Sequence[Event], canisters: Any = (), **more: Any) -> list[Event]:
    interpreter = Interpreter(TOOLS, Identifiers(canisters), canisters, **more)
    return [event for one in events for event in interpreter.hear((one,))]


def answer(*texts: str, finish: Any = "stop", deltas: bool = True) -> list[Event]:
    said: list[Event] = [TextDelta(text) for text in texts] if deltas else []
    sealed = ContentSealed(TextualContent(text="".join(texts)))
    return [TurnBegan(), *said, sealed, TurnEnded(finish=finish, reason="stop")]


@pytest.mark.parametrize("deltas", [True, False], ids=["deltas", "sealed"])
def test_a_call_comes_out_between_its_texts(deltas: bool) -> None:
    events = heard(answer("Let me look.\n", CALL[:20], CALL[20:], "\n\nSo.", deltas=deltas))
    shapes = [event for event in events if not isinstance(event, TextDelta)]
    call = InvocationCanister(identifier="call_0_0", name="read", arguments=shapes[4].invocation.arguments)  # type: ignore[union-attr]
    assert shapes == [
        TurnBegan(),
        ContentSealed(TextualContent(text="Let me look.\n")),
        InvocationBegan(index=0, identifier="call_0_0", name="read"),
        ArgumentsDelta(index=0, text='{"path":"a.txt"}'),
        InvocationSealed(index=0, invocation=call),
        ContentSealed(TextualContent(text="\n\nSo.")),
        TurnEnded(finish="invocations", reason="stop"),
    ]
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "Let me look.\n\n\nSo."
    assert call.arguments == {"path": "a.txt"}


def test_blanks_beside_calls_are_not_said() -> None:
    events = heard(answer("\n", CALL, "\n \n", CALL, "\n"))
    assert [type(one) for one in collect(events)] == [AssistantCanister, InvocationCanister, InvocationCanister]
    assert not any(isinstance(event, TextDelta) for event in events)
    assert collect(events)[0] == AssistantCanister()


@pytest.mark.parametrize("text", ["Hello.", "", "\n", " <tool_call> is a tag", "a\n\n<tool_ca", CALL[:-2]])
def test_an_answer_without_calls_is_what_it_was(text: str) -> None:
    events = answer(*text)
    after = heard(events)
    assert collect(after) == collect(events)
    assert after[-1] == events[-1]
    assert "".join(event.text for event in after if isinstance(event, TextDelta)) == text


def test_identifiers_are_those_of_the_place() -> None:
    canisters = (UserCanister.of("Hi"), InvocationCanister(identifier="call_2_0", name="read"))
    events = heard(answer(CALL, CALL), canisters)
    names = [event.identifier for event in events if isinstance(event, InvocationBegan)]
    assert names == ["call_2_0_", "call_2_1"]
    assert events == heard(answer(CALL, CALL), canisters)


@pytest.mark.parametrize("finish", ["length", "filter", "invocations"])
def test_another_finish_stays(finish: str) -> None:
    assert heard(answer(CALL, finish=finish))[-1] == TurnEnded(finish=finish, reason="stop")  # type: ignore[arg-type]


def test_arguments_that_cannot_be_read_are_a_fault() -> None:
    events = heard(answer(CALL.replace('"a.txt"', "'a.txt'")))
    (call,) = [one for one in collect(events) if isinstance(one, InvocationCanister)]
    assert call.fault is not None
    assert (call.name, call.fault.code) == ("read", "arguments_unreadable")
    assert call.raw is not None
    assert "'a.txt'" in call.raw


def test_reasoning_of_a_channel_is_shown_as_such() -> None:
    events = heard(answer("<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes."))
    assert ReasoningDelta("Hm.") in events
    assert collect(events) == (AssistantCanister.of("Yes."),)


def test_native_calls_win() -> None:
    native = InvocationCanister(identifier="x", name="read")
    events: list[Event] = [
        TurnBegan(),
        TextDelta("So."),
        ContentSealed(TextualContent(text="So.")),
        InvocationBegan(index=0, identifier="x", name="read"),
        InvocationSealed(index=0, invocation=native),
        TextDelta(CALL),
        ContentSealed(TextualContent(text=CALL)),
        TurnEnded(finish="invocations"),
    ]
    assert heard(events) == events


def test_native_calls_after_one_in_the_text_have_indices_of_their_own() -> None:
    native = InvocationCanister(identifier="x", name="read")
    events = [
        *answer(CALL)[:-1],
        InvocationBegan(index=0, identifier="x", name="read"),
        ArgumentsDelta(index=0, text="{}"),
        InvocationSealed(index=0, invocation=native),
        TurnEnded(finish="invocations"),
    ]
    indices = [event.index for event in heard(events) if isinstance(event, InvocationSealed | ArgumentsDelta)]
    assert indices == [0, 0, 1, 1]


@pytest.mark.parametrize(
    "canister",
    [
        ResultCanister(invocation_id="c", content=(TextualContent(text=f"The file:\n{CALL.replace(chr(10), '')}"),)),
        DocumentCanister(identifier="d", content=(TextualContent(text=f"The page: {CALL}"),)),
    ],
    ids=["result", "document"],
)
def test_an_echo_of_what_a_tool_or_a_document_says_is_no_call(canister: Any) -> None:
    events = answer(f"It says: {CALL}")
    assert collect(heard(events, (canister,))) == collect(events)
    other = CALL.replace("a.txt", "b.txt")
    assert any(isinstance(one, InvocationCanister) for one in collect(heard(answer(other), (canister,))))


def test_where_only_declared_tools_count_others_are_text() -> None:
    events = answer(f"{CALL} {CALL.replace('read', 'delete_all')}")
    after = collect(heard(events, declared=True))
    assert [one.name for one in after if isinstance(one, InvocationCanister)] == ["read"]
    assert after[-1] == AssistantCanister.of(f" {CALL.replace('read', 'delete_all')}")
    assert [one.name for one in collect(heard(events)) if isinstance(one, InvocationCanister)] == ["read", "delete_all"]
