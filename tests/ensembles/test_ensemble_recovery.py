"""Ensembles whose connection is lost, found again, or tells that something else is offered."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterable

from ripieno.ensembles import Definition, Ensemble, Opened
from ripieno.exceptions import ConnectionFailure
from tests.ensembles.test_owner_recovery import in_virtual_time
from tests.support.scripted_models import Listening, tool


class Town:
    """Where an ensemble connects to, again and again; each time it offers what ``offers`` says."""

    def __init__(self) -> None:
        self.opened = 0
        self.closed = 0
        self.open = True
        self.offers: tuple[str, ...] = ("look", "find")
        self.descriptions: dict[str, str] = {}
        self.changed: Callable[[tuple[Definition, ...]], None] | None = None
        self._lost = asyncio.Event()

    def lose(self) -> None:
        """Ends the connection."""
        self._lost.set()

    def definitions(self, names: Iterable[str]) -> tuple[Definition, ...]:
        return tuple(tool(name, schema={"description": self.descriptions.get(name, "")}) for name in names)

    @contextlib.asynccontextmanager
    async def __call__(self) -> AsyncGenerator[Opened, None]:
        if not self.open:
            raise ConnectionFailure("mine", "nobody answers")
        self._lost = asyncio.Event()
        self.opened += 1
        number = self.opened
        try:
            async with asyncio.TaskGroup() as group:
                watcher = group.create_task(self._watch())
                try:
                    yield Opened(
                        connection=f"connection {number}",
                        definitions=self.definitions(self.offers),
                        subscribe=self._subscribe,
                    )
                finally:
                    watcher.cancel()
        except* ConnectionFailure as failures:
            raise failures.exceptions[0] from None
        finally:
            self.closed += 1

    def _subscribe(self, changed: Callable[[tuple[Definition, ...]], None]) -> None:
        self.changed = changed

    async def _watch(self) -> None:
        await self._lost.wait()
        raise ConnectionFailure("mine", "it fell over")


def test_what_is_lost_is_connected_again_and_offers_what_it_has_then() -> None:
    async def scene() -> None:
        town, listening = Town(), Listening()
        mine = Ensemble("mine", opener=town, surroundings=listening.surroundings)
        await mine.connect()
        looked = mine.invokers["look"]
        town.offers, town.descriptions = ("look", "keep"), {"look": "Now it looks away."}
        town.lose()
        await asyncio.sleep(0.1)
        assert mine.state == "reconnecting"
        assert mine.invokers["look"] is looked
        await asyncio.sleep(1)
        assert (mine.state, mine.connection, mine.revision) == ("connected", "connection 2", 2)
        assert list(mine.invokers) == ["keep", "look"]
        assert mine.invokers["look"] is not looked
        await mine.disconnect()
        assert town.opened == town.closed == 2
        lost, regained = listening.messages
        # What was wrong may end with lines of somebody else's: ours come before.
        assert lost == "Ensemble 'mine' lost its connection, and reconnects in 0.5 s: it fell over"
        assert regained == "Ensemble 'mine' has reconnected. New: keep. Gone: find. Changed: look."

    in_virtual_time(scene)


def test_connecting_while_it_waits_is_an_attempt_at_once() -> None:
    async def scene() -> None:
        town = Town()
        mine = Ensemble("mine", opener=town)
        await mine.connect()
        town.open = False
        town.lose()
        await asyncio.sleep(20)
        assert mine.state == "reconnecting"
        town.open = True
        began = asyncio.get_running_loop().time()
        await mine.connect()
        assert asyncio.get_running_loop().time() == began
        assert (mine.state, mine.connection) == ("connected", "connection 2")
        await asyncio.sleep(1000)
        await mine.disconnect()
        assert town.opened == town.closed == 2

    in_virtual_time(scene)


def test_a_changed_list_is_the_next_snapshot() -> None:
    async def scene() -> None:
        town, listening = Town(), Listening()
        mine = Ensemble("mine", opener=town, surroundings=listening.surroundings)
        await mine.connect()
        assert town.changed is not None
        town.changed(town.definitions(["look", "added", "find"]))
        assert (list(mine.invokers), mine.revision, mine.state) == (["added", "find", "look"], 2, "connected")
        town.changed(town.definitions(["find", "look", "added"]))
        await mine.disconnect()
        assert listening.messages == ["Ensemble 'mine' has changed its tools. New: added."]

    in_virtual_time(scene)
