"""The order in which a process gives things up: each step needs what the next one takes away."""

import contextlib
import dataclasses
import errno
import os
import struct
from collections.abc import Mapping
from typing import Any

from ripieno.sandbox.confinement import landlock, mounts, namespaces, seccomp, syscalls
from ripieno.sandbox.confinement.settings import Settings, limit, read

_CAPABILITIES_VERSION = 0x20080522
#: Parts of /proc that name no process, for where there is no /proc of one's own.
_HARMLESS = tuple(
    f"/proc/{name}"
    for name in ("cpuinfo", "meminfo", "stat", "loadavg", "uptime", "version", "filesystems", "sys/kernel", "sys/vm")
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    """What was done ahead: the settings it was done for, and the rules so far."""

    asked: Settings
    ruleset: int | None = None


#: What this process, or the one that it was forked from, has done ahead.
_ready: _Ready | None = None


def get_ready(settings: Mapping[str, Any]) -> None:
    """Does ahead what does not depend on the workspace, in the process that has entered the namespaces.

    The program is started sooner then: half of the steps are done (measured: 1 ms). Errors: those of ``apply``.
    """
    global _ready  # noqa: PLW0603  a fact of this process, as the namespaces are that it has entered
    asked = read(settings)
    ruleset = None
    if asked.tier == 1:
        entered = namespaces.entered
        processes: tuple[str, ...] = _HARMLESS
        if "mount" in entered:
            mounts.hide(asked.hidden)
            limit = asked.processes if "user" in entered else None
            if "pid" in entered and mounts.show_processes(limit):
                processes = ("/proc",)
        present = [path for path in processes if os.path.exists(path)]
        ruleset = landlock.make_rules((*asked.readable, *present), network=asked.network)
    _ready = _Ready(asked=asked, ruleset=ruleset)


def apply(settings: Mapping[str, Any]) -> None:
    """Confines this process for good, as its tier says. Just before it becomes another program.

    Errors: ``OSError`` that says which step failed; the process must end then, since some steps are done.
    """
    if _ready is None:
        get_ready(settings)
    assert _ready is not None
    limit(_ready.asked, own_users="user" in namespaces.entered)
    if _ready.ruleset is not None:
        _confine(_ready.asked, _ready.ruleset)
    elif _ready.asked.tier == 2:
        _lay_out(_ready.asked)


def prepare() -> None:
    """Finds out and makes what is the same for every process, before there are any that would each do it."""
    with contextlib.suppress(OSError):
        landlock.abi()
        for network in (False, True):
            seccomp.program(network=network)


def _confine(settings: Settings, ruleset: int) -> None:
    writable = settings.writable
    if "mount" in namespaces.entered:
        mounts.arrange(writable, settings.protected)
        if os.path.isdir(mounts.SHARED_MEMORY):
            writable = (*writable, mounts.SHARED_MEMORY)
    _give_up_capabilities()
    syscalls.prctl("no_new_privs", syscalls.PR_SET_NO_NEW_PRIVS, 1)
    landlock.restrict(ruleset, writable)
    seccomp.install(_filter(settings))


def _filter(settings: Settings) -> bytes:
    # What is as usual is left out, so that the same filter is not made twice.
    less = {
        "own_ipc": settings.tier == 1 and "ipc" not in namespaces.entered,
        "own_processes": settings.tier == 1 and "pid" not in namespaces.entered,
        "guards_truncation": settings.tier == 1 and landlock.abi() < 3,
    }
    return seccomp.program(
        network=settings.network,
        **{name: False for name, missing in less.items() if missing},
    )


def _lay_out(settings: Settings) -> None:
    """Leaves the filter where the program of tier 2 is told to find it."""
    if settings.filter_descriptor is None:
        raise OSError(errno.EINVAL, "seccomp: tier 2 needs the number of a descriptor for its filter")
    descriptor = os.memfd_create("filter")
    os.write(descriptor, _filter(settings))
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.dup2(descriptor, settings.filter_descriptor, inheritable=True)
    os.close(descriptor)


def _give_up_capabilities() -> None:
    """All of them. With ``no_new_privs`` no program gets any back, run by root or not (measured)."""
    header = syscalls.buffer(struct.pack("=Ii", _CAPABILITIES_VERSION, 0))
    syscalls.call("capabilities", seccomp.CAPSET[seccomp.column()], header, syscalls.buffer(bytes(24)))
