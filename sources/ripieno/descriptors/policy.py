"""The keys of an invoker's policy, as ``[defaults]``, ``[invoker]`` and ``[overrides.<tool>]`` share them."""

from collections.abc import Mapping
from typing import Any, get_args

from frozendict import frozendict

from ripieno.descriptors.keys import UNSET, Key
from ripieno.descriptors.kinds import Flag, Free, Kind, Number, Several, Size, Text
from ripieno.policies import EFFECTS, OnError, Policy

_RESOURCES = Several(item=Text(), items='resources such as "file:{path}"')
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
    _key("max_retries", Number(whole=True, minimum=0, maximum=100), "Repetitions of a failed call, where safe.", 0),
    _key("output", Size(), "How much of a result is kept: head and tail.", "2 MiB"),
    _key("effect", Text(choices=EFFECTS), "What a call may do to the world.", "read"),
    _key("idempotent", Flag(), "Whether running twice does the same as running once.", True),
    _key("confirm", Flag(), "Whether somebody is always asked, whatever is approved.", True),
    _key("terminal", Flag(), "Whether the run ends after the turn in which this is called.", True),
    _key("on_error", Text(choices=get_args(OnError)), "What a bug does: end the run, or tell the model.", "report"),
    _key("reads", _RESOURCES, "Resources that a call reads.", ["file:{path}"]),
    _key("writes", _RESOURCES, "Resources that a call changes.", ["file:{path}"]),
    _key("supersedes", _RESOURCES, "Earlier results that a call makes stale.", ["read:{path}"]),
    _key("requires", Several(item=REQUIREMENT, items="names"), "What must be there for it to work.", ["command:git"]),
    _key("max_parallel", Number(whole=True, minimum=1), "Calls that may run at the same time.", 1),
    _key("repeats", Number(whole=True, minimum=1), "Same calls with the same result in one run.", 50),
    _key("cache", Number(minimum=0, unit="seconds"), "Seconds for which a result is reused; 0 is never.", 300),
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

_FIELDS = frozenset(key.name for key in (*POLICY_KEYS, *CALL_KEYS))
_DEFAULTS: dict[str, Any] = {name: getattr(_STRICT, name) for name in _FIELDS}


def make_policy(*layers: Mapping[str, Any]) -> Policy:
    """The policy that read tables make together, key by key; later ones win."""
    values: dict[str, Any] = {}
    for layer in layers:
        values.update(layer)
    return Policy(**{name: value for name, value in values.items() if name in _FIELDS})


def policy_values(policy: Policy, base: Policy) -> dict[str, Any]:
    """The keys in which a policy differs from the one that it is laid over."""
    return {name: getattr(policy, name) for name in _DEFAULTS if getattr(policy, name) != getattr(base, name)}
