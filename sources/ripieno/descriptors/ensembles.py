"""One ensemble: the tables of its file, and its descriptor."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from frozendict import frozendict

from ripieno.descriptors.invokers import (
    ITEM,
    NO_ARGUMENTS,
    UNKNOWN,
    Inherited,
    InvocableDescriptor,
    InvokerDescriptor,
    read_item,
)
from ripieno.descriptors.policy_keys import (
    CALL_KEYS,
    ENABLED,
    POLICY_KEYS,
    REQUIREMENT,
    check_policies,
    make_policy,
    override_policy,
)
from ripieno.descriptors.reader.keys import Key, Table, description_key
from ripieno.descriptors.reader.kinds import COUNT, INVALID, Elements, Flag, Free, Named, Several, Text, plain
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import NO_SOURCE, Problems, Source
from ripieno.descriptors.reader.references import Reader
from ripieno.exceptions import Problem
from ripieno.jsonvalues import EMPTY, is_table, merge, thaw
from ripieno.values import Value, uncompared

Scope = Literal["application", "conversation"]
ENSEMBLE_NAME = Text(
    pattern=r"[a-z][a-z0-9_-]{0,63}", shape="a name of lower-case letters, digits, _ and -, beginning with a letter"
)
ENSEMBLE_NAMES = Several(ENSEMBLE_NAME, "names of ensembles", once=True)


class ConnectionDescriptor(Value, kw_only=True):
    """The connection of an ensemble: an origin, and the settings of that origin."""

    origin: str
    settings: frozendict[str, Any] = EMPTY


@uncompared("file", "folder", "layer")
class EnsembleDescriptor(Value, kw_only=True):
    """One ensemble. ``defaults`` and ``overrides`` have the given keys, read.

    ``prefix`` None means the rule of its layer, and empty means bare names. Relative paths begin at ``folder``.
    ``layer`` is the name of its layer.
    """

    name: str
    description: str = ""
    enabled: bool = True
    required: bool = True
    module: str | None = None
    prefix: str | None = None
    scope: Scope = "application"
    pin: Literal["required", "warn", "off"] = "warn"
    category: str | None = None
    tokens: int | None = None
    requires: tuple[str, ...] = ()
    max_parallel: int | None = None
    connection: ConnectionDescriptor | None = None
    defaults: frozendict[str, Any] = EMPTY
    overrides: frozendict[str, frozendict[str, Any]] = EMPTY
    configuration: frozendict[str, Any] = EMPTY
    invokers: tuple[InvokerDescriptor, ...] = ()
    file: str | None = None
    folder: str | None = None
    layer: str = ""

    def discovered(
        self,
        name: str,
        *,
        description: str = "",
        arguments: Mapping[str, Any] = NO_ARGUMENTS,
        results: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> InvokerDescriptor:
        """The descriptor of a tool that the connection offers, with the ensemble's defaults and overrides.

        ``details`` is the rest of its definition, such as a title: JSON that only pins use.
        """
        definition = {"name": name, "description": description, "arguments": arguments, "results": results}
        plain = InvokerDescriptor(
            name=name,
            description=description,
            enabled=self.defaults.get("enabled", True),
            policy=make_policy(self.defaults),
            arguments=frozendict(arguments),
            results=None if results is None else frozendict(results),
            configuration=self.configuration,
            invocable=InvocableDescriptor(
                origin=self.connection.origin if self.connection else "python", settings=frozendict(settings or {})
            ),
            offered=frozendict({**(details or {}), **definition}),
            file=self.file,
        )
        return self.overridden(plain)

    def overridden(self, invoker: InvokerDescriptor) -> InvokerDescriptor:
        """A discovered tool with the operator's overrides. Another time, they change nothing."""
        override = self.overrides.get(invoker.name)
        if override is None:
            return invoker
        return dataclasses.replace(
            invoker,
            description=override.get("description", invoker.description),
            enabled=override.get("enabled", invoker.enabled),
            policy=override_policy(invoker.policy, override),
        )

    @property
    def own(self) -> bool:
        """Whether it is the user's own, a plugin's or the package's: not a project's, nor a program's."""
        return self.layer not in ("project", "caller")

    def located(self) -> Iterator[tuple[InvokerDescriptor, Path]]:
        """Each invoker with the path of its tables in its file: ``("invokers", 0)``; ``()`` in a file of its own."""
        for index, invoker in enumerate(self.invokers):
            yield invoker, ("invokers", index) if invoker.file == self.file else ()

    def configured(self, settings: Mapping[str, Any]) -> "EnsembleDescriptor":
        """The ensemble with settings that override its configuration and that of each invoker."""
        invokers = (dataclasses.replace(one, configuration=merge(one.configuration, settings)) for one in self.invokers)
        return dataclasses.replace(self, configuration=merge(self.configuration, settings), invokers=tuple(invokers))

    def mapping(self) -> dict[str, Any]:
        """The mapping of an equivalent file, with all invokers inline. Reading it gives an equal descriptor."""
        header = {
            name: thaw(value) for name, default in _HEADER_DEFAULTS.items() if (value := getattr(self, name)) != default
        }
        connection = self.connection
        tables: dict[str, Any] = {
            "defaults": thaw(self.defaults),
            "configuration": thaw(self.configuration),
            "connection": {"origin": connection.origin, **thaw(connection.settings)} if connection else None,
            "overrides": thaw(self.overrides),
        }
        base, enabled = make_policy(self.defaults), self.defaults.get("enabled", True)
        return {
            "ensemble": {"name": self.name, **header},
            **{name: table for name, table in tables.items() if table},
            "invokers": [invoker.mapping(base, enabled) for invoker in self.invokers],
        }


