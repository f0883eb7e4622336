"""A whole request of the Responses wire: written by the client half, read by the server half."""

from collections.abc import Sequence
from typing import Any

from ripieno.canisters import Canister, SupervisorCanister
from ripieno.canisters.contents import text_of
from ripieno.models.protocol import Asked, Native, Request
from ripieno.models.protocols.common.encoding import join
from ripieno.models.protocols.common.openai import CHECKS, UNSAYABLE
from ripieno.models.protocols.common.parsing import read_request
from ripieno.models.protocols.common.requests import Checks, among, refused, unless
from ripieno.models.protocols.common.tools import declare
from ripieno.models.protocols.openai_responses.contents import NAME
from ripieno.models.protocols.openai_responses.controls import CONTROLS, controls_in, tool_choice
from ripieno.models.protocols.openai_responses.invocations import INVOCATIONS, all_declared_in, knows_freeform
from ripieno.models.protocols.openai_responses.messages import MESSAGES, canisters_in

_SEARCH = {"type": "tool_search", "execution": "server"}
#: The key of definitions that are all functions.
_FUNCTIONS = f"{NAME} functions"
_STORED = refused("Nothing is stored here, so that {key} points nowhere: send the whole conversation.")
_CHECKS: Checks = {
    **CHECKS,
    "previous_response_id": _STORED,
    "conversation": _STORED,
    "prompt": _STORED,
    "background": unless(
        False, why="Nothing is stored here, so that {key} answers could not be fetched: leave {key} out."
    ),
    "truncation": unless(
        "disabled", why="{key} = {value} would leave out what nobody chose: shorten the conversation, or leave it out."
    ),
    "include": among(
        "file_search_call.results",
        "web_search_call.results",
        "web_search_call.action.sources",
        "message.input_image.image_url",
        "computer_call_output.output.image_url",
        "code_interpreter_call.outputs",
        "reasoning.encrypted_content",
        "message.output_text.logprobs",
    ),
    "context_management": unless(
        [], why="{key} = {value} would shorten the conversation on the way: shorten it before, or leave {key} out."
    ),
    "image": unless({"context_compression": "auto"}, {"context_compression": "disabled"}, {}, why=UNSAYABLE),
    "access_programs": refused(UNSAYABLE),
}


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
    if knows_freeform(asked.capabilities):
        tools = declare(asked, NAME, INVOCATIONS.definition_of, _SEARCH)
    else:
        tools = declare(asked, _FUNCTIONS, INVOCATIONS.function_of, _SEARCH)
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
    return read_request(
        native, checks=_CHECKS, declared=all_declared_in, canisters=canisters_in, controls=controls_in, said="input"
    )
