"""Tools, calls and results of the Responses wire; tools may be nested, in namespaces, free-form, or hosted.

A model sees each tool under a flat name that every provider accepts. ``client_form`` restores the client's name, its
namespace, and free-form calls where a model supports only functions.
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
from ripieno.models.protocols.common.calls import cut_off, extras_of, require_answer
from ripieno.models.protocols.common.dialects import OPENAI_STRICT
from ripieno.models.protocols.common.requests import tables_in
from ripieno.models.protocols.common.tools import Declared, described, doubled, placed, remembered
from ripieno.models.protocols.openai_responses.contents import NAME
from ripieno.models.protocols.openai_responses.items import CALLS, UNFINISHED, invocation_of, output_item
from ripieno.schemas import Schema
from ripieno.values import Value

_OWN = ("function", "custom")
#: The type of items that only declare tools: coding agents do so for some models.
ADDED = "additional_tools"
#: Number of hexadecimal digits that distinguish equal names.
_TAIL = 8


class ClientForm(Value, kw_only=True):
    """A client's name for one of its tools; ``type`` is that of the definition."""

    type: Literal["function", "custom"] = "function"
    name: str
    namespace: str | None = None


def client_form(asked: Asked) -> Callable[[str], ClientForm]:
    """A function from a call's name to the client's form of the tool. Make it once for each answer.

    A function call whose form is ``custom`` becomes a ``custom_tool_call``: its ``input`` is the argument of that name,
    and its deltas, which are pieces of JSON, are held back until it is sealed. A free-form call, from a provider that
    supports these, needs only the name and namespace. An undeclared name (of a tool that runs here) stays.
    """
    forms: dict[str, ClientForm] = {}
    for tool in asked.tools:
        if is_table(own := tool.configuration.get(NAME)):
            forms[str(tool.exposed)] = ClientForm(type=own["type"], name=own["name"], namespace=own.get("namespace"))
    return lambda name: forms.get(name) or ClientForm(name=name)


class _Tool(Value, kw_only=True):
    """A tool that the client runs: its flat definition and its position."""

    place: int
    type: Literal["function", "custom"]
    name: str
    definition: Native
    namespace: str = ""


def _read(tools: Sequence[Native]) -> Declared:
    found = [one for place, tool in enumerate(tools) for one in placed(place, functools.partial(_flat, place), tool)]
    own = [one for one in found if isinstance(one, _Tool)]
    names: dict[tuple[str, str], str] = {}
    taken: set[str] = set()
    # Plain functions keep their names; those in namespaces may get another.
    for one in sorted(own, key=lambda one: bool(one.namespace)):
        key = (one.namespace, one.name)
        if key in names:
            raise doubled(f"{one.namespace}.{one.name}" if one.namespace else one.name)
        names[key] = _unique_name(one, taken)
        taken.add(names[key])
    made = [placed(one.place, functools.partial(_definition, one), names[one.namespace, one.name]) for one in own]
    return Declared(
        tools=tuple(made),
        hosted=tuple(one for one in found if isinstance(one, HostedTool)),
        names=names,
        renamed=any(exposed != name for (_, name), exposed in names.items()),
    )


#: The list of tools of a request. Errors: ``InputError``.
declared_in = remembered(_read)


def all_declared_in(native: Native) -> Declared:
    """The tools of a request, with those that items of its input add. Errors: ``InputError``."""
    items = native.get("input")
    added = [item for item in items if is_table(item) and item.get("type") == ADDED] if is_list(items) else ()
    if not added:
        return declared_in(native)
    # A tool that is added again replaces the earlier one.
    latest = {(tool.get("type"), tool.get("name")): tool for item in added for tool in tables_in(item, "tools")}
    return declared_in({"tools": [*tables_in(native, "tools"), *latest.values()]})


def flat_name(name: str, namespace: str, declared: Declared) -> str:
    """The model's name of a tool in a conversation, whether or not it is still declared."""
    return declared.names.get((namespace, name)) or (expose(name, namespace) if namespace else name)


def _unique_name(tool: _Tool, taken: set[str]) -> str:
    """A name that every provider accepts and no other tool has."""
    exposed = expose(tool.name, tool.namespace)
    if exposed not in taken:
        return exposed
    tail = hashlib.sha256(f"{tool.namespace}\0{tool.name}".encode("utf-8", "surrogatepass")).hexdigest()[:_TAIL]
    return f"{exposed[: EXPOSED_LENGTH - _TAIL - 1]}_{tail}"


def _flat(place: int, tool: Native) -> Sequence[_Tool | HostedTool]:
    """The tools of one definition; none for a tool search, since the model gets all definitions."""
    kind = tool.get("type", "function")
    if not isinstance(kind, str) or not kind:
        raise RequestInvalidity(f"tools[{place}] has no type.", parameter=f"tools[{place}].type")
    if kind == "tool_search":
        return ()
    if kind in _OWN:
        return (_tool(place, tool, ""),)
    if kind != "namespace":
        return (_hosted(place, tool, kind),)
    namespace = _name(place, tool)
    return [
        _tool(place, {"description": tool.get("description"), **inner}, namespace) for inner in tables_in(tool, "tools")
    ]


