"""The worker that conducts a submission, where the queue names another one."""

import datetime

from ripieno.assembly.submission_workers import Conductor, conductors_of
from ripieno.storage.databases.opening import database_at
from ripieno.storage.dispatch.contract import Dispatched, State
from ripieno.storage.dispatch.events import EventLog, StretchBegan
from ripieno.storage.dispatch.leases import WorkerLeases
from tests.support.postgresql import NewPlace
from tests.support.workers import submission

NOW = datetime.datetime.now(datetime.UTC)


def test_the_worker_of_the_last_stretch_conducts_it_while_it_is_alive(new_place: NewPlace) -> None:
    database = database_at(new_place())
    log, leases = EventLog(database), WorkerLeases(database)
    one = submission("c", "h")

    def found(state: State) -> Conductor | None:
        dispatched = Dispatched(submission=one, state=state, submitted=NOW, worker="next")
        return conductors_of([dispatched], database).get(one.identifier)

    for name in ("first", "next"):
        leases.renew(name, ["h"])
    assert found("running") == Conductor(name="next", alive=True, awaited=True)
    log.add(submission("c", "h", identifier="earlier"), StretchBegan(kept=0, canisters=(), worker="none"))
    for name in ("before", "first"):
        log.add(one, StretchBegan(kept=0, canisters=one.canisters, worker=name))
    log.add(submission("c", "h", identifier="later"), StretchBegan(kept=0, canisters=(), worker="none"))
    # After an outage, the next one waits for its claim.
    assert found("running") == Conductor(name="first", alive=True, awaited=True)
    assert found("queued") == Conductor(name="", alive=False, awaited=True)
    assert found("ended") is None
    leases.forget("first")
    assert found("running") == Conductor(name="next", alive=True, awaited=True)
    leases.renew("next", ["another"])
    assert found("queued") == Conductor(name="", alive=False, awaited=False)
    leases.forget("next")
    assert found("running") == Conductor(name="next", alive=False, awaited=False)
    database.close()
