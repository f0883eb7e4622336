"""An application that runs adversaries until it is killed.

Started as ``python -m tests.sandbox.supervision.killed_application FOLDER NUMBER...``.

Each number is that of a script; the path of its ``Living`` is FOLDER and the place of the number among the arguments.
It writes a line when all of them are there.
"""

import asyncio
import sys

from ripieno.sandbox import ProcessLimits
from ripieno.sandbox.processes import LocalSpawner, clean_environment
from tests.sandbox.supervision.escaping_programs import SCRIPTS


async def run(folder: str, place: int, script: str) -> None:
    environment = clean_environment({"ALIVE": f"{folder}/{place}"})
    process = await LocalSpawner().start(["sh", "-c", script], environment, "/", ProcessLimits())
    assert await process.stdout.read(6) == b"ready\n"
    if script.endswith("exit 0"):
        await process.wait()


async def main() -> None:
    folder, *numbers = sys.argv[1:]
    scripts = list(SCRIPTS.values())
    await asyncio.gather(*(run(folder, place, scripts[int(number)]) for place, number in enumerate(numbers)))
    print("ready", flush=True)
    await asyncio.sleep(600)


if __name__ == "__main__":
    asyncio.run(main())
