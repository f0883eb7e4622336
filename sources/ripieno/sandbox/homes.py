"""The homes of programs: each conversation has its own, with a folder for temporary files, and their number is bounded.

One in which a program runs is never removed; of the others, the least recently used one is removed first.
"""

import contextlib
import dataclasses
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator
from typing import Self

from ripieno.exceptions import ResourceFault
from ripieno.sandbox.pipes import ByteReader, ByteWriter
from ripieno.sandbox.private_folder import PrivateFolder
from ripieno.sandbox.process_limits import ProcessLimits
from ripieno.sandbox.processes import Process

#: Homes that are kept while no program runs in them.
MOST_HOMES = 64

#: The user and the conversation for which programs run.
Resident = tuple[str, str]


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Home:
    """A private home, and a folder for temporary files. ``users`` is the number of those that need them now."""

    folder: str
    users: int = 0

    @property
    def home(self) -> str:
        """The home folder."""
        return f"{self.folder}/home"

    @property
    def temporary(self) -> str:
        """The folder for temporary files."""
        return f"{self.folder}/temporary"


class Homes:
    """The homes beneath one private folder, for any thread. ``furnish`` gets each new one."""

    def __init__(self, folder: PrivateFolder, furnish: Callable[[Home], None]) -> None:
        self._folder = folder
        self._furnish = furnish
        self._homes: OrderedDict[Resident, Home] = OrderedDict()
        self._made = 0
        self._lock = threading.RLock()

    def access(self, resident: Resident) -> Home:
        """The home of a conversation, created when first needed. Errors: ``ResourceFault``, ``OSError``."""
        with self._lock:
            home = self._homes.get(resident)
            if home is None:
                self._made += 1
                try:
                    home = Home(folder=f"{self._folder.path}/{self._made}")
                    for folder in (home.folder, home.home, home.temporary):
                        os.mkdir(folder, 0o700)
                except OSError as error:
                    message = f"The home of the program cannot be made: {error.strerror or error}."
                    raise ResourceFault(message, code="not_started") from error
                self._furnish(home)
                self._homes[resident] = home
            self._homes.move_to_end(resident)
            return home

    @contextlib.contextmanager
    def use(self, resident: Resident) -> Generator[Home, None, None]:
        """The home of a conversation, which is not removed meanwhile. Errors: as ``access``."""
        with self._lock:
            home = self.access(resident)
            home.users += 1
        try:
            yield home
        finally:
            with self._lock:
                home.users -= 1

    def has_excess(self) -> bool:
        """Whether there are too many, and one of them is not in use."""
        with self._lock:
            return len(self._homes) > MOST_HOMES and any(not home.users for home in self._homes.values())

    def reduce(self) -> None:
        """Removes those that are too many and not in use. May take long."""
        with self._lock:
            idle = [resident for resident, home in self._homes.items() if not home.users]
            excess = [self._homes.pop(resident) for resident in idle[: max(0, len(self._homes) - MOST_HOMES)]]
        for home in excess:
            self._folder.remove(os.path.basename(home.folder))


class HousedProcess(Process):
    """A process with something to do when it has been ended, such as to leave its home."""

    def __init__(self, process: Process, leave: Callable[[], None]) -> None:
        self._process = process
        self._leave = contextlib.ExitStack()
        self._leave.callback(leave)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def limits(self) -> ProcessLimits:
        return self._process.limits

    @property
    def stdin(self) -> ByteWriter | None:
        return self._process.stdin

    @property
    def stdout(self) -> ByteReader:
        return self._process.stdout

    @property
    def stderr(self) -> ByteReader:
        return self._process.stderr

    @property
    def stopped(self) -> int:
        return self._process.stopped

    @property
    def remark(self) -> str:
        return self._process.remark

    async def wait(self) -> int:
        return await self._process.wait()

    def signal(self, number: int) -> None:
        self._process.signal(number)

    async def terminate(self) -> None:
        try:
            await self._process.terminate()
        finally:
            self._leave.close()

    async def __aenter__(self) -> Self:
        await self._process.__aenter__()
        return self

    async def __aexit__(self, *details: object) -> None:
        try:
            await self._process.__aexit__(*details)
        finally:
            self._leave.close()
