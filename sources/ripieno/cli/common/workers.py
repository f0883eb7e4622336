"""A word to who submits or watches a run that no worker conducts: why, and what to do."""

from ripieno.assembly.submission_workers import Conductor
from ripieno.cli.common.main import say
from ripieno.storage.databases.contract import Database
from ripieno.storage.dispatch.contract import GATEWAY, Submission
from ripieno.storage.dispatch.leases import WorkerLeases


def report_lacking_worker(submission: Submission, database: Database) -> None:
    """Says so if no worker that is alive takes a submission."""
    if not any(one.takes(submission.host) for one in WorkerLeases(database).alive()):
        say(lacking_worker(submission.host))


def problem_of(conductor: Conductor, submission: Submission) -> str:
    """Why no worker conducts a run, and the next step; empty if one does, or soon will."""
    lacking = "" if conductor.awaited else lacking_worker(submission.host)
    if not conductor.name or conductor.alive:
        return "" if conductor.alive else lacking
    gone = f"The worker {conductor.name} has not renewed its lease."
    return f"{gone} {lacking or 'Another one goes on with its runs soon.'}"


def lacking_worker(host: str) -> str:
    """The next step where no worker is alive that takes submissions for a host."""
    if not host:
        return "No worker is alive. To start one: ripieno work"
    if host == GATEWAY:
        lacking = "No worker that answers background responses is alive"
        return f"{lacking}. To start one with the configuration of their gateway: ripieno work"
    return f"No worker of the host {host} is alive. To start one there: ripieno work --host {host}"
