"""A queue that cannot be written at the end of a run: the end is written later, and a cancellation takes effect."""

import asyncio
import contextlib
import os
import pathlib
import resource
import signal
import sqlite3
import time
import uuid
from collections.abc import Generator

import psycopg
import pytest

from ripieno.assembly.submissions import NAME
from ripieno.servers.worker import worker as worker_module
from ripieno.storage.dispatch.addresses import address_of
from tests.skips import needs
from tests.support.command_line import PATIENCE, User, wait_for
from tests.support.workers import Site, submission

#: Seconds after which a test counts as hung.
HANG = 120
FULL = "database or disk is full"


@pytest.fixture
def site(place_with_queue: pathlib.Path | str, tmp_path: pathlib.Path) -> Site:
    folder = tmp_path / "folder"
    folder.mkdir()
    return Site(place=place_with_queue, folder=folder, host=f"host-{uuid.uuid4().hex[:8]}")


@contextlib.contextmanager
def without_ends(site: Site, *, ends: str = "'SUCCESS', 'ERROR'", code: str = "53100") -> Generator[None, None, None]:
    """The database refuses each end of a run that the engine writes, with one of these states.

    ``code`` is that of the error in PostgreSQL, by default one after which the engine tries again.
    """
    if isinstance(site.place, pathlib.Path):
        with contextlib.closing(sqlite3.connect(site.place.with_name(NAME), isolation_level=None)) as file:
            file.execute(
                f"CREATE TRIGGER no_ends BEFORE UPDATE ON workflow_status WHEN new.status IN ({ends}) "
                f"BEGIN SELECT RAISE(ABORT, '{FULL}'); END"
            )
            yield
            file.execute("DROP TRIGGER no_ends")
        return
    _, schema = address_of(site.place)
    with psycopg.connect(site.place, autocommit=True) as server:
        server.execute(
            f"CREATE FUNCTION no_ends() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION '{FULL}' "  # type: ignore[arg-type]
            f"USING ERRCODE = '{code}'; END $$"
        )
        server.execute(
            f"CREATE TRIGGER no_ends BEFORE UPDATE ON {schema}.workflow_status FOR EACH ROW "  # type: ignore[arg-type]
            f"WHEN (new.status IN ({ends})) EXECUTE FUNCTION no_ends()"
        )
        yield
        server.execute(f"DROP TRIGGER no_ends ON {schema}.workflow_status")  # type: ignore[arg-type]


@pytest.mark.parametrize("cancelled", [False, True])
async def test_an_end_that_could_not_be_written_is_written_later(
    site: Site, monkeypatch: pytest.MonkeyPatch, cancelled: bool
) -> None:
    monkeypatch.setattr(worker_module, "UNWRITTEN", 0.0)
    reported: asyncio.Queue[str] = asyncio.Queue()
    with site.dispatcher() as dispatcher, site.journal() as journal:
        await asyncio.to_thread(dispatcher.listed)
        async with asyncio.timeout(HANG):
            async with site.worker(report=reported.put_nowait):
                with without_ends(site):
                    await asyncio.to_thread(dispatcher.submit, submission("c", site.host))
                    assert (await reported.get()).startswith("! The end of the run submission of c could not be")
                    if cancelled:
                        await asyncio.to_thread(dispatcher.cancel, "submission of c")
                        while not reported.empty():
                            reported.get_nowait()
                        # What is dispatched after the second one was cancelled before.
                        for _ in range(2):
                            await reported.get()
                while not (found := await asyncio.to_thread(dispatcher.find, "submission of c")).over:  # noqa: ASYNC110  in a database
                    await asyncio.sleep(0.02)
        assert found.state == ("cancelled" if cancelled else "ended")
        assert len(site.words()) == len(set(site.words())) == 8
        # It was conducted once.
        assert len(list(journal.lines("c", stage="ended"))) == 1


async def test_a_run_whose_end_could_not_be_written_once_has_not_failed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine would write its own error then: the next statement succeeds."""
    monkeypatch.setattr(worker_module, "UNWRITTEN", 0.0)
    reported: asyncio.Queue[str] = asyncio.Queue()
    with site.dispatcher() as dispatcher, site.journal() as journal:
        await asyncio.to_thread(dispatcher.listed)
        async with asyncio.timeout(HANG), site.worker(report=reported.put_nowait):
            with without_ends(site, ends="'SUCCESS'", code="P0001"):
                await asyncio.to_thread(dispatcher.submit, submission("c", site.host))
                assert (await reported.get()).startswith("! The end of the run submission of c could not be")
                assert not (await asyncio.to_thread(dispatcher.find, "submission of c")).over
            while not (found := await asyncio.to_thread(dispatcher.find, "submission of c")).over:  # noqa: ASYNC110  in a database
                await asyncio.sleep(0.02)
        assert (found.state, found.finish, found.reason) == ("ended", "stop", "")
        assert len(list(journal.lines("c", stage="ended"))) == 1


SCORE = """
[score]
name = "gate"
[[turns]]
text = "I wait."
calls = [{ tool = "gate", arguments = {} }]
[[turns]]
text = "It is open."
"""
TOOLS = """
[ensemble]
name = "gates"
description = "Waits."
[[invokers]]
name = "gate"
description = "Waits."
effect = "read"
timeout = 300
[invokers.invocable]
origin = "command"
argv = ["sh", "-c", "echo x > {begun}; cat {pipe}"]
"""


@needs("prlimit", there=hasattr(resource, "prlimit"))
def test_a_full_disk_ends_no_worker_and_its_run_ends_when_there_is_space(user: User) -> None:
    pipe, begun = user.workspace.parent / "pipe", user.workspace.parent / "begun"
    os.mkfifo(pipe)
    user.configure('[ensembles]\nenabled = ["gates"]\n')
    user.ensemble("gates", TOOLS.replace("{begun}", str(begun)).replace("{pipe}", str(pipe)))
    (user.workspace / "gate.toml").write_text(SCORE)
    with user.start("work", "--grace", "0") as process:
        wait_for(process, "takes submitted runs")
        assert user.run("submit", "--id", "one", "-m", "score:./gate.toml", "Go.").returncode == 0
        until = time.monotonic() + PATIENCE
        while not begun.exists():
            assert time.monotonic() < until
            time.sleep(0.02)  # Another process creates it.
        _, highest = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, highest))
        pipe.write_text("open")
        wait_for(process, "dbos.*(?s:.)*disk")
        assert "running" in user.call("runs", "list").stdout
        assert "Cancelled: one" in user.call("runs", "cancel", "one").stderr
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (highest, highest))
        wait_for(process, "! The end of the run one could not be written")
        assert user.run("runs", "watch", "one").returncode in (1, 12)
        assert "cancelled" in user.call("runs", "list").stdout
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    assert "none altered" in user.call("journal", "verify").stdout
