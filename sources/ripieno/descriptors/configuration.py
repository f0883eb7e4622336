"""The configuration: the tables of ``ripieno.toml`` and ``config.toml``, and their descriptor.

Several files form one configuration: each is read into parts, the parts are merged, and the descriptor is created
from the result.
"""

import posixpath
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from frozendict import frozendict

from ripieno.canisters import Controls
from ripieno.canisters.controls import Limits, Rules
from ripieno.descriptors.control_keys import CONTROL_KEYS, CONTROLS, LIMITS, RULES, make_controls, make_limits
from ripieno.descriptors.durable import DURABLE, DurableDescriptor, make_durable
from ripieno.descriptors.ensembles import ENSEMBLE, ENSEMBLE_NAME, ENSEMBLE_NAMES, FLAT, EnsembleDescriptor, read_into
from ripieno.descriptors.gateway import GATEWAY, GatewayDescriptor, check_gateway, make_gateway
from ripieno.descriptors.history import HISTORY, HistoryDescriptor, check_history, make_history
from ripieno.descriptors.journal import JOURNAL
from ripieno.descriptors.model_rows import lay_tables
from ripieno.descriptors.policy_keys import RETRY, check_backoffs
from ripieno.descriptors.providers import MODEL_IDENTITIES, MODEL_IDENTITY, OVERRIDE, PROVIDER_NAME
from ripieno.descriptors.reader.keys import Key, Table
from ripieno.descriptors.reader.kinds import INVALID, Free, Named, Number, Several, Text, refuse
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import NO_SOURCE, Problems, Source
from ripieno.descriptors.reader.references import Reader
from ripieno.descriptors.sandbox import PATHS, SANDBOX, SandboxDescriptor
from ripieno.descriptors.timeouts import BREAKER, Caution
from ripieno.exceptions import Problem
from ripieno.jsonvalues import EMPTY, is_list, is_table, merge
from ripieno.values import Value


class AgentDescriptor(Value, kw_only=True):
    """One agent: a model with instructions and exactly these tools. ``tools`` None means all enabled tools.

    ``fallback`` None means those of the default model if the agent uses it, and none otherwise.
    """

    name: str
    model: str | None = None
    fallback: tuple[str, ...] | None = None
    instructions: str = ""
    controls: Controls = Controls()
    limits: Limits = Limits()
    history: HistoryDescriptor = HistoryDescriptor()
    tools: tuple[str, ...] | None = None


class ConfigurationDescriptor(Value, kw_only=True):
    """The configuration. A list that is None was not given and has its default; an empty one means none.

    ``paths`` and ``workspace`` from a file are absolute. ``inline`` are ensembles in the configuration itself.
    ``providers`` has read keys that override those of providers, ``settings`` free keys that override the
    ``[configuration]`` of ensembles, both by name. ``retry`` has defaults for ensembles and their invokers.
    """

    paths: tuple[str, ...] = ()
    enabled: tuple[str, ...] | None = None
    profile: str | None = None
    include: tuple[str, ...] = ()
    inline: tuple[EnsembleDescriptor, ...] = ()
    plugins: tuple[str, ...] = ()
    providers: frozendict[str, frozendict[str, Any]] = EMPTY
    model: str | None = None
    fallback: tuple[str, ...] = ()
    breaker: Caution = Caution()
    controls: Controls = Controls()
    agents: frozendict[str, AgentDescriptor] = EMPTY
    limits: Limits = Limits()
    history: HistoryDescriptor = HistoryDescriptor()
    retry: frozendict[str, Any] = EMPTY
    confirmation: Rules = Rules()
    environment: tuple[str, ...] | None = None
    workspace: str | None = None
    settings: frozendict[str, frozendict[str, Any]] = EMPTY
    sandbox: SandboxDescriptor = SandboxDescriptor()
    search_over: int | None = None
    #: Whether calls and runs are recorded in the journal; None means only by the command line.
    journal: bool | None = None
    #: The address of its database, with variables; None means a file in the user's state folder.
    journal_url: str | None = None
    gateway: GatewayDescriptor = GatewayDescriptor()
    durable: DurableDescriptor = DurableDescriptor()

    def model_of(self, agent: str = "") -> str:
        """The model of runs that name none: the agent's, or the default; empty without one."""
        found = self.agents.get(agent)
        return (found and found.model) or self.model or ""


