"""Workers that are killed, robbed and cut off at any moment: no effect twice, no line lost, and every run ends."""

import collections
import json
import pathlib
import random
import signal
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ripieno.storage.dispatch.contract import Dispatcher
from ripieno.storage.journal import Journal
from tests.counts import ATTACK, count
from tests.support.postgresql import address_with_queue, server_of
from tests.support.workers import IN_A_TOOL, Site, WorkerProcess, check, submission

#: Seconds without any progress after which a storm counts as hung.
HANG = 180
#: Workers at once, and conversations that are open at once.
FLEET, OPEN = (4, 12) if ATTACK else (2, 4)


def site_of(place: pathlib.Path | str, tmp_path: pathlib.Path) -> Site:
    folder = tmp_path / "folder"
    folder.mkdir()
    return Site(place=place, folder=folder, host=f"host-{uuid.uuid4().hex[:8]}")


class Storm:
    """Workers and conversations of one site. ``strike`` harms something, and returns whether it did."""

    def __init__(self, site: Site, dispatcher: Dispatcher, journal: Journal) -> None:
        self.site = site
        self.dispatcher = dispatcher
        self.journal = journal
        self.chance = random.Random(5)
        self.names: list[str] = []
        self.open: list[str] = []
        self.fleet: list[WorkerProcess] = []

    def begin(self, size: int, *, deadly: Callable[[int], bool] = lambda _: False) -> None:
        """Starts workers; some of them kill themselves within their first call."""
        for place in range(size):
            self.fleet.append(WorkerProcess(self.site, moment=IN_A_TOOL if deadly(place) else None))
        for one in self.fleet:
            one.wait_until_ready()

    def submit(self) -> None:
        """Keeps conversations open."""
        if self.open:
            states = {one: self.dispatcher.find(f"submission of {one}") for one in self.open}
            self.open = [one for one in self.open if not states[one].over]
        while len(self.open) < OPEN:
            name = f"c{len(self.names)}"
            self.dispatcher.submit(submission(name, self.site.host))
            self.names.append(name)
            self.open.append(name)

    def progress(self, some: int) -> None:
        """Returns when tools have written so many further words, or a worker has died."""
        before, until = len(self.site.words()), time.monotonic() + HANG
        while len(self.site.words()) < before + some and all(one.process.is_alive() for one in self.fleet):
            assert time.monotonic() < until, "nothing goes on"
            self.submit()
            time.sleep(0.02)  # Other processes write, and need the processor.

    def end(self) -> dict[str, int]:
        """Lets all conversations end, checks them, and counts."""
        until, left = time.monotonic() + HANG, list(self.names)
        while left:
            still = [one for one in left if not self.dispatcher.find(f"submission of {one}").over]
            if len(still) < len(left):
                until, left = time.monotonic() + HANG, still
            assert time.monotonic() < until, [self.dispatcher.find(f"submission of {one}") for one in left]
            time.sleep(0.05)
        ended = [self.dispatcher.find(f"submission of {one}") for one in self.names]
        failed = {one.submission.conversation: one.reason for one in ended if one.finish != "stop"}
        assert failed == {}
        unknown = sum(check(self.site, self.journal, name) for name in self.names)
        words = collections.Counter(self.site.words())
        assert all(times == 1 for times in words.values()), [one for one in words if words[one] > 1]
        assert self.journal.verify() is None
        taken = sum(len(began) > 1 for began in map(self._began, self.names))
        return {"conversations": len(self.names), "effects": len(words), "unknown": unknown, "taken over": taken}

    def _began(self, name: str) -> Sequence[Any]:
        return list(self.journal.lines(name, stage="began"))

    def kill_all(self) -> None:
        for one in self.fleet:
            one.signal(signal.SIGCONT)
            one.signal(signal.SIGKILL)
            one.process.join(HANG)


def test_workers_that_are_killed_at_any_moment(place_with_queue: pathlib.Path | str, tmp_path: pathlib.Path) -> None:
    site, wanted, killed = site_of(place_with_queue, tmp_path), count(1000, 250), 0
    with site.dispatcher() as dispatcher, site.journal() as journal:
        storm = Storm(site, dispatcher, journal)
        storm.submit()
        storm.begin(FLEET, deadly=lambda place: place % 2 == 0)
        try:
            while killed < wanted:
                storm.progress(storm.chance.randrange(1, 12))
                living = [one for one in storm.fleet if one.process.is_alive()]
                if len(living) == len(storm.fleet):
                    storm.chance.choice(living).signal(signal.SIGKILL)
                for place, one in enumerate(storm.fleet):
                    if not one.process.is_alive() or one.process.exitcode is not None:
                        one.process.join(HANG)
                        killed += 1
                        storm.fleet[place] = WorkerProcess(site, moment=IN_A_TOOL if killed % 2 else None)
            storm.kill_all()
            storm.fleet.clear()
            storm.begin(2)
            found = storm.end()
        finally:
            storm.kill_all()
    print(json.dumps({"kills": killed, **found}))
    assert found["unknown"] > 0


def test_workers_that_are_robbed_while_they_live(postgresql_server: str, tmp_path: pathlib.Path) -> None:
    """Their leases and claims are ended as if they had not been renewed: others take their conversations."""
    site, wanted, robbed = site_of(address_with_queue(postgresql_server), tmp_path), count(300, 150), 0
    with site.dispatcher() as dispatcher, site.journal() as journal:
        storm = Storm(site, dispatcher, journal)
        storm.submit()
        storm.begin(FLEET)
        try:
            while robbed < wanted:
                storm.progress(storm.chance.randrange(1, 8))
                with journal.database.using("written") as connection:
                    victims = [row[0] for row in connection.execute("SELECT name FROM workers").fetchall()]
                    if victims:
                        victim = storm.chance.choice(sorted(victims))
                        connection.execute("UPDATE workers SET until = 0 WHERE name = ?", (victim,))
                    held = connection.execute("SELECT owner, conversation FROM claims WHERE until > 1").fetchall()
                for key in held:
                    # One by one: workers renew several together, in an order of their own.
                    query = "UPDATE claims SET until = 1 WHERE until > 1 AND owner = ? AND conversation = ?"
                    with journal.database.using("written") as connection:
                        robbed += connection.execute(query, tuple(key)).rowcount
            found = storm.end()
            assert all(one.process.is_alive() for one in storm.fleet)
        finally:
            storm.kill_all()
    print(json.dumps({"robbed": robbed, **found}))


def test_a_server_that_is_restarted_under_its_workers(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: pathlib.Path
) -> None:
    server = server_of(tmp_path_factory.mktemp("restarted"))
    site = site_of(address_with_queue(server.get_uri()), tmp_path)
    with site.dispatcher() as dispatcher, site.journal() as journal:
        storm = Storm(site, dispatcher, journal)
        storm.submit()
        storm.begin(FLEET)
        try:
            for restart in range(count(20, 10)):
                storm.progress(3)
                if restart % 2:
                    # Also in the middle of a takeover.
                    storm.fleet[0].signal(signal.SIGKILL)
                    storm.fleet[0].process.join(HANG)
                    storm.fleet[0] = WorkerProcess(site)
                    server.stop()
                else:
                    process = server.get_postmaster_info().process
                    process.kill()
                    process.wait()
                server.ensure_postgres_running()
            # The connection of this process is from before.
            journal.close()
            found = storm.end()
        finally:
            storm.kill_all()
    print(json.dumps(found))
