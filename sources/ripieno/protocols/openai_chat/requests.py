"""A whole request of the chat completions wire: written by the client half, read by the server half."""

from ripieno.processors import Asked, Native, Request
from ripieno.protocols.asking import read_request, strict_of
from ripieno.protocols.openai_chat.controls import CONTROLS, tool_choice
from ripieno.protocols.openai_chat.invocations import INVOCATIONS, NAME, definition_from
from ripieno.protocols.openai_chat.messages import MESSAGES
from ripieno.protocols.pieces import definitions, join


def request(asked: Request) -> bytes:
    """The body of a request. Errors: ``InputError`` for a control that the model refuses."""
    rest = {"model": asked.model, **CONTROLS.nativize(asked.controls, asked.capabilities)}
    members = [("messages", MESSAGES.nativize(asked.canisters, asked.capabilities, asked.memory))]
    tools = definitions(
        asked.offer, NAME, INVOCATIONS.definition_of, strict=strict_of(asked.controls, asked.capabilities)
    )
    if tools is not None:
        members.append(("tools", tools))
        rest.update(tool_choice(asked.controls, asked.offer, asked.capabilities))
    return join(members, rest)


def parse(native: Native) -> Asked:
    """What a client asks for. Errors: ``InputError``, which says what is wrong with its request."""
    return read_request(native, messages=MESSAGES, controls=CONTROLS, definition=definition_from)
