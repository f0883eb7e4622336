"""One invoker: its tables, inline or in a file of their own, and its descriptor."""

from collections.abc import Mapping
from typing import Any

from frozendict import frozendict

from ripieno.descriptors.argument_schemas import KEYWORDS, ArgumentSchema, check_value
from ripieno.descriptors.policies import Policy
from ripieno.descriptors.policy_keys import (
    CALL_KEYS,
    ENABLED,
    POLICY_KEYS,
    check_policy,
    check_resources,
    make_policy,
    policy_values,
    retry_mapping,
    retry_values,
)
from ripieno.descriptors.reader.keys import Key, Table
from ripieno.descriptors.reader.kinds import INVALID, Free, Text, plain
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import NO_SOURCE, Problems, spelling
from ripieno.descriptors.reader.references import OrReference, Reader, Reference, follow, reference_table
from ripieno.descriptors.templates.checks import INDIRECT
from ripieno.exceptions import nearest
from ripieno.jsonvalues import EMPTY, is_list, is_table, merge, thaw
from ripieno.values import Value, uncompared

NO_ARGUMENTS: frozendict[str, Any] = frozendict({"type": "object", "properties": frozendict()})
TOOL_NAME = Text(pattern=r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}", shape="a name of letters, digits, _ and -, at most 64")


class InvocableDescriptor(Value, kw_only=True):
    """The origin of an invoker, and the settings of that origin."""

    origin: str = "python"
    settings: frozendict[str, Any] = EMPTY


@uncompared("offered", "retry", "file")
class InvokerDescriptor(Value, kw_only=True):
    """One invoker. ``arguments`` and ``results`` are JSON Schemas as written; ``file`` is its file.

    ``offered`` is the definition of a discovered one before the operator's overrides; None for a declared one.
    ``retry`` has its own retry keys.
    """

    name: str
    description: str = ""
    enabled: bool = True
    policy: Policy = Policy()
    arguments: frozendict[str, Any] = NO_ARGUMENTS
    results: frozendict[str, Any] | None = None
    configuration: frozendict[str, Any] = EMPTY
    invocable: InvocableDescriptor = InvocableDescriptor()
    offered: frozendict[str, Any] | None = None
    retry: frozendict[str, Any] = EMPTY
    file: str | None = None

    def mapping(self, base: Policy = Policy(), enabled: bool = True) -> dict[str, Any]:  # noqa: B008  frozen
        """The inline form, for an ensemble whose defaults are ``base`` and ``enabled``."""
        policy = {**policy_values(self.policy, base), **retry_mapping(self.policy.retry, base.retry, self.retry)}
        calling = {key.name: policy.pop(key.name) for key in CALL_KEYS if key.name in policy}
        tables = {
            "arguments": self.arguments,
            "results": self.results,
            "configuration": self.configuration or None,
            "invocable": {"origin": self.invocable.origin, **calling, **self.invocable.settings},
        }
        return {
            "name": self.name,
            "description": self.description,
            **({"enabled": self.enabled} if self.enabled != enabled else {}),
            **{name: thaw(value) for name, value in policy.items()},
            **{name: thaw(value) for name, value in tables.items() if value is not None},
        }


_DESCRIPTION = Key("description", Text(), "Its purpose, for the model.", required=True, example="Reads a file")
HEADER_KEYS = (
    Key("name", TOOL_NAME, "Its name in the ensemble.", required=True, example="read_file"),
    _DESCRIPTION,
    ENABLED,
    *POLICY_KEYS,
)
INVOCABLE = Table(
    "[invocable]",
    "How it runs. If absent, the function with the invoker's name in the ensemble's module.",
    (
        Key("origin", Text(), "Its origin: python, command, http, client, or a plugin's.", "python", "command"),
        *CALL_KEYS,
    ),
    others="settings of the origin",
)
#: The keys of an invocable without an origin.
_OF_FUNCTIONS = frozenset({"function", "preview", "project"})
_SCHEMA_SOURCE = reference_table("[arguments]", ".json", "read_file.schema.json")
ARGUMENTS = OrReference(kind=ArgumentSchema(arguments=True), reference=_SCHEMA_SOURCE, known=KEYWORDS)
RESULTS = OrReference(kind=ArgumentSchema(arguments=False), reference=_SCHEMA_SOURCE, known=KEYWORDS)
BODY_KEYS = (
    Key("arguments", ARGUMENTS, "JSON Schema of the arguments. If absent, it has none."),
    Key("results", RESULTS, "JSON Schema of structured results."),
    Key(
        "configuration",
        Free(),
        "Free keys that override the ensemble's, available as context.configuration.",
        EMPTY,
        {"root": "documents"},
    ),
    INVOCABLE.key("invocable"),
)
HEADER = Table("[invoker]", "Name, description and policy.", HEADER_KEYS)
INVOKER = Table("an invoker's file", "One invoker.", (HEADER.key("invoker", required=True), *BODY_KEYS))
INLINE = Table("[[invokers]]", "An invoker inline, or a reference to its own file.", (*HEADER_KEYS, *BODY_KEYS))
ITEM = OrReference(
    kind=INLINE, reference=reference_table("[[invokers]]", ".toml", "io/invokers/read_file.toml"), known=INLINE.known
)


