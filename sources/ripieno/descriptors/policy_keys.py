"""The keys of an invoker's policy (shared by ``[defaults]``, ``[invoker]`` and ``[overrides.<tool>]``) and of retries.

Also the checks of keys that must fit together.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, get_args

from frozendict import frozendict

from ripieno.descriptors.policies import EFFECTS, PASSING, OnError, Policy, RetryPolicy
from ripieno.descriptors.reader.keys import Key, Table
from ripieno.descriptors.reader.kinds import COUNT, INVALID, Flag, Free, Number, Several, Size, Text
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems, spelling
from ripieno.descriptors.templates import Template
from ripieno.descriptors.templates.checks import INDIRECT
from ripieno.jsonvalues import is_table

#: A kind, alone or with a template of a value.
RESOURCES = Several(
    Text(
        pattern=r"[a-z][a-z0-9_-]*(?::(?:[^{}]|\{\{|\}\}|\{[A-Za-z_][A-Za-z0-9_.-]*\})+)?",
        shape='a resource such as "file:{path}" or "network"',
    ),
    'resources such as "file:{path}"',
    bare=True,
)


def check_resources(table: Mapping[str, Any], path: Path, problems: Problems, arguments: Mapping[str, Any]) -> None:
    """Checks that placeholders in ``reads`` and ``writes`` are arguments, if the schema lists all of them."""
    properties = arguments.get("properties", {})
    if not INDIRECT.isdisjoint(arguments) or not is_table(properties):
        return
    for key in ("reads", "writes"):
        for index, text in enumerate(table.get(key, ())):
            for name in Template.parse(text).placeholders:
                if name not in properties:
                    problems.add((*path, key, index), f"{name!r} is not an argument", spelling(name, properties))


_RETRY = RetryPolicy()
_BACKOFF = Number(minimum=0, maximum=3600, unit="seconds")
_AFTER = Several(Text(choices=PASSING), "categories of faults", once=True)


class Frozen(Table):
    """A table that is stored frozen."""

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        read: Any = super().read(value, path, problems)
        return read if read is INVALID else frozendict[str, Any](read)


RETRY = Frozen(
    title="[retry]",
    documentation="When a failed call is repeated: only with effect none or read, or if it is idempotent.",
    keys=Key.rows(
        _RETRY,
        ("max_retries", Number(whole=True, minimum=0, maximum=100), "Repetitions of a failed call, where safe.", 0),
        (
            "initial_backoff",
            _BACKOFF,
            "Seconds before the first repetition; no pause is shorter. Later ones are random above it.",
            0.5,
        ),
        ("max_backoff", _BACKOFF, "Most seconds before any repetition, unless the server asks for more.", 30),
        ("multiplier", Number(minimum=1, maximum=100), "Factor from one backoff to the next.", 3),
        ("categories", _AFTER, "The categories of faults after which a call is repeated.", ["network"]),
    ),
)
#: The keys of a policy: a table, and the seed's own key for the number of retries.
RETRY_KEYS = (RETRY.known["max_retries"], Key("retry", RETRY, RETRY.documentation, example={"initial_backoff": 0.5}))


def retry_values(table: Mapping[str, Any]) -> frozendict[str, Any]:
    """The retry keys in a read table of a policy."""
    short = {"max_retries": table["max_retries"]} if "max_retries" in table else {}
    return frozendict({**short, **table.get("retry", {})})


def retry_mapping(retry: RetryPolicy, base: RetryPolicy, given: Mapping[str, Any]) -> dict[str, Any]:
    """The retry keys that differ from ``base``, and those that were ``given``."""
    values = {
        name: getattr(retry, name)
        for name in RETRY.known
        if name in given or getattr(retry, name) != getattr(base, name)
    }
    if not values:
        return {}
    return values if values.keys() == {"max_retries"} else {"retry": values}


def check_retry(table: Any, path: Path, problems: Problems) -> None:
    """Checks that ``max_retries`` is given once, and that the backoffs fit together."""
    retry = table.get("retry") if is_table(table) else None
    if not is_table(retry):
        return
    if "max_retries" in table and "max_retries" in retry:
        problems.add((*path, "max_retries"), "max_retries is given here and in retry", "Delete one of them.")
    check_backoffs(retry, (*path, "retry"), problems)


def check_backoffs(retry: Mapping[str, Any], path: Path, problems: Problems) -> None:
    """Checks that the first backoff is not longer than the longest."""
    first, longest = retry.get("initial_backoff"), retry.get("max_backoff")
    if first is not None and longest is not None and first > longest:
        problems.add(
            (*path, "initial_backoff"), f"initial_backoff is longer than max_backoff ({longest:g} s)", "Exchange them."
        )


_RESULTS = Several(Text(), 'results such as "read_file:{path}"', bare=True)
_STRICT = Policy()
#: A word without a prefix is a program.
REQUIREMENT = Text(
    pattern=r"(?:command|ensemble):[^\s:]+|[^\s:]+", shape='"command:NAME", "ensemble:NAME", "sandbox" or "network"'
)


ENABLED = Key("enabled", Flag(), "Whether it is available.", True, False)

POLICY_KEYS: tuple[Key, ...] = (
    *Key.rows(
        _STRICT, ("timeout", Number(above=0, maximum=86_400, unit="seconds"), "Seconds that a call may run.", 60)
    ),
    *RETRY_KEYS,
    *Key.rows(
        _STRICT,
        ("output", Size(), "How much of a result is kept: head and tail.", "2 MiB"),
        ("effect", Text(choices=EFFECTS), "The effect of a call on the world.", "read"),
        ("idempotent", Flag(), "Whether running twice does the same as running once.", True),
        ("confirm", Flag(), "Whether a person is always asked, even if a rule approves the call.", True),
        ("terminal", Flag(), "Whether the run ends after the turn with this call.", True),
        ("on_error", Text(choices=get_args(OnError)), "After a bug: end the run, or report it to the model.", "report"),
        ("reads", RESOURCES, "Resources that a call reads; empty for none.", ["network"]),
        ("writes", RESOURCES, "Resources that a call changes; empty for none.", ["table:orders"]),
        ("supersedes", _RESULTS, "Earlier results that a call makes stale.", ["read:{path}"]),
        ("requires", Several(REQUIREMENT, "names"), "Requirements without which it is absent.", ["command:git"]),
        ("max_parallel", COUNT, "Calls of one invoker that may run at the same time.", 1),
        ("repeats", COUNT, "Equal calls with equal results that one run may have.", 50),
        ("cache", Number(minimum=0, unit="seconds"), "Seconds for which a result is reused; 0 is never.", 300),
        (
            "tool_search",
            Flag(),
            "Whether its definition is not sent, but found by search_tools. If absent, [tools] search_over decides.",
            True,
        ),
        ("notes", Several(Text(), "sentences"), "Notes for the person who approves.", ["It cannot be undone."]),
        ("tags", Several(Text(), "words"), "Words to select it by.", ["offline"]),
    ),
)

CALL_KEYS: tuple[Key, ...] = Key.rows(
    _STRICT,
    ("presets", Free(), "Arguments that are fixed and hidden from the model.", {"units": "metric"}),
    ("timeout_argument", Text(), "The argument that sets the deadline, within its schema's bounds.", "timeout"),
    ("again_argument", Text(), "The argument that names an earlier call, which runs instead.", "invocation"),
)

_FIELDS = tuple(key.name for key in (*POLICY_KEYS, *CALL_KEYS) if key not in RETRY_KEYS)


def make_policy(*layers: Mapping[str, Any]) -> Policy:
    """The policy of read tables, key by key; later ones win."""
    values: dict[str, Any] = {}
    retry: dict[str, Any] = {}
    for layer in layers:
        values.update(layer)
        retry.update(retry_values(layer))
    given = {name: value for name, value in values.items() if name in _FIELDS}
    return Policy(**given, retry=RetryPolicy(**retry)) if retry else Policy(**given)


def override_policy(policy: Policy, keys: Mapping[str, Any]) -> Policy:
    """The policy with the keys of a read table in place of its own."""
    given = {name: value for name, value in keys.items() if name in _FIELDS}
    return dataclasses.replace(policy, **given, retry=dataclasses.replace(policy.retry, **retry_values(keys)))


def check_policy(table: Any, policy: Policy, path: Path, problems: Problems) -> None:
    """Checks the keys of one table together. ``policy`` is the table's, with defaults."""
    check_retry(table, path, problems)
    if table.get("cache") and not policy.harmless:
        problems.add(
            (*path, "cache"),
            f"a result of effect {policy.effect!r} cannot be reused",
            'Caching needs effect = "none" or "read". Delete the key, or write cache = 0.',
        )


def check_policies(parts: Mapping[str, Any], path: Path, problems: Problems) -> None:
    """Checks ``[defaults]``, which apply where they can, and ``[overrides]``."""
    defaults = parts.get("defaults", frozendict())
    check_retry(defaults, (*path, "defaults"), problems)
    for name, override in parts.get("overrides", {}).items():
        check_policy(override, make_policy(defaults, override), (*path, "overrides", name), problems)


def policy_values(policy: Policy, base: Policy) -> dict[str, Any]:
    """The keys in which a policy differs from its base."""
    return {name: getattr(policy, name) for name in _FIELDS if getattr(policy, name) != getattr(base, name)}
