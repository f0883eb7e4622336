"""Streamed answers of the Responses wire as our server half writes them."""

import json
import sys
from collections.abc import Iterable
from typing import Any

import pytest
from frozendict import frozendict

from ripieno.canisters import (
    AssistantCanister,
    ImageContent,
    InvocationCanister,
    OpaqueContent,
    ResultCanister,
    TextualContent,
)
from ripieno.canisters.controls import Finish
from ripieno.canisters.conversation import Usage
from ripieno.canisters.events import (
    ArgumentsDelta,
    ContentSealed,
    Event,
    InvocationBegan,
    InvocationSealed,
    ReasoningDelta,
    ResultReady,
    TextDelta,
    TurnBegan,
    TurnEnded,
)
from ripieno.canisters.faults import Fault
from ripieno.jsonvalues import freeze
from ripieno.models.protocol import Asked, Refusal
from ripieno.models.protocols.openai_responses import PROTOCOL
from ripieno.models.protocols.openai_responses.encoder import Encoder
from ripieno.models.protocols.openai_responses.seed_encoder import SeedEncoder, encode_seed
from tests.models.protocols.test_wires_golden import natives_of, read
from tests.support.openresponses_checker import StreamChecker, check_stream

CALL = InvocationCanister(
    identifier="call_1", name="get_weather", raw='{"city":"Wien"}', arguments=freeze({"city": "Wien"})
)
BEGAN = InvocationBegan(index=0, identifier="call_1", name="get_weather")
PATCH = InvocationCanister(
    identifier="call_2", name="patch", kind="freeform", raw="*** Begin", arguments=freeze({"input": "*** Begin"})
)
#: A text, a call in pieces, a free-form call, and reasoning.
ANSWER: tuple[Event, ...] = (
    TurnBegan(model="m"),
    ReasoningDelta("Hm."),
    TextDelta("On"),
    TextDelta("e."),
    ContentSealed(TextualContent(text="One.")),
    BEGAN,
    ArgumentsDelta(index=0, text='{"city":'),
    ArgumentsDelta(index=0, text='"Wien"}'),
    InvocationSealed(index=0, invocation=CALL),
    InvocationSealed(index=1, invocation=PATCH),
    TurnEnded(finish="invocations", usage=Usage(input_tokens=7, output_tokens=2)),
)


def frames_of(events: Iterable[Event], encoder: type[Encoder] = Encoder) -> list[bytes]:
    made = encoder(Asked(model="m"))
    data = b"".join(made.feed(event) for event in events)
    return [one + b"\n\n" for one in data.split(b"\n\n")[:-1]]


# What our server half writes.


def streamed(events: Iterable[Event], encoder: type[Encoder] = Encoder, asked: Asked | None = None) -> StreamChecker:
    made = encoder(asked or Asked(model="m"))
    return check_stream([made.feed(event) for event in events], seed=encoder is SeedEncoder)


def kinds(checker: StreamChecker, place: int | None = None) -> list[str]:
    """The types of the events, without their first word; those about one item."""
    found = [event for event in checker.events if place is None or event.get("output_index") == place]
    return [event["type"].removeprefix("response.") for event in found]


def test_the_events_of_the_seed_stand_beside_the_official_ones() -> None:
    checker = streamed([*ANSWER[:1], *ANSWER[5:]], SeedEncoder)
    assert kinds(checker, 1) == [
        "output_item.added",
        "output_tool_call.begin",
        "output_tool_call.delta",
        "function_call_arguments.delta",
        "output_tool_call.delta",
        "function_call_arguments.delta",
        "output_tool_call.end",
        "function_call_arguments.done",
        "output_item.done",
    ]
    assert kinds(checker)[-2:] == ["completed", "done"]
    begin, end = (event for event in checker.events if event["type"].endswith((".begin", ".end")))
    assert (begin["call_id"], begin["name"]) == ("call_1", "get_weather")
    assert (end["name"], end["arguments"]) == ("get_weather", '{"city":"Wien"}')
    added, *_, done = (event for event in checker.events if event.get("output_index") == 1)
    assert added["item_id"] == added["item"]["id"] == done["item_id"] == done["item"]["id"] == begin["item_id"]
    # Other streams do not have them.
    with pytest.raises(AssertionError, match="unknown type"):
        check_stream(frames_of(ANSWER, SeedEncoder))


