"""Bombs end with their program, at its limits; what a confined program tries and does not get, tier by tier."""

import asyncio
import dataclasses
import json
import os
import secrets
import signal
import stat
from pathlib import Path

import pytest

from ripieno.sandbox import ProcessLimits, orders
from ripieno.sandbox.processes import LocalSpawner, clean_environment
from tests.skips import lacking
from tests.support.sandbox_tiers import SHELTERS, python, shelter

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
    if not {"user", "pid", "mount"} <= set(confinement.namespaces) or (os.geteuid() == 0 and release < (6, 14)):
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


#: What outlives the program that it starts, and reports its signals as shells do.
WRAPPER = ["/bin/sh", "-c", "trap 'wait $!; exit $?' TERM; \"$@\" & wait $!; exit $?", "sh"]


@pytest.mark.parametrize("wrapped", [True, False])
@pytest.mark.parametrize(("program", "code"), [("echo; exec sleep 60", -signal.SIGTERM), ("echo; exit 143", 143)])
async def test_a_signal_that_was_sent_is_how_it_ended(
    program: str, code: int, wrapped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It depends on which of the two processes bwrap's end reaches first; what is reported does not."""
    if wrapped:
        monkeypatch.setattr(orders, "arrange", lambda *_: WRAPPER)
    confinement = shelter("tier 2", tmp_path).confinement(writable=[tmp_path])
    async with await LocalSpawner().start(
        ["sh", "-c", program], clean_environment(), tmp_path, ProcessLimits(), confinement=confinement
    ) as process:
        assert await process.stdout.read(1) == b"\n"
        if code < 0:
            process.signal(-code)
        assert await process.wait() == code
    assert await process.wait() == code


ATTACKER = (Path(__file__).parent / "attacker.py").read_text(encoding="utf-8")
CANARY = f"CANARY-{secrets.token_hex(16)}"
#: What a tier without mounts does not keep (said in the guide): the mode of the user's own files outside.
NOT_PROMISED = {"tier 1 without mounts": ("mode",), "tier 1 without namespaces": ("mode",)}
#: Attempts that seem to succeed and change nothing of ours, which is looked at from outside: what is written goes to a
#: private copy; a signal to everybody is no error when it is refused for each one (Linux); the first process of tier 2
#: has the environment of the program itself.
HARMLESS = {
    "tier 1 without namespaces": ("process: kill everybody",),
    "tier 2": (
        *("write: create", "write: folder", "write: symbolic link"),
        *("environment: of everybody", "environment: parent"),
    ),
}


def environment_of(process: int) -> str:
    return Path(f"/proc/{process}/environ").read_text()


def files_of_the_home() -> list[str]:
    return [str(path) for path in Path.home().iterdir() if path.is_file()]


async def attack(name: str, folder: Path) -> tuple[dict[str, str], str]:
    """What came of each attempt, and all that the program wrote."""
    inside, outside = folder / "inside", folder / "outside"
    for one in (inside, outside, outside / "folder"):
        one.mkdir()
    (outside / "secret").write_text(CANARY)
    (outside / "mine").write_text(CANARY)
    sandbox = shelter(name, inside)
    async with await LocalSpawner().start(
        ["sh", "-c", "echo ready; sleep 300; true"], {"PATH": os.defpath, "SECRET": CANARY}, outside, ProcessLimits()
    ) as victim:
        assert await victim.stdout.read(6) == b"ready\n"
        assert CANARY in environment_of(victim.pid)
        completed = await python(
            ATTACKER,
            sandbox.confinement(writable=[inside]),
            inside,
            str(inside),
            str(outside),
            str(victim.pid),
            json.dumps(files_of_the_home()),
            **sandbox.environment(),
        )
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await victim.wait()
    sandbox.close()
    assert completed.exit_code == 0, completed.stderr.text
    found: dict[str, str] = json.loads(completed.stdout.text)
    return found, completed.stdout.text + completed.stderr.text


@pytest.mark.parametrize("name", SHELTERS)
async def test_a_confined_program_gets_nothing_and_what_it_needs(name: str, tmp_path: Path) -> None:
    found, said = await attack(name, tmp_path)
    assert len(found) > 100
    allowed = (*NOT_PROMISED.get(name, ()), *HARMLESS.get(name, ()))
    expected = {one for one in found if one.startswith("works")}
    got = {one for one, what in found.items() if what.startswith("done")}
    surprising = {one: found[one] for one in got - expected if not one.startswith(allowed)}
    assert surprising == {}
    assert {one: found[one] for one in expected - got} == {}
    assert CANARY not in said
    outside = tmp_path / "outside"
    assert sorted(path.name for path in outside.iterdir()) == ["folder", "mine", "secret"]
    assert (outside / "mine").read_text() == CANARY
    if "mode" not in allowed:
        assert stat.S_IMODE((outside / "mine").stat().st_mode) == 0o644