class Inherited(Value, kw_only=True):
    """The values that an invoker takes from its ensemble. ``sound``: ``[defaults]`` have no problem."""

    module: str | None = None
    defaults: Mapping[str, Any] = EMPTY
    configuration: Mapping[str, Any] = EMPTY
    read: Reader | None = None
    sound: bool = True


class _Place(Value, kw_only=True):
    """The location of an invoker: its tables, the paths of its header and the others, and the problems of its file."""

    table: Table
    raw: Mapping[str, Any]
    header: Path
    body: Path
    problems: Problems
    inherited: Inherited

    def part(self, name: str, read: Mapping[str, Any], default: Any) -> Any:
        """One of the tables: its default if absent, ``INVALID`` if it has a problem or is misspelled."""
        if name in read or not len(self.problems):
            return read.get(name, default)
        return self.table.part(name, read, self.raw, default)


#: Stands for an invocable with a problem: no origin has to check it.
UNKNOWN = InvocableDescriptor(origin="client")
#: The keys of an invoker that its policy does not depend on.
_APART = frozenset({"name", "description", "arguments", "results", "configuration", "invocable"})


def read_item(value: Any, path: Path, problems: Problems, inherited: Inherited) -> InvokerDescriptor | None:
    """The descriptor of an element of ``[[invokers]]``, or None.

    After a problem it has only what could be read: enough to check the rest, and not to call it.
    """
    if not is_table(value) or ITEM.refers(value):
        item = ITEM.read(value, path, problems)
        followed = None if item is INVALID else follow(item, path, problems, inherited.read)
        if followed is None:
            return None
        mapping, source = followed
        inner = Problems(source)
        parts = INVOKER.read_parts(mapping, (), inner)
        raw: Any = mapping if is_table(mapping) else EMPTY
        place = _Place(table=INVOKER, raw=raw, header=("invoker",), body=(), problems=inner, inherited=inherited)
        descriptor = _assemble(parts.get("invoker", EMPTY), parts, place) if raw else None
        problems.extend(inner.finished())
        return descriptor
    parts = INLINE.read_parts(value, path, problems)
    place = _Place(table=INLINE, raw=value, header=path, body=path, problems=problems, inherited=inherited)
    return _assemble(parts, parts, place)


def _assemble(header: Mapping[str, Any], body: Mapping[str, Any], place: _Place) -> InvokerDescriptor:
    """The descriptor. Each check of how the tables fit together is done if what it needs has no problem."""
    problems, inherited = place.problems, place.inherited
    arguments = _schema("arguments", body, NO_ARGUMENTS, ARGUMENTS, place)
    results = _schema("results", body, None, RESULTS, place)
    known = arguments is not INVALID
    if not known:
        arguments = _outline(place)
    calling, invocable = _read_invocable(header.get("name"), body, place)
    _check_calling(calling, arguments, (*place.body, "invocable"), problems, known=known)
    check_resources(header, place.header, problems, arguments)
    policy = make_policy(inherited.defaults, header, calling)
    if inherited.sound and problems.beneath(place.header) <= _APART:
        check_policy(header, policy, place.header, problems)
    return InvokerDescriptor(
        name=header.get("name", ""),
        description=header.get("description", ""),
        enabled=header.get("enabled", inherited.defaults.get("enabled", True)),
        policy=policy,
        arguments=arguments,
        results=None if results is INVALID else results,
        configuration=merge(inherited.configuration, body.get("configuration", {})),
        invocable=invocable,
        retry=retry_values(header),
        file=problems.source.file,
    )


def _schema(name: str, body: Mapping[str, Any], default: Any, kind: OrReference, place: _Place) -> Any:
    value = place.part(name, body, default)
    if not isinstance(value, Reference):
        return value
    followed = follow(value, (*place.body, name), place.problems, place.inherited.read)
    if followed is None:
        return INVALID
    mapping, source = followed
    inner = Problems(source)
    schema = kind.kind.read(mapping, (), inner)
    place.problems.extend(inner.finished())
    return schema


