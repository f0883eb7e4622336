"""Calls by prompt, around any wire: for models that have none of their own.

The wire that carries it is told of no tools. It hears, in what the supervisor says first, what the tools are and how a
call is written; earlier calls stand in the assistant's text, and results in the user's, each in a frame whose content
cannot be taken for a call. The answer's text is taken apart by ``protocols.texts``, which knows every form that models
are known to write, whatever they were asked for.

``[provider] carrier`` names the wire. Where a model's data says ``function_calling = false``, its wire is wrapped so by
itself; ``text_form`` is the style that a family of models knows best.

What is emulated: the choice of tools, allowed tools and the single call are said in the prompt, and the pipeline
refuses what is not allowed. Nothing holds the model to a choice.

What is lost: identifiers of calls (they get deterministic ones by their place); strict arguments; whether a result
failed (its text says so); opaque parts of calls. Documents among the results stay messages of their own.

It has no server half: a server answers on the wire that carries it.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NoReturn

from ripieno.canisters import Canister, InvocationCanister, ResultCanister
from ripieno.canisters.events import Alert, collect
from ripieno.ensembles import Invoker
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import InputError
from ripieno.jsonvalues import parse
from ripieno.models.protocol import (
    Capabilities,
    ControlsProcessor,
    Identifiers,
    InvocationsProcessor,
    MessagesProcessor,
    Native,
    Protocol,
    Request,
)
from ripieno.models.protocols.common.requests import choice_of
from ripieno.models.protocols.prompted.prompt import definition_of, describe
from ripieno.models.protocols.prompted.styles import HERMES, style_of
from ripieno.models.protocols.prompted.writer import write
from ripieno.models.protocols.text_calls.interpreter import Interpreter, tools_of

NAME = "prompted"
#: Where a run's memory has that it was told of the emulation, and the prompts that were written.
_TOLD, _PROMPTS = "told of prompted calls", "prompts of tools"


def _homeless(*_: object, **__: object) -> NoReturn:
    raise InputError(
        'The protocol "prompted" is only a way to ask: it has no wire of its own. Name the wire that carries it, '
        "carrier = …, or answer on that one."
    )


def around(carrier: Protocol) -> Protocol:
    """The same wire, for a model that is prompted to call. It keeps its name: opaque contents are still its own."""

    def request(asked: Request) -> bytes:
        controls = dataclasses.replace(asked.controls, tool_choice=None, allowed_tools=None, parallel=None)
        written = write(asked.canisters, _prompt(asked), style_of(asked.capabilities), asked.memory)
        return carrier.request(dataclasses.replace(asked, canisters=written, offer=_NOTHING, controls=controls))

    return dataclasses.replace(
        carrier,
        request=request,
        messages=Messages(carrier),
        invocations=Invocations(carrier),
        interpret=interpret,
        routes=(),
        parse=_homeless,
        encoder=_homeless,
        encode=_homeless,
        refuse=_homeless,
    )


_NOTHING = Offer(())


def _prompt(asked: Request) -> str:
    """The prompt for the tools that may be called now; empty when none may."""
    choice = choice_of(asked.controls, asked.offer, {**asked.capabilities, "tool_choice": True})
    if choice == "none" or not tools_of(asked.offer):
        return ""
    style, controls = style_of(asked.capabilities), asked.controls
    key = (asked.offer, style.name, choice, controls.allowed_tools, controls.parallel)
    prompts: dict[object, str] = asked.memory.setdefault(_PROMPTS, {})
    if key not in prompts:
        prompts[key] = describe(asked.offer, style, controls, choice)
    return prompts[key]


def interpret(request: Request, identifiers: Identifiers) -> Interpreter | None:
    """Finds the calls in an answer; None when none may be made. The first turn of a run says that they are prompted."""
    tools = tools_of(request.offer)
    if not tools or request.controls.tool_choice == "none" or request.controls.allowed_tools == ():
        return None

    def alert() -> Alert | None:
        if request.memory.setdefault(_TOLD, request) is not request:
            return None
        return Alert(
            message=f"{request.model} has no calls of its own: its tools are prompted, and read from its text."
        )

    return Interpreter(tools, identifiers, request.canisters, alert=alert)


class Messages(MessagesProcessor):
    """The carrier's messages, in which calls and results are texts."""

    def __init__(self, carrier: Protocol) -> None:
        self._carrier = carrier

    def nativize(
        self, canisters: Sequence[Canister], capabilities: Capabilities, memory: dict[object, Any] | None = None
    ) -> bytes:
        kept: dict[object, Any] = {} if memory is None else memory
        return self._carrier.messages.nativize(write(canisters, "", style_of(capabilities), kept), capabilities, kept)

    def normalize(self, native: Native) -> tuple[Canister, ...]:
        return self._carrier.messages.normalize(native)


class Invocations(InvocationsProcessor):
    """Tools as the prompt has them; calls are in the text of an answer, results in what the user says."""

    def __init__(self, carrier: Protocol | None = None) -> None:
        self._carrier = carrier

    def definition_of(self, invoker: Invoker, *, strict: bool = False) -> Native:
        del strict  # Nothing can hold a prompted model to a schema.
        return definition_of(invoker)

    def normalize_invocations(self, native: Native) -> Sequence[InvocationCanister]:
        carrier = self._carrier or _homeless()
        events = Interpreter({}, Identifiers()).hear(carrier.decode(native, NAME, Identifiers()))
        return [one for one in collect(events) if isinstance(one, InvocationCanister)]

    def nativize_results(self, results: Sequence[ResultCanister]) -> Sequence[Native]:
        carrier = self._carrier or _homeless()
        messages: Any = parse(carrier.messages.nativize(write(results, "", HERMES, {}), {}), max_bytes=2**30)
        return messages  # type: ignore[no-any-return]


class _NoControls(ControlsProcessor):
    nativize = _homeless
    normalize = _homeless


class _NoMessages(MessagesProcessor):
    nativize = _homeless
    normalize = _homeless


#: The protocol without a carrier: it can show its definitions, and says what it lacks.
PROTOCOL = Protocol(
    name=NAME,
    sdk="",
    carries=(),
    messages=_NoMessages(),
    invocations=Invocations(),
    controls=_NoControls(),
    request=_homeless,
    decoder=_homeless,
    decode=_homeless,
    path="",
    routes=(),
    parse=_homeless,
    encoder=_homeless,
    encode=_homeless,
    refuse=_homeless,
)
