"""``ripieno work``: a worker, which conducts submitted runs."""

import asyncio
import contextlib
import itertools
import os
import re
from collections.abc import Generator

import click

from ripieno.approvals import DeferredConfirmer
from ripieno.assembly import Assembly
from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.assembly.journal import open_database, place_of_journal
from ripieno.assembly.submissions import inspect_queue, open_dispatcher, require_engine
from ripieno.cli.common import exit_codes
from ripieno.cli.common.assembly import make_assembly
from ripieno.cli.common.layers import load_valid_layers
from ripieno.cli.common.main import Interrupted, run_async, say
from ripieno.cli.common.observers import LogFormat, log_everything, logged, watchers_for
from ripieno.cli.common.options import Number, Settings, common, pass_settings
from ripieno.cli.common.scores import find_model
from ripieno.cli.serve.common import HOST, approvable, approving, leave_input, report_logs
from ripieno.conducting.paused import PausedStore
from ripieno.descriptors.durable import MACHINE
from ripieno.ensembles.threads import run_in_thread
from ripieno.exceptions import InputError
from ripieno.storage.databases.contract import Database, Disconnected
from ripieno.storage.databases.opening import database_at
from ripieno.storage.dispatch.contract import RunCounter

_HIGHEST = 65_535
#: Seconds before further attempts to reach the database. The last one is repeated.
_PAUSES = (1, 2, 4, 8, 16, 30)


@click.command()
@click.option("--slots", metavar="N", type=Number(1), help="Runs at once, instead of the configured number.")
@click.option("--grace", metavar="SECONDS", type=float, help="How long runs may go on after Ctrl-C or SIGTERM.")
@click.option("--host", "hosts", metavar="NAME", multiple=True, help="A name of this machine, for its workspaces.")
@click.option("--metrics", metavar="[HOST:]PORT", help="Serve Prometheus metrics there; by default not at all.")
@approvable
@logged
@common
@pass_settings
def work(
    settings: Settings,
    *,
    slots: int | None,
    grace: float | None,
    hosts: tuple[str, ...],
    metrics: str | None,
    approve: tuple[str, ...],
    log: LogFormat | None,
) -> None:
    """Conduct submitted runs, until Ctrl-C.

    Any number of workers share a queue: on one machine in a file, on several in the PostgreSQL database that [journal]
    url names. A run whose worker or machine fails is continued by another worker within 17 seconds, and no call runs
    twice. After Ctrl-C or SIGTERM, runs may end; those that do not are given back. A second signal ends the worker at
    once. If the database cannot be reached at the start, it waits for it.

    \b
    Example:
      ripieno work
      ripieno work --slots 8 --approve 'io.*'
      ripieno work --host build-1 --log-format json
      ripieno work --metrics 9464
    """
    for host in hosts:
        if re.fullmatch(MACHINE.pattern, host) is None:
            raise InputError(f"--host must be {MACHINE.shape} of letters, digits, '.', '_' and '-', and not {host!r}.")
    with contextlib.ExitStack() as stack:
        stack.enter_context(report_logs(settings) if log is None else log_everything(log, debug=settings.debug))
        settings.journal = True
        loaded = approving(load_valid_layers(settings), approve)
        require_engine()  # Its extra has what the journal needs, too.
        leave_input()
        chosen, leaving = loaded.configuration.durable, asyncio.Event()
        assembly = make_assembly(
            loaded,
            confirmer=DeferredConfirmer(),
            grants=PausedStore(open_database(loaded, os.environ)).grants,
            watchers=watchers_for(log, leaving.is_set),
        )
        with contextlib.suppress(Interrupted):
            run_async(
                _work(
                    loaded,
                    assembly,
                    hosts=hosts or ((chosen.host,) if chosen.host else ()),
                    slots=slots or chosen.slots,
                    grace=chosen.grace if grace is None else grace,
                    metrics=metrics,
                    leaving=leaving,
                ),
                again=_end_now,
            )
        say("The worker has ended.")


def _end_now(number: int) -> None:
    # Tools and connections end with the process, as if it were killed.
    say("The worker ends at once. Another one goes on with its runs within 17 seconds.")
    os._exit(exit_codes.SIGNAL + number)


async def _work(
    loaded: LoadedConfiguration,
    assembly: Assembly,
    *,
    hosts: tuple[str, ...],
    slots: int,
    grace: float,
    metrics: str | None,
    leaving: asyncio.Event,
) -> None:
    """Works until it is cancelled, and then sets ``leaving``."""
    from ripieno.servers.worker.worker import Worker

    async with contextlib.AsyncExitStack() as stack:
        database = open_database(loaded, os.environ)
        if database.remote:
            await _reach_database(database)
        dispatcher = open_dispatcher(loaded, os.environ)
        stack.callback(dispatcher.close)
        await stack.enter_async_context(assembly)
        counted = None if metrics is None else stack.enter_context(_counted(metrics, loaded))
        worker = Worker(
            assembly,
            dispatcher,
            hosts=hosts,
            slots=slots,
            grace=grace,
            report=say,
            model_of=find_model,
            metrics=counted,
        )
        working = asyncio.create_task(worker.run())
        say(f"The worker {worker.name} takes submitted runs, until Ctrl-C. To submit one: ripieno submit")
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            leaving.set()
            worker.stop()
            if worker.running:
                say("Another signal ends it at once.")
            await working
            raise


async def _reach_database(database: Database) -> None:
    """Waits until a database beyond a network can be reached. Errors: ``InputError`` if that does not help."""
    pause, longest = 0, _PAUSES[-1]
    for following in itertools.chain(_PAUSES, itertools.repeat(longest)):
        try:
            # Looking needs no lock of the database, which would delay the end.
            await run_in_thread(database.inspect, name="database", patient=False)
        except Disconnected as error:
            if following > pause:
                again = "every" if following == longest else "in"
                say(f"! The worker waits for its database. {error} It is tried again {again} {following} s.")
            pause = following
            await asyncio.sleep(pause)
        else:
            return


@contextlib.contextmanager
def _counted(where: str, loaded: LoadedConfiguration) -> Generator[RunCounter, None, None]:
    """Metrics that are served at ``[host:]port``. Errors: ``InputError``."""
    try:
        from ripieno.servers.worker.metrics import WorkerMetrics
    except ImportError:
        raise InputError("Metrics need a library. Install it: pip install 'ripieno[otel]'") from None
    host, _, port = where.rpartition(":")
    if not port.isdecimal() or int(port) > _HIGHEST:
        raise InputError(f"--metrics is a port or host:port, such as 9464 or 0.0.0.0:9464, and not {where!r}.")
    place = place_of_journal(loaded, os.environ)
    with contextlib.closing(database_at(place)) as database:
        metrics = WorkerMetrics(lambda: inspect_queue(place, database))
        with metrics.served(host or HOST, int(port)) as served:
            say(f"Metrics: http://{host or HOST}:{served}/metrics")
            yield metrics
