"""The keys of an invoker's policy, as ``[defaults]``, ``[invoker]`` and ``[overrides.<tool>]`` share them."""

from collections.abc import Mapping
from typing import Any, get_args

from frozendict import frozendict

from ripieno.descriptors.keys import UNSET, Key
from ripieno.descriptors.kinds import Flag, Free, Kind, Number, Several, Size, Text
from ripieno.descriptors.positions import Path
from ripieno.descriptors.problems import Problems
from ripieno.descriptors.resources import RESOURCES
from ripieno.descriptors.retries import RETRY_KEYS, check_retry, retry_values
from ripieno.policies import EFFECTS, OnError, Policy, Retry

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
        "deferred",
        Flag(),
        "Whether its definition is not sent, but found by search_tools; left out, [tools] defer_over decides.",
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
    return Policy(**given, retry=Retry(**retry)) if retry else Policy(**given)


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
