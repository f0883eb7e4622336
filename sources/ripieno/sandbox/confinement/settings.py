"""What the application asks for, as it came over the wire: read once, strictly.

Limits of one process and its children, which no program can raise again.
"""

import dataclasses
import resource
from collections.abc import Mapping
from typing import Any

#: Every namespace that tier 1 enters where the kernel allows it.
NAMESPACES = ("user", "pid", "ipc", "mount", "net")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What one process may reach. Paths are absolute and resolved; sizes are in bytes, ``seconds`` of a processor.

    ``namespaces`` None means as many as the kernel allows; otherwise exactly these. ``filter_descriptor`` is where
    the program of tier 2 finds the filter that it puts upon its own child. A limit of None is left as it is.
    """

    tier: int
    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    network: bool = False
    namespaces: tuple[str, ...] | None = None
    memory: int | None = None
    file_size: int | None = None
    open_files: int | None = None
    processes: int | None = None
    seconds: int | None = None
    filter_descriptor: int | None = None


def read(settings: Mapping[str, Any]) -> Settings:
    """The settings. Errors: ``ValueError`` for what is none; ``TypeError`` for a key that nobody knows."""
    read = Settings(**{name: _frozen(value) for name, value in settings.items()})
    read = dataclasses.replace(read, protected=tuple(path.rstrip("/") for path in read.protected))
    if read.tier not in (0, 1, 2):
        raise ValueError(f"There is no tier {read.tier!r}; tiers are 0, 1 and 2.")
    unknown = [name for name in read.namespaces or () if name not in NAMESPACES]
    if unknown:
        raise ValueError(f"There is no namespace {unknown[0]!r}; there are {', '.join(NAMESPACES)}.")
    for path in (*read.writable, *read.readable, *read.protected, *read.hidden):
        if not path.startswith("/"):
            raise ValueError(f"{path!r} must be an absolute path.")
    return read


def _frozen(value: Any) -> Any:
    items: Any = value
    return tuple(items) if isinstance(value, list) else value


def limit(settings: Settings, *, own_users: bool) -> None:
    """Sets them, never higher than they are. Errors: ``OSError``.

    Memory is what is allocated, not what is reserved: many runtimes reserve more than the machine has. Processes are
    counted for the user, and only in a user namespace (``own_users``) is that the tool alone.
    """
    _lower(resource.RLIMIT_CORE, 0)
    for kind, value in (
        (resource.RLIMIT_DATA, settings.memory),
        (resource.RLIMIT_FSIZE, settings.file_size),
        (resource.RLIMIT_NOFILE, settings.open_files),
        (resource.RLIMIT_CPU, settings.seconds),
        (resource.RLIMIT_NPROC, settings.processes if own_users else None),
    ):
        if value is not None:
            _lower(kind, value)


def _lower(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    lowest = value if hard == resource.RLIM_INFINITY else min(value, hard)
    try:
        resource.setrlimit(kind, (lowest, lowest))
    except (OSError, ValueError) as error:
        raise OSError(getattr(error, "errno", 0) or 0, f"limit {kind} of {value}: {error}") from error
