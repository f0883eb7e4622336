"""Memory that is shared, or spread over processes, programs or files, ends at the limit in every tier, as forks do."""

import asyncio
import dataclasses
import itertools
import pathlib
import random
import re
import signal

import pytest

from ripieno.sandbox import Confinement, ProcessLimits
from ripieno.sandbox.local_processes import LocalProcess
from ripieno.sandbox.processes import Completed, LocalSpawner, clean_environment, collect
from ripieno.sandbox.refusals import explain_excess
from tests.counts import count
from tests.support.sandbox_tiers import PYTHON, SHELTERS, python, shelter

MEBIBYTE = 2**20
LIMIT = 256 * MEBIBYTE
#: Ways to take 16 times a number of mebibytes of memory, which then stays.
TAKING = {
    "one shared mapping": "held = mmap.mmap(-1, 16 * SIZE); fill(held)",
    "many shared mappings": "held = [fill(mmap.mmap(-1, SIZE)) for _ in range(16)]",
    "a child for each": "for _ in range(16):\n if os.fork() == 0: held = fill(bytearray(SIZE)); signal.pause()",
    "a grandchild for each": (
        "for _ in range(16):\n"
        " if os.fork() == 0:\n"
        "  if os.fork() == 0: os.setsid(); held = fill(bytearray(SIZE)); signal.pause()\n"
        "  os._exit(0)"
    ),
    "a chain of children": "for _ in range(16):\n held = fill(mmap.mmap(-1, SIZE))\n if os.fork() != 0: signal.pause()",
    "threads": (
        "def take(): held.append(fill(mmap.mmap(-1, SIZE)))\n"
        "held = []; taking = [threading.Thread(target=take) for _ in range(16)]\n"
        "for one in taking: one.start()"
    ),
    "what a child leaves": (
        "held = mmap.mmap(-1, 16 * SIZE)\nif os.fork() == 0: fill(held); os._exit(0)\nos.wait()\nfill(held)"
    ),
    "hidden from inspection": (
        "ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\nheld = [fill(mmap.mmap(-1, SIZE)) for _ in range(16)]"
    ),
}
PREAMBLE = """
import ctypes, mmap, os, signal, sys, threading
def fill(held):
    for at in range(0, len(held), 4096): held[at] = 1
    return held
SIZE = int(sys.argv[1]) * 2**20
"""
TIERS = [*SHELTERS, "tier 0"]
KILLED = explain_excess("memory", 0, LIMIT).partition(" 0 MiB")[0]


def confinement_of(name: str, folder: pathlib.Path) -> Confinement:
    wide = Confinement(tier=0) if name == "tier 0" else shelter(name, folder).confinement(writable=[folder])
    return dataclasses.replace(wide, memory=LIMIT, processes=400)


async def take(way: str, mebibytes: int, confinement: Confinement, folder: pathlib.Path) -> Completed:
    code = f"{PREAMBLE}{TAKING[way]}\nsignal.pause()"
    async with asyncio.timeout(60):
        return await python(code, confinement, folder, str(mebibytes))


@pytest.mark.parametrize("name", TIERS)
async def test_no_way_to_take_memory_passes_the_limit(name: str, tmp_path: pathlib.Path) -> None:
    confinement = confinement_of(name, tmp_path)
    ways = list(itertools.islice(itertools.cycle(TAKING), count(100, 12)))
    for way in random.Random(name).sample(ways, len(ways)):
        completed = await take(way, 40, confinement, tmp_path)
        assert (way, completed.exit_code) == (way, -signal.SIGKILL)
        assert completed.note.startswith(KILLED)


@pytest.mark.parametrize("name", TIERS)
async def test_memory_below_the_limit_is_left_alone(name: str, tmp_path: pathlib.Path) -> None:
    """Pages that parent and child share are one."""
    code = f"""{PREAMBLE}
import time
held = fill(mmap.mmap(-1, 10 * SIZE)); more = fill(bytearray(4 * SIZE))
for _ in range(4):
    if os.fork() == 0: time.sleep(0.6); os._exit(sum(held[at] + more[at] for at in range(0, len(more), 4096)) == 0)
print({{os.wait()[1] for _ in range(4)}})
"""
    completed = await python(code, confinement_of(name, tmp_path), tmp_path, "10")
    assert (completed.stdout.text, completed.note) == ("{0}\n", "")


@pytest.mark.parametrize("name", TIERS)
async def test_programs_add_up(name: str, tmp_path: pathlib.Path) -> None:
    """The largest is killed; the others go on."""
    code = (
        f"{PREAMBLE}held = fill(mmap.mmap(-1, SIZE)); print('taken', flush=True); sys.stdin.read(); print(held[0] == 1)"
    )
    confinement = confinement_of(name, tmp_path)
    processes: list[LocalProcess] = []
    for mebibytes in ("40", "50", "200"):
        process = await LocalSpawner().start(
            [PYTHON, "-I", "-S", "-c", code, mebibytes],
            clean_environment(),
            tmp_path,
            ProcessLimits(),
            pipe_stdin=True,
            confinement=confinement,
        )
        processes.append(process)
        # The last one may be killed before it says so.
        assert await process.stdout.read(6) == b"taken\n" or len(processes) == 3
    async with asyncio.timeout(30):
        assert await processes[-1].wait() == -signal.SIGKILL
    for process in processes[:-1]:
        assert process.stdin is not None
        process.stdin.close()
    completed = [await collect(process) for process in processes]
    assert [(one.exit_code, one.stdout.text) for one in completed[:-1]] == [(0, "True\n")] * 2
    assert [one.note.startswith(KILLED) for one in completed] == [False, False, True]


@pytest.mark.parametrize("name", ["tier 1", "tier 2"])
async def test_files_in_memory_are_bounded(name: str, tmp_path: pathlib.Path) -> None:
    places = ["/dev/shm"] if name == "tier 1" else ["/dev/shm", "/tmp"]
    code = (
        f"sizes = []\nfor place in {places}:\n file = open(place + '/file', 'wb')\n"
        " try:\n  for _ in range(300): file.write(bytes(2**20)); file.flush()\n"
        " except OSError as error: sizes.append((error.strerror, file.tell() >> 20))\nprint(sizes)"
    )
    completed = await python(code, confinement_of(name, tmp_path), tmp_path)
    assert re.findall(r"'([^']*)', (\d+)", completed.stdout.text) == [("No space left on device", "64")] * len(places)


@pytest.mark.parametrize("name", TIERS)
async def test_forks_end_at_the_limit(name: str, tmp_path: pathlib.Path) -> None:
    """Where the kernel does not count them; otherwise it refuses more."""
    code = (
        "import os, signal\ntry:\n for _ in range(900):\n  if os.fork() == 0: signal.pause()\n"
        "except OSError: raise SystemExit(3)\nsignal.pause()"
    )
    async with asyncio.timeout(30):
        completed = await python(code, confinement_of(name, tmp_path), tmp_path)
    if completed.exit_code != 3:
        assert completed.exit_code == -signal.SIGKILL
        assert re.fullmatch(r"\[It was killed: it had \d+ processes, and the sandbox allows 400\.\]", completed.note)
