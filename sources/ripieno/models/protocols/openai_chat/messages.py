"""Canisters as messages of the chat completions wire, and back."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from ripieno.canisters import (
    AssistantCanister,
    Canister,
    Content,
    DocumentCanister,
    ImageContent,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from ripieno.canisters.contents import text_of
from ripieno.exceptions import InputError
from ripieno.jsonvalues import encode
from ripieno.models.protocol import Capabilities, Native
from ripieno.models.protocols.common.encoding import JoinedMessages, Pieces, by_turns, gather, piece
from ripieno.models.protocols.common.openai import as_function, replay_from
from ripieno.models.protocols.common.requests import headed, tables_in, texts_of
from ripieno.models.protocols.openai_chat.contents import contents_of, parts_of
from ripieno.models.protocols.openai_chat.invocations import (
    NAME,
    call_object,
    images_message,
    images_of,
    invocation_of,
    result_message,
    result_of,
)
from ripieno.models.protocols.openai_chat.reasoning import additions_in, additions_of, merge, opaque

#: The key of encodings with all reasoning.
_REPLAYED = f"{NAME} with reasoning"
#: The key of free-form calls encoded as functions.
_FUNCTION = f"{NAME} function"


class Messages(JoinedMessages):
    """Assistant and invocation canisters become one message; each result is one of its own."""

    def pieces(
        self, canisters: Sequence[Canister], capabilities: Capabilities, memory: dict[object, Any] | None
    ) -> Pieces:
        since = replay_from(canisters, capabilities)
        # Encoded messages stay valid, unless reasoning in them no longer returns.
        freeform = bool(capabilities.get("custom_tools", False))
        key = (NAME, capabilities.get("reasoning_replay"), since if since < len(canisters) else None, freeform)

        def encoded(canister: Canister, place: int) -> bytes:
            kind = type(canister)
            if not freeform and isinstance(canister, InvocationCanister) and canister.kind == "freeform":
                # Most servers support only functions, so every tool is declared as one.
                return piece(canister, _FUNCTION, lambda call: _call(as_function(call)))
            if kind is AssistantCanister and place >= since:
                return piece(canister, _REPLAYED, functools.partial(_assistant, replay=True))
            return piece(canister, NAME, _PIECES[kind])

        return gather(canisters, groups=_GROUPS, encoded=encoded, key=key, memory=memory)

    def normalize(self, native: Native) -> tuple[Canister, ...]:
        return tuple(canister for message in tables_in(native, "messages") for canister in _canisters(message))


MESSAGES = Messages()

# The encoding of an assistant canister is the inside of a JSON string, a NUL, and its other members. NUL never occurs
# in JSON, so texts can be joined without decoding.


def _assistant(canister: AssistantCanister, *, replay: bool = False) -> bytes:
    text, additions = text_of(canister.content), additions_of(canister.content, replay=replay)
    return encode(text)[1:-1] + b"\0" + encode(additions)[1:-1] if text or additions else b""


class _AssistantMessage:
    __slots__ = ("_calls", "_contents")

    def __init__(self) -> None:
        self._contents: list[bytes] = []
        self._calls: list[bytes] = []

    def add(self, canister: Canister, data: bytes) -> None:
        (self._calls if isinstance(canister, InvocationCanister) else self._contents).append(data)

    def close(self, messages: list[bytes]) -> None:
        text = b""
        additions: list[bytes] = []
        for data in self._contents:
            more, _, members = data.partition(b"\0")
            text += more
            if members:
                additions.append(members)
        # Content is null only beside calls: beside reasoning, Ollama refuses null (reported by its users).
        parts = [b'"role":"assistant","content":' + (b'"%s"' % text if text or additions else b"null")]
        if additions:
            parts.append(additions[0] if len(additions) == 1 else _merged(additions))
        if self._calls:
            parts.append(b'"tool_calls":[%s]' % b",".join(self._calls))
        messages.append(b"{%s}" % b",".join(parts))


class _InputMessages:
    """The messages between two of the assistant: results, then their images, then all else."""

    __slots__ = ("_images", "_others", "_results")

    def __init__(self) -> None:
        self._results: list[bytes] = []
        self._images: list[ImageContent] = []
        self._others: list[bytes] = []

    def add(self, canister: Canister, data: bytes) -> None:
        if isinstance(canister, ResultCanister):
            self._results.append(data)
            self._images.extend(images_of(canister))
        else:
            self._others.append(data)

    def close(self, messages: list[bytes]) -> None:
        messages.extend(self._results)
        if self._images:
            messages.append(encode(images_message(self._images)))
        messages.extend(self._others)


_GROUPS = by_turns(_InputMessages, _AssistantMessage)


def _merged(additions: Sequence[bytes]) -> bytes:
    """The members of several encodings of one message as one set: of a duplicate key one value would be lost."""
    values: dict[str, list[Any]] = {}
    for members in additions:
        for name, value in orjson.loads(b"{%s}" % members).items():
            values.setdefault(name, []).append(value)
    return encode({name: merge(found) for name, found in values.items()})[1:-1]


def _call(canister: InvocationCanister) -> bytes:
    return encode(call_object(canister, verbatim=False))


def _message(role: str, contents: Sequence[Content]) -> bytes:
    """A message; empty if this wire can send none of its contents."""
    content = parts_of(contents)
    return encode({"role": role, "content": content}) if content else b""


_PIECES: Mapping[type, Callable[[Any], bytes]] = {
    UserCanister: lambda user: _message("user", user.content),
    # The wire refuses anything but text here.
    SupervisorCanister: lambda one: _message("system", texts_of(one)),
    DocumentCanister: lambda document: _message("user", headed(document)),
    ResultCanister: lambda result: encode(result_message(result)),
    AssistantCanister: _assistant,
    InvocationCanister: _call,
}


def _canisters(message: Mapping[str, Any]) -> Sequence[Canister]:
    role, content = message.get("role"), message.get("content")
    if role in ("system", "developer"):
        return [SupervisorCanister(content=contents_of(content))]
    if role == "user":
        return [UserCanister(content=contents_of(content))]
    if role == "tool":
        return [result_of(message)]
    if role != "assistant":
        raise InputError(f"A message has the role {role!r}; known are system, developer, user, assistant and tool.")
    contents = contents_of(content)
    if not contents and message.get("refusal"):
        contents = contents_of(message["refusal"])
    additions = dict(additions_in(message))
    if additions:
        contents = (opaque(additions), *contents)
    calls = [invocation_of(call) for call in tables_in(message, "tool_calls")]
    return [AssistantCanister(content=contents), *calls]
