"""The tools of a request of the Responses wire: flat or nested, in namespaces, free-form, or hosted; and back.

A model sees each under a flat name that every provider takes. ``client_form`` gives back what the client called it.

Tools, calls and results of the Responses wire.

Calls as a client knows its tools: with their namespaces, and free-form where a model knew only functions.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from frozendict import frozendict

from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.canisters.events import ArgumentsDelta, Event, InvocationBegan, InvocationSealed
from ripieno.descriptors.names import EXPOSED_LENGTH, expose
from ripieno.ensembles import Definition, Invoker
from ripieno.exceptions import RequestInvalidity
from ripieno.jsonvalues import EMPTY, freeze, is_list, is_table, thaw
from ripieno.models.protocol import Asked, Capabilities, HostedTool, Identifiers, InvocationsProcessor, Native
from ripieno.models.protocols.common.calls import cut_off, extras_of
from ripieno.models.protocols.common.dialects import OPENAI_STRICT
from ripieno.models.protocols.common.requests import tables_in
from ripieno.models.protocols.common.tools import Declared, doubled, placed, remembered
from ripieno.models.protocols.openai_responses.contents import NAME
from ripieno.models.protocols.openai_responses.items import CALLS, UNFINISHED, invocation_of, output_item
from ripieno.schemas import Schema

_OURS = ("function", "custom")
#: The type of items that are no part of a conversation: coding agents declare tools so for models that they know.
ADDED = "additional_tools"
#: How many hexadecimal digits tell names apart that would be the same.
_TAIL = 8


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClientForm:
    """What a client calls one of its tools: ``type`` is that of its definition."""

    type: Literal["function", "custom"] = "function"
    name: str
    namespace: str | None = None


def client_form(asked: Asked) -> Callable[[str], ClientForm]:
    """What gives, for the name of a call, the form in which the client knows it.

    Make it once for each answer. A function call whose form says ``custom`` becomes a ``custom_tool_call``: its
    ``input`` is the argument of that name, and its deltas, which are pieces of JSON, are held back until it is sealed.
    A free-form call, which a provider that knows these makes, needs its name and its namespace alone. A name that is
    not declared (of a tool that runs here) is its own.
    """
    forms = {str(tool.exposed): form for tool in asked.tools if (form := _form(tool)) is not None}

    def form_of(name: str) -> ClientForm:
        return forms.get(name) or ClientForm(name=name)

    return form_of


def _form(tool: Definition) -> ClientForm | None:
    declared = tool.configuration.get(NAME)
    if not is_table(declared):
        return None
    return ClientForm(type=declared["type"], name=declared["name"], namespace=declared.get("namespace"))


# What is declared.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Tool:
    """A tool that the client runs: its definition in the flat form, and where it stands."""

    place: int
    type: Literal["function", "custom"]
    name: str
    said: Native
    namespace: str = ""


def _read(tools: Sequence[Native]) -> Declared:
    found = [one for place, tool in enumerate(tools) for one in placed(place, functools.partial(_flat, place), tool)]
    ours = [one for one in found if isinstance(one, _Tool)]
    names: dict[tuple[str, str], str] = {}
    taken: set[str] = set()
    # Plain functions keep their names: what stands in a namespace makes way.
    for one in sorted(ours, key=lambda one: bool(one.namespace)):
        key = (one.namespace, one.name)
        if key in names:
            raise doubled(f"{one.namespace}.{one.name}" if one.namespace else one.name)
        names[key] = _free(one, taken)
        taken.add(names[key])
    made = [placed(one.place, functools.partial(_definition, one), names[one.namespace, one.name]) for one in ours]
    return Declared(
        tools=tuple(made),
        hosted=tuple(one for one in found if isinstance(one, HostedTool)),
        names=names,
        renamed=any(exposed != name for (_, name), exposed in names.items()),
    )


#: The list of tools of a request. Errors: ``InputError``.
declared_in = remembered(_read)


def all_declared_in(native: Native) -> Declared:
    """The tools of a request, also those that items of its input add. Errors: ``InputError``."""
    items = native.get("input")
    added = [item for item in items if is_table(item) and item.get("type") == ADDED] if is_list(items) else ()
    if not added:
        return declared_in(native)
    # Who adds a tool again has changed it.
    latest = {(tool.get("type"), tool.get("name")): tool for item in added for tool in tables_in(item, "tools")}
    return declared_in({"tools": [*tables_in(native, "tools"), *latest.values()]})


def flat_name(name: str, namespace: str, declared: Declared) -> str:
    """The name under which a model sees a tool that a conversation names, also one that is not declared any more."""
    return declared.names.get((namespace, name)) or (expose(name, namespace) if namespace else name)


def _free(tool: _Tool, taken: set[str]) -> str:
    """A name that every provider takes, and no other tool has."""
    exposed = expose(tool.name, tool.namespace)
    if exposed not in taken:
        return exposed
    tail = hashlib.sha256(f"{tool.namespace}\0{tool.name}".encode("utf-8", "surrogatepass")).hexdigest()[:_TAIL]
    return f"{exposed[: EXPOSED_LENGTH - _TAIL - 1]}_{tail}"


def _flat(place: int, tool: Native) -> Sequence[_Tool | HostedTool]:
    """What one definition declares. Nothing for the search of tools: whoever is sent their definitions knows them."""
    kind = tool.get("type", "function")
    if not isinstance(kind, str) or not kind:
        raise RequestInvalidity(f"tools[{place}] has no type.", parameter=f"tools[{place}].type")
    if kind == "tool_search":
        return ()
    if kind in _OURS:
        return (_tool(place, tool, ""),)
    if kind != "namespace":
        return (_hosted(place, tool, kind),)
    namespace = _name(place, tool)
    return [
        _tool(place, {"description": tool.get("description"), **inner}, namespace) for inner in tables_in(tool, "tools")
    ]


def _tool(place: int, tool: Native, namespace: str) -> _Tool:
    kind: Any = tool.get("type", "function")
    if kind not in _OURS:
        where = f"tools[{place}].tools"
        raise RequestInvalidity(f"{where} has the type {kind!r}; known are {', '.join(_OURS)}.", parameter=where)
    inner = tool.get(kind)
    said = {**tool, **inner} if is_table(inner) else tool
    return _Tool(place=place, type=kind, name=_name(place, said), said=said, namespace=namespace)


def _name(place: int, tool: Native) -> str:
    name = tool.get("name")
    if not isinstance(name, str) or not name:
        raise RequestInvalidity(f"A tool has no name: tools[{place}].", parameter=f"tools[{place}].name")
    return name


def _definition(tool: _Tool, exposed: str) -> Definition:
    said, custom = tool.said, tool.type == "custom"
    schema: Any = _input(said) if custom else said.get("parameters") or {"type": "object"}
    configuration: Mapping[str, Any] = EMPTY
    if custom or tool.namespace or exposed != tool.name:
        beside = {"type": tool.type, "name": tool.name}
        if tool.namespace:
            beside["namespace"] = tool.namespace
        configuration = freeze({NAME: {**beside, **({"declared": _declared(said)} if custom else {})}})
    return Definition(
        name=exposed if tool.namespace else tool.name,
        exposed=exposed,
        description=str(said.get("description") or ""),
        schema=Schema.of(schema),
        hosted="caller",
        configuration=configuration,
    )


def _declared(said: Native) -> Mapping[str, Any]:
    """The definition of a free-form tool, without what some clients nest."""
    return {key: value for key, value in said.items() if key != "custom"}


def _input(said: Native) -> Mapping[str, Any]:
    """What a free-form tool takes, for whoever knows only functions: one text, and the grammar that it follows."""
    text: dict[str, Any] = {"type": "string"}
    form = said.get("format")
    grammar = form.get("grammar", form) if is_table(form) else EMPTY
    if is_table(grammar) and isinstance(grammar.get("definition"), str):
        text["description"] = f"The whole input, as this {grammar.get('syntax', '')} grammar has it:\n" + str(
            grammar["definition"]
        )
    return {"type": "object", "properties": {"input": text}, "required": ["input"]}


def _hosted(place: int, tool: Native, kind: str) -> HostedTool:
    """A tool that the client wants to be run. Where its server stands, and with which key, is not taken over."""
    if kind != "mcp":
        return HostedTool(kind=kind)
    label, allowed = tool.get("server_label"), tool.get("allowed_tools")
    where = f"tools[{place}]"
    if not isinstance(label, str) or not label:
        raise RequestInvalidity(f"{where} has no server_label.", parameter=f"{where}.server_label")
    if is_table(allowed):
        if allowed.get("read_only") and allowed.get("tool_names") is None:
            raise RequestInvalidity(
                f"{where}.allowed_tools has read_only, which nobody here can tell: name the tools in tool_names.",
                parameter=f"{where}.allowed_tools",
            )
        allowed = allowed.get("tool_names")
    if allowed is None:
        return HostedTool(kind=kind, label=label)
    if not is_list(allowed) or not all(isinstance(name, str) for name in allowed):
        raise RequestInvalidity(f"{where}.allowed_tools is a list of names.", parameter=f"{where}.allowed_tools")
    return HostedTool(kind=kind, label=label, names=tuple(allowed))


class Invocations(InvocationsProcessor):
    """Flat definitions; calls and results are items beside the messages."""

    strict_dialect = OPENAI_STRICT

    def definition_of(self, invoker: Invoker, *, strict: bool = False) -> Native:
        return declared_by(invoker) or self.function_of(invoker, strict=strict)

    def function_of(self, invoker: Invoker, *, strict: bool = False) -> Native:
        """The same as a function, also where it is free-form."""
        definition: dict[str, Any] = {"type": "function", "name": invoker.exposed}
        if invoker.description:
            definition["description"] = invoker.description
        lowered = self.lowered(invoker, strict=strict)
        # Left out, ``strict`` would be what the server thinks best.
        return {**definition, "parameters": lowered.schema, "strict": lowered.strict}

    def normalize_invocations(self, native: Native) -> Sequence[InvocationCanister]:
        identifiers = Identifiers()
        calls = [item for item in native.get("output") or () if item.get("type") in CALLS]
        return [_whole(item, identifiers.settle(item.get("call_id"))) for item in calls]

    def nativize_results(self, results: Sequence[ResultCanister]) -> Sequence[Native]:
        return [output_item(result) for result in results]


INVOCATIONS = Invocations()


def _whole(item: Native, identifier: str) -> InvocationCanister:
    """The call in an item of an answer, which may say that it was cut off."""
    invocation, status = invocation_of(item, identifier), item.get("status")
    return cut_off(invocation, f"its item is {status!r}") if status in UNFINISHED else invocation


def declared_by(invoker: Invoker) -> Native | None:
    """The definition of a free-form tool as a client of this wire declared it; None for any other tool."""
    kept = invoker.configuration.get(NAME)
    if not is_table(kept) or kept.get("type") != "custom":
        return None
    return {**thaw(kept["declared"]), "name": invoker.exposed}


def knows_freeform(capabilities: Capabilities) -> bool:
    """Whether a provider knows free-form tools. OpenAI's does; elsewhere they are functions with one text."""
    return bool(capabilities.get("custom_tools", True))


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
