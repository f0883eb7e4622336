"""Tools, calls and results of the chat completions wire."""

from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.canisters import Content, ImageContent, InvocationCanister, OpaqueContent, ResultCanister, TextualContent
from ripieno.canisters.canisters import InvocationKind
from ripieno.canisters.events import InvocationBegan
from ripieno.ensembles import Definition, Invoker
from ripieno.exceptions import InputError
from ripieno.jsonvalues import EMPTY, is_list, is_table
from ripieno.models.protocol import HostedTool, Identifiers, InvocationsProcessor, Native
from ripieno.models.protocols.common.calls import extras_of, read_invocation, require_answer
from ripieno.models.protocols.common.dialects import OPENAI_STRICT
from ripieno.models.protocols.common.openai import data_url, text_of_call
from ripieno.models.protocols.common.requests import table_in
from ripieno.models.protocols.common.tools import client_function, described, one_by_one

NAME = "openai-chat"
_CALL_KEYS = frozenset({"index", "id", "type", "function", "custom"})
_FUNCTION_KEYS = frozenset({"name", "arguments", "input"})
#: The wire's type of a call, and the key of its text.
WORDS: Mapping[InvocationKind, tuple[str, str]] = {
    "function": ("function", "arguments"),
    "freeform": ("custom", "input"),
}


class Invocations(InvocationsProcessor):
    """Nested definitions; calls are part of the assistant's message, results are messages of their own."""

    strict_dialect = OPENAI_STRICT

    def definition_of(self, invoker: Invoker, *, strict: bool = False) -> Native:
        lowered = self.lowered(invoker, strict=strict)
        function = {**described(invoker), "parameters": lowered.schema}
        if lowered.strict:
            function["strict"] = True
        return {"type": "function", "function": function}

    def normalize_invocations(self, native: Native) -> Sequence[InvocationCanister]:
        require_answer(native, "choices")
        identifiers = Identifiers()
        choices = native.get("choices") or (EMPTY,)
        calls = (choices[0].get("message") or EMPTY).get("tool_calls") or ()
        return [invocation_of(call, identifiers.unique(call.get("id"))) for call in calls]

    def nativize_results(self, results: Sequence[ResultCanister]) -> Sequence[Native]:
        messages: list[Native] = [result_message(result) for result in results]
        images = [image for result in results for image in images_of(result)]
        return [*messages, images_message(images)] if images else messages


INVOCATIONS = Invocations()


def function_in(call: Native) -> tuple[Mapping[str, Any], bool]:
    """The object with a call's name and arguments, and whether the call is free-form."""
    function = call.get("function")
    if function is None and ("custom" in call or call.get("type") == "custom"):
        return call.get("custom") or EMPTY, True
    return function or EMPTY, False


def extras_in(call: Native, function: Mapping[str, Any]) -> Mapping[str, Any]:
    """The keys of a call and its function that only the provider needs, such as signatures."""
    if call.keys() <= _CALL_KEYS and function.keys() <= _FUNCTION_KEYS:
        return EMPTY
    extras = {key: value for key, value in call.items() if key not in _CALL_KEYS and value is not None}
    inner = {key: value for key, value in function.items() if key not in _FUNCTION_KEYS and value is not None}
    return {**extras, "function": inner} if inner else extras


def invocation_of(call: Native, identifier: str | None = None) -> InvocationCanister:
    function, freeform = function_in(call)
    return read_invocation(
        identifier=str(call.get("id") or "") if identifier is None else identifier,
        name=str(function.get("name") or ""),
        sent=function.get("input" if freeform else "arguments"),
        kind="freeform" if freeform else "function",
        protocol=NAME,
        extras=extras_in(call, function),
    )


def call_object(invocation: InvocationCanister, *, verbatim: bool = True) -> dict[str, Any]:
    """A call in the assistant's message, with the original text of its arguments, if there is one.

    Not ``verbatim``: unreadable arguments are left out, since a server that parses them refuses the whole conversation.
    """
    return begun_object(invocation, text_of_call(invocation, verbatim=verbatim))


def begun_object(call: InvocationCanister | InvocationBegan, text: str = "") -> dict[str, Any]:
    """A call with this text as its arguments or input."""
    extras = dict(extras_of(call, NAME))
    inner = extras.pop("function", EMPTY)
    kind, key = WORDS[call.kind]
    return {"id": call.identifier, "type": kind, kind: {"name": call.name, key: text, **inner}, **extras}


def result_message(result: ResultCanister) -> dict[str, Any]:
    """A result as a message: text, with notes about images that follow and contents that are left out."""
    parts = [result.text] if result.text else []
    images = len(images_of(result))
    if images:
        parts.append(f"[{images} image{'s' if images > 1 else ''} in the next message]")
    for content in result.content:
        if not isinstance(content, TextualContent | ImageContent | OpaqueContent):
            parts.append(f"[{type(content).__name__} left out]")
    return {"role": "tool", "tool_call_id": result.invocation_id, "content": "\n".join(parts)}


def images_of(result: ResultCanister) -> Sequence[ImageContent]:
    return [content for content in result.content if isinstance(content, ImageContent)]


def images_message(images: Sequence[ImageContent]) -> Mapping[str, Any]:
    return {"role": "user", "content": [image_part(image) for image in images]}


def image_part(image: ImageContent) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": data_url(image.data, image.mime_type)}}


def result_of(message: Native) -> ResultCanister:
    """The result in a message of a request. Errors: ``InputError``."""
    identifier = message.get("tool_call_id")
    if not isinstance(identifier, str):
        raise InputError("A message of role tool has no tool_call_id.")
    content = message.get("content")
    if is_list(content):
        content = "".join(str(part.get("text") or "") for part in content if is_table(part))
    contents: tuple[Content, ...] = (TextualContent(text=str(content)),) if content else ()
    return ResultCanister(invocation_id=identifier, content=contents)


def definition_from(tool: Native) -> Definition | HostedTool:
    """A client's tool; any other than a function is for the server. Errors: ``InputError``."""
    kind = tool.get("type", "function")
    if kind == "custom":
        raise InputError("Free-form tools are not supported on this wire: declare a function, or use Responses.")
    if kind != "function":
        if not isinstance(kind, str) or not kind:
            raise InputError("A tool has no type.")
        return HostedTool(kind=kind)
    # Some clients send the flat form of the Responses wire.
    function = table_in(tool, "function") if tool.get("function") is not None else tool
    return client_function(function, function.get("parameters"), "A tool has no function.name.")


#: The tools of a request. Errors: ``InputError``.
declared_in = one_by_one(definition_from)
