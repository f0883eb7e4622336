"""How long writers try again while a server is away: together, and not each for itself."""

import pytest

from ripieno.storage.databases.contract import Disconnected
from ripieno.storage.journal import Journal, outage
from ripieno.storage.journal.outage import Outage
from ripieno.storage.records import Record
from tests.support.interruptions import way_to
from tests.support.postgresql import address_of_schema
from tests.support.scripted_models import invoke


def record(number: int) -> Record:
    return Record(stage="started", conversation="c", turn=number, tool="t", invocation=invoke("t", str(number)))


def test_after_the_patience_each_record_is_one_attempt(postgresql_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "PATIENCE", 0.1)
    with way_to(postgresql_server) as way:
        # Else, a connection that ends at once is tried in several ways.
        address = f"{address_of_schema(way.address)}&sslmode=disable&gssencmode=disable"
        with Journal(address) as kept:
            way.cut()
            with pytest.raises(Disconnected):
                kept.record([record(1)])
            for number in (2, 3, 4):
                refused = way.refused
                with pytest.raises(Disconnected):
                    kept.record([record(number)])
                assert way.refused == refused + 1
            way.restore()
            kept.record([record(5)])
            assert [line.turn for line in kept.lines("c")] == [5]
            way.cut()
            refused = way.refused
            with pytest.raises(Disconnected):
                kept.record([record(6)])
            # The patience begins anew.
            assert way.refused > refused + 1


class Server:
    """A server that is away. Its clock moves by the seconds that an attempt takes."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.now = 0.0
        self.attempts = 0
        self.away = True

    def clock(self) -> float:
        return self.now

    def write(self) -> str:
        self.attempts += 1
        if self.away:
            self.now += self.seconds
            raise Disconnected(f"It was away at {self.now}.")
        return "written"


def fails(one: Outage, server: Server) -> int:
    """How many attempts a write is that fails."""
    before = server.attempts
    with pytest.raises(Disconnected, match="It was away at"):
        one.retried("j", server.write)
    return server.attempts - before


def test_the_patience_is_one_from_the_beginning_of_the_outage() -> None:
    server = Server(seconds=16.0)
    one = Outage(server.clock)
    assert fails(one, server) == 2
    # A fast attempt does not hold back others.
    server.seconds = 1.0
    assert [fails(one, server) for _ in range(3)] == [1, 1, 1]
    server.away = False
    assert one.retried("j", server.write) == "written"
    server.away, server.seconds = True, 16.0
    assert fails(one, server) == 2


def test_after_a_slow_attempt_writes_fail_at_once_for_as_long() -> None:
    server = Server(seconds=31.0)
    one = Outage(server.clock)
    # The connection that was lost; then a new one.
    assert [fails(one, server), fails(one, server)] == [1, 1]
    assert [fails(one, server) for _ in range(3)] == [0, 0, 0]
    server.away = False
    assert fails(one, server) == 0
    server.now += 31.0
    assert one.retried("j", server.write) == "written"
