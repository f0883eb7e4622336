"""``ripieno runs list`` and ``watch`` say which worker has gone, for whom a run waits, and what to do."""

import json
import re
import socket
from collections.abc import Iterator

import pytest

from ripieno.assembly.submissions import dispatcher_beside
from ripieno.storage.databases.contract import Database
from ripieno.storage.databases.opening import database_at
from ripieno.storage.dispatch.contract import GATEWAY, Submission
from ripieno.storage.dispatch.leases import WorkerLeases
from tests.support.command_line import PATIENCE, User, wait_for

HOST = socket.gethostname()
LACKING = f"No worker of the host {HOST} is alive. To start one there: ripieno work --host {HOST}"
SCORE = """
[score]
name = "hang"
[[turns]]
text = "I wait."
calls = [{ tool = "hang", arguments = {} }]
"""
TOOLS = """
[ensemble]
name = "hanging"
description = "Waits."
[[invokers]]
name = "hang"
description = "Waits."
effect = "read"
timeout = 300
[invokers.invocable]
origin = "command"
argv = ["sleep", "300"]
"""


@pytest.fixture
def database(user: User) -> Iterator[Database]:
    """The database of the user's journal."""
    made = database_at(user.state / "journal.sqlite3")
    yield made
    made.close()


def listed(user: User) -> list[tuple[str, str | None, bool | None]]:
    found = json.loads(user.call("runs", "list", "--format", "json").stdout)
    return [(one["run"], one["worker"], one["worker_alive"]) for one in found]


def cells(user: User) -> tuple[list[str], list[str]]:
    """The column of workers, and what is said beside the table."""
    shown = user.call("runs", "list")
    return [re.split("  +", row)[5] for row in shown.stdout.splitlines()[1:]], shown.stderr.splitlines()


def test_a_run_whose_worker_was_killed(user: User, database: Database) -> None:
    user.configure('[ensembles]\nenabled = ["hanging"]\n')
    user.ensemble("hanging", TOOLS)
    (user.workspace / "hang.toml").write_text(SCORE)
    with user.start("work") as doomed:
        name = wait_for(doomed, "The worker ([^ ]+) takes submitted runs")[1]
        assert user.run("submit", "-m", "score:./hang.toml", "--id", "mine", "Go.").returncode == 0
        with user.start("runs", "watch", "mine") as watching:
            assert watching.stderr is not None
            wait_for(watching, "hang")
            assert (cells(user), listed(user)) == (([name], []), [("mine", name, True)])
            doomed.kill()
            with database.using("written") as connection:
                connection.execute("UPDATE workers SET until = 0")
            gone = f"The worker {name} has not renewed its lease."
            wait_for(watching, re.escape(f"{gone} {LACKING}\n"))
            assert (cells(user), listed(user)) == (([f"{name} (gone)"], [f"{gone} {LACKING}"]), [("mine", name, False)])
            # A lease without a worker, which does not take the run.
            WorkerLeases(database).renew("another", [HOST])
            wait_for(watching, re.escape(f"{gone} Another one goes on with its runs soon.\n"))
            done = user.call("runs", "cancel", "mine")
            ends = f"It ends when another worker takes it, which calls nothing more. {gone} "
            assert done.stderr.startswith(f"Cancelled: mine\n{ends}")
            assert "running (cancelled)" in user.call("runs", "list").stdout
            (shown,) = json.loads(user.call("runs", "list", "--format", "json").stdout)
            assert (shown["state"], shown["cancelled"]) == ("running", True)


def test_runs_that_wait_for_workers_that_are_not_there(user: User, database: Database) -> None:
    (user.workspace / "hang.toml").write_text(SCORE)
    for number in range(2):
        assert user.call("submit", "-m", "score:./hang.toml", "--id", f"here-{number}", "Go.").returncode == 0
    assert user.call("submit", "-m", "score:./hang.toml", "--anywhere", "--id", "any", "Go.").returncode == 0
    dispatcher = dispatcher_beside(user.state / "journal.sqlite3")
    dispatcher.submit(Submission(identifier="resp_1", conversation="resp_1", host=GATEWAY, response=True))
    dispatcher.close()
    responds = (
        "No worker that answers background responses is alive. To start one with the configuration of their gateway: "
        "ripieno work"
    )
    anywhere = "No worker is alive. To start one: ripieno work"
    here, none = f"for {HOST}", " (none is alive)"
    assert cells(user) == (
        [f"for {GATEWAY}{none}", f"for any host{none}", *[f"{here}{none}"] * 2],
        [responds, anywhere, LACKING],
    )
    leases = WorkerLeases(database)
    leases.renew("elsewhere", ["other-1"])
    assert cells(user) == ([f"for {GATEWAY}{none}", "for any host", *[f"{here}{none}"] * 2], [responds, LACKING])
    assert {alive for _, _, alive in listed(user)} == {False, True}
    leases.renew("several", ["other-2", HOST, GATEWAY])
    assert cells(user) == ([f"for {GATEWAY}", "for any host", here, here], [])
    assert listed(user) == [(name, None, True) for name in ("resp_1", "any", "here-1", "here-0")]
    assert f"other-2, {HOST}, {GATEWAY}" in user.call("runs", "workers").stdout


def test_the_wait_for_a_worker_ends_with_the_watching(user: User) -> None:
    (user.workspace / "hang.toml").write_text(SCORE)
    with user.start("submit", "--watch", "-m", "score:./hang.toml", "--id", "mine", "Go.") as watching:
        wait_for(watching, f"{LACKING}\n")
        assert "Cancelled: mine" in user.call("runs", "cancel", "mine").stderr
        _, err = watching.communicate(timeout=PATIENCE)
    assert err == "It was cancelled.\n"