def is_foreign(layer: str) -> bool:
    """Whether the files of a layer are those of the package or of a plugin, which its user does not edit."""
    return layer == "package" or layer.startswith("plugin ")


HEADER_KEYS = (
    Key("name", ENSEMBLE_NAME, "Its unique name.", required=True, example="io"),
    description_key("Its purpose, for people.", "Reads and writes files"),
    ENABLED,
    Key("required", Flag(), "Whether start-up fails if it cannot connect. Otherwise it is left out.", True, False),
    Key(
        "module",
        Text(
            pattern=r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*|\./[^:\x00-\x1f]+\.py",
            shape='a module such as "package.module", or a file such as "./tools.py"',
        ),
        "The Python module with the functions of its invokers.",
        example="package.module",
    ),
    Key(
        "prefix",
        Text(pattern=r"(?:[a-zA-Z_][a-zA-Z0-9_-]{0,31})?", shape="a short name, or an empty string for none"),
        "The prefix of the names that a model sees; empty for bare names.",
        example="time",
    ),
    Key(
        "scope",
        Text(choices=("application", "conversation")),
        "Whether all conversations share one connection, or each has its own.",
        "application",
        "conversation",
    ),
    Key(
        "pin",
        Text(choices=("required", "warn", "off")),
        "If its tools differ from those that ripieno lock recorded, it is disabled (required), a warning "
        "is reported (warn), or nothing is compared (off).",
        "warn",
        "required",
    ),
    Key("category", Text(), "A category, by which profiles select it.", example="files"),
    Key(
        "tokens",
        COUNT,
        "Tokens that all results of its tools may use in a request; notes replace older results. If "
        "absent, there is no limit.",
        example=20_000,
    ),
    Key(
        "requires",
        Several(REQUIREMENT, "names"),
        "Its requirements: programs, other ensembles, a sandbox, the network. If one is missing, the "
        "ensemble is left out, with the reason.",
        (),
        ["command:docker"],
    ),
    Key("max_parallel", COUNT, "Calls of all its invokers that may run at the same time.", example=4),
)
_OWN = frozenset(key.name for key in HEADER_KEYS)
#: In place of a module that could not be read.
UNREAD = "unread"
_HEADER_DEFAULTS: dict[str, Any] = {
    field.name: field.default
    for field in dataclasses.fields(EnsembleDescriptor)
    if field.name in _OWN and field.name != "name"
}
_ELSEWHERE = dict.fromkeys((key.name for key in POLICY_KEYS if key.name not in _OWN), "[defaults]") | dict.fromkeys(
    ("origin", "transport", "command", "url"), "[connection]"
)
HEADER = Table("[ensemble]", "Name and properties.", HEADER_KEYS, elsewhere=frozendict(_ELSEWHERE))
DEFAULTS = Table("[defaults]", "The policy of every invoker, unless its own keys differ.", (*POLICY_KEYS, ENABLED))
CONNECTION = Table(
    "[connection]",
    "Its connection. The other keys are the origin's.",
    (Key("origin", Text(), "Its origin: mcp, http, python, or a plugin's.", required=True, example="mcp"),),
    others="settings of the origin",
)
OVERRIDE = Table(
    "[overrides.<tool>]",
    "Keys of the operator that replace those of the server for one tool.",
    (
        Key("description", Text(), "Its purpose, for the model.", example="Returns the time"),
        ENABLED,
        *POLICY_KEYS,
        *CALL_KEYS,
    ),
)
BODY_KEYS = (
    DEFAULTS.key("defaults", default=EMPTY),
    Key("configuration", Free(), "Free keys, available as context.configuration.", EMPTY, {"root": "documents"}),
    CONNECTION.key("connection"),
    Key(
        "overrides", Named(Text(), OVERRIDE), "Keys of the operator that replace the server's, by tool.", default=EMPTY
    ),
    Key("invokers", Elements(ITEM, "tables, each one invoker"), "Its invokers: inline, or by source.", default=()),
)
ENSEMBLE = Table("an ensemble's file", "One ensemble.", (HEADER.key("ensemble", required=True), *BODY_KEYS))
#: The seed's flat form: the keys of [ensemble] beside its tables.
FLAT = Table("an inline ensemble", "One ensemble, flat.", (*HEADER_KEYS, *BODY_KEYS))


