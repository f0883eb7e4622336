"""A PostgreSQL server that goes away under a worker: its runs are tried again, with the results that they had."""

import asyncio
import dataclasses
import pathlib
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import ripieno
from ripieno.canisters import ResultCanister
from ripieno.ensembles import Context
from ripieno.servers.worker.stretches import Stretches
from ripieno.storage.databases import claims
from ripieno.storage.dispatch.contract import Dispatched, Ending
from ripieno.storage.journal import Journal, outage
from ripieno.testing import call, model_of, turn
from tests.support.interruptions import Way, way_to
from tests.support.postgresql import address_of_schema, address_with_queue, server_of
from tests.support.workers import Site, append, check, configuration, submission

#: Seconds after which a test counts as hung.
HANG = 120


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "PATIENCE", 0.1)


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    made = tmp_path / "folder"
    made.mkdir()
    return made


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Remote(Site):
    """A site whose workers reach the journal on a way that can be cut, and the queue on another one."""

    way: str

    @contextmanager
    def journal(self) -> Iterator[Journal]:
        with Journal(self.way) as one:
            yield one


@contextmanager
def remote(server: str, folder: pathlib.Path) -> Iterator[tuple[Way, Remote]]:
    with way_to(server) as way:
        place = address_with_queue(server)
        name = place.partition("?")[0].rpartition("/")[2]
        there = f"{way.address.rpartition('/')[0]}/{name}"
        yield way, Remote(place=place, folder=folder, host=f"host-{uuid.uuid4().hex[:8]}", way=there)


async def test_a_run_that_begins_while_the_journal_is_away_is_tried_again(
    postgresql_server: str, folder: pathlib.Path
) -> None:
    with remote(postgresql_server, folder) as (way, site), site.dispatcher() as dispatcher:
        reported: asyncio.Queue[str] = asyncio.Queue()
        async with asyncio.timeout(HANG), site.worker(report=reported.put_nowait):

            async def state_of(name: str, *unlike: str) -> Dispatched:
                while True:
                    found = await asyncio.to_thread(dispatcher.find, f"submission of {name}")
                    if found.state not in unlike:
                        return found
                    await asyncio.sleep(0.02)

            await asyncio.to_thread(dispatcher.submit, submission("first", site.host))
            await state_of("first", "queued", "running")
            way.cut()
            await asyncio.to_thread(dispatcher.submit, submission("c", site.host))
            assert (await reported.get()).endswith(" It is tried again.")
            await state_of("c", "queued")
            way.restore()
            assert await reported.get() == "The worker has reached its database again, and goes on."
            found = await state_of("c", "queued", "running")
        assert (found.state, found.reason) == ("ended", "")
        with site.journal() as kept:
            check(site, kept, "c")


#: The server that a tool stops.
_servers: list[Any] = []


async def cut(context: Context, arguments: dict[str, Any]) -> str:
    """Appends a word, and then the server goes away."""
    append(context, arguments)
    await asyncio.to_thread(_servers[-1].stop)
    return "Written."


async def test_a_run_that_ends_while_the_journal_is_away_keeps_the_results_of_its_calls(
    tmp_path_factory: pytest.TempPathFactory, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "LEASE", 1.0)
    server: Any = server_of(tmp_path_factory.mktemp("away"))
    _servers.append(server)
    settings = configuration(folder)
    settings["ensembles"][0]["invokers"].append(
        {
            "name": "cut",
            "description": "cut",
            "effect": "write",
            "arguments": {"type": "object", "properties": {"word": {"type": "string"}}},
            "invocable": {"origin": "python", "function": f"{__name__}:cut"},
        }
    )
    models = [model_of([turn("I write.", calls=[call("cut", word="w")]), turn("Done.")]) for _ in range(2)]
    one = submission("c", "h")
    with Journal(address_of_schema(server.get_uri())) as kept:
        async with ripieno.assemble(settings, recorder=kept) as assembly, asyncio.timeout(HANG):
            stretches = Stretches(assembly, kept, lambda _: models.pop())
            assert await stretches.conduct(one) is None
            server.ensure_postgres_running()
            assert await stretches.conduct(one) == Ending(finish="stop")
        conversation = kept.restore("c").conversation
        (result,) = [each for each in conversation.canisters if isinstance(each, ResultCanister)]
        assert (result.error, result.text, conversation.text) == (None, "Written.", "Done.")
        assert (folder / "cut").read_text() == "c:w\n"
        assert [line.stage for line in kept.lines("c")].count("finished") == 1
        assert kept.verify() is None
