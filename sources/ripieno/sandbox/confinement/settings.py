"""The settings of a confinement, read strictly from the wire, and the resource limits among them."""

import dataclasses
import resource
from collections.abc import Mapping
from typing import Any

#: Every namespace that tier 1 enters where the kernel allows it.
NAMESPACES = ("user", "pid", "ipc", "mount", "net")
#: The descriptor on which bubblewrap finds the system call filter for its child: high enough to be unused.
FILTER_DESCRIPTOR = 60
#: The descriptor on which bubblewrap reports, and the exit code only of a program that it has started. It keeps it from
#: the program.
STATUS_DESCRIPTOR = 61


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The access of one process. Paths are absolute and resolved, and include everything beneath them.

    * ``protected`` is beneath ``writable`` and must not be changed; a folder ends in a slash. Tier 2 also protects
      missing paths, tier 1 only existing ones, and only in a mount namespace.
    * ``hidden`` is beneath ``readable`` and appears empty: in tier 2, and in tier 1 with a mount namespace.
    * ``network`` grants sockets.
    * ``namespaces`` are those that tier 1 enters; a kernel may forbid any of them.
    * ``file_size`` (bytes), ``open_files`` and ``seconds`` of CPU time are limits of one process, ``processes`` of one
      program with all that it starts. ``memory`` (bytes) is one of each process, and of all programs together.
      None leaves a limit unchanged.
    """

    tier: int = 1
    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    network: bool = False
    namespaces: tuple[str, ...] = ()
    memory: int | None = None
    file_size: int | None = None
    open_files: int | None = None
    processes: int | None = None
    seconds: int | None = None

    @property
    def files_in_memory(self) -> int | None:
        """Bytes that each private file system in memory may have: a quarter of the limit."""
        return None if self.memory is None else self.memory // 4


def read(settings: Mapping[str, Any]) -> Settings:
    """The settings. Errors: ``ValueError`` for invalid values; ``TypeError`` for an unknown key."""
    read = Settings(**{name: _frozen(value) for name, value in settings.items()})
    read = dataclasses.replace(read, protected=tuple(path.rstrip("/") for path in read.protected))
    if read.tier not in (0, 1, 2):
        raise ValueError(f"There is no tier {read.tier!r}; tiers are 0, 1 and 2.")
    unknown = [name for name in read.namespaces if name not in NAMESPACES]
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
    """Sets the limits, never higher than they are. Errors: ``OSError``.

    Memory counts allocations, not reservations: many runtimes reserve more than the machine has. Processes are counted
    per user, which is the tool alone only in a user namespace (``own_users``).
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
