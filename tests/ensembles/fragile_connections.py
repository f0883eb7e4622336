"""Connections that break when a test wants it."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import Any, TypeAlias

from ripieno.ensembles import Definition, Opened
from ripieno.ensembles.origin import while_connected
from ripieno.exceptions import ConnectionFailure
from tests.support.scripted_models import tool

Awaited: TypeAlias = Callable[[], Awaitable[Any]] | None


class Fragile:
    """A context manager that breaks on demand.

    ``refusals`` is how often it does not open; ``opening`` and ``closing`` are awaited. ``tasks`` have entered it, and
    ``left`` it, opened or not.
    """

    breaks: Exception = ConnectionResetError("gone")

    def __init__(self, *, opening: Awaited = None, closing: Awaited = None) -> None:
        self.opened = self.closed = self.refusals = 0
        self.tasks: set[object] = set()
        self.left: list[object] = []
        self.times: list[float] = []
        self.opening = opening
        self.closing = closing
        self.began = asyncio.Event()
        self._break = asyncio.Event()

    def value(self) -> Any:
        """The value of the present opening."""
        return self.opened

    def shatter(self) -> None:
        """Breaks what is open."""
        self._break.set()

    @contextlib.asynccontextmanager
    async def __call__(self) -> AsyncGenerator[Any, None]:
        self.began.set()
        self.times.append(asyncio.get_running_loop().time())
        self.tasks.add(asyncio.current_task())
        try:
            if self.refusals:
                self.refusals -= 1
                raise OSError("refused")
            if self.opening is not None:
                await self.opening()
            self._break = asyncio.Event()
            self.opened += 1
            try:
                async with while_connected(self._watch()):
                    yield self.value()
            finally:
                self.closed += 1
        finally:
            self.left.append(asyncio.current_task())
            if self.closing is not None:
                await self.closing()

    async def _watch(self) -> None:
        await self._break.wait()
        raise self.breaks


class Town(Fragile):
    """What an ensemble connects to, again and again; each time it offers the tools of ``offers``."""

    breaks = ConnectionFailure("mine", "it fell over")

    def __init__(self, *, opening: Awaited = None) -> None:
        super().__init__(opening=opening)
        self.offers: tuple[str, ...] = ("look", "find")
        self.descriptions: dict[str, str] = {}
        self.changed: Callable[[tuple[Definition, ...]], None] | None = None

    def definitions(self, names: Iterable[str]) -> tuple[Definition, ...]:
        return tuple(tool(name, schema={"description": self.descriptions.get(name, "")}) for name in names)

    def value(self) -> Opened:
        definitions = self.definitions(self.offers)
        return Opened(connection=f"connection {self.opened}", definitions=definitions, subscribe=self._subscribe)

    def _subscribe(self, changed: Callable[[tuple[Definition, ...]], None]) -> None:
        self.changed = changed
