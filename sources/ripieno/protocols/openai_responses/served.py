"""Items of the Responses wire as a server of ours writes them: whole, and as they begin."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ripieno.canisters import InvocationCanister
from ripieno.canisters.canisters import InvocationKind
from ripieno.protocols.openai_forms import text_of_call
from ripieno.protocols.openai_responses.items import begun_item
from ripieno.protocols.reading import read_arguments

#: The prefix of an item's identifier, by the kind of a call.
PREFIXES: Mapping[InvocationKind, str] = {"function": "fc", "freeform": "ctc"}
#: The codes of faults of calls that are not complete.
_INCOMPLETE = ("cut_off", "waiting_for_approval")
#: What comes of reasoning after it began; the encrypted content is known when it is whole.
_LATER = ("content", "encrypted_content")


def message_of(content: Sequence[Mapping[str, Any]], status: str) -> dict[str, Any]:
    """A message of the assistant, without an identifier."""
    return {"type": "message", "role": "assistant", "status": status, "content": content}


def part_of_text(text: str) -> dict[str, Any]:
    """The part of a message that is its text."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def call_of(invocation: InvocationCanister, text: str, identifier: str) -> dict[str, Any]:
    """The item of a call; one that was cut off says so, as does one that waits for somebody."""
    incomplete = invocation.fault is not None and invocation.fault.code in _INCOMPLETE
    return {**begun_item(invocation, text), "id": identifier, "status": "incomplete" if incomplete else "completed"}


def settled_text(invocation: InvocationCanister, said: str) -> str:
    """The text of a call of which this was streamed: it goes on from there, where both mean the same.

    Clients are told the whole text as well, and some compare. Where both mean different things, the call counts.
    """
    text = text_of_call(invocation)
    if not said or text.startswith(said) or invocation.kind != "function":
        return text
    if not said.strip():
        return said + text
    arguments, fault = read_arguments(said)
    return said if fault is None and arguments == invocation.arguments else text


def reasoning_of(item: Mapping[str, Any], identifier: str) -> dict[str, Any]:
    """An item of reasoning with what each must have; providers leave out some of it, and say null for more."""
    said = {key: value for key, value in item.items() if value is not None}
    whole = {**said, "id": said.get("id") or identifier, "summary": _texted(said.get("summary", ()), "summary_text")}
    return {**whole, "content": _texted(said["content"], "reasoning_text")} if "content" in said else whole


def _texted(parts: Iterable[Mapping[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    return [{"type": kind, **part, "text": part.get("text") or ""} for part in parts]


def begun_reasoning(item: Mapping[str, Any]) -> dict[str, Any]:
    """Reasoning as it begins."""
    status = {"status": "in_progress"} if "status" in item else {}
    return {**{key: value for key, value in item.items() if key not in _LATER}, "summary": [], **status}
