"""The checker of answers of the Responses wire: what it takes, and what it refuses."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from ripieno.models.protocol import Asked, Refusal
from ripieno.models.protocols.openai_responses import PROTOCOL
from tests.models.protocols.test_openai_responses_encoder import ANSWER, frames_of
from tests.support.openresponses_checker import check_body, check_stream


def kind_of(frame: bytes) -> str:
    return frame.split(b"\n")[0].removeprefix(b"event: ").decode()


def changed(frame: bytes, **members: Any) -> bytes:
    """An event with other members; those that are None are left out."""
    name, data, *_ = frame.split(b"\n")
    event = {key: value for key, value in {**json.loads(data[6:]), **members}.items() if value is not None}
    return name + b"\ndata: " + json.dumps(event).encode() + b"\n\n"


def counted(frames: Iterable[bytes]) -> list[bytes]:
    """The events, numbered anew."""
    return [one if b"[DONE]" in one else changed(one, sequence_number=number) for number, one in enumerate(frames)]


def last(frames: list[bytes], kind: str) -> int:
    return max(place for place, frame in enumerate(frames) if kind_of(frame) == kind)


def test_the_checker_takes_what_is_right() -> None:
    checker = check_stream(frames_of(ANSWER))
    assert [item["type"] for item in checker.response["output"]] == [
        "reasoning",
        "message",
        "function_call",
        "custom_tool_call",
    ]
    # Keep-alives may stand between.
    frames = frames_of(ANSWER)
    assert (
        check_stream([*frames[:3], b": keep-alive\n\n", *frames[3:]]).response
        == json.loads(frames[-2][32:])["response"]
    )


def _torn(frames: list[bytes]) -> list[bytes]:
    return [*frames[:2], frames[2][:40], frames[2][40:], *frames[3:]]


def _without(kind: str) -> Callable[[list[bytes]], list[bytes]]:
    return lambda frames: counted(frame for frame in frames if kind_of(frame) != kind)


def _other(kind: str, **members: Any) -> Callable[[list[bytes]], list[bytes]]:
    def change(frames: list[bytes]) -> list[bytes]:
        place = last(frames, kind)
        return [*frames[:place], changed(frames[place], **members), *frames[place + 1 :]]

    return change


def _twice(kind: str) -> Callable[[list[bytes]], list[bytes]]:
    def double(frames: list[bytes]) -> list[bytes]:
        place = last(frames, kind)
        return counted([*frames[: place + 1], *frames[place:]])

    return double


def _swapped(one: str, other: str) -> Callable[[list[bytes]], list[bytes]]:
    def swap(frames: list[bytes]) -> list[bytes]:
        first, second = last(frames, one), last(frames, other)
        frames[first], frames[second] = frames[second], frames[first]
        return counted(frames)

    return swap


@pytest.mark.parametrize(
    ("breaking", "words"),
    [
        (_torn, "is split between writes"),
        (lambda frames: frames[:-1], r"no \[DONE\]"),
        (lambda frames: [*frames, frames[-1]], r"after \[DONE\]"),
        (lambda frames: frames[:-2], "no terminal event"),
        (lambda frames: [*frames[:2], frames[-1]], "before the answer has ended"),
        (lambda frames: [*frames[:3], *frames[4:]], "its number is"),
        (lambda frames: [frames[0].replace(b"response.created\n", b"response.queued\n"), *frames[1:]], "its name is"),
        (_without("response.created"), "response.created is the first"),
        (_without("response.in_progress"), "response.in_progress is the second"),
        (_without("response.content_part.added"), "no part was added at 0"),
        (_without("response.output_text.delta"), "its deltas are ''"),
        (_without("response.function_call_arguments.done"), "not those of the events"),
        (_without("response.custom_tool_call_input.done"), "not those of the events"),
        (_without("response.reasoning_summary_part.done"), "is not that of the events"),
        (_without("response.output_item.done"), "items are open"),
        (_without("response.output_item.added"), "no item was added"),
        (_twice("response.output_item.added"), "its place is"),
        (_twice("response.output_item.done"), "its item is done"),
        (_twice("response.output_text.done"), "done already"),
        (_twice("response.completed"), "had ended already"),
        (_swapped("response.output_text.delta", "response.output_text.done"), "its deltas are"),
        (_other("response.output_item.added", output_index=7), "its place is 7"),
        (_other("response.output_text.delta", item_id="msg_other"), "another identifier"),
        (_other("response.output_text.delta", delta=7), "7 is not of type"),
        (_other("response.output_text.done", text="Two."), "its deltas are 'One.'"),
        (
            _other("response.content_part.done", part={"type": "output_text", "text": "Two.", "annotations": []}),
            "that of the events",
        ),
        (_other("response.function_call_arguments.done", arguments="{}"), "its deltas are"),
        (_other("response.function_call_arguments.delta", output_index=1), "its item is done"),
        (_other("response.custom_tool_call_input.delta", delta=None), "it has no delta"),
        (_other("response.output_text.delta", type="response.something.else"), "its name is"),
        (lambda frames: [*frames[:2], b'event: x\ndata: {"type":"x","sequence_number":2}\n\n'], "unknown type"),
    ],
)
def test_the_checker_refuses_what_is_wrong(breaking: Callable[[list[bytes]], list[bytes]], words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_stream(breaking(frames_of(ANSWER)))


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"temperature": "hot"}, "'temperature'.: .hot. is not"),
        ({"id": "resp_other"}, "its id changed"),
        ({"tools": [{"type": "function", "name": "f"}]}, "ResponseResource"),
        ({"tools": [{"type": "mcp", "server_label": "x", "authorization": "secret"}]}, "a secret is returned"),
        ({"instructions": "Other."}, "its instructions changed"),
        ({"usage": None}, "has no usage"),
        ({"completed_at": None}, "completed, but None"),
        ({"status": "incomplete"}, "its status is 'incomplete'"),
        ({"output": []}, "its output is another"),
        ({"output": [{"type": "function_call", "id": "x"}]}, "ItemField"),
        ({"output": [{"type": "web_search_call"}]}, "has no id"),
    ],
)
def test_the_checker_refuses_a_wrong_end(members: Mapping[str, Any], words: str) -> None:
    frames = frames_of(ANSWER)
    response = {**json.loads(frames[-2].split(b"\ndata: ")[1])["response"], **members}
    with pytest.raises(AssertionError, match=words):
        check_stream([*frames[:-2], changed(frames[-2], response=response), frames[-1]])


def test_every_required_member_is_required() -> None:
    body = json.loads(PROTOCOL.encode(ANSWER, Asked(model="m")))
    for key in body:
        if key in {"object"}:
            continue
        less = {name: value for name, value in body.items() if name != key}
        with pytest.raises((AssertionError, KeyError)):
            check_body(json.dumps(less).encode())
    assert len(body) == 31


def test_bodies_of_errors_are_checked() -> None:
    body = check_body(PROTOCOL.refuse(Refusal(status=400, message="No.", code="bad", parameter="tools")))
    assert body["error"] == {"type": "invalid_request_error", "code": "bad", "message": "No.", "param": "tools"}
    for wrong in ({}, {"error": "No."}, {"error": {"message": "No."}}):
        with pytest.raises(AssertionError):
            check_body(json.dumps(wrong).encode())
