"""Canisters as messages of the Messages wire, and back."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ripieno.canisters import (
    AssistantCanister,
    Canister,
    DocumentCanister,
    DocumentContent,
    InvocationCanister,
    OpaqueContent,
    ResultCanister,
    SupervisorCanister,
    TextualContent,
    UserCanister,
)
from ripieno.exceptions import InputError
from ripieno.jsonvalues import encode, is_table
from ripieno.models.protocol import Capabilities, Native
from ripieno.models.protocols.anthropic.contents import (
    NAME,
    block_of,
    blocks_of,
    content_of,
    contents_of,
    is_blank,
    text_source,
)
from ripieno.models.protocols.anthropic.invocations import invocation_block, invocation_of, result_block, result_of
from ripieno.models.protocols.common.encoding import (
    Breakpoints,
    Groups,
    JoinedMessages,
    Pieces,
    by_turns,
    gather,
    piece,
)
from ripieno.models.protocols.common.requests import canisters_of, parts_in, tables_in, texts_of

#: Makes the provider cache everything up to this block. A request has at most four: after the tools, after the system
#: prompt, and after each of the user's last two messages (the first of them ended the last request).
MARK = b',"cache_control":{"type":"ephemeral"}'
BREAKPOINTS = Breakpoints(begins=b'{"role":"user"', mark=MARK, closing=b"}]}", most=2)


class Messages(JoinedMessages):
    """Each canister becomes blocks; adjacent blocks of one role form one message."""

    def pieces(
        self, canisters: Sequence[Canister], capabilities: Capabilities, memory: dict[object, Any] | None
    ) -> Pieces:
        breakpoints = BREAKPOINTS if capabilities.get("cache_breakpoints", True) else None
        return gather(canisters, groups=_GROUPS, encoded=_piece, key=NAME, memory=memory, breakpoints=breakpoints)

    def normalize(self, native: Native) -> tuple[Canister, ...]:
        canisters: list[Canister] = []
        system = contents_of(native.get("system"))
        if system:
            canisters.append(SupervisorCanister(content=system))
        for message in tables_in(native, "messages"):
            canisters.extend(_canisters(message))
        return tuple(canisters)


MESSAGES = Messages()


class _Message:
    """One message under construction; results are first in it."""

    __slots__ = ("_blocks", "_results", "_role")

    def __init__(self, role: bytes) -> None:
        self._role = role
        self._results: list[bytes] = []
        self._blocks: list[bytes] = []

    def add(self, canister: Canister, data: bytes) -> None:
        (self._results if isinstance(canister, ResultCanister) else self._blocks).append(data)

    def close(self, messages: list[bytes]) -> None:
        messages.append(b'{"role":"%s","content":[%s]}' % (self._role, b",".join(self._results + self._blocks)))


_USER, _ASSISTANT, _SYSTEM = (functools.partial(_Message, role) for role in (b"user", b"assistant", b"system"))
_GROUPS: Groups = {**by_turns(_USER, _ASSISTANT), SupervisorCanister: _SYSTEM}


def _assistant(canister: AssistantCanister) -> bytes:
    # The wire refuses images here, such as those of another model.
    kept = [content for content in canister.content if isinstance(content, TextualContent | OpaqueContent)]
    return encode(blocks_of(kept))[1:-1]


def supervisor_blocks(canister: SupervisorCanister) -> list[Mapping[str, Any]]:
    """The texts of a supervisor; the wire refuses anything else here."""
    return blocks_of(texts_of(canister))


def _document(canister: DocumentCanister) -> bytes:
    about = {"context": canister.identifier} | ({} if canister.title is None else {"title": canister.title})
    blocks: list[Mapping[str, Any]] = []
    for content in canister.content:
        if is_blank(content):
            continue
        if isinstance(content, TextualContent):
            blocks.append({"type": "document", "source": text_source(content.text), **about})
        elif (block := block_of(content)) is not None:
            blocks.append({**block, **about} if block["type"] == "document" else block)
    return encode(blocks)[1:-1]


_PIECES: Mapping[type, Callable[[Any], bytes]] = {
    UserCanister: lambda user: encode(blocks_of(user.content))[1:-1],
    AssistantCanister: _assistant,
    SupervisorCanister: lambda supervisor: encode(supervisor_blocks(supervisor))[1:-1],
    DocumentCanister: _document,
    InvocationCanister: lambda call: encode(invocation_block(call)),
    ResultCanister: lambda result: encode(result_block(result)),
}


def _piece(canister: Canister, _: int) -> bytes:
    return piece(canister, NAME, _PIECES[type(canister)])


def _canisters(message: Mapping[str, Any]) -> Sequence[Canister]:
    role, content = message.get("role"), message.get("content")
    if role == "system":
        return [SupervisorCanister(content=contents_of(content))]
    if role not in ("user", "assistant"):
        raise InputError(f"A message has the role {role!r}; known are user, assistant and system.")
    make = UserCanister if role == "user" else AssistantCanister
    special = functools.partial(_special, role=role)
    return canisters_of(parts_in(content, "blocks"), make, special, lambda block: (content_of(block),))


def _special(block: object, *, role: object) -> Canister | None:
    """The canister of a block that is a canister by itself."""
    if not is_table(block):
        return None
    kind = block.get("type")
    if kind == "tool_use" and role == "assistant":
        return invocation_of(block)
    if kind == "tool_result" and role == "user":
        return result_of(block)
    if kind == "document" and role == "user" and block.get("context"):
        return _document_of(block)
    return None


def _document_of(block: Mapping[str, Any]) -> DocumentCanister:
    content = content_of({"type": "document", "source": block.get("source")})
    if isinstance(content, DocumentContent) and content.data is not None and content.mime_type == "text/plain":
        content = TextualContent(text=content.data.decode())
    title = block.get("title")
    return DocumentCanister(
        content=(content,), identifier=str(block["context"]), title=None if title is None else str(title)
    )


def marked(array: bytes) -> bytes:
    """A JSON array of objects with a cache mark at its end, unless it has deferred tools, which take none."""
    if b'"defer_loading":true' in array:
        return array
    return b"%s%s}]" % (array[:-2], MARK)
