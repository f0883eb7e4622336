"""``ripieno doctor`` looks at the queue of submitted runs: its engine, its workers, what waits. Nothing is changed."""

import contextlib
import datetime
import json
import pathlib
import signal
import sqlite3
from importlib import metadata
from typing import Any

import pytest

from ripieno.assembly.submissions import NAME, dispatcher_beside
from ripieno.storage.databases.opening import database_at
from ripieno.storage.dispatch.contract import GATEWAY, Submission
from ripieno.storage.dispatch.leases import WorkerLeases
from tests.support.command_line import PATIENCE, User, wait_for
from tests.support.postgresql import address_of_schema
from tests.support.users import Call

ENGINE = f"dbos {metadata.version('dbos')}"
SCORE = '[score]\nname = "short"\ndescription = "Answers."\nprompt = "Hello?"\n[[turns]]\ntext = "Hello."\n'
MODEL = '[model]\ndefault = "openai/gpt"\n'


def queue_of(call: Call) -> dict[str, Any] | None:
    found: dict[str, Any] | None = json.loads(call("doctor", "--no-connect", "--format", "json").out)["queue"]
    return found


def fill(place: pathlib.Path | str) -> None:
    """Submits a run, one for later, and one that is cancelled."""
    dispatcher = dispatcher_beside(place)
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    dispatcher.submit(Submission(identifier="one", conversation="a"))
    dispatcher.submit(Submission(identifier="late", conversation="b"), at=later)
    dispatcher.submit(Submission(identifier="cancelled", conversation="c"))
    dispatcher.cancel("cancelled")
    dispatcher.close()


def lease(place: pathlib.Path | str, *names: str) -> None:
    database = database_at(place)
    for name in names:
        WorkerLeases(database).renew(name, ["host"])
    database.close()


def test_there_is_no_line_without_a_queue(user: User, call: Call) -> None:
    assert queue_of(call) is None
    assert "Queue" not in call("doctor", "--no-connect").out
    user.configure(MODEL + "[durable]\nslots = 2\n")
    assert f"{ENGINE}, the first submission creates it" in call("doctor", "--no-connect").out
    assert not user.state.exists()


def test_a_queue_in_a_file_is_only_looked_at(user: User, call: Call) -> None:
    user.configure(MODEL)
    journal = user.state / "journal.sqlite3"
    database = database_at(journal)
    with database.using("opened"):
        pass
    database.close()
    fill(journal)
    before = {path: path.read_bytes() for path in user.state.iterdir()}
    assert user.state / NAME in before
    shown = call("doctor", "--no-connect")
    assert f"{ENGINE}, 0 workers alive; runs: 1 queued, 1 scheduled, 0 running" in shown.out
    assert "1 submitted run waits, and no worker is alive. To start one: ripieno work" in shown.out
    assert shown.code == 0
    assert f"Queue: {ENGINE}" in call("doctor", "--no-connect", "--full").out
    assert {path: path.read_bytes() for path in user.state.iterdir()} == before
    lease(journal, "worker-1")
    alive = call("doctor", "--no-connect")
    assert f"{ENGINE}, 1 worker alive" in alive.out
    assert "no worker is alive" not in alive.out


def test_runs_for_a_host_without_a_worker_are_reported(user: User, call: Call) -> None:
    user.configure(MODEL)
    journal = user.state / "journal.sqlite3"
    database = database_at(journal)
    WorkerLeases(database).renew("worker-1", ["here", "also-here"])
    dispatcher = dispatcher_beside(journal)
    for host in ("", "here", "also-here", "build-2", GATEWAY):
        dispatcher.submit(Submission(identifier=f"for {host}", conversation=f"for {host}", host=host))
    found = queue_of(call)
    assert found is not None
    assert found["unattended"] == [GATEWAY, "build-2"]
    responses, runs = found["warnings"]
    assert responses.startswith("Submitted runs wait. No worker that answers background responses is alive.")
    assert runs.startswith("Submitted runs wait. No worker of the host build-2 is alive.")
    assert runs.endswith("ripieno work --host build-2")
    WorkerLeases(database).renew("worker-2", ["build-2", GATEWAY])
    found = queue_of(call)
    assert found is not None
    assert (found["unattended"], found["warnings"]) == ([], [])
    dispatcher.close()
    database.close()


