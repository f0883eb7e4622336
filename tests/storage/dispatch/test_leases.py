"""Leases of workers: renewed, ended, and buried once."""

import concurrent.futures
import math
from collections.abc import Generator

import pytest

from ripieno.storage.databases.contract import Database
from ripieno.storage.databases.opening import database_at
from ripieno.storage.dispatch.leases import LEASE, WorkerLeases
from tests.support.postgresql import NewPlace


def expire(database: Database, name: str) -> None:
    with database.using("written") as connection:
        connection.execute("UPDATE workers SET until = 0 WHERE name = ?", (name,))


@pytest.fixture
def database(new_place: NewPlace) -> Generator[Database, None, None]:
    database = database_at(new_place())
    yield database
    database.close()


def test_a_lease_is_alive_until_it_ends(database: Database) -> None:
    leases = WorkerLeases(database)
    leases.renew("w1", ["one"])
    leases.renew("w2", ["two", "three"])
    assert [(one.name, one.hosts) for one in leases.alive()] == [("w1", ("one",)), ("w2", ("two", "three"))]
    assert all(0 < one.left <= LEASE for one in leases.alive())
    expire(database, "w1")
    assert [one.name for one in leases.alive()] == ["w2"]
    leases.renew("w1", ["one"])
    assert [one.name for one in leases.alive()] == ["w1", "w2"]
    assert [one.takes("three") for one in leases.alive()] == [False, True]
    assert all(one.takes("") for one in leases.alive())
    leases.forget("w2")
    assert [one.name for one in leases.alive()] == ["w1"]


def test_the_time_that_is_left_is_that_of_the_lease_that_ends_first(database: Database) -> None:
    leases = WorkerLeases(database)
    assert leases.left() == math.inf
    leases.renew("w1", ["one"])
    assert 0 < leases.left() <= LEASE
    leases.renew("w2", ["two", "three"])
    expire(database, "w1")
    assert leases.left() < 0
    leases.forget("w1")
    assert 0 < leases.left() <= LEASE


def test_the_dead_are_buried_once_and_the_living_never(database: Database) -> None:
    leases = WorkerLeases(database)
    for name in ("dead", "alive"):
        leases.renew(name, ["host"])
    expire(database, "dead")
    taken: list[str] = []
    assert leases.bury(taken.append) == ["dead"]
    assert leases.bury(taken.append) == ()
    assert taken == ["dead"]


def test_who_took_runs_after_its_burial_is_buried_again(database: Database) -> None:
    leases = WorkerLeases(database)
    for name in ("slow", "alive"):
        leases.renew(name, ["host"])
    expire(database, "slow")
    taken: list[str] = []
    working = ["slow", "alive"]
    for _ in range(2):
        assert leases.bury(taken.append, lambda: working) == ["slow"]
    assert leases.bury(taken.append, lambda: ["alive"]) == ()
    assert taken == ["slow", "slow"]
    # It has renewed its lease meanwhile.
    leases.renew("slow", ["host"])
    assert leases.bury(taken.append, lambda: working) == ()


def test_a_burial_that_fails_is_done_again(database: Database) -> None:
    leases = WorkerLeases(database)
    leases.renew("dead", ["host"])
    expire(database, "dead")

    def fail(_: str) -> None:
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        leases.bury(fail)
    assert leases.bury(lambda _: None) == ["dead"]


def test_of_programs_that_bury_at_once_one_does(new_place: NewPlace) -> None:
    place = new_place()
    databases = [database_at(place) for _ in range(4)]
    try:
        leases = [WorkerLeases(one) for one in databases]
        leases[0].renew("dead", ["host"])
        expire(databases[0], "dead")
        taken: list[str] = []
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            found = [list(one) for one in pool.map(lambda one: one.bury(taken.append), leases)]
        assert sorted(found) == [[], [], [], ["dead"]]
        assert taken == ["dead"]
    finally:
        for one in databases:
            one.close()
