"""A whole request of the Messages wire: written by the client half, read by the server half."""

from ripieno.jsonvalues import encode
from ripieno.processors import Asked, Native, Request
from ripieno.protocols.anthropic.blocks import NAME
from ripieno.protocols.anthropic.controls import CONTROLS, tool_choice
from ripieno.protocols.anthropic.invocations import INVOCATIONS, definition_from
from ripieno.protocols.anthropic.messages import MESSAGES, marked, marks, system_of
from ripieno.protocols.asking import read_request
from ripieno.protocols.pieces import join
from ripieno.protocols.searching import declare

_SEARCH = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}


def request(asked: Request) -> bytes:
    """The body of a request. Errors: ``InputError`` for a control that the wire refuses."""
    system, leading = system_of(asked.canisters)
    canisters = asked.canisters[leading:] if leading else asked.canisters
    rest = {"model": asked.model, **CONTROLS.nativize(asked.controls, asked.capabilities)}
    members = [("messages", MESSAGES.nativize(canisters, asked.capabilities, asked.memory))]
    mark = marked if marks(asked.capabilities) else bytes
    if system:
        members.append(("system", mark(encode(system))))
    tools = declare(asked, NAME, INVOCATIONS.definition_of, _SEARCH)
    if tools is not None:
        members.append(("tools", mark(tools)))
        choice = tool_choice(asked.controls, asked.offer, asked.capabilities)
        if choice is not None:
            rest["tool_choice"] = choice
    return join(members, rest)


def parse(native: Native) -> Asked:
    """What a client asks for. Errors: ``InputError``, which says what is wrong with its request."""
    return read_request(native, messages=MESSAGES, controls=CONTROLS, definition=definition_from)
