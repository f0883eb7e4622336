"""Canisters as contents of the generateContent wire, and back.

In a client's conversation, calls without identifiers get some, and results find their calls.
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ripieno.canisters import (
    AssistantCanister,
    Canister,
    Content,
    DocumentCanister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from ripieno.exceptions import InputError
from ripieno.jsonvalues import encode
from ripieno.models.protocol import Capabilities, Native
from ripieno.models.protocols.common.calls import extras_of
from ripieno.models.protocols.common.encoding import Calls, JoinedMessages, Pieces, by_turns, gather, piece
from ripieno.models.protocols.common.requests import (
    canisters_of,
    heading_of,
    table_in,
    tables_in,
    texts_of,
)
from ripieno.models.protocols.gemini.contents import NAME, contents_of, parts_of
from ripieno.models.protocols.gemini.invocations import (
    call_part,
    has_identifier,
    invocation_of,
    is_identifier,
    media_parts,
    response_part,
    result_of,
)


class Reading:
    """The canisters read so far, and the calls without a result."""

    def __init__(self) -> None:
        self.canisters: list[Canister] = []
        #: Identifiers of all calls; names of those without a result, in the model's order.
        self._taken: set[str] = set()
        self._waiting: dict[str, str] = {}
        #: Number of calls in the current content.
        self._calls = 0

    def read(self, role: str, parts: Sequence[Mapping[str, Any]]) -> None:
        """Reads the parts of a content, with calls or results. Errors: ``InputError``."""
        self._calls = 0
        if role == "user":
            self.canisters += canisters_of(parts, UserCanister, self._result, contents_of)
        else:
            self.canisters += canisters_of(parts, AssistantCanister, self._call, contents_of)

    def _result(self, part: Mapping[str, Any]) -> Canister | None:
        if part.get("functionResponse") is None:
            return None
        response = table_in(part, "functionResponse")
        return result_of(response, self._answered(response))

    def _call(self, part: Mapping[str, Any]) -> Canister | None:
        if part.get("functionCall") is None:
            return None
        identifier = self._settled(table_in(part, "functionCall").get("id"))
        invocation = invocation_of(part, identifier)
        self._waiting[identifier] = invocation.name
        return invocation

    def _settled(self, given: object) -> str:
        """The identifier of a call: its own, or one from its position."""
        settled = str(given) if is_identifier(given) else f"call_{len(self.canisters)}_{self._calls}"
        self._calls += 1
        while settled in self._taken and not is_identifier(given):
            settled += "_"
        self._taken.add(settled)
        return settled

    def _answered(self, response: Mapping[str, Any]) -> str:
        """The identifier of a result's call: its own, or that of the next call with its name."""
        given = response.get("id")
        if is_identifier(given):
            self._waiting.pop(str(given), None)
            return str(given)
        name = response.get("name")
        found = next((one for one, called in self._waiting.items() if called == name), None)
        if found is None:
            raise InputError(f"A functionResponse of {name!r} has no id, and no call with that name lacks a result.")
        del self._waiting[found]
        return found


#: A part's key for its signature.
_SIGNATURE = "thoughtSignature"


class Messages(JoinedMessages):
    """Each canister becomes parts; adjacent parts of one role form one content."""

    def pieces(
        self, canisters: Sequence[Canister], capabilities: Capabilities, memory: dict[object, Any] | None
    ) -> Pieces:
        media = bool(capabilities.get("images_in_results", True))
        placeholder = capabilities.get("signature_placeholder")
        pieces = _Pieces(canisters, media=media)
        return gather(
            canisters,
            groups=by_turns(functools.partial(_UserContent, pieces), functools.partial(_ModelContent, placeholder)),
            encoded=pieces.piece,
            key=(NAME, media, placeholder),
            memory=memory,
        )

    def normalize(self, native: Native) -> tuple[Canister, ...]:
        reading = Reading()
        system = tuple(
            content
            for part in tables_in(table_in(native, "systemInstruction"), "parts")
            for content in contents_of(part)
        )
        if system:
            reading.canisters.append(SupervisorCanister(content=system))
        for role, parts in _turns(tables_in(native, "contents")):
            reading.read(role, parts)
        return tuple(reading.canisters)


MESSAGES = Messages()


