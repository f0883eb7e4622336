"""A whole request of the Responses wire: written by the client half, read by the server half."""

from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.canisters import Canister, SupervisorCanister
from ripieno.contents import text_of
from ripieno.exceptions import InputError
from ripieno.processors import Asked, Native, Request
from ripieno.protocols.asking import read_request
from ripieno.protocols.openai_responses.controls import CONTROLS, tool_choice
from ripieno.protocols.openai_responses.invocations import INVOCATIONS, definition_from
from ripieno.protocols.openai_responses.messages import MESSAGES
from ripieno.protocols.openai_responses.parts import NAME
from ripieno.protocols.pieces import join
from ripieno.protocols.searching import declare

_SEARCH = {"type": "tool_search", "execution": "server"}
#: What a request may point to that stands with its provider alone.
_STORED = ("previous_response_id", "conversation", "prompt")


def request(asked: Request) -> bytes:
    """The body of a request; nothing of it is stored there. Errors: ``InputError`` for a control that is refused."""
    instructions, leading = _instructions(asked.canisters)
    canisters = asked.canisters[leading:] if leading else asked.canisters
    rest: dict[str, Any] = {"model": asked.model, "store": False}
    rest.update(CONTROLS.nativize(asked.controls, asked.capabilities))
    if instructions:
        rest["instructions"] = instructions
    if asked.capabilities.get("reasoning_replay", "never") != "never":
        # What is not stored there can only be read again where it comes along.
        rest["include"] = ["reasoning.encrypted_content"]
    members = [("input", MESSAGES.nativize(canisters, asked.capabilities, asked.memory))]
    tools = declare(asked, NAME, INVOCATIONS.definition_of, _SEARCH)
    if tools is not None:
        members.append(("tools", tools))
        rest.update(tool_choice(asked.controls, asked.offer, asked.capabilities))
    return join(members, rest)


def _instructions(canisters: Sequence[Canister]) -> tuple[str, int]:
    """What the leading supervisor canisters say, as one text, and how many they are."""
    texts: list[str] = []
    leading = 0
    for canister in canisters:
        if not isinstance(canister, SupervisorCanister):
            break
        leading += 1
        texts.append(text_of(canister.content))
    return "\n\n".join(filter(None, texts)), leading


def parse(native: Native) -> Asked:
    """What a client asks for. Errors: ``InputError``, which says what is wrong with its request."""
    for key in _STORED:
        if native.get(key) is not None:
            raise InputError(f"Nothing is stored here, so that {key} points nowhere: send the whole conversation.")
    if native.get("background"):
        raise InputError("Nothing is stored here, so that background answers could not be fetched: leave it out.")
    return read_request(_listed(native), messages=MESSAGES, controls=CONTROLS, definition=definition_from, said="input")


def _listed(native: Native) -> Mapping[str, Any]:
    """The request with a list of items, of which a text is one."""
    said = native.get("input")
    return {**native, "input": [{"role": "user", "content": said}]} if isinstance(said, str) else native
