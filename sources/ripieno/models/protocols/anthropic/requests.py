"""Requests of the Messages wire: written by the client half, read by the server half."""

import dataclasses

from ripieno.canisters import Controls
from ripieno.exceptions import RequestInvalidity
from ripieno.jsonvalues import encode, is_table
from ripieno.models.protocol import Asked, Native, Request
from ripieno.models.protocols.anthropic.contents import NAME
from ripieno.models.protocols.anthropic.controls import CONTROLS, tool_choice
from ripieno.models.protocols.anthropic.invocations import INVOCATIONS, declared_in
from ripieno.models.protocols.anthropic.messages import MESSAGES, marked, supervisor_blocks
from ripieno.models.protocols.common.encoding import join
from ripieno.models.protocols.common.parsing import read_request
from ripieno.models.protocols.common.requests import UNSAYABLE, Checks, leading, refused, tables_in, unless
from ripieno.models.protocols.common.tools import Declared, declare, hosted_word

_SEARCH = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}

#: The wire enforces schemas only; the format ``json_object`` is an instruction.
_JSON = "Answer with one JSON object and nothing else: no text around it, and no code fence."


def request(asked: Request) -> bytes:
    """The body of a request. Errors: ``InputError`` for a control that the wire refuses."""
    supervisors, canisters = leading(asked.canisters)
    system = [block for one in supervisors for block in supervisor_blocks(one)]
    form = asked.controls.format
    if form is not None and form.schema is None:
        system.append({"type": "text", "text": _JSON})
    rest = {"model": asked.model, **CONTROLS.nativize(asked.controls, asked.capabilities)}
    members: list[tuple[str, bytes]] = []
    mark = marked if asked.capabilities.get("cache_breakpoints", True) else bytes
    if system:
        members.append(("system", mark(encode(system))))
    tools = declare(asked, NAME, INVOCATIONS.definition_of, _SEARCH)
    if tools is not None:
        members.append(("tools", mark(tools)))
        choice = tool_choice(asked.controls, asked.offer, asked.capabilities)
        if choice is not None:
            rest["tool_choice"] = choice
    return join(rest, "messages", MESSAGES.pieces(canisters, asked.capabilities, asked.memory), members)


def parse(native: Native) -> Asked:
    """A client's request. Errors: ``InputError``."""
    return read_request(
        native,
        checks=_CHECKS,
        declared=declared_in,
        canisters=lambda body, _: MESSAGES.normalize(body),
        controls=_controls_in,
    )


def _controls_in(native: Native, declared: Declared) -> Controls:
    """The controls; the choice of a hosted tool becomes its ``hosted_word``."""
    controls = CONTROLS.normalize(native)
    choice = controls.tool_choice
    if choice is not None and ("", choice) not in declared.names:
        hosted = next((one for one in declared.hosted if choice in (one.label, one.kind)), None)
        if hosted is not None:
            return dataclasses.replace(controls, tool_choice=hosted_word(hosted))
    return controls


def _edits(key: str, value: object) -> None:
    """Allows edits that only clear content, which are optional, and refuses any that shorten a conversation."""
    edits = tables_in(value, "edits") if is_table(value) else ()
    if not is_table(value) or not all(str(edit.get("type")).startswith("clear_") for edit in edits):
        raise RequestInvalidity(
            f"{key} would shorten the conversation here: shorten it before, or leave {key} out.", parameter=key
        )


_STORED = refused("Nothing is stored here, so {key} = {value} refers to nothing: leave {key} out.")
_CHECKS: Checks = {
    "top_k": refused(UNSAYABLE),
    "container": _STORED,
    "thread": _STORED,
    "context_management": _edits,
    "compaction": refused("{key} would shorten the conversation here: shorten it before, or leave {key} out."),
    "fallbacks": unless([], why="The operator of this server chooses {key}: leave {key} out."),
    "inference_geo": unless("global", why="{key} = {value} cannot be promised here: leave {key} out."),
}
