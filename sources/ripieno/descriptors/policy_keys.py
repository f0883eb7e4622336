"""The keys of an invoker's policy, as ``[defaults]``, ``[invoker]`` and ``[overrides.<tool>]`` share them.

The resources that calls read and write: how they are written down, and whether their places are arguments.

The keys of retrying, of a policy and of the whole configuration, and what must fit together among them.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, get_args

from frozendict import frozendict

from ripieno.descriptors.policies import EFFECTS, PASSING, OnError, Policy, RetryPolicy
from ripieno.descriptors.reader.keys import UNSET, Key, Table
from ripieno.descriptors.reader.kinds import INVALID, Flag, Free, Kind, Number, Several, Size, Text
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems, spelling
from ripieno.descriptors.templates import Template
from ripieno.jsonvalues import is_table

#: A kind, alone or with a template of a value.
RESOURCES = Several(
    item=Text(
        pattern=r"[a-z][a-z0-9_-]*(?::(?:[^{}]|\{\{|\}\}|\{[A-Za-z_][A-Za-z0-9_.-]*\})+)?",
        shape='a resource such as "file:{path}" or "network"',
    ),
    items='resources such as "file:{path}"',
    bare=True,
)
#: Keywords by which a schema may declare arguments that cannot be seen in its ``properties``.
_ELSEWHERE = frozenset({"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas"})


def check_resources(table: Mapping[str, Any], path: Path, problems: Problems, arguments: Mapping[str, Any]) -> None:
    """Places in ``reads`` and ``writes`` must be for arguments, as far as these can be seen."""
    properties = arguments.get("properties", {})
    if not _ELSEWHERE.isdisjoint(arguments) or not is_table(properties):
        return
    for key in ("reads", "writes"):
        for index, text in enumerate(table.get(key, ())):
            for name in Template.parse(text).placeholders:
                if name not in properties:
                    problems.add((*path, key, index), f"{name!r} is none of the arguments", spelling(name, properties))


_USUAL = RetryPolicy()
_BACKOFF = Number(minimum=0, maximum=3600, unit="seconds")
_AFTER = Several(item=Text(choices=PASSING), items="categories of faults", once=True)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Frozen(Table):
    """A table that is kept frozen, as a value among others."""

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        read: Any = super(Frozen, self).read(value, path, problems)
        return read if read is INVALID else frozendict[str, Any](read)


def _retry_key(name: str, kind: Kind, documentation: str, example: Any) -> Key:
    return Key(name=name, kind=kind, documentation=documentation, default=getattr(_USUAL, name), example=example)


_MAX_RETRIES = _retry_key(
    "max_retries", Number(whole=True, minimum=0, maximum=100), "Repetitions of a failed call, where safe.", 0
)
RETRY = Frozen(
    title="[retry]",
    documentation="When a failed call is made again: only with effect none or read, or where it is idempotent.",
    keys=(
        _MAX_RETRIES,
        _retry_key(
            "initial_backoff",
            _BACKOFF,
            "Seconds before the first repetition, at most: chance says how many of them.",
            0.5,
        ),
        _retry_key(
            "max_backoff", _BACKOFF, "Seconds before any repetition, at most, unless the other side asks for more.", 30
        ),
        _retry_key(
            "multiplier",
            Number(minimum=1, maximum=100),
            "How much longer each backoff may be than the one before it.",
            3,
        ),
        _retry_key("categories", _AFTER, "The faults after which it is made again.", ["network"]),
    ),
)
#: The keys of a policy: a table, and the seed's own key for its first one.
RETRY_KEYS = (
    _MAX_RETRIES,
    Key(name="retry", kind=RETRY, documentation=RETRY.documentation, example={"initial_backoff": 0.5}),
)


def retry_values(table: Mapping[str, Any]) -> frozendict[str, Any]:
    """The keys of retrying that a policy's read table gives, wherever in it."""
    short = {"max_retries": table["max_retries"]} if "max_retries" in table else {}
    return frozendict({**short, **table.get("retry", {})})


