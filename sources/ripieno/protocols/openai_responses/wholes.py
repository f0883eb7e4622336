"""Our events as a whole answer of the Responses wire, and the parts that a streamed one shares with it."""

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ripieno.canisters import InvocationCanister, InvocationKind
from ripieno.contents import Content, OpaqueContent, TextualContent
from ripieno.descriptors.tables import EMPTY
from ripieno.events import ContentSealed, Event, InvocationSealed, TurnEnded
from ripieno.jsonvalues import encode as encode_json
from ripieno.protocols.openai_forms import text_of_call
from ripieno.protocols.openai_responses.endings import REASONS, usage_object
from ripieno.protocols.openai_responses.items import MESSAGE, begun_item, made_identifier
from ripieno.protocols.openai_responses.parts import NAME

#: The prefix of an item's identifier, by the kind of a call.
PREFIXES: Mapping[InvocationKind, str] = {"function": "fc", "freeform": "ctc"}
#: What a response has besides what is its own: every key that a client may look for.
_RESPONSE: Mapping[str, Any] = {
    "background": False,
    "completed_at": None,
    "error": None,
    "frequency_penalty": 0.0,
    "incomplete_details": None,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": None,
    "safety_identifier": None,
    "service_tier": "default",
    "store": False,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": None,
    "truncation": "disabled",
    "usage": None,
}


def encode(events: Iterable[Event], model: str) -> bytes:
    """A whole answer."""
    contents: list[Content] = []
    output: list[Mapping[str, Any]] = []
    ended = TurnEnded(finish="stop")
    for event in events:
        if isinstance(event, ContentSealed):
            contents.append(event.content)
        elif isinstance(event, InvocationSealed):
            output += _said(contents)
            contents.clear()
            output.append(served_call(event.invocation))
        elif isinstance(event, TurnEnded):
            ended = event
    output += _said(contents)
    status, members = ending_of(ended)
    return encode_json({**head_of(model), **members, "status": status, "output": output})


def _said(contents: Sequence[Content]) -> list[Mapping[str, Any]]:
    """The items of what was said."""
    items: list[Mapping[str, Any]] = []
    beside: Mapping[str, Any] = EMPTY
    for content in contents:
        if isinstance(content, TextualContent) and content.text:
            message = message_of([part_of_text(content.text)], "completed")
            items.append({**message, "id": made_identifier("msg"), **beside})
            beside = EMPTY
        elif isinstance(content, OpaqueContent) and content.protocol == NAME:
            if content.kind == MESSAGE:
                beside = content.data
            else:
                items.append(content.data)
    return items


def head_of(model: str) -> dict[str, Any]:
    """The parts of a response that do not change."""
    identity = {"id": f"resp_{uuid.uuid4().hex}", "object": "response", "created_at": int(time.time())}
    return {**identity, "model": model, **_RESPONSE}


def ending_of(event: TurnEnded) -> tuple[str, dict[str, Any]]:
    """The status of a response that has ended, and what it says of that."""
    members: dict[str, Any] = {"usage": usage_object(event.usage)}
    reason = REASONS.get(event.finish)
    if reason is None:
        return "completed", {**members, "completed_at": int(time.time())}
    return "incomplete", {**members, "incomplete_details": {"reason": reason}}


def message_of(content: Sequence[Mapping[str, Any]], status: str) -> dict[str, Any]:
    """A message of the assistant, without an identifier."""
    return {"type": "message", "role": "assistant", "status": status, "content": content}


def part_of_text(text: str) -> dict[str, Any]:
    """The part of a message that is its text."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def served_call(invocation: InvocationCanister) -> dict[str, Any]:
    """The item of a call; one that was cut off says so."""
    cut = invocation.fault is not None and invocation.fault.code == "cut_off"
    item = begun_item(invocation, text_of_call(invocation))
    made = {} if "id" in item else {"id": made_identifier(PREFIXES[invocation.kind])}
    return {**made, **item, "status": "incomplete" if cut else "completed"}
