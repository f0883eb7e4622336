"""The tools of a request of the Responses wire: flat or nested, in namespaces, free-form, or hosted; and back.

A model sees each under a flat name that every provider takes. ``client_form`` gives back what the client called it.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from ripieno.descriptors.names import EXPOSED_LENGTH, expose
from ripieno.ensembles import Definition
from ripieno.exceptions import RequestInvalidity
from ripieno.jsonvalues import EMPTY, freeze, is_list, is_table
from ripieno.processors import Asked, HostedTool, Native
from ripieno.protocols.asking import tables_in
from ripieno.protocols.declaring import Declared, doubled, placed, remembered
from ripieno.protocols.openai_responses.parts import NAME
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
