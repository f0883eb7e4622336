"""Bombs end with their program, at its limits; this program and its machine go on."""

import dataclasses
import os
import signal
from pathlib import Path

import pytest

from ripieno.sandbox import Confinement, ProcessLimits
from ripieno.sandbox.processes import LocalSpawner, clean_environment
from tests.skips import lacking
from tests.support.sandbox_tiers import python, shelter

MEBIBYTE = 2**20
TIERS = pytest.mark.parametrize("name", ["tier 1", "tier 2"])


@TIERS
async def test_memory(name: str, tmp_path: Path) -> None:
    code = "try:\n x = bytearray(512 * 2**20)\n print('got it')\nexcept MemoryError:\n print('refused')"
    confinement = shelter(name, tmp_path).confinement(writable=[tmp_path])
    bounded = dataclasses.replace(confinement, memory=256 * MEBIBYTE)
    assert (await python(code, bounded, tmp_path)).stdout.text == "refused\n"
    assert (await python(code, confinement, tmp_path)).stdout.text == "got it\n"


@TIERS
async def test_what_is_reserved_and_not_used_is_no_memory(name: str, tmp_path: Path) -> None:
    """Many runtimes reserve far more than they use."""
    code = "import mmap; mmap.mmap(-1, 64 * 2**30, prot=0, flags=mmap.MAP_PRIVATE | 0x4000); print('reserved')"
    confinement = dataclasses.replace(shelter(name, tmp_path).confinement(writable=[tmp_path]), memory=256 * MEBIBYTE)
    assert (await python(code, confinement, tmp_path)).stdout.text == "reserved\n"


@TIERS
async def test_size_of_a_file(name: str, tmp_path: Path) -> None:
    code = (
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "try:\n with open('big', 'wb') as file:\n  for _ in range(9): file.write(bytes(2**20))\n"
        "except OSError as error: print(error.strerror)"
    )
    confinement = dataclasses.replace(shelter(name, tmp_path).confinement(writable=[tmp_path]), file_size=4 * MEBIBYTE)
    assert (await python(code, confinement, tmp_path)).stdout.text == "File too large\n"
    assert (tmp_path / "big").stat().st_size == 4 * MEBIBYTE


@TIERS
async def test_descriptors(name: str, tmp_path: Path) -> None:
    code = (
        "import os\nheld = []\n"
        "try:\n while len(held) < 10000: held.append(os.dup(0))\n"
        "except OSError as error: print(error.strerror, len(held) < 100)"
    )
    confinement = dataclasses.replace(shelter(name, tmp_path).confinement(writable=[tmp_path]), open_files=100)
    assert (await python(code, confinement, tmp_path)).stdout.text == "Too many open files True\n"


def limit_of_the_machine() -> str:
    return Path("/proc/sys/kernel/pid_max").read_text()


async def test_processes_where_they_are_counted(tmp_path: Path) -> None:
    """The kernel counts those of a namespace since Linux 6.14, and for a user that is not root since 5.14."""
    code = (
        "import os, signal\ncount = 0\n"
        "try:\n while count < 2000:\n  if os.fork() == 0: signal.pause()\n  count += 1\n"
        "except OSError as error: print(error.strerror)\nprint(count)"
    )
    before = limit_of_the_machine()
    confinement = shelter("tier 1", tmp_path).confinement(writable=[tmp_path])
    release = tuple(int(part) for part in os.uname().release.split(".")[:2])
    if not {"user", "pid", "mount"} <= set(confinement.namespaces or ()) or (os.geteuid() == 0 and release < (6, 14)):
        lacking("this kernel counts no processes of a namespace here")
    completed = await python(code, dataclasses.replace(confinement, processes=400), tmp_path)
    assert limit_of_the_machine() == before
    said, counted = completed.stdout.text.splitlines()
    assert said == "Resource temporarily unavailable"
    assert int(counted) < 400


@TIERS
async def test_time_of_the_processor(name: str, tmp_path: Path) -> None:
    confinement = dataclasses.replace(shelter(name, tmp_path).confinement(writable=[tmp_path]), seconds=1)
    completed = await python("while True: pass", confinement, tmp_path)
    assert completed.exit_code != 0


@dataclasses.dataclass(frozen=True)
class Wrapped:
    """A confinement whose program outlives what it confines, and reports its signals as shells do."""

    confinement: Confinement

    def mapping(self) -> dict[str, object]:
        return self.confinement.mapping()

    def prefix(self, directory: str) -> list[str]:
        return ["/bin/sh", "-c", "trap 'wait $!; exit $?' TERM; \"$@\" & wait $!; exit $?", "sh"]


@pytest.mark.parametrize(("program", "code"), [("echo; exec sleep 60", -signal.SIGTERM), ("echo; exit 143", 143)])
async def test_a_signal_that_was_sent_is_how_it_ended(program: str, code: int, tmp_path: Path) -> None:
    """It depends on which of the two processes bwrap's end reaches first; what is reported does not."""
    for confinement in (
        Wrapped(shelter("tier 2", tmp_path).confinement(writable=[tmp_path])),
        shelter("tier 2", tmp_path).confinement(writable=[tmp_path]),
    ):
        async with await LocalSpawner().start(
            ["sh", "-c", program], clean_environment(), tmp_path, ProcessLimits(), confinement=confinement
        ) as process:
            assert await process.stdout.read(1) == b"\n"
            if code < 0:
                process.signal(-code)
            assert await process.wait() == code
        assert await process.wait() == code