def test_a_run_whose_worker_is_gone_is_reported(user: User, call: Call) -> None:
    user.configure(MODEL)
    journal = user.state / "journal.sqlite3"
    database, dispatcher = database_at(journal), dispatcher_beside(journal)
    leases = WorkerLeases(database)
    leases.renew("worker-1", ["here"])
    dispatcher.submit(Submission(identifier="one", conversation="a", host="here"))
    dispatcher.close()
    with contextlib.closing(sqlite3.connect(user.state / NAME)) as queue, queue:
        # As the engine writes it for the worker that takes it.
        queue.execute("UPDATE workflow_status SET status = 'PENDING', executor_id = 'worker-1'")
    found = queue_of(call)
    assert found is not None
    assert (found["running"], found["lost"], found["warnings"]) == (1, 0, [])
    with database.using("written") as connection:
        connection.execute("UPDATE workers SET until = 0")
    warning = "1 run under way, of which the worker is gone: its lease has ended."
    assert f"{warning} To go on, start one: ripieno work" in call("doctor", "--no-connect").out
    leases.renew("worker-2", ["here"])
    assert f"{warning} One that is alive goes on within seconds: ripieno runs list" in call("doctor").out
    database.close()


def test_a_worker_that_works_is_counted(user: User, call: Call) -> None:
    (user.workspace / "short.toml").write_text(SCORE)
    with user.start("work") as process:
        wait_for(process, "takes submitted runs")
        assert user.run("submit", "--watch", "-m", "score:short.toml", "Hello?").stdout == "Hello.\n"
        found = queue_of(call)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    assert found is not None
    assert (found["workers"], found["queued"], found["running"], found["warnings"]) == (1, 0, 0, [])
    after = queue_of(call)
    assert after is not None
    assert after["workers"] == 0


def test_a_queue_beside_a_server_is_only_looked_at(
    user: User, call: Call, monkeypatch: pytest.MonkeyPatch, postgresql_server: str
) -> None:
    url = address_of_schema(postgresql_server)
    monkeypatch.setenv("JOURNAL_URL", url)
    user.configure(MODEL + '[journal]\nurl = "{env:JOURNAL_URL}"\n')
    assert queue_of(call) is None
    lease(url, "worker-1", "worker-2")
    for _ in range(2):
        assert queue_of(call) is None  # Looking has created no queue.
    fill(url)
    found = queue_of(call)
    numbers = {"workers": 2, "queued": 1, "answered": 0, "scheduled": 1, "running": 0, "lost": 0, "unattended": []}
    assert found == {"engine": metadata.version("dbos"), "exists": True, **numbers, "warnings": []}


def test_a_queue_that_cannot_be_read_is_reported(user: User, call: Call) -> None:
    user.configure(MODEL)
    lease(user.state / "journal.sqlite3", "worker-1")
    (user.state / NAME).write_text("not a database")
    shown = call("doctor", "--no-connect")
    assert shown.code == 0
    assert "The queue of submissions cannot be read" in shown.out
    assert f"{ENGINE}, its database cannot be reached or read" in shown.out


def test_a_queue_whose_database_is_away_is_not_taken_for_a_new_one(user: User, call: Call) -> None:
    # A server that has ended leaves no socket.
    url = f"postgresql://ripieno@/ripieno?host={user.workspace}"
    user.configure(MODEL + f'[durable]\nslots = 2\n[journal]\nurl = "{url}"\n')
    shown = call("doctor", "--no-connect")
    assert f"{ENGINE}, its database cannot be reached or read" in shown.out
    assert "cannot be reached: " in shown.out
    assert "the first submission creates it" not in shown.out
    found = queue_of(call)
    assert found is not None
    assert found["exists"] is None
