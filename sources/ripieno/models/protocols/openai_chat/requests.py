"""Requests of the chat completions wire: written by the client half, read by the server half."""

from ripieno.models.protocol import Asked, Native, Request
from ripieno.models.protocols.common.encoding import definitions, join
from ripieno.models.protocols.common.openai import CHECKS
from ripieno.models.protocols.common.parsing import read_request
from ripieno.models.protocols.common.requests import Checks, refused, strict_of, unless
from ripieno.models.protocols.openai_chat.controls import CONTROLS, controls_in, tool_choice
from ripieno.models.protocols.openai_chat.invocations import INVOCATIONS, NAME, declared_in
from ripieno.models.protocols.openai_chat.messages import MESSAGES

_SOUND = "{key} = {value} asks for more than text, and only text is supported here: leave {key} out."
_CHECKS: Checks = {
    **CHECKS,
    "n": unless(1, why="{key} = {value} asks for several answers: ask once for each."),
    "functions": unless([], why="{key} is no longer supported: declare tools."),
    "function_call": unless("auto", "none", why="{key} is no longer supported: use tool_choice."),
    "audio": refused(_SOUND),
    "modalities": unless(["text"], [], why=_SOUND),
    "prediction": refused("{key} cannot be passed on to every model: leave {key} out."),
    "web_search_options": refused("There is no web search here: leave {key} out, or declare a tool for it."),
}


def request(asked: Request) -> bytes:
    """The body of a request. Errors: ``InputError`` for a control that the model refuses."""
    rest = {"model": asked.model, **CONTROLS.nativize(asked.controls, asked.capabilities)}
    members: list[tuple[str, bytes]] = []
    tools = definitions(
        asked.offer, NAME, INVOCATIONS.definition_of, strict=strict_of(asked.controls, asked.capabilities)
    )
    if tools is not None:
        members.append(("tools", tools))
        rest.update(tool_choice(asked.controls, asked.offer, asked.capabilities))
    return join(rest, "messages", MESSAGES.pieces(asked.canisters, asked.capabilities, asked.memory), members)


def parse(native: Native) -> Asked:
    """A client's request. Errors: ``InputError``."""
    return read_request(
        native,
        checks=_CHECKS,
        declared=declared_in,
        canisters=lambda body, _: MESSAGES.normalize(body),
        controls=controls_in,
    )