def test_a_stream_is_in_the_order_of_the_seed() -> None:
    """Its section about the sequence of events; a call without a text has the index 1, too."""
    text = [TextDelta("One."), ContentSealed(TextualContent(text="One."))]
    call = [BEGAN, ArgumentsDelta(index=0, text=CALL.raw or ""), InvocationSealed(index=0, invocation=CALL)]
    more = [TextDelta("Two."), ContentSealed(TextualContent(text="Two."))]
    for before, after, written in ((text, [], ["One."]), ([], text, ["One."]), (text, more, ["One.", "Two."])):
        answer = [TurnBegan(model="m"), *before, *call, *after, TurnEnded(finish="invocations")]
        checker = streamed(answer, SeedEncoder)
        told = [event["type"].removeprefix("response.") for event in checker.events]
        assert told[2:4] == ["output_item.added", "content_part.added"]
        calls = {event["output_index"] for event in checker.events if ".output_tool_call." in event["type"]}
        assert calls == {1}
        ends = [place for place, kind in enumerate(told) if kind == "output_text.done"]
        assert told.index("output_tool_call.end") < ends[0]
        assert told[-5:] == ["output_text.done", "content_part.done", "output_item.done", "completed", "done"]
        whole = json.loads(encode_seed(answer, Asked(model="m")))
        for response in (checker.response, whole):
            kinds_of = [item["type"] for item in response["output"]]
            assert kinds_of == ["message", "function_call", *["message"] * (len(written) - 1)]
            texts = [part["text"] for item in response["output"] for part in item.get("content", ())]
            assert texts == written


@pytest.mark.parametrize("finish", ["stop", "limit"])
def test_the_text_of_a_later_turn_follows_the_results_on_which_it_is_based(finish: Finish) -> None:
    """With the events of the seed, too; the empty message before a first call is complete."""
    failed = Fault(category="execution", message="No.")
    results = ResultCanister(invocation_id="call_1"), ResultCanister(invocation_id="call_1", error=failed)
    for number, result in enumerate(results):
        answer = [
            TurnBegan(model="m"),
            BEGAN,
            InvocationSealed(index=0, invocation=CALL),
            ResultReady(invocation=CALL, result=result, tool="get_weather"),
            TextDelta("Final"),
            ContentSealed(TextualContent(text="Final.")),
            TurnEnded(finish=finish),
        ]
        output = streamed(answer, SeedEncoder).response["output"]
        assert [one["type"] for one in output] == ["message", "function_call", "function_call_output", "message"]
        assert [one["content"][0]["text"] for one in output if one["type"] == "message"] == ["", "Final."]
        assert output[0]["status"] == "completed"
        # The field of seed 004, only in its own form.
        assert output[2].get("is_error", False) is bool(number)
        assert all("is_error" not in one for one in streamed(answer).response["output"])


def test_a_whole_answer_has_the_status_of_the_seed() -> None:
    answer = [*ANSWER[:1], *ANSWER[5:-1], TurnEnded(finish="open")]
    found = PROTOCOL.variant("seed"), PROTOCOL
    bodies = [json.loads(one.encode(answer, Asked(model="m"))) for one in found]
    assert [body["status"] for body in bodies] == ["requires_action", "completed"]
    assert [[item["type"] for item in body["output"]] for body in bodies] == [
        ["message", "function_call", "custom_tool_call"],
        ["function_call", "custom_tool_call"],
    ]


@pytest.mark.parametrize(
    ("finish", "status"), [("open", "requires_action"), ("invocations", "completed"), ("length", "incomplete")]
)
def test_the_seeds_status_of_calls_that_wait_for_the_client(finish: Finish, status: str) -> None:
    answer = [*ANSWER[:1], *ANSWER[5:-1], TurnEnded(finish=finish)]
    assert streamed(answer, SeedEncoder).response["status"] == status
    # Our own client reads it as an answer with calls.
    natives = natives_of(frames_of(answer, SeedEncoder))
    *_, last = read(PROTOCOL, natives)
    assert isinstance(last, TurnEnded)
    assert last.finish == ("length" if finish == "length" else "invocations")


@pytest.mark.parametrize(
    ("finish", "status", "reason"),
    [
        ("stop", "completed", None),
        ("invocations", "completed", None),
        ("open", "completed", None),
        ("terminal", "completed", None),
        ("length", "incomplete", "max_output_tokens"),
        ("filter", "incomplete", "content_filter"),
        ("limit", "incomplete", "max_turns"),
        ("cancelled", "incomplete", "cancelled"),
    ],
)
def test_how_an_answer_ended_is_told(finish: Finish, status: str, reason: str | None) -> None:
    response = streamed([TextDelta("On"), TurnEnded(finish=finish, usage=Usage(input_tokens=3))]).response
    assert response["status"] == status
    assert response["incomplete_details"] == (None if reason is None else {"reason": reason})
    assert response["usage"]["input_tokens"] == 3
    # What was cut says so.
    assert response["output"][0]["status"] == status


