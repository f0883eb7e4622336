"""Detection of the tiers that this machine can enforce, by confining a process that attempts forbidden actions.

An installed program or a new kernel proves nothing: containers and policies may forbid what would work.
"""

import dataclasses
import functools
import json
import os
import pathlib
import shutil
import sys
import threading
from collections.abc import Sequence

from ripieno.exceptions import RipienoError
from ripieno.lazy.modules import asyncio
from ripieno.sandbox.paths import readable_places
from ripieno.sandbox.private_folder import PrivateFolder
from ripieno.sandbox.process_limits import ProcessLimits
from ripieno.sandbox.processes import LocalSpawner, collect
from ripieno.sandbox.tiers import Confinement
from ripieno.values import Value

#: From most to least: kernels forbid mounts first.
_CHOICES: tuple[tuple[str, ...], ...] = (
    ("user", "pid", "ipc", "mount", "net"),
    ("user", "pid", "ipc", "net"),
    ("user", "pid"),
    (),
)
_PATIENCE = 30.0
#: Runs confined. Arguments: a folder that it may write, and a file outside that it must neither read nor write.
_ATTEMPT = """
import ctypes, json, socket, sys
inside, outside = sys.argv[1:]
def refused(attempt):
    try:
        attempt()
    except OSError:
        return True
    return False
def write(path):
    with open(path, "w") as file:
        file.write("inside")
facts = {
    "can write inside": not refused(lambda: write(inside + "/written")),
    "cannot read outside": refused(lambda: open(outside)),
    "has no sockets": refused(lambda: socket.socket()) and refused(lambda: socket.socket(socket.AF_UNIX)),
}
# The parent checks whether this was refused or went to a private file of that name.
refused(lambda: write(outside))
print(json.dumps([facts, ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1)]))
"""


class DetectedTiers(Value, kw_only=True):
    """The result for one tier. ``failure`` is the reason why it is unavailable; None when it is enforced.

    ``template`` is the base of this tier's confinements, ``parts`` are its mechanisms, ``lacks`` what the kernel
    forbids of it.
    """

    tier: int
    failure: str | None = None
    template: Confinement = Confinement(tier=0)
    parts: tuple[str, ...] = ()
    lacks: str | None = None


def try_tier(tier: int) -> DetectedTiers:
    """Tries a tier, once for each PATH. Starts processes and waits for them; may be called on any thread."""
    return _try(tier, os.environ.get("PATH", os.defpath), os.geteuid())


@functools.cache
def _try(tier: int, path: str, _user: int) -> DetectedTiers:
    if sys.platform != "linux":
        return DetectedTiers(tier=tier, failure="Linux is required.")
    found: list[DetectedTiers] = []
    # An event loop that already runs on this thread cannot run the trial.
    thread = threading.Thread(target=lambda: found.append(_TRIALS[tier](path)), name="ripieno sandbox")
    thread.start()
    thread.join()
    return found[0] if found else DetectedTiers(tier=tier, failure="the trial failed.")


def _try_kernel(path: str) -> DetectedTiers:
    failures: list[str] = []
    for choice in _CHOICES:
        template = Confinement(tier=1, namespaces=choice)
        failure, version = _fails(template, path)
        if failure is None:
            parts = (f"landlock {version}", "seccomp", *choice)
            lacks = None
            if failures:
                missing = ", ".join(one for one in _CHOICES[0] if one not in choice)
                lacks = f"without namespaces ({missing}), which this kernel does not allow here: {failures[0]}"
            return DetectedTiers(tier=1, template=template, parts=parts, lacks=lacks)
        failures.append(failure)
    return DetectedTiers(tier=1, failure=failures[-1])


def _try_bubblewrap(path: str) -> DetectedTiers:
    program = _find_bubblewrap(path)
    if program is None:
        return DetectedTiers(tier=2, failure="`bwrap` not found. Install the package `bubblewrap`.")
    failures: list[str] = []
    for own_processes in (True, False):
        template = Confinement(tier=2, program=program, own_processes=own_processes)
        failure, _ = _fails(template, path)
        if failure is None:
            parts = ("bubblewrap", "seccomp", *(("proc",) if own_processes else ()))
            lacks = None if own_processes else f"without a /proc of its own: {failures[0]}"
            return DetectedTiers(tier=2, template=template, parts=parts, lacks=lacks)
        failures.append(failure)
    return DetectedTiers(tier=2, failure=f"{program} does not work here: {failures[-1]}")


_TRIALS = {1: _try_kernel, 2: _try_bubblewrap}


def _fails(template: Confinement, path: str) -> tuple[str | None, int]:
    """The failure of a confinement or None, and the version of Landlock."""
    with PrivateFolder() as folder:
        place = folder.path
        inside, outside = f"{place}/inside", f"{place}/outside"
        os.mkdir(inside)
        pathlib.Path(outside).write_text("outside", encoding="utf-8")
        readable = readable_places(path, os.path.expanduser("~"), network=False)
        confinement = dataclasses.replace(template, writable=(inside,), readable=readable)
        argv = [os.path.realpath(sys.executable), "-I", "-S", "-c", _ATTEMPT, inside, outside]
        try:
            failure, version = asyncio.run(_run(argv, inside, confinement))
        except RipienoError as error:
            return str(error), 0
        except TimeoutError:
            return f"a confined process did not end within {_PATIENCE:g} s.", 0
        if failure is None and pathlib.Path(outside).read_text(encoding="utf-8") != "outside":
            return "a confined process could write to a file outside.", version
        return failure, version


async def _run(argv: Sequence[str], folder: str, confinement: Confinement) -> tuple[str | None, int]:
    async with asyncio.timeout(_PATIENCE):
        limits = ProcessLimits()
        process = await LocalSpawner().start(argv, {"PATH": os.defpath}, folder, limits, confinement=confinement)
        completed = await collect(process)
    if completed.exit_code != 0:
        output = " ".join(completed.stderr.text.split())[-300:]
        return f"a confined process ended with {completed.exit_code}: {output or 'no error output'}", 0
    facts, version = json.loads(completed.stdout.text)
    wrong = [name for name, held in facts.items() if not held]
    return f"checks of a confined process failed: {', '.join(wrong)}." if wrong else None, version


def _find_bubblewrap(path: str) -> str | None:
    """The system's bubblewrap, before any other: some systems allow namespaces to that one alone."""
    for folder in ("/usr/bin", "/bin", *path.split(os.pathsep)):
        found = shutil.which("bwrap", path=folder) if os.path.isabs(folder) else None
        if found is not None:
            return os.path.realpath(found)
    return None
