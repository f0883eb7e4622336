"""The workers of submissions, as programs and commands show them: who conducts each, and whether that one is alive.

The queue has the last worker that took a submission. After an outage, it may wait until the one before has ended its
stretch: that one conducts it, and its name is in the event log.
"""

from collections.abc import Iterable, Mapping

from ripieno.storage.databases.contract import Database
from ripieno.storage.dispatch.contract import Dispatched
from ripieno.storage.dispatch.events import EventLog
from ripieno.storage.dispatch.leases import WorkerLeases
from ripieno.values import Value


class Conductor(Value, kw_only=True):
    """The worker of a submission that runs, or waits for one.

    ``name`` is empty if it waits. ``alive``: whether the lease of that worker has not ended. ``awaited``: whether a
    worker is alive that takes it. Leases end by the clock of the database.
    """

    name: str
    alive: bool
    awaited: bool


def conductors_of(found: Iterable[Dispatched], database: Database) -> Mapping[str, Conductor]:
    """The workers of those that run or are queued, by the identifiers of the submissions. Errors: ``InputError``."""
    current = [one for one in found if one.state in ("queued", "running")]
    if not current:
        return {}
    workers, log = WorkerLeases(database).alive(), EventLog(database)
    alive = {one.name for one in workers}
    conductors: dict[str, Conductor] = {}
    for one in current:
        name = one.worker if one.state == "running" else ""
        if name and (earlier := log.conductor(one.submission)) in alive:
            name = earlier
        awaited = any(worker.takes(one.submission.host) for worker in workers)
        conductors[one.submission.identifier] = Conductor(name=name, alive=name in alive, awaited=awaited)
    return conductors
