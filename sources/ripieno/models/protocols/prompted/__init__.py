"""Prompted calls over any wire, for models without calls of their own.

The carrier wire gets no tools. The leading supervisor text describes the tools and the form of a call. Earlier calls
are in the assistant's text, results in the user's, each in a frame whose content cannot be mistaken for a call.
``models/protocols/text_calls`` parses the answer's text; it knows every form that models are known to write.

``[provider] carrier`` names the wire. If a model's data says ``function_calling = false``, its wire is wrapped
automatically; ``text_form`` is the style that its family knows best.

Emulated: the choice of tools, allowed tools and single calls are in the prompt, and the pipeline refuses what is not
allowed. Nothing enforces a required call.

Lost: identifiers of calls (they get deterministic ones by position); strict arguments; that a result failed (its text
says so); opaque parts of calls. Documents among the results stay messages of their own.

There is no server half: a server uses the carrier wire.
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
from ripieno.models.protocols.prompted.prompt import HERMES, definition_of, describe, style_of
from ripieno.models.protocols.prompted.writer import write
from ripieno.models.protocols.text_calls.interpreter import Interpreter, tools_of

NAME = "prompted"
#: Keys in a run's memory of the request whose answer reported the emulation, and of the prompts.
_REPORTED, _PROMPTS = "prompted calls reported", "prompts of tools"


def _unsupported(*_: object, **__: object) -> NoReturn:
    raise InputError(
        'The protocol "prompted" has no wire of its own. Set carrier = … to the wire to use, or answer on that wire.'
    )


#: The fields of a protocol without a server half.
_NO_SERVER: dict[str, Any] = {"routes": (), **dict.fromkeys(("parse", "encoder", "encode", "refuse"), _unsupported)}


def prompted_protocol(carrier: Protocol) -> Protocol:
    """The same wire with prompted calls. It keeps its name, so opaque contents stay its own."""

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
        **_NO_SERVER,
    )


_NOTHING = Offer(())


def _prompt(asked: Request) -> str:
    """The prompt for the tools that may be called now; empty if there are none."""
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
    """The reader of calls in an answer; None if none may be made. A run's first turn reports that they are prompted."""
    tools = tools_of(request.offer)
    if not tools or request.controls.tool_choice == "none" or request.controls.allowed_tools == ():
        return None

    def alert() -> Alert | None:
        if request.memory.setdefault(_REPORTED, request) is not request:
            return None
        return Alert(
            message=f"{request.model} has no native tool calls: its tools are in the prompt, and its text is parsed."
        )

    return Interpreter(tools, identifiers, request.canisters, alert=alert)


class Messages(MessagesProcessor):
    """The carrier's messages, with calls and results as texts."""

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
    """Tools as in the prompt; calls are in the text of an answer, results in the user's text."""

    def __init__(self, carrier: Protocol | None = None) -> None:
        self._carrier = carrier

    def definition_of(self, invoker: Invoker, *, strict: bool = False) -> Native:
        del strict  # Schemas cannot be enforced.
        return definition_of(invoker)

    def normalize_invocations(self, native: Native) -> Sequence[InvocationCanister]:
        carrier = self._carrier or _unsupported()
        events = Interpreter({}, Identifiers()).hear(carrier.decoder(NAME, Identifiers()).play(native))
        return [one for one in collect(events) if isinstance(one, InvocationCanister)]

    def nativize_results(self, results: Sequence[ResultCanister]) -> Sequence[Native]:
        carrier = self._carrier or _unsupported()
        messages: Any = parse(carrier.messages.nativize(write(results, "", HERMES, {}), {}), max_bytes=2**30)
        return messages  # type: ignore[no-any-return]


class _NoControls(ControlsProcessor):
    nativize = _unsupported
    normalize = _unsupported


class _NoMessages(MessagesProcessor):
    nativize = _unsupported
    normalize = _unsupported


#: The protocol without a carrier: it can only show its definitions.
PROTOCOL = Protocol(
    name=NAME,
    sdk="",
    carries=(),
    messages=_NoMessages(),
    invocations=Invocations(),
    controls=_NoControls(),
    request=_unsupported,
    decoder=_unsupported,
    path="",
    **_NO_SERVER,
)