def test_results_of_tools_that_ran_here_are_items() -> None:
    content = (TextualContent(text="Sunny."),)
    sunny = ResultCanister(invocation_id="call_1", content=content)
    seen = ResultCanister(
        invocation_id="call_2",
        content=(*content, ImageContent(data=b"x", mime_type="image/png")),
        error=Fault(category="execution", message="Half."),
    )
    checker = streamed(
        [
            *ANSWER[:-1],
            ResultReady(invocation=CALL, result=sunny, tool="weather.get_weather"),
            ResultReady(invocation=PATCH, result=seen, tool="files.patch"),
            ResultReady(invocation=CALL, result=sunny, tool="weather.get_weather", discarded=True),
            TurnBegan(model="m", turn=2),
            TextDelta("It is "),
            ContentSealed(TextualContent(text="It is sunny.")),
            # The calls of each turn are counted from 0.
            InvocationSealed(index=0, invocation=InvocationCanister(identifier="call_3", name="f", raw="{}")),
            TurnEnded(finish="stop"),
        ]
    )
    output = checker.response["output"]
    words = ["reasoning", "message", "function_call", "custom_tool_call", "function_call_output"]
    assert [item["type"] for item in output] == [*words, "custom_tool_call_output", "message", "function_call"]
    token = checker.response["id"].removeprefix("resp_")[:20]
    assert output[4] == {
        "type": "function_call_output",
        "id": f"fco_ripieno_{token}_4",
        "call_id": "call_1",
        "output": "Sunny.",
        "status": "completed",
    }
    assert [part["type"] for part in output[5]["output"]] == ["input_text", "input_text", "input_image"]
    assert [item["id"] for item in output if not item["id"].endswith(f"_{output.index(item)}")] == []
    # A client that sends all of it back repeats nothing.
    canisters = PROTOCOL.parse({"model": "m", "input": output}).canisters
    calls = [one.identifier for one in canisters if isinstance(one, InvocationCanister)]
    assert calls == ["call_1", "call_2", "call_3"]
    assert [one.invocation_id for one in canisters if isinstance(one, ResultCanister)] == ["call_1", "call_2"]
    # Nor does it keep reasoning that asks for nothing.
    assert canisters[0] == AssistantCanister.of("One.")


def test_a_failure_is_told_in_three_ways() -> None:
    made = Encoder(Asked(model="m"))
    writes = [made.feed(event) for event in ANSWER[:7]]
    refusal = Refusal(status=429, message="Slower.", parameter="model")
    checker = check_stream([*writes, made.fail(refusal)])
    error = checker.events[-2]
    assert error["error"] == {"type": "rate_limit_error", "code": None, "message": "Slower.", "param": "model"}
    assert (error["code"], error["message"], error["param"]) == ("rate_limit_error", "Slower.", "model")
    assert checker.response["error"] == {"code": "rate_limit_exceeded", "message": "Slower."}
    # What was said before is there; a call that is not whole is nobody's to run.
    assert [item["type"] for item in checker.response["output"]] == ["reasoning", "message"]


@pytest.mark.parametrize(
    ("shown", "sent", "text"),
    [
        ('{"city": "Wien"}', '{"city":"Wien"}', '{"city": "Wien"}'),
        ('{"city":', '{"city":"Wien"}', '{"city":"Wien"}'),
        (" ", '{"city":"Wien"}', ' {"city":"Wien"}'),
        ("", '{"city":"Wien"}', '{"city":"Wien"}'),
    ],
)
def test_arguments_that_came_in_two_forms_are_told_in_one(shown: str, sent: str, text: str) -> None:
    call = InvocationCanister(identifier="c", name="f", raw=sent, arguments=freeze({"city": "Wien"}))
    deltas = [ArgumentsDelta(index=0, text=shown)] if shown else []
    began = InvocationBegan(index=0, identifier="c", name="f")
    checker = streamed([began, *deltas, InvocationSealed(index=0, invocation=call), TurnEnded(finish="invocations")])
    assert checker.response["output"][0]["arguments"] == text


def test_what_a_provider_says_late_of_a_text_stays_with_it() -> None:
    beside = OpaqueContent(protocol=PROTOCOL.name, kind="message", data=frozendict(type="message", phase="commentary"))
    first, second = (ContentSealed(TextualContent(text=text)) for text in ("One.", "Two."))
    checker = streamed([TextDelta("One."), ContentSealed(beside), first, second, TurnEnded(finish="stop")])
    assert [item.get("phase") for item in checker.response["output"]] == ["commentary", None]