class TableOrEnsembles(Value, kw_only=True):
    """``[ensembles]``: a table of paths and names, or a list of exactly the enabled ones: names, or inline."""

    expected: str = "a table with paths, enabled and profile, or a list of ensembles"

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if is_table(value):
            return ENSEMBLES.read(value, path, problems)
        return value if is_list(value) else refuse(self, value, path, problems)

    def schema(self) -> dict[str, Any]:
        item = {"if": {"required": ["ensemble"]}, "then": ENSEMBLE.schema(), "else": FLAT.schema()}
        items = {"if": {"type": "string"}, "then": ENSEMBLE_NAME.schema(), "else": item}
        return {"if": {"type": "array"}, "then": {"items": items}, "else": ENSEMBLES.schema()}


ENSEMBLES = Table(
    "[ensembles]",
    "Where ensembles are, and which of them are enabled. A list names exactly the enabled ones, or contains them.",
    (
        Key("paths", PATHS, "Folders of ensembles, or files, from this file's folder.", (), ["ensembles"]),
        Key(
            "enabled", ENSEMBLE_NAMES, "The enabled ensembles. If absent, those of the profile.", example=["io", "git"]
        ),
        Key("profile", ENSEMBLE_NAME, "A named selection of ensembles.", example="minimal"),
        Key("include", ENSEMBLE_NAMES, "Ensembles to enable in addition to enabled or the profile.", (), ["python"]),
    ),
)
PLUGINS = Table(
    "[plugins]",
    "Plugins. An installed plugin is loaded only if it is allowed here.",
    (
        Key(
            "allow",
            Several(Text(pattern=r"[A-Za-z0-9][A-Za-z0-9._-]*", shape="a name"), "names of distributions"),
            "Distributions whose plugins are loaded.",
            (),
            ["ripieno-weather"],
        ),
    ),
)
MODEL = Table(
    "[model]",
    "The default model, and its controls.",
    (
        Key("default", MODEL_IDENTITY, "The model, with its provider.", example="house/small-1"),
        Key("fallback", MODEL_IDENTITIES, "Models to try in order if it fails.", (), ["garden/small-1"]),
        *CONTROL_KEYS,
    ),
)
AGENT = Table(
    "[agents.<name>]",
    "A model with instructions and exactly these tools.",
    (
        Key("model", MODEL_IDENTITY, "Its model. If absent, the default one.", example="house/small-1"),
        Key("fallback", MODEL_IDENTITIES, "Models to try in order if its own fails.", example=["garden/small-1"]),
        Key("instructions", Text(blank=True), "Its system instructions.", "", "Answer in one sentence."),
        Key("controls", CONTROLS, "Controls that replace those of [model], key by key."),
        Key("limits", LIMITS, "Limits that replace those of [limits], key by key."),
        Key("history", HISTORY, "Keys that replace those of [history], one by one."),
        Key(
            "tools",
            Several(Text(pattern=r"\S+", shape="a pattern"), 'patterns such as "io.read_file" or "git.*"'),
            "Exactly the tools that it sees.",
            example=["io.read_file", "git.*"],
        ),
    ),
)
ENVIRONMENT = Table(
    "[environment]",
    "Environment variables that descriptors may use.",
    (
        Key(
            "allow",
            Several(
                Text(
                    pattern=r"[A-Za-z_*?][A-Za-z0-9_*?]*", shape='the name of a variable, or a pattern such as "APP_*"'
                ),
                "names of variables",
            ),
            "Variables that {env:NAME} may name.",
            example=["HOUSE_KEY"],
        ),
    ),
)
WORKSPACE = Table(
    "[workspace]",
    "The folder that tools work in.",
    (Key("root", Text(), "The folder, from this file's folder.", example="."),),
)
TOOLS = Table(
    "[tools]",
    "How tools are offered to a model.",
    (
        Key(
            "search_over",
            Number(whole=True, minimum=0),
            "The most tools that are sent. Beyond it, every tool is searchable that does not set "
            "tool_search = false. If absent, only tools with tool_search = true are.",
            example=64,
        ),
    ),
)
CONFIGURATION = Table(
    "the configuration",
    "The configuration of an application, a user or a project.",
    (
        Key("ensembles", TableOrEnsembles(), ENSEMBLES.documentation),
        PLUGINS.key("plugins"),
        MODEL.key("model"),
        BREAKER.key("breaker"),
        LIMITS.key("limits"),
        HISTORY.key("history"),
        RETRY.key("retry"),
        RULES.key("confirmation"),
        TOOLS.key("tools"),
        JOURNAL.key("journal"),
        GATEWAY.key("gateway"),
        DURABLE.key("durable"),
        Key(
            "providers",
            Named(PROVIDER_NAME, OVERRIDE),
            "Providers, by name: keys that replace those of a known one, or all of a new one.",
        ),
        Key("agents", Named(ENSEMBLE_NAME, AGENT), "Agents, by name."),
        Key(
            "configuration",
            Named(ENSEMBLE_NAME, Free()),
            "Keys that override the [configuration] of ensembles, by name.",
            example={"network": {"hosts": ["api.example.org"]}},
        ),
        ENVIRONMENT.key("environment"),
        WORKSPACE.key("workspace"),
        SANDBOX.key("sandbox"),
    ),
    elsewhere=frozendict(overrides="the file of the ensemble whose tools it changes"),
)


