"""``[durable]``: runs that workers conduct, on this machine or several."""

from collections.abc import Mapping
from typing import Any

from frozendict import frozendict

from ripieno.descriptors.reader.keys import UNSET, Key, Table
from ripieno.descriptors.reader.kinds import COUNT, Flag, Named, Number, Text
from ripieno.jsonvalues import EMPTY
from ripieno.values import Value

#: The provider of scripted models (score:FILE), for rates.
SCORE = "score"


class Rate(Value, kw_only=True):
    """At most so many ``runs`` begin in any period of so many ``seconds``."""

    runs: int
    seconds: float


class DurableDescriptor(Value, kw_only=True):
    """Settings of workers. ``host`` is None for the name of the machine; ``grace`` is in seconds.

    ``servers``: chats and background responses give their runs to workers. ``owner_rate`` is that of each owner;
    ``provider_rates`` are those of providers, by name.
    """

    host: str | None = None
    slots: int = 4
    grace: float = 30.0
    servers: bool = False
    owner_rate: Rate | None = None
    provider_rates: Mapping[str, Rate] = EMPTY


#: The name of a machine.
MACHINE = Text(pattern=r"[A-Za-z0-9][A-Za-z0-9._-]*", shape="a name")
_RATE = Table(
    "a rate",
    "At most so many runs begin in any period of so many seconds.",
    (
        Key("runs", Number(whole=True, minimum=1, maximum=10_000), "Runs that may begin.", UNSET, 60, required=True),
        Key("seconds", Number(minimum=0.001, unit="seconds"), "The period.", UNSET, 3600, required=True),
    ),
)
DURABLE = Table(
    "[durable]",
    "Runs that workers conduct (ripieno work), so that they survive the program that began them. Needs "
    "ripieno[durable].",
    Key.rows(
        DurableDescriptor(),
        (
            "host",
            MACHINE,
            "This machine's name, by which runs find the worker that has their workspace. If absent, its host name.",
            "build-1",
        ),
        (
            "slots",
            COUNT,
            "Runs that a worker conducts at once from each of its queues: that of each of its hosts, that of "
            "--anywhere, and that of background responses. Beside them, each has one run of low priority.",
            8,
        ),
        ("grace", Number(minimum=0, unit="seconds"), "Seconds that runs have to end when a worker is stopped.", 300),
        (
            "servers",
            Flag(),
            "Whether chats (Chat, ripieno serve web) and background responses of gateways with a store are given to "
            "workers: they then survive the server, and any server with the same journal shows them.",
            True,
        ),
        ("owner_rate", _RATE, "Runs of each owner that may begin in a time. Others begin later.", UNSET),
        (
            "provider_rates",
            Named(Text(), _RATE),
            "Runs with models of a provider that may begin in a time, by the names of providers. That of scripted "
            f"models is {SCORE}. Others begin later.",
            UNSET,
        ),
    ),
)


def make_durable(keys: Mapping[str, Any]) -> DurableDescriptor:
    """The settings of the read keys of ``[durable]``."""
    rates = {name: Rate(**rate) for name, rate in keys.get("provider_rates", {}).items()}
    made: dict[str, Any] = {**keys, "provider_rates": frozendict(rates)}
    if "owner_rate" in keys:
        made["owner_rate"] = Rate(**keys["owner_rate"])
    return DurableDescriptor(**made)