def retry_mapping(retry: RetryPolicy, base: RetryPolicy, given: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a policy that give these values over ``base``; those that were ``given`` are said all the same."""
    values = {
        name: getattr(retry, name)
        for name in RETRY.known
        if name in given or getattr(retry, name) != getattr(base, name)
    }
    if not values:
        return {}
    return values if values.keys() == {"max_retries"} else {"retry": values}


def check_retry(table: Any, path: Path, problems: Problems) -> None:
    """A key that stands in two places of one table would have two values, and backoffs must fit each other."""
    retry = table.get("retry") if is_table(table) else None
    if not is_table(retry):
        return
    if "max_retries" in table and "max_retries" in retry:
        problems.add((*path, "max_retries"), "max_retries stands here and in retry", "Delete one of them.")
    check_backoffs(retry, (*path, "retry"), problems)


def check_backoffs(retry: Mapping[str, Any], path: Path, problems: Problems) -> None:
    """The first backoff must not be longer than all of them may be."""
    first, longest = retry.get("initial_backoff"), retry.get("max_backoff")
    if first is not None and longest is not None and first > longest:
        problems.add(
            (*path, "initial_backoff"), f"initial_backoff is longer than max_backoff ({longest:g} s)", "Exchange them."
        )


_RESULTS = Several(item=Text(), items='results such as "read_file:{path}"', bare=True)
_STRICT = Policy()
#: A word without a kind is a program.
REQUIREMENT = Text(
    pattern=r"(?:command|ensemble):[^\s:]+|[^\s:]+",
    shape='"command:NAME", "ensemble:NAME", "sandbox" or "network"',
)


def _key(name: str, kind: Kind, documentation: str, example: Any) -> Key:
    default = getattr(_STRICT, name)
    return Key(
        name=name,
        kind=kind,
        documentation=documentation,
        default=UNSET if default is None else default,
        example=example,
    )


ENABLED = Key(name="enabled", kind=Flag(), documentation="Whether it is offered at all.", default=True, example=False)

POLICY_KEYS: tuple[Key, ...] = (
    _key("timeout", Number(above=0, maximum=86_400, unit="seconds"), "Seconds that a call may run.", 60),
    *RETRY_KEYS,
    _key("output", Size(), "How much of a result is kept: head and tail.", "2 MiB"),
    _key("effect", Text(choices=EFFECTS), "What a call may do to the world.", "read"),
    _key("idempotent", Flag(), "Whether running twice does the same as running once.", True),
    _key("confirm", Flag(), "Whether somebody is always asked, whatever is approved.", True),
    _key("terminal", Flag(), "Whether the run ends after the turn in which this is called.", True),
    _key("on_error", Text(choices=get_args(OnError)), "What a bug does: end the run, or tell the model.", "report"),
    _key("reads", RESOURCES, "Resources that a call reads; empty for none.", ["network"]),
    _key("writes", RESOURCES, "Resources that a call changes; empty for none.", ["table:orders"]),
    _key("supersedes", _RESULTS, "Earlier results that a call makes stale.", ["read:{path}"]),
    _key("requires", Several(item=REQUIREMENT, items="names"), "What must be there for it to work.", ["command:git"]),
    _key("max_parallel", Number(whole=True, minimum=1), "Calls of one invoker that may run at the same time.", 1),
    _key("repeats", Number(whole=True, minimum=1), "Same calls with the same result in one run.", 50),
    _key("cache", Number(minimum=0, unit="seconds"), "Seconds for which a result is reused; 0 is never.", 300),
    _key(
        "tool_search",
        Flag(),
        "Whether its definition is not sent, but found by search_tools. If absent, [tools] search_over decides.",
        True,
    ),
    _key(
        "notes",
        Several(item=Text(), items="sentences"),
        "What a person is told when asked about a call.",
        ["This cannot be undone."],
    ),
    _key("tags", Several(item=Text(), items="words"), "Words to select it by.", ["offline"]),
)

CALL_KEYS: tuple[Key, ...] = (
    Key(
        name="presets",
        kind=Free(),
        documentation="Arguments that are fixed, and hidden from the model.",
        default=frozendict(),
        example={"units": "metric"},
    ),
    Key(
        name="timeout_argument",
        kind=Text(),
        documentation="The argument that sets the deadline, within its schema's bounds.",
        example="timeout",
    ),
    Key(
        name="again_argument",
        kind=Text(),
        documentation="The argument that names an earlier call of the conversation, which is run in place of this one.",
        example="invocation",
    ),
)

_FIELDS = frozenset(key.name for key in (*POLICY_KEYS, *CALL_KEYS)) - {"max_retries", "retry"}
_DEFAULTS: dict[str, Any] = {name: getattr(_STRICT, name) for name in _FIELDS}


def make_policy(*layers: Mapping[str, Any]) -> Policy:
    """The policy that read tables make together, key by key; later ones win."""
    values: dict[str, Any] = {}
    retry: dict[str, Any] = {}
    for layer in layers:
        values.update(layer)
        retry.update(retry_values(layer))
    given = {name: value for name, value in values.items() if name in _FIELDS}
    return Policy(**given, retry=RetryPolicy(**retry)) if retry else Policy(**given)


def check_policy(table: Any, policy: Policy, path: Path, problems: Problems) -> None:
    """Keys of one table that are right one by one, and not together. ``policy`` is what it makes with its defaults."""
    check_retry(table, path, problems)
    if table.get("cache") and not policy.harmless:
        problems.add(
            (*path, "cache"),
            f"a result of effect {policy.effect!r} cannot be reused",
            'Only with effect = "none" or "read". Delete the key, or write cache = 0.',
        )


def check_policies(parts: Mapping[str, Any], path: Path, problems: Problems) -> None:
    """The same for ``[defaults]``, which hold where they can, and for ``[overrides]``."""
    defaults = parts.get("defaults", frozendict())
    check_retry(defaults, (*path, "defaults"), problems)
    for name, override in parts.get("overrides", {}).items():
        check_policy(override, make_policy(defaults, override), (*path, "overrides", name), problems)


def policy_values(policy: Policy, base: Policy) -> dict[str, Any]:
    """The keys in which a policy differs from the one that it is laid over."""
    return {name: getattr(policy, name) for name in _DEFAULTS if getattr(policy, name) != getattr(base, name)}