def _tool(place: int, tool: Native, namespace: str) -> _Tool:
    kind: Any = tool.get("type", "function")
    if kind not in _OWN:
        where = f"tools[{place}].tools"
        raise RequestInvalidity(f"{where} has the type {kind!r}; known are {', '.join(_OWN)}.", parameter=where)
    inner = tool.get(kind)
    definition = {**tool, **inner} if is_table(inner) else tool
    return _Tool(place=place, type=kind, name=_name(place, definition), definition=definition, namespace=namespace)


def _name(place: int, tool: Native) -> str:
    name = tool.get("name")
    if not isinstance(name, str) or not name:
        raise RequestInvalidity(f"A tool has no name: tools[{place}].", parameter=f"tools[{place}].name")
    return name


def _definition(tool: _Tool, exposed: str) -> Definition:
    native, custom = tool.definition, tool.type == "custom"
    schema: Any = _input(native) if custom else native.get("parameters") or {"type": "object"}
    configuration: Mapping[str, Any] = EMPTY
    if custom or tool.namespace or exposed != tool.name:
        beside = {"type": tool.type, "name": tool.name}
        if tool.namespace:
            beside["namespace"] = tool.namespace
        # Some clients nest a free-form definition; the flat one is kept.
        declared = {"declared": {key: value for key, value in native.items() if key != "custom"}} if custom else {}
        configuration = freeze({NAME: {**beside, **declared}})
    return Definition(
        name=exposed if tool.namespace else tool.name,
        exposed=exposed,
        description=str(native.get("description") or ""),
        schema=Schema.of(schema),
        hosted="caller",
        configuration=configuration,
    )


def _input(definition: Native) -> Mapping[str, Any]:
    """The schema of a free-form tool as a function: one text, with its grammar as description."""
    text: dict[str, Any] = {"type": "string"}
    form = definition.get("format")
    grammar = form.get("grammar", form) if is_table(form) else EMPTY
    if is_table(grammar) and isinstance(grammar.get("definition"), str):
        text["description"] = f"The whole input, in the language of this {grammar.get('syntax', '')} grammar:\n" + str(
            grammar["definition"]
        )
    return {"type": "object", "properties": {"input": text}, "required": ["input"]}


def _hosted(place: int, tool: Native, kind: str) -> HostedTool:
    """A tool that the server is to run. Its server's address and key are ignored."""
    if kind != "mcp":
        return HostedTool(kind=kind)
    label, allowed = tool.get("server_label"), tool.get("allowed_tools")
    where = f"tools[{place}]"
    if not isinstance(label, str) or not label:
        raise RequestInvalidity(f"{where} has no server_label.", parameter=f"{where}.server_label")
    if is_table(allowed):
        if allowed.get("read_only") and allowed.get("tool_names") is None:
            raise RequestInvalidity(
                f"{where}.allowed_tools has read_only, which is not supported here: name the tools in tool_names.",
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
        """The definition as a function, even of a free-form tool."""
        lowered = self.lowered(invoker, strict=strict)
        # Without ``strict``, the server decides.
        return {"type": "function", **described(invoker), "parameters": lowered.schema, "strict": lowered.strict}

    def normalize_invocations(self, native: Native) -> Sequence[InvocationCanister]:
        require_answer(native, "output")
        identifiers = Identifiers()
        calls = [item for item in native.get("output") or () if item.get("type") in CALLS]
        return [_invocation(item, identifiers.unique(item.get("call_id"))) for item in calls]

    def nativize_results(self, results: Sequence[ResultCanister]) -> Sequence[Native]:
        return [output_item(result) for result in results]


INVOCATIONS = Invocations()


def _invocation(item: Native, identifier: str) -> InvocationCanister:
    """The call in an item of an answer, whose status may say that it was cut off."""
    invocation, status = invocation_of(item, identifier), item.get("status")
    return cut_off(invocation, f"its item is {status!r}") if status in UNFINISHED else invocation


def declared_by(invoker: Invoker) -> Native | None:
    """The client's definition of a free-form tool; None for any other tool."""
    kept = invoker.configuration.get(NAME)
    if not is_table(kept) or kept.get("type") != "custom":
        return None
    return {**thaw(kept["declared"]), "name": invoker.exposed}


def knows_freeform(capabilities: Capabilities) -> bool:
    """Whether a provider supports free-form tools, as OpenAI does; otherwise they become functions with one text."""
    return bool(capabilities.get("custom_tools", True))


class Returning:
    """Translates the events of an answer into the client's form."""

    __slots__ = ("_form_of", "_held")

    def __init__(self, asked: Asked) -> None:
        self._form_of = client_form(asked)
        #: The calls whose arguments are JSON here and text for the client; they have no deltas.
        self._held: set[int] = set()

    def give(self, event: Event) -> Event | None:
        """The event in the client's form; None for one that is dropped."""
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
        argument = call.arguments.get("input")
        text = argument if isinstance(argument, str) else call.raw
        return dataclasses.replace(call, name=form.name, opaque=opaque, kind="freeform", raw=text)


def _spaced(call: InvocationCanister | InvocationBegan, form: ClientForm) -> frozendict[str, object]:
    """The opaque part of a call, with the namespace of its tool, if it has one."""
    if form.namespace is None:
        return call.opaque
    return call.opaque.set(NAME, frozendict[str, object]({**extras_of(call, NAME), "namespace": form.namespace}))
