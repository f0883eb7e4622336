"""Starts of programs for the tests of supervisors: with a stand-in for the confinement, and in other applications."""

import pathlib
import subprocess
import sys

from ripieno.sandbox import Confinement, ProcessLimits
from ripieno.sandbox.processes import Completed, LocalSpawner, clean_environment, collect

HANG = 60

#: The beginning of an application's program.
PRELUDE = """
import asyncio, os, signal
from ripieno.sandbox.processes import LocalSpawner, clean_environment
from ripieno.sandbox import ProcessLimits
"""


async def run(*argv: str) -> Completed:
    async with await LocalSpawner().start(argv, clean_environment(), "/", ProcessLimits()) as process:
        return await collect(process)


def parent(pid: int) -> int:
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def program_of(code: str) -> list[str]:
    return [sys.executable, "-W", "error", "-c", PRELUDE + code]


def run_python(code: str) -> str:
    """What an application of its own writes."""
    completed = subprocess.run(program_of(code), capture_output=True, timeout=HANG, text=True, check=False)
    assert (completed.returncode, completed.stderr) == (0, "")
    return completed.stdout


class Settings(Confinement):
    """A confinement that a stand-in of the real one reads."""

    def __init__(self, **settings: object) -> None:
        super().__init__(tier=0)
        object.__setattr__(self, "settings", settings)

    def mapping(self) -> dict[str, object]:
        found: dict[str, object] = vars(self)["settings"]
        return found


async def confined(argv: list[str], directory: str = "/", **settings: object) -> Completed:
    spawner = LocalSpawner()
    async with await spawner.start(
        argv, clean_environment(), directory, ProcessLimits(), confinement=Settings(**settings)
    ) as process:
        return await collect(process)
