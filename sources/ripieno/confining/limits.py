"""Limits of one process and its children, which no program can raise again."""

import resource

from ripieno.confining.settings import Settings


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
