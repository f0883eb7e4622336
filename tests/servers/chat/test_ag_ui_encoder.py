"""The encoder of AG-UI over any sequence of events: the real client's order holds, and nothing is lost or doubled."""

import json
from typing import Any

from frozendict import frozendict
from hypothesis import given
from hypothesis import strategies as st

from ripieno.canisters import ResultCanister, TextualContent
from ripieno.canisters.events import (
    ArgumentsDelta,
    ConductEnded,
    ContentSealed,
    ExecutionProgress,
    InvocationBegan,
    InvocationSealed,
    ReasoningDelta,
    ResultReady,
    TextDelta,
    TurnBegan,
    TurnEnded,
)
from ripieno.servers.chat.ag_ui.encoder import RunEncoder
from ripieno.servers.chat.ag_ui.messages import SNAPSHOT_BYTES, count_answers, messages_of
from ripieno.servers.chat.ag_ui.request import RunRequest
from ripieno.servers.chat.events import QuestionsAsked, RunFailed
from tests.support.ag_ui import Page
from tests.support.scripted_models import invoke


def snapshot_of(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    fixed = {"identifier": "0123456789abcdef", "state": "idle", "turn": [], "questions": [], "position": "a-0"}
    return {**fixed, "messages": list(messages), "unfinished": [], **more}


def request_of(*, first_version: bool = True, sent: Any = ()) -> RunRequest:
    return RunRequest(
        thread="t", run="r", first_version=first_version, sent=sent, message=None, message_id="", tools=(), resume=()
    )


def user(text: str) -> dict[str, Any]:
    return {"type": "user", "content": [{"type": "text", "text": text, "mime_type": "text/plain"}]}


CALLS = st.integers(0, 3)
WORDS = st.sampled_from(["", "a", "{", '{"a": 1}', "\ud800", "é\n\n"])


def _call(number: int) -> Any:
    return invoke("look", f"call-{number}", a=1)


EVENTS = st.one_of(
    st.just(TurnBegan()),
    st.just(TurnEnded(finish="stop")),
    st.builds(TextDelta, WORDS),
    st.builds(ReasoningDelta, WORDS),
    st.builds(lambda text: ContentSealed(TextualContent(text=text)), WORDS),
    st.builds(lambda index, call: InvocationBegan(index=index, identifier=f"call-{call}", name="look"), CALLS, CALLS),
    st.builds(lambda index, text: ArgumentsDelta(index=index, text=text), CALLS, WORDS),
    st.builds(lambda index, call: InvocationSealed(index=index, invocation=_call(call)), CALLS, CALLS),
    st.builds(lambda call: ExecutionProgress(invocation_id=f"call-{call}", tool="t", done=1), CALLS),
    st.builds(
        lambda call, discarded: ResultReady(
            invocation=_call(call), result=ResultCanister(invocation_id=f"call-{call}"), tool="t", discarded=discarded
        ),
        CALLS,
        st.booleans(),
    ),
    st.builds(
        lambda kind: QuestionsAsked(questions=(frozendict(kind=kind, invocation="call-0"),)),
        st.sampled_from(["approval", "client"]),
    ),
)
ENDS = st.one_of(
    st.builds(
        lambda finish: ConductEnded(finish=finish, turns=1, calls=0),
        st.sampled_from(["stop", "open", "cancelled", "error", "aborted", "limit", "length"]),
    ),
    st.just(RunFailed(code="failed", message="It failed.")),
)


@given(st.lists(EVENTS, max_size=30), ENDS, st.lists(EVENTS, max_size=3), st.booleans(), st.integers(0, 30))
def test_any_events_in_any_order_keep_the_clients_order(
    events: list[Any], end: Any, late: list[Any], first_version: bool, lost: int
) -> None:
    snapshot = snapshot_of(user("Hello."))
    running = {**snapshot, "state": "running"}
    page = Page(first_version=first_version)
    encoder = RunEncoder(request_of(first_version=first_version), snapshot, lambda: snapshot)
    frames = list(encoder.begin(snapshot))
    for place, event in enumerate([*events, end, *late]):
        if place == lost and not encoder.ended:
            frames += encoder.resync(running)
        frames += encoder.take(event)
    page.run(frames)
    assert encoder.ended


@given(st.lists(st.sampled_from(["a", "b\n", "é", ""]), max_size=8), st.lists(WORDS, max_size=5))
def test_a_text_and_arguments_arrive_whole(texts: list[str], arguments: list[str]) -> None:
    snapshot, page = snapshot_of(), Page()
    encoder = RunEncoder(request_of(), snapshot, lambda: snapshot)
    frames = list(encoder.begin(snapshot))
    events: list[Any] = [TurnBegan(), InvocationBegan(index=0, identifier="one", name="look")]
    events += [ArgumentsDelta(index=0, text=one) for one in arguments]
    events += [TextDelta(one) for one in texts]
    for event in [*events, ContentSealed(TextualContent(text="".join(texts)))]:
        frames += encoder.take(event)
    frames += encoder.fail("failed", "It failed.")
    page.run(frames)
    (message,) = page.messages
    assert message.get("content", "") == "".join(texts)
    assert message["toolCalls"][0]["function"]["arguments"] == "".join(arguments)


def test_without_deltas_all_comes_from_what_is_sealed_and_calls_are_in_one_message() -> None:
    snapshot, page = snapshot_of(), Page()
    encoder = RunEncoder(request_of(), snapshot, lambda: snapshot)
    frames = list(encoder.begin(snapshot))
    events: list[Any] = [TurnBegan(), ContentSealed(TextualContent(text="Whole."))]
    events += [InvocationSealed(index=place, invocation=_call(place)) for place in range(2)]
    for event in [*events, TurnEnded(finish="invocations"), ConductEnded(finish="stop", turns=1, calls=0)]:
        frames += encoder.take(event)
    page.run(frames)
    (message,) = page.messages
    assert (message["content"], len(message["toolCalls"])) == ("Whole.", 2)
    assert json.loads(message["toolCalls"][1]["function"]["arguments"]) == {"a": 1}


def test_lost_events_of_a_run_that_has_ended_are_no_success() -> None:
    snapshot, page = snapshot_of(user("Hello.")), Page()
    encoder = RunEncoder(request_of(), snapshot, lambda: snapshot)
    frames = [*encoder.begin(snapshot), *encoder.take(TurnBegan()), *encoder.take(TextDelta("a"))]
    page.run([*frames, *encoder.resync(snapshot)])
    assert page.end["code"] == "events_lost"


def test_a_large_snapshot_has_its_newest_messages() -> None:
    snapshot = snapshot_of(*(user(f"{number} {'x' * 60_000}") for number in range(200)))
    messages = messages_of(snapshot)
    assert len(json.dumps(messages)) < SNAPSHOT_BYTES + 200_000
    assert messages[-1]["content"].startswith("199 ")
    assert 50 < len(messages) < 200
    # The identifiers are those of the whole conversation.
    assert messages[-1]["id"].endswith("-u199")
    assert count_answers(snapshot) == 0
