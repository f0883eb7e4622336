"""A whole request of the generateContent wire: written by the client half, read by the server half."""

from collections.abc import Sequence

from ripieno.canisters import AssistantCanister, Canister, InvocationCanister
from ripieno.contents import OpaqueContent
from ripieno.exceptions import InputError
from ripieno.jsonvalues import encode
from ripieno.processors import Asked, Native, Request
from ripieno.protocols.asking import read_request, strict_of, tables_in
from ripieno.protocols.gemini.controls import CONTROLS, METHODS, tool_choice
from ripieno.protocols.gemini.invocations import INVOCATIONS, definition_from
from ripieno.protocols.gemini.messages import MESSAGES, system_of
from ripieno.protocols.gemini.parts import CONTINUATION, NAME
from ripieno.protocols.gemini.schemas import respell
from ripieno.protocols.pieces import definitions, join


def request(asked: Request) -> bytes:
    """The body of a request; the model's name is in its path. Errors: ``InputError`` for a control that it refuses."""
    system, leading = system_of(asked.canisters)
    canisters = asked.canisters[leading:] if leading else asked.canisters
    rest = dict(CONTROLS.nativize(asked.controls, asked.capabilities))
    canisters, token = _continued(canisters)
    if token is not None:
        rest["continuationToken"] = token
    members = [("contents", MESSAGES.nativize(canisters, asked.capabilities, asked.memory))]
    if system:
        members.append(("systemInstruction", encode({"parts": system})))
    declarations = definitions(
        asked.offer, NAME, INVOCATIONS.definition_of, strict=strict_of(asked.controls, asked.capabilities)
    )
    if declarations is not None:
        members.append(("tools", b'[{"functionDeclarations":%s}]' % declarations))
        choice = tool_choice(asked.controls, asked.offer, asked.capabilities)
        if choice is not None:
            rest["toolConfig"] = choice
    return join(members, rest)


def _continued(canisters: Sequence[Canister]) -> tuple[Sequence[Canister], object]:
    """What is asked, and the token with which an answer goes on: what was said of that answer is not sent then."""
    last = canisters[-1] if canisters else None
    if not isinstance(last, AssistantCanister) or not last.content:
        return canisters, None
    content = last.content[-1]
    if not isinstance(content, OpaqueContent) or (content.protocol, content.kind) != (NAME, CONTINUATION):
        return canisters, None
    end = len(canisters)
    while end and isinstance(canisters[end - 1], AssistantCanister | InvocationCanister):
        end -= 1
    return canisters[:end], content.data["continuationToken"]


def parse(native: Native) -> Asked:
    """What a client asks for. Errors: ``InputError``, which says what is wrong with its request.

    ``model`` and ``method`` are what its path says.
    """
    if native.get("method", "generateContent") not in METHODS:
        raise InputError(f"There is no method {native['method']!r} here; known are {' and '.join(METHODS)}.")
    respelled = respell(native)
    respelled["tools"] = [
        declaration for tool in tables_in(respelled, "tools") for declaration in tables_in(tool, "functionDeclarations")
    ]
    return read_request(respelled, messages=MESSAGES, controls=CONTROLS, definition=definition_from, said="contents")