#: The tables that name ensembles, tools, models or providers; and those with such tables, by names of this kind.
_NAMING: Mapping[str, Table] = {"ensembles": ENSEMBLES, "model": MODEL, "gateway": GATEWAY}
_NAMED: Mapping[str, tuple[Text, Table]] = {"providers": (PROVIDER_NAME, OVERRIDE), "agents": (ENSEMBLE_NAME, AGENT)}


def read_parts(
    mapping: Mapping[str, Any],
    source: Source = NO_SOURCE,
    *,
    read: Reader | None = None,
    folder: str | None = None,
    layer: str = "",
) -> tuple[frozendict[str, Any], tuple[Problem, ...]]:
    """The read keys of one file, table by table, and its problems. Raises nothing.

    Inline ensembles are descriptors in ``["ensembles"]["inline"]``; paths begin at ``folder``, except those with ``~``.
    """
    problems = Problems(source)
    parts = CONFIGURATION.read_parts(mapping, (), problems)
    ensembles = parts.get("ensembles")
    if is_list(ensembles):
        parts["ensembles"] = _read_list(ensembles, problems, read=read, folder=folder, layer=layer)
    check_backoffs(parts.get("retry", EMPTY), ("retry",), problems)
    check_history(parts.get("history", EMPTY), ("history",), problems)
    check_gateway(parts.get("gateway", EMPTY), ("gateway",), problems)
    for name, agent in parts.get("agents", EMPTY).items():
        check_history(agent.get("history", EMPTY), ("agents", name, "history"), problems)
    given = mapping if is_table(mapping) else EMPTY
    parts |= {
        name: _read_rest(name, given[name]) for name in (*_NAMING, *_NAMED) if name in given and name not in parts
    }
    if folder is not None:
        parts = change_paths(parts, lambda path: path if path.startswith("~") else posixpath.join(folder, path))
    return frozendict({name: _frozen(table) for name, table in parts.items()}), problems.finished()


def _read_rest(name: str, value: Any) -> dict[str, Any]:
    """The readable part of a table with problems, so that wrong names in it are found at once, too."""
    unreported = Problems(NO_SOURCE)
    if name in _NAMING:
        return _NAMING[name].read_parts(value, (name,), unreported)
    names, table = _NAMED[name]
    return {
        one: table.read_parts(item, (name, one), unreported)
        for one, item in (value.items() if is_table(value) else ())
        if names.read(one, (name,), unreported) is not INVALID
    }


