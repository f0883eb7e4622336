"""A word to whoever submits a run that no worker takes."""

from ripieno.cli.common.main import say
from ripieno.storage.databases.contract import Database
from ripieno.storage.dispatch.contract import Submission
from ripieno.storage.dispatch.leases import WorkerLeases


def report_lacking_worker(submission: Submission, database: Database) -> None:
    """Says so if no worker that is alive takes a submission."""
    if not any(one.takes(submission.host) for one in WorkerLeases(database).alive()):
        say("No worker takes it yet. To start one: ripieno work")
