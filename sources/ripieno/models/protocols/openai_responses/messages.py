"""Canisters as items of the Responses wire, and back."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ripieno.canisters import (
    AssistantCanister,
    Canister,
    Content,
    DocumentCanister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    TextualContent,
    UserCanister,
)
from ripieno.exceptions import InputError, RequestInvalidity
from ripieno.jsonvalues import encode
from ripieno.models.protocol import Capabilities, Native
from ripieno.models.protocols.common.encoding import Calls, JoinedMessages, Pieces, by_turns, gather, piece
from ripieno.models.protocols.common.openai import as_function, replay_from
from ripieno.models.protocols.common.requests import headed, tables_in, texts_of
from ripieno.models.protocols.common.tools import Declared
from ripieno.models.protocols.openai_responses.contents import NAME, contents_of, parts_of
from ripieno.models.protocols.openai_responses.invocations import ADDED, all_declared_in, flat_name, knows_freeform
from ripieno.models.protocols.openai_responses.items import (
    CALLS,
    OUTPUTS,
    beside_of,
    call_item,
    caller_of,
    invocation_of,
    items_of,
    kind_of,
    opaque_of_item,
    output_item,
    result_of,
    text_in,
)

#: The key of encodings without reasoning.
_UNREASONED = f"{NAME} without reasoning"
#: The key of free-form calls encoded as functions.
_FUNCTION = f"{NAME} function"


class Messages(JoinedMessages):
    """Each canister becomes items, in order."""

    def pieces(
        self, canisters: Sequence[Canister], capabilities: Capabilities, memory: dict[object, Any] | None
    ) -> Pieces:
        since = replay_from(canisters, capabilities, otherwise="always")
        # Encoded items stay valid, unless reasoning in them no longer returns.
        freeform = knows_freeform(capabilities)
        key = (NAME, capabilities.get("reasoning_replay"), since if since < len(canisters) else None, freeform)

        calls = Calls(canisters)

        def encoded(canister: Canister, place: int) -> bytes:
            if isinstance(canister, ResultCanister):
                return _result(canister, calls.find(canister.invocation_id, place), freeform=freeform)
            if not freeform and isinstance(canister, InvocationCanister) and canister.kind == "freeform":
                return piece(canister, _FUNCTION, lambda call: _call(as_function(call)))
            if isinstance(canister, AssistantCanister) and place < since:
                return piece(canister, _UNREASONED, functools.partial(_assistant, replay=False))
            return piece(canister, NAME, _PIECES[type(canister)])

        return gather(canisters, groups=_GROUPS, encoded=encoded, key=key, memory=memory)

    def normalize(self, native: Native) -> tuple[Canister, ...]:
        return canisters_in(native, all_declared_in(native))


MESSAGES = Messages()


def canisters_in(native: Native, declared: Declared) -> tuple[Canister, ...]:
    """The canisters of a request; its calls get the names that the model sees. Errors: ``InputError``."""
    canisters: list[Canister] = []
    instructions = contents_of(native.get("instructions"))
    if instructions:
        canisters.append(SupervisorCanister(content=instructions))
    items = native.get("input")
    if isinstance(items, str):
        return (*canisters, UserCanister(content=contents_of(items)))
    reading = _Reading(canisters, declared)
    for place, item in enumerate(tables_in(native, "input")):
        try:
            reading.take(item)
        except InputError as error:
            raise RequestInvalidity(f"input[{place}]: {error}", parameter=f"input[{place}]") from error
    reading.flush()
    return tuple(canisters)


class _Items:
    __slots__ = ("_items",)

    def __init__(self) -> None:
        self._items: list[bytes] = []

    def add(self, canister: Canister, data: bytes) -> None:
        del canister
        self._items.append(data)

    def close(self, messages: list[bytes]) -> None:
        messages.extend(self._items)


# Items are never joined. Two alternating groups let all turns except the last keep their encoding.
_GROUPS = by_turns(functools.partial(_Items), functools.partial(_Items))


def _assistant(canister: AssistantCanister, *, replay: bool = True) -> bytes:
    return encode(items_of(canister.content, replay=replay))[1:-1]


def _call(canister: InvocationCanister) -> bytes:
    return encode(call_item(canister, verbatim=False))


def _result(result: ResultCanister, found: tuple[int, InvocationCanister] | None, *, freeform: bool) -> bytes:
    call = None if found is None else found[1]
    if call is not None and not freeform:
        call = as_function(call)
    kind, caller = kind_of(call), caller_of(call)
    key = NAME if kind == "function" and caller is None else (NAME, kind, caller)
    return piece(result, key, lambda one: encode(output_item(one, call)))


def _encoded_message(role: str, contents: Sequence[Content]) -> bytes:
    """A message; empty if this wire can send none of its contents."""
    content = parts_of(contents)
    return encode({"type": "message", "role": role, "content": content}) if content else b""


_PIECES: Mapping[type, Callable[[Any], bytes]] = {
    UserCanister: lambda user: _encoded_message("user", user.content),
    # Every server knows this role; newer ones treat it as ``developer``.
    SupervisorCanister: lambda one: _encoded_message("system", texts_of(one)),
    DocumentCanister: lambda document: _encoded_message("user", headed(document)),
    AssistantCanister: _assistant,
    InvocationCanister: _call,
}


class _Reading:
    """Reads items in order. The assistant's items are collected until another role follows."""

    __slots__ = ("_canisters", "_contents", "_declared", "_reasoned", "_speaking")

    def __init__(self, canisters: list[Canister], declared: Declared) -> None:
        self._canisters = canisters
        self._declared = declared
        self._contents: list[Content] = []
        #: Whether the assistant's text or call was last, and whether reasoning came before it.
        self._speaking = False
        self._reasoned = False

    def take(self, item: Mapping[str, Any]) -> None:
        """Reads an item. Errors: ``InputError``."""
        kind = item.get("type") or ("message" if "role" in item else None)
        if kind == "message" and item.get("role") != "assistant":
            self._add(_message(item))
        elif kind in OUTPUTS:
            self._add(result_of(item))
        elif kind in CALLS:
            if self._contents or not self._speaking:
                # As in answers, calls follow an assistant's canister, which may be empty.
                self._canisters.append(AssistantCanister(content=tuple(self._contents)))
                self._contents.clear()
            # An undeclared namespace belongs to the provider, and returns with the call.
            self._canisters.append(invocation_of(self._named(item) if self._declared.renamed else item))
            self._speaking = True
        elif kind == "message":
            self._add_text(item)
        elif kind != ADDED:
            self._keep(item, kind)

    def _add(self, canister: Canister) -> None:
        self.flush()
        self._canisters.append(canister)
        self._speaking = self._reasoned = False

    def _named(self, item: Mapping[str, Any]) -> Mapping[str, Any]:
        name, namespace = item.get("name"), item.get("namespace") or ""
        if not isinstance(name, str) or not isinstance(namespace, str):
            return item
        kept = {key: value for key, value in item.items() if key != "namespace"}
        return {**kept, "name": flat_name(name, namespace, self._declared)}

    def _add_text(self, item: Mapping[str, Any]) -> None:
        text = text_in(item)
        if not text:
            return
        beside = beside_of(item, reasoned=self._reasoned)
        self._contents += [TextualContent(text=text)] if beside is None else [beside, TextualContent(text=text)]

    def _keep(self, item: Mapping[str, Any], kind: object) -> None:
        if kind == "item_reference":
            raise InputError("Nothing is stored here, so an item_reference refers to nothing: send the item itself.")
        if not isinstance(kind, str):
            raise InputError("An item is an object with a type.")
        kept = opaque_of_item(item)
        if kept is not None:
            self._contents.append(kept)
            self._reasoned = self._reasoned or kind == "reasoning"

    def flush(self) -> None:
        if self._contents:
            self._canisters.append(AssistantCanister(content=tuple(self._contents)))
            self._contents.clear()


def _message(item: Mapping[str, Any]) -> Canister:
    role, contents = item.get("role"), contents_of(item.get("content"))
    if role == "user":
        return UserCanister(content=contents)
    if role in ("system", "developer"):
        return SupervisorCanister(content=contents)
    raise InputError(f"A message has the role {role!r}; known are user, assistant, system and developer.")