class _Pieces:
    """The encoded canisters of one conversation. A result needs its call's name and position."""

    __slots__ = ("_calls", "media", "places")

    def __init__(self, canisters: Sequence[Canister], *, media: bool) -> None:
        self._calls = Calls(canisters)
        self.media = media
        #: The position of each result's call.
        self.places: dict[str, int] = {}

    def piece(self, canister: Canister, place: int) -> bytes:
        if not isinstance(canister, ResultCanister):
            return piece(canister, NAME, _PIECES[type(canister)])
        at, call = self._calls.find(canister.invocation_id, place) or (place, None)
        self.places[canister.invocation_id] = at
        # A result without a call has no name, so its identifier is used.
        name = canister.invocation_id if call is None else call.name
        identified = call is None or has_identifier(call)
        make = functools.partial(_result, name=name, identified=identified, media=self.media)
        return piece(canister, (NAME, name, identified, self.media), make)


class _UserContent:
    """One content of the user under construction: results are first in it, in the order of their calls."""

    __slots__ = ("_media", "_parts", "_places", "_results")

    def __init__(self, pieces: _Pieces) -> None:
        self._places = pieces.places
        self._media = pieces.media
        self._results: list[tuple[int, ResultCanister, bytes]] = []
        self._parts: list[bytes] = []

    def add(self, canister: Canister, data: bytes) -> None:
        if isinstance(canister, ResultCanister):
            self._results.append((self._places[canister.invocation_id], canister, data))
        else:
            self._parts.append(data)

    def close(self, messages: list[bytes]) -> None:
        ordered = sorted(self._results, key=lambda one: one[0])
        parts = [data for _, _, data in ordered]
        if not self._media:
            media = [part for _, result, _ in ordered for part in media_parts(result)]
            parts += [encode(media)[1:-1]] if media else []
        messages.append(b'{"role":"user","parts":[%s]}' % b",".join(parts + self._parts))


class _ModelContent:
    __slots__ = ("_call", "_parts", "_placeholder", "_signed")

    def __init__(self, placeholder: str | None) -> None:
        self._placeholder = placeholder
        self._parts: list[bytes] = []
        #: The position of the first call, and whether any call has a signature.
        self._call: int | None = None
        self._signed = False

    def add(self, canister: Canister, data: bytes) -> None:
        if isinstance(canister, InvocationCanister):
            self._signed = self._signed or _SIGNATURE in extras_of(canister, NAME)
            if self._call is None:
                self._call = len(self._parts)
        self._parts.append(data)

    def close(self, messages: list[bytes]) -> None:
        if self._placeholder and self._call is not None and not self._signed:
            # Another model made these calls: without a signature on the first, the request is refused.
            self._parts[self._call] = self._parts[self._call][:-1] + b',"%s":%s}' % (
                _SIGNATURE.encode(),
                encode(self._placeholder),
            )
        messages.append(b'{"role":"model","parts":[%s]}' % b",".join(self._parts))


def _headed(heading: str, contents: Iterable[Content]) -> bytes:
    """Contents with a heading, joined to a first text."""
    parts = parts_of(contents)
    if parts and parts[0].keys() <= {"text"}:
        heading += str(parts.pop(0)["text"])
    return encode([{"text": heading}, *parts])[1:-1]


def _supervisor(canister: SupervisorCanister) -> bytes:
    texts = [content for content in texts_of(canister) if content.text]
    return _headed("[instructions]\n", texts) if texts else b""


def _result(canister: ResultCanister, *, name: str, identified: bool, media: bool) -> bytes:
    return encode(response_part(canister, name, identified=identified, media=media))


_PIECES: Mapping[type, Callable[[Any], bytes]] = {
    UserCanister: lambda user: encode(parts_of(user.content))[1:-1],
    AssistantCanister: lambda assistant: encode(parts_of(assistant.content))[1:-1],
    SupervisorCanister: _supervisor,
    DocumentCanister: lambda document: _headed(heading_of(document), document.content),
    InvocationCanister: lambda call: encode(call_part(call)),
}


def _turns(contents: Sequence[Mapping[str, Any]]) -> Sequence[tuple[str, list[Mapping[str, Any]]]]:
    """Roles and parts. Streaming clients return one content per chunk, so adjacent ones of a role are joined."""
    turns: list[tuple[str, list[Mapping[str, Any]]]] = []
    for content in contents:
        role = content.get("role") or "user"
        if role == "function":
            role = "user"  # The older role of results.
        if role not in ("user", "model"):
            raise InputError(f"A content has the role {role!r}; known are user and model.")
        if not turns or turns[-1][0] != role:
            turns.append((role, []))
        turns[-1][1].extend(tables_in(content, "parts"))
    return turns