def _read_list(items: Sequence[Any], problems: Problems, **settings: Any) -> Mapping[str, Any]:
    """A list of ensembles, which are exactly the enabled ones: names, or inline ensembles."""
    names: list[str] = []
    inline: list[EnsembleDescriptor] = []
    for index, item in enumerate(items):
        path = ("ensembles", index)
        if isinstance(item, str):
            if (name := ENSEMBLE_NAME.read(item, path, problems)) is not INVALID:
                names.append(name)
        elif (one := read_into(item, path, problems, **settings)) is not None:
            names.append(one.name)
            inline.append(one)
    for name in dict.fromkeys(one for one in names if names.count(one) > 1):
        problems.add(("ensembles",), f"there are two ensembles named {name!r}", "Rename one, or delete it.")
    return {"inline": tuple(inline), "enabled": tuple(names), "include": ()}


def combine(parts: Sequence[Mapping[str, Any]]) -> ConfigurationDescriptor:
    """The configuration of several files: later keys win, lists are replaced, later rows of models come first."""
    whole: Mapping[str, Any] = EMPTY
    for one in parts:
        providers = lay_tables(whole.get("providers", EMPTY), one.get("providers", EMPTY))
        whole = merge(whole, one).set("providers", providers)
    ensembles, model, limits = (whole.get(name, frozendict()) for name in ("ensembles", "model", "limits"))
    agents = {
        name: AgentDescriptor(
            name=name,
            controls=make_controls(model, agent.get("controls", {})),
            limits=make_limits(limits, agent.get("limits", {})),
            history=make_history(whole.get("history", EMPTY), agent.get("history", EMPTY)),
            **{key: agent[key] for key in ("model", "fallback", "instructions", "tools") if key in agent},
        )
        for name, agent in whole.get("agents", {}).items()
    }
    return ConfigurationDescriptor(
        **{key: ensembles[key] for key in ("paths", "enabled", "profile", "include", "inline") if key in ensembles},
        plugins=whole.get("plugins", {}).get("allow", ()),
        providers=whole.get("providers", frozendict()),
        model=model.get("default"),
        fallback=model.get("fallback", ()),
        breaker=Caution(**whole.get("breaker", {})),
        controls=make_controls(model),
        agents=frozendict(agents),
        limits=make_limits(limits),
        history=make_history(whole.get("history", EMPTY)),
        retry=whole.get("retry", EMPTY),
        confirmation=Rules(**whole.get("confirmation", {})),
        environment=whole.get("environment", {}).get("allow"),
        workspace=whole.get("workspace", {}).get("root"),
        settings=whole.get("configuration", frozendict()),
        sandbox=SandboxDescriptor(**whole.get("sandbox", {})),
        search_over=whole.get("tools", {}).get("search_over"),
        journal=whole.get("journal", {}).get("enabled"),
        journal_url=whole.get("journal", {}).get("url"),
        gateway=make_gateway(whole.get("gateway", EMPTY)),
        durable=make_durable(whole.get("durable", EMPTY)),
    )


def change_paths(parts: Mapping[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    """The parts of a configuration with a function applied to each path in them."""
    changed = dict(parts)
    for table, key in (("ensembles", "paths"), ("workspace", "root"), ("sandbox", "readable"), ("sandbox", "writable")):
        if (value := changed.get(table, EMPTY).get(key)) is not None:
            value = change(value) if isinstance(value, str) else tuple(map(change, value))
            changed[table] = frozendict({**changed[table], key: value})
    return changed


def _frozen(table: Any) -> Any:
    if is_table(table):
        frozen: frozendict[str, Any] = frozendict({name: _frozen(value) for name, value in table.items()})
        return frozen
    return tuple(_frozen(item) for item in table) if is_list(table) else table
