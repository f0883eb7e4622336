"""One invoker: its tables, inline or in a file of their own, and its descriptor."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from frozendict import frozendict

from ripieno.descriptors.argument_schemas import KEYWORDS, ArgumentSchema
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
from ripieno.descriptors.reader.problems import Problems, spelling
from ripieno.descriptors.reader.references import OrReference, Reader, Reference, follow, reference_table
from ripieno.exceptions import nearest
from ripieno.jsonvalues import EMPTY, is_table, merge, thaw

NO_ARGUMENTS: frozendict[str, Any] = frozendict({"type": "object", "properties": frozendict()})
TOOL_NAME = Text(pattern=r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}", shape="a name of letters, digits, _ and -, at most 64")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InvocableDescriptor:
    """The origin of an invoker, and the settings of that origin."""

    origin: str = "python"
    settings: frozendict[str, Any] = EMPTY


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InvokerDescriptor:
    """One invoker. ``arguments`` and ``results`` are JSON Schemas as written; ``file`` is its file.

    ``offered`` is the definition of a discovered one before the operator's overrides; None for a declared one.
    ``retry`` has its own retry keys.
    """

    name: str
    description: str = ""
    enabled: bool = True
    policy: Policy = Policy()  # noqa: RUF009
    arguments: frozendict[str, Any] = NO_ARGUMENTS
    results: frozendict[str, Any] | None = None
    configuration: frozendict[str, Any] = EMPTY
    invocable: InvocableDescriptor = InvocableDescriptor()
    offered: frozendict[str, Any] | None = dataclasses.field(default=None, compare=False)
    retry: frozendict[str, Any] = dataclasses.field(default=EMPTY, compare=False)
    file: str | None = dataclasses.field(default=None, compare=False)

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
_OF_FUNCTIONS = frozenset({"function", "preview"})
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Inherited:
    """The values that an invoker takes from its ensemble."""

    module: str | None = None
    defaults: Mapping[str, Any] = EMPTY
    configuration: Mapping[str, Any] = EMPTY
    read: Reader | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """The location of an invoker: the paths of its header and its other tables, and the problems of its file."""

    header: Path
    body: Path
    problems: Problems
    inherited: Inherited


def read_item(value: Any, path: Path, problems: Problems, inherited: Inherited) -> InvokerDescriptor | None:
    """The descriptor of an element of ``[[invokers]]``; None after its problems were added."""
    item = ITEM.read(value, path, problems)
    if item is INVALID:
        return None
    if not isinstance(item, Reference):
        return _assemble(item, item, value, _Place(header=path, body=path, problems=problems, inherited=inherited))
    followed = follow(item, path, problems, inherited.read)
    if followed is None:
        return None
    mapping, source = followed
    inner = Problems(source)
    parts = INVOKER.read(mapping, (), inner)
    descriptor = None
    if parts is not INVALID:
        place = _Place(header=("invoker",), body=(), problems=inner, inherited=inherited)
        descriptor = _assemble(parts["invoker"], parts, mapping, place)
    problems.extend(inner.finished())
    return descriptor


def _assemble(
    header: Mapping[str, Any], body: Mapping[str, Any], raw: Mapping[str, Any], place: _Place
) -> InvokerDescriptor | None:
    """The descriptor of valid tables, if they fit together."""
    problems, inherited = place.problems, place.inherited
    before = len(problems)
    arguments = _schema(body.get("arguments", NO_ARGUMENTS), ARGUMENTS, (*place.body, "arguments"), place)
    results = _schema(body.get("results"), RESULTS, (*place.body, "results"), place)
    calling = body.get("invocable", {})
    settings = plain(INVOCABLE.rest(raw.get("invocable", {})), (*place.body, "invocable"), problems)
    if len(problems) > before:
        return None
    invocable = _invocable(header["name"], calling, settings, place)
    _check_calling(calling, arguments, (*place.body, "invocable"), problems)
    check_resources(header, place.header, problems, arguments)
    policy = make_policy(inherited.defaults, header, calling)
    check_policy(header, policy, place.header, problems)
    if len(problems) > before:
        return None
    return InvokerDescriptor(
        name=header["name"],
        description=header["description"],
        enabled=header.get("enabled", inherited.defaults.get("enabled", True)),
        policy=policy,
        arguments=arguments,
        results=results,
        configuration=merge(inherited.configuration, body.get("configuration", {})),
        invocable=invocable,
        retry=retry_values(header),
        file=problems.source.file,
    )


def _schema(value: Any, kind: OrReference, path: Path, place: _Place) -> Any:
    if not isinstance(value, Reference):
        return value
    followed = follow(value, path, place.problems, place.inherited.read)
    if followed is None:
        return INVALID
    mapping, source = followed
    inner = Problems(source)
    schema = kind.kind.read(mapping, (), inner)
    place.problems.extend(inner.finished())
    return schema


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


def _check_calling(calling: Mapping[str, Any], arguments: Mapping[str, Any], path: Path, problems: Problems) -> None:
    """Checks that presets, ``timeout_argument`` and ``again_argument`` are arguments."""
    properties = arguments.get("properties", {})
    if arguments.keys() & {"$ref", "allOf", "anyOf", "oneOf"} or not is_table(properties):
        return
    if not arguments.get("additionalProperties"):
        for name in calling.get("presets", {}):
            if name not in properties:
                problems.add((*path, "presets", name), f"{name!r} is not an argument", spelling(name, properties))
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
        elif not is_table(properties[name]) or properties[name].get("type") not in types:
            problems.add(at, f"the argument {name!r} must be {shape}", f'Give it type = "{types[0]}".')