#: Stands for an invoker that could not be read, so that the others keep their places.
_UNREAD = InvokerDescriptor(name="", enabled=False, invocable=UNKNOWN)


def read_ensemble(
    mapping: Mapping[str, Any],
    source: Source = NO_SOURCE,
    *,
    read: Reader | None = None,
    folder: str | None = None,
    layer: str = "",
    outline: bool = False,
    partial: bool = False,
) -> tuple[EnsembleDescriptor | None, tuple[Problem, ...]]:
    """The descriptor of an ensemble's file, or None, and its problems. Raises nothing.

    ``read`` returns the mappings of referenced files by relative path. An ``outline`` has no invokers, and no
    referenced file is read for it. ``partial``: after a problem, the descriptor has what could be read, for further
    checks.
    """
    problems = Problems(source)
    settings: Any = {"read": read, "folder": folder, "layer": layer, "outline": outline, "partial": partial}
    descriptor = read_into(mapping, (), problems, **settings)
    return descriptor, problems.finished()


def read_into(
    mapping: Any,
    path: Path,
    problems: Problems,
    *,
    read: Reader | None,
    folder: str | None,
    layer: str,
    outline: bool = False,
    partial: bool = False,
) -> EnsembleDescriptor | None:
    """``read_ensemble`` for an ensemble at ``path`` of a larger mapping, where it may be flat."""
    before = len(problems)
    flat = bool(path) and is_table(mapping) and "ensemble" not in mapping
    parts = (FLAT if flat else ENSEMBLE).read_parts(mapping, path, problems)
    clean = len(problems) == before
    table = FLAT if flat else HEADER
    raw: Any = mapping if flat or not is_table(mapping) else mapping.get("ensemble")
    header = parts if flat else parts.get("ensemble")
    if header is None:
        header = HEADER.read_parts(raw, (), Problems(NO_SOURCE)) if is_table(raw) else {}
    # After a problem in the header, the module may be unknown, not missing.
    module: Any = INVALID
    if clean or is_table(raw):
        module = header.get("module") if clean else table.part("module", header, raw, None)
    settings = CONNECTION.rest(mapping["connection"]) if "connection" in parts else {}
    settings = plain(settings, (*path, "connection"), problems)
    inherited = Inherited(
        module=UNREAD if module is INVALID else module,
        defaults=parts.get("defaults", frozendict()),
        configuration=parts.get("configuration", frozendict()),
        read=read,
        sound=clean or ENSEMBLE.part("defaults", parts, mapping if is_table(mapping) else EMPTY, EMPTY) is not INVALID,
    )
    items = [
        read_item(item, (*path, "invokers", index), problems, inherited)
        for index, item in enumerate(() if outline else parts.get("invokers", ()))
    ]
    _check_names(items, parts, path, problems)
    check_policies(parts, path, problems)
    if clean and header.get("enabled", True) and "connection" not in parts and "invokers" not in parts:
        hint = "Add [connection] or [[invokers]]. If it has no invokers, write invokers = []."
        problems.add(path if flat else (*path, "ensemble"), "it has neither [connection] nor [[invokers]]", hint)
    if len(problems) > before and not partial:
        return None
    connection = parts.get("connection")
    given: dict[str, Any] = {name: header[name] for name in _HEADER_DEFAULTS if name in header}
    return EnsembleDescriptor(
        **given,
        name=header.get("name", ""),
        connection=None if connection is None else ConnectionDescriptor(origin=connection["origin"], settings=settings),
        defaults=frozendict(inherited.defaults),
        overrides=frozendict({name: frozendict(keys) for name, keys in parts.get("overrides", {}).items()}),
        configuration=frozendict(inherited.configuration),
        invokers=tuple(_UNREAD if item is None else item for item in items),
        file=problems.source.file,
        folder=folder,
        layer=layer,
    )


def _check_names(
    items: Sequence[InvokerDescriptor | None], parts: Mapping[str, Any], path: Path, problems: Problems
) -> None:
    """Checks that names are unique, and that overrides are for discovered tools."""
    first: dict[str, InvokerDescriptor] = {}
    for index, item in enumerate(items):
        if item is None or not item.name:
            continue
        if item.name in first:
            other = first[item.name].file
            where = f" It is also in {other}." if other and other != item.file else ""
            hint = f"Rename one of them, or delete it.{where}"
            problems.add((*path, "invokers", index), f"there are two invokers named {item.name!r}", hint)
        first.setdefault(item.name, item)
    for name in parts.get("overrides", {}):
        if name in first:
            hint = "Write the keys at the invoker; [overrides] is for tools that a connection discovers."
            problems.add((*path, "overrides", name), f"{name!r} is declared in this ensemble", hint)