def test_reasoning_without_an_identifier_can_be_sent_back() -> None:
    data = {"type": "reasoning", "id": None, "summary": None, "content": None, "encrypted_content": "c2ln"}
    kept = OpaqueContent(protocol=PROTOCOL.name, kind="reasoning", data=freeze(data))
    (item,) = streamed([ContentSealed(kept), TurnEnded(finish="stop")]).response["output"]
    assert item["id"].startswith("rs_ripieno_")
    (canister,) = PROTOCOL.parse({"model": "m", "input": [item]}).canisters
    assert canister.content[0].data == {"type": "reasoning", "summary": (), "encrypted_content": "c2ln"}  # type: ignore[union-attr]


def test_a_call_of_a_namespace_is_told_as_one() -> None:
    opaque = freeze({PROTOCOL.name: {"namespace": "mcp__time"}})
    call = InvocationCanister(identifier="c", name="now", raw="{}", opaque=opaque)
    (item,) = streamed([InvocationSealed(index=0, invocation=call), TurnEnded(finish="invocations")]).response["output"]
    assert (item["namespace"], item["name"]) == ("mcp__time", "now")


def test_an_open_call_takes_little_room() -> None:
    """At most 250 bytes beside its arguments, as seed 001 has it."""
    made, calls = Encoder(Asked(model="m")), 1000
    made.feed(TurnBegan(model="m"))
    tables = vars(made)["_calls"], vars(made)["_output"]
    empty = sum(map(sys.getsizeof, tables))
    for index in range(calls):
        made.feed(InvocationBegan(index=index, identifier=f"call_{index}", name="f"))
    size = sum(map(sys.getsizeof, tables)) - empty
    for opened in tables[0].values():
        # How its deltas begin is shared with all others.
        size += sum(map(sys.getsizeof, (opened, opened.identifier, opened.texts)))
    assert len({id(opened.beginning) for opened in tables[0].values()}) == 1
    assert size / calls <= 250
    for index in range(calls):
        made.feed(InvocationSealed(index=index, invocation=InvocationCanister(identifier=f"call_{index}", name="f")))
    assert not tables[0]


# The checker itself: it must be able to fail.

WHOLE = frames_of(ANSWER)


def kind_of(frame: bytes) -> str:
    return frame.split(b"\n")[0].removeprefix(b"event: ").decode()


def changed(frame: bytes, **members: Any) -> bytes:
    name, data, *_ = frame.split(b"\n")
    return name + b"\ndata: " + json.dumps({**json.loads(data[6:]), **members}).encode() + b"\n\n"


def without(kind: str) -> list[bytes]:
    """The answer without an event, and numbered anew."""
    left = [frame for frame in WHOLE if kind_of(frame) != f"response.{kind}"]
    return [*(changed(one, sequence_number=number) for number, one in enumerate(left[:-1])), left[-1]]


def other(kind: str, **members: Any) -> list[bytes]:
    """The answer whose events of a kind have other members."""
    return [changed(frame, **members) if kind_of(frame) == f"response.{kind}" else frame for frame in WHOLE]


def ended(**members: Any) -> list[bytes]:
    """The answer whose last event has a response with other members."""
    response = json.loads(WHOLE[-2].split(b"\ndata: ")[1])["response"]
    return other("completed", response={**response, **members})


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        (WHOLE[:-1], r"no \[DONE\]"),
        ([*WHOLE[:2], WHOLE[-1]], "before the answer has ended"),
        ([*WHOLE[:3], *WHOLE[4:]], "its number is"),
        (without("created"), "response.created is the first"),
        (without("content_part.added"), "no part was added at 0"),
        (without("output_text.delta"), "its deltas are ''"),
        (without("custom_tool_call_input.done"), "not those of the events"),
        (without("output_item.done"), "items are open"),
        (without("output_item.added"), "no item was added"),
        (other("output_item.added", output_index=7), "its place is 7"),
        (other("output_text.delta", item_id="msg_other"), "another identifier"),
        (other("output_text.delta", delta=7), "7 is not of type"),
        (other("function_call_arguments.done", arguments="{}"), "its deltas are"),
        (ended(temperature="hot"), "'temperature'.: .hot. is not"),
        (ended(tools=[{"type": "mcp", "server_label": "x", "authorization": "secret"}]), "a secret is returned"),
        (ended(usage=None), "has no usage"),
        (ended(output=[]), "its output is another"),
    ],
)
def test_the_checker_refuses_what_is_wrong(frames: list[bytes], words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_stream(frames)
