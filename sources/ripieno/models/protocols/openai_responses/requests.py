"""Requests of the Responses wire: written by the client half, read by the server half."""

from typing import Any

from ripieno.canisters.contents import text_of
from ripieno.models.protocol import Asked, Native, Request
from ripieno.models.protocols.common.encoding import join
from ripieno.models.protocols.common.openai import CHECKS
from ripieno.models.protocols.common.parsing import read_request
from ripieno.models.protocols.common.requests import UNSAYABLE, Checks, among, leading, refused, unless
from ripieno.models.protocols.common.tools import declare
from ripieno.models.protocols.openai_responses.contents import NAME
from ripieno.models.protocols.openai_responses.controls import CONTROLS, controls_in, tool_choice
from ripieno.models.protocols.openai_responses.invocations import INVOCATIONS, all_declared_in, knows_freeform
from ripieno.models.protocols.openai_responses.messages import MESSAGES, canisters_in

_SEARCH = {"type": "tool_search", "execution": "server"}
#: The key of definitions in which free-form tools are functions.
_FUNCTIONS = f"{NAME} functions"
_STORED = refused("Nothing is stored here, so {key} refers to nothing: send the whole conversation.")
_PROBABILITIES = (
    "{key} = {value} asks for probabilities of tokens, which this interface does not pass on: leave {key} out, or ask "
    "at /v1/chat/completions."
)
_CHECKS: Checks = {
    **CHECKS,
    "top_logprobs": unless(0, why=_PROBABILITIES),
    "logprobs": unless(False, why=_PROBABILITIES),
    "previous_response_id": _STORED,
    "conversation": _STORED,
    "prompt": _STORED,
    "background": unless(False, why="Nothing is stored here, so {key} answers could not be fetched: leave {key} out."),
    "truncation": unless(
        "disabled", why="{key} = {value} would drop content unasked: shorten the conversation, or leave {key} out."
    ),
    "include": among(
        "file_search_call.results",
        "web_search_call.results",
        "web_search_call.action.sources",
        "message.input_image.image_url",
        "computer_call_output.output.image_url",
        "code_interpreter_call.outputs",
        "reasoning.encrypted_content",
    ),
    "context_management": unless(
        [], why="{key} = {value} would shorten the conversation here: shorten it before, or leave {key} out."
    ),
    "image": unless({"context_compression": "auto"}, {"context_compression": "disabled"}, {}, why=UNSAYABLE),
    "access_programs": refused(UNSAYABLE),
}


def request(asked: Request) -> bytes:
    """The body of a request, which the provider does not store. Errors: ``InputError`` for a refused control."""
    supervisors, canisters = leading(asked.canisters)
    instructions = "\n\n".join(filter(None, (text_of(one.content) for one in supervisors)))
    rest: dict[str, Any] = {"model": asked.model, "store": False}
    rest.update(CONTROLS.nativize(asked.controls, asked.capabilities))
    if instructions:
        rest["instructions"] = instructions
    if asked.capabilities.get("reasoning_replay", "never") != "never":
        # Reasoning that is not stored at the provider can only return in encrypted form.
        rest["include"] = ["reasoning.encrypted_content"]
    members: list[tuple[str, bytes]] = []
    if knows_freeform(asked.capabilities):
        tools = declare(asked, NAME, INVOCATIONS.definition_of, _SEARCH)
    else:
        tools = declare(asked, _FUNCTIONS, INVOCATIONS.function_of, _SEARCH)
    if tools is not None:
        members.append(("tools", tools))
        rest.update(tool_choice(asked.controls, asked.offer, asked.capabilities))
    return join(rest, "input", MESSAGES.pieces(canisters, asked.capabilities, asked.memory), members)


def parse(native: Native) -> Asked:
    """A client's request. Errors: ``InputError``."""
    return read_request(
        native,
        checks=_CHECKS,
        declared=all_declared_in,
        canisters=canisters_in,
        controls=controls_in,
        conversation="input",
    )
