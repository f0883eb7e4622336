"""``[durable]``: runs that workers conduct, on this machine or several."""

from ripieno.descriptors.reader.keys import Key, Table
from ripieno.descriptors.reader.kinds import COUNT, Flag, Number, Text
from ripieno.values import Value


class DurableDescriptor(Value, kw_only=True):
    """Settings of workers. ``host`` is None for the name of the machine; ``grace`` is in seconds.

    ``servers``: chats and background responses give their runs to workers.
    """

    host: str | None = None
    slots: int = 4
    grace: float = 30.0
    servers: bool = False


DURABLE = Table(
    "[durable]",
    "Runs that workers conduct (ripieno work), so that they survive the program that began them. Needs "
    "ripieno[durable].",
    Key.rows(
        DurableDescriptor(),
        (
            "host",
            Text(pattern=r"[A-Za-z0-9][A-Za-z0-9._-]*", shape="a name"),
            "This machine's name, by which runs find the worker that has their workspace. If absent, its host name.",
            "build-1",
        ),
        ("slots", COUNT, "Runs that a worker conducts at once.", 8),
        ("grace", Number(minimum=0, unit="seconds"), "Seconds that runs have to end when a worker is stopped.", 300),
        (
            "servers",
            Flag(),
            "Whether chats (Chat, ripieno serve web) and background responses of gateways with a store are given to "
            "workers: they then survive the server, and any server with the same journal shows them.",
            True,
        ),
    ),
)