def _outline(place: _Place) -> frozendict[str, Any]:
    """The certain part of a schema with problems: the names of the arguments, and the schemas without a problem."""
    schema = place.raw.get("arguments")
    properties = schema.get("properties") if is_table(schema) else None
    if not is_table(schema) or not is_table(properties):
        return frozendict({"type": "object", "$ref": "#"})  # It may have any argument.
    refused = place.problems.beneath((*place.body, "arguments", "properties"))
    required = schema.get("required", ())
    if place.problems.beneath((*place.body, "arguments")) - {"properties"} or not is_list(required):
        required = tuple(properties)
    return frozendict(
        {
            "type": "object",
            "properties": frozendict({name: EMPTY if name in refused else one for name, one in properties.items()}),
            "required": tuple(dict.fromkeys((*required, *sorted(map(str, refused))))),
            **{name: schema[name] for name in INDIRECT if name in schema},
        }
    )


def _read_invocable(
    name: str | None, body: Mapping[str, Any], place: _Place
) -> tuple[Mapping[str, Any], InvocableDescriptor]:
    """The keys of ``[invocable]`` that every origin has, and the invocable."""
    calling, at = place.part("invocable", body, EMPTY), (*place.body, "invocable")
    raw: Any = place.raw.get("invocable", EMPTY)
    if calling is INVALID:
        if not raw or not is_table(raw):
            return EMPTY, UNKNOWN
        calling = INVOCABLE.read_parts(raw, at, Problems(NO_SOURCE))
        if INVOCABLE.part("origin", calling, raw, "python") is INVALID:
            return calling, UNKNOWN
    before = len(place.problems)
    settings = plain(INVOCABLE.rest(raw), at, place.problems)
    if settings is INVALID or (name is None and "function" not in settings and "origin" not in calling):
        return calling, UNKNOWN
    invocable = _invocable(name or "", calling, settings, place)
    return calling, UNKNOWN if len(place.problems) > before else invocable


def _invocable(
    name: str, calling: Mapping[str, Any], settings: frozendict[str, Any], place: _Place
) -> InvocableDescriptor:
    """The invocable; without ``[invocable]``, the function with its name in the ensemble's module."""
    origin = calling.get("origin", "python")
    unnamed = "origin" not in calling and bool(settings.keys() - _OF_FUNCTIONS)
    undefined = origin == "python" and "function" not in settings and place.inherited.module is None
    misspelled = [one for one in settings if one not in _OF_FUNCTIONS and nearest(one, _OF_FUNCTIONS)]
    if misspelled and (unnamed or undefined):
        for key in misspelled:
            at = (*place.body, "invocable", key)
            place.problems.add(at, f"[invocable] has no key {key}", spelling(key, _OF_FUNCTIONS))
    elif unnamed:
        hint = 'Example: origin = "command".'
        place.problems.add((*place.body, "invocable"), "[invocable] lacks origin", hint)
    elif undefined:
        place.problems.add(
            place.header,
            f"{name!r} has no function and no [invocable]",
            'Add module = "package.module" to [ensemble], or an [invocable] table to the invoker.',
        )
    if origin == "python" and "function" not in settings:
        settings = settings | {"function": f"{place.inherited.module}:{name}"}
    return InvocableDescriptor(origin=origin, settings=frozendict(settings))


def _check_calling(
    calling: Mapping[str, Any], arguments: Mapping[str, Any], path: Path, problems: Problems, *, known: bool
) -> None:
    """Checks that the arguments have these names; and if all of them are ``known``, that the values fit."""
    properties = arguments.get("properties", {})
    if arguments.keys() & {"$ref", "allOf", "anyOf", "oneOf"} or not is_table(properties):
        return
    if not arguments.get("additionalProperties"):
        for name in calling.get("presets", {}):
            if name not in properties:
                problems.add((*path, "presets", name), f"{name!r} is not an argument", spelling(name, properties))
    for name, value in calling.get("presets", {}).items() if known else ():
        for message, hint in check_value(arguments, name, value, name) if name in properties else ():
            problems.add((*path, "presets", name), f"the preset does not fit its argument: {message}", hint)
    for key, types, shape in (
        ("timeout_argument", ("number", "integer"), "a number of seconds"),
        ("again_argument", ("string",), "a string"),
    ):
        name = calling.get(key)
        if name is None:
            continue
        at = (*path, key)
        if name not in properties:
            problems.add(at, f"{name!r} is not an argument", spelling(name, properties))
        elif known and (not is_table(properties[name]) or properties[name].get("type") not in types):
            problems.add(at, f"the argument {name!r} must be {shape}", f'Give it type = "{types[0]}".')
