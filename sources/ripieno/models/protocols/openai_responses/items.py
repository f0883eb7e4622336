"""Items of the Responses wire, both directions: the assistant's messages, calls, results, and opaque items."""

from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.canisters import Content, InvocationCanister, OpaqueContent, ResultCanister, TextualContent
from ripieno.canisters.canisters import InvocationKind
from ripieno.canisters.contents import text_of
from ripieno.canisters.events import InvocationBegan
from ripieno.exceptions import InputError
from ripieno.jsonvalues import EMPTY, freeze
from ripieno.models.protocol import MADE
from ripieno.models.protocols.common.calls import extras_of, read_invocation
from ripieno.models.protocols.common.openai import text_of_call
from ripieno.models.protocols.openai_responses.contents import NAME, contents_of, is_plain_text, part_of

#: The types of a call and of its result, with the key of the call's text.
WORDS: Mapping[InvocationKind, tuple[str, str, str]] = {
    "function": ("function_call", "arguments", "function_call_output"),
    "freeform": ("custom_tool_call", "input", "custom_tool_call_output"),
}
#: The types of calls and of results.
CALLS: Mapping[str, InvocationKind] = {call: kind for kind, (call, _, _) in WORDS.items()}
OUTPUTS = frozenset(output for _, _, output in WORDS.values())
#: The status of items that were cut off.
UNFINISHED = ("in_progress", "incomplete")
#: The kind of the content that precedes a text, and has the members that return with it.
MESSAGE = "message"
_CALL_KEYS = frozenset({"type", "call_id", "name", "arguments", "input", "status"})
_MESSAGE_KEYS = frozenset({"type", "role", "status", "content"})


def made_identifier(prefix: str, token: str, place: int) -> str:
    """An identifier for an item without one, from the response's token and the position in its output."""
    return f"{prefix}{MADE}{token}_{place}"


def is_made(identifier: object) -> bool:
    return isinstance(identifier, str) and MADE in identifier


def items_of(contents: Sequence[Content], *, replay: bool = True) -> list[Mapping[str, Any]]:
    """The items of an assistant's contents; without ``replay``, its reasoning is left out."""
    items: list[Mapping[str, Any]] = []
    beside: Mapping[str, Any] = EMPTY
    for content in contents:
        if isinstance(content, TextualContent):
            if content.text:
                items.append(message_item(content.text, beside))
            beside = EMPTY
        elif isinstance(content, OpaqueContent) and content.protocol == NAME:
            if content.kind == MESSAGE:
                beside = content.data
            elif replay or content.kind != "reasoning":
                items.append(content.data)
    return items


def message_item(text: str, beside: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message of the assistant; without an identifier, in the short form that clients use."""
    content: str | list[dict[str, Any]] = text
    if "id" in beside:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        beside = {**beside, "status": "completed"}
    return {"type": "message", "role": "assistant", "content": content, **beside}


def text_in(item: Mapping[str, Any]) -> str:
    return text_of(contents_of(item.get("content")))


def beside_of(item: Mapping[str, Any], *, reasoned: bool) -> OpaqueContent | None:
    """The members that return with the text of a message, such as its phase.

    An identifier alone returns only after reasoning (``reasoned``), since providers pair the two.
    """
    beside = {key: value for key, value in item.items() if key not in _MESSAGE_KEYS and value is not None}
    if "id" in beside and (not beside["id"] or is_made(beside["id"])):
        del beside["id"]
    if not beside or (not reasoned and beside.keys() == {"id"}):
        return None
    return OpaqueContent(protocol=NAME, kind=MESSAGE, data=freeze({"type": "message", **beside}))


def opaque_of_item(item: Mapping[str, Any]) -> OpaqueContent | None:
    """An item kept unchanged, without an identifier of ours; None for reasoning that is only for display."""
    kind = str(item.get("type"))
    if is_made(item.get("id")):
        if kind == "reasoning" and not item.get("encrypted_content"):
            return None
        item = {key: value for key, value in item.items() if key != "id"}
    return OpaqueContent(protocol=NAME, kind=kind, data=freeze(item))


def sent_in(item: Mapping[str, Any]) -> object:
    return item.get("input" if item.get("type") == "custom_tool_call" else "arguments")


def extras_in(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """The keys of a call that only the provider needs: its item's identifier, namespace, caller."""
    return {
        key: value
        for key, value in item.items()
        if key not in _CALL_KEYS and value is not None and not (key == "id" and (not value or is_made(value)))
    }


def invocation_of(item: Mapping[str, Any], identifier: str | None = None) -> InvocationCanister:
    return read_invocation(
        identifier=str(item.get("call_id") or "") if identifier is None else identifier,
        name=str(item.get("name") or ""),
        sent=sent_in(item),
        kind=CALLS[str(item.get("type"))],
        protocol=NAME,
        extras=extras_in(item),
    )


def call_item(invocation: InvocationCanister, *, verbatim: bool = True) -> dict[str, Any]:
    """The item of a call. Not ``verbatim``: unreadable arguments are left out, since servers would refuse them."""
    return begun_item(invocation, text_of_call(invocation, verbatim=verbatim))


def begun_item(call: InvocationCanister | InvocationBegan, text: str = "") -> dict[str, Any]:
    kind, key, _ = WORDS[call.kind]
    return {"type": kind, "call_id": call.identifier, "name": call.name, key: text, **extras_of(call, NAME)}


def output_item(result: ResultCanister, call: InvocationCanister | None = None) -> dict[str, Any]:
    """The item of a result of ``call``. Text alone is a string; an error is first."""
    parts = [part for content in result.content if (part := _result_part(content)) is not None]
    if result.error is not None:
        end = "\n" if parts else ""
        parts.insert(0, {"type": "input_text", "text": result.error.text() + end})
    output: object = parts
    if all(is_plain_text(part) for part in parts):
        output = "".join(part["text"] for part in parts)
    item = {"type": WORDS[kind_of(call)][2], "call_id": result.invocation_id, "output": output}
    caller = caller_of(call)
    return item if caller is None else {**item, "caller": caller}


def kind_of(call: InvocationCanister | None) -> InvocationKind:
    """The kind of a call, by default a function call."""
    return "function" if call is None else call.kind


def caller_of(call: InvocationCanister | None) -> object:
    """The caller of a call that the model itself did not make; its result repeats it."""
    return None if call is None else extras_of(call, NAME).get("caller")


def _result_part(content: Content) -> Mapping[str, Any] | None:
    part = part_of(content)
    if part is None and not isinstance(content, TextualContent | OpaqueContent):
        return {"type": "input_text", "text": f"[{type(content).__name__} left out]"}
    return part


def result_of(item: Mapping[str, Any]) -> ResultCanister:
    """The result in an item of a request. Errors: ``InputError``."""
    identifier = item.get("call_id")
    if not isinstance(identifier, str):
        raise InputError(f"A {item.get('type')} has no call_id.")
    return ResultCanister(invocation_id=identifier, content=contents_of(item.get("output")))
