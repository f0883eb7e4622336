"""Calls as a client knows its tools: with their namespaces, and free-form where a model knew only functions."""

import dataclasses

from frozendict import frozendict

from ripieno.canisters import InvocationCanister
from ripieno.canisters.events import ArgumentsDelta, Event, InvocationBegan, InvocationSealed
from ripieno.processors import Asked
from ripieno.protocols.openai_responses.declaring import ClientForm, client_form
from ripieno.protocols.openai_responses.parts import NAME
from ripieno.protocols.reading import extras_of


class Returning:
    """Gives each event of an answer as its client can read it."""

    __slots__ = ("_form_of", "_held")

    def __init__(self, asked: Asked) -> None:
        self._form_of = client_form(asked)
        #: The calls whose arguments are JSON here, and text there: nothing is told of them before they are whole.
        self._held: set[int] = set()

    @classmethod
    def of(cls, asked: Asked) -> "Returning | None":
        """What an answer to this needs; None where every tool is a function under its own name."""
        return cls(asked) if any(NAME in tool.configuration for tool in asked.tools) else None

    def give(self, event: Event) -> Event | None:
        """The event as the client reads it; None for one that is not told."""
        if isinstance(event, ArgumentsDelta):
            return None if event.index in self._held else event
        if isinstance(event, InvocationBegan):
            form = self._form_of(event.name)
            if form.type == "custom" and event.kind == "function":
                self._held.add(event.index)
                event = dataclasses.replace(event, kind="freeform")
            return dataclasses.replace(event, name=form.name, opaque=_spaced(event, form))
        if isinstance(event, InvocationSealed):
            return dataclasses.replace(event, invocation=self._returned(event.invocation))
        return event

    def _returned(self, call: InvocationCanister) -> InvocationCanister:
        form = self._form_of(call.name)
        opaque = _spaced(call, form)
        if form.type != "custom" or call.kind != "function":
            return dataclasses.replace(call, name=form.name, opaque=opaque)
        said = call.arguments.get("input")
        text = said if isinstance(said, str) else call.raw
        return dataclasses.replace(call, name=form.name, opaque=opaque, kind="freeform", raw=text)


def _spaced(call: InvocationCanister | InvocationBegan, form: ClientForm) -> frozendict[str, object]:
    """What goes along with a call: the namespace of its tool, where that has one."""
    if form.namespace is None:
        return call.opaque
    return call.opaque.set(NAME, frozendict[str, object]({**extras_of(call, NAME), "namespace": form.namespace}))
