"""The workers that are alive: leases by the clock of the database.

A worker that does not renew its lease is taken for dead, and what it ran is queued again. If it only was slow, the
claim of each conversation, with its epoch, keeps it from recording or running anything more (``databases/claims.py``).
"""

import math
from collections.abc import Callable, Collection, Sequence

from ripieno.storage.databases.contract import Connection, Database
from ripieno.values import Value

#: Seconds after which a worker that does not renew its lease is taken for dead.
LEASE = 15.0
#: Seconds between renewals.
RENEWAL = 5.0


class WorkerState(Value, kw_only=True):
    """A worker, the hosts for which it takes submissions, and the seconds until its lease ends."""

    name: str
    hosts: tuple[str, ...]
    left: float

    def takes(self, host: str) -> bool:
        """Whether it takes submissions for this host; those without a host are for any worker."""
        return not host or host in self.hosts


def alive_workers(connection: Connection) -> Sequence[WorkerState]:
    """The workers whose leases have not ended."""
    query = "SELECT name, host, until - now_seconds() FROM workers WHERE until > now_seconds() ORDER BY name"
    rows = connection.execute(query)
    return [WorkerState(name=row[0], hosts=tuple(row[1].split(",")), left=float(row[2])) for row in rows]


class WorkerLeases:
    """The leases of the workers in one database. Errors of all methods: ``InputError``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def renew(self, name: str, hosts: Sequence[str]) -> None:
        """Begins or renews the lease of a worker that takes submissions for these hosts."""
        with self._database.using("written") as connection:
            connection.execute(
                "INSERT INTO workers (name, host, until) VALUES (?, ?, now_seconds() + ?) "
                "ON CONFLICT (name) DO UPDATE SET until = excluded.until, host = excluded.host",
                (name, ",".join(hosts), LEASE),
            )

    def forget(self, name: str) -> None:
        """Forgets a worker that runs nothing any more."""
        with self._database.using("written") as connection:
            connection.execute("DELETE FROM workers WHERE name = ?", (name,))

    def alive(self) -> Sequence[WorkerState]:
        """The workers whose leases have not ended."""
        with self._database.using("read") as connection:
            return alive_workers(connection)

    def left(self) -> float:
        """The seconds until the next lease ends, if none is renewed before; none are left if one has ended."""
        with self._database.using("read") as connection:
            (until,) = connection.execute("SELECT min(until) - now_seconds() FROM workers").fetchone()
        return math.inf if until is None else float(until)

    def bury(self, take_back: Callable[[str], object], working: Callable[[], Collection[str]] = tuple) -> Sequence[str]:
        """Calls ``take_back`` for each worker whose lease has ended, and forgets it; returns their names.

        ``working`` names the workers that have something under way. One without a lease was buried while it lived, took
        more, and died before its next renewal: it is buried again. Of several programs that do this at once, one does
        it. If it ends in the middle, another one does it again.
        """
        with self._database.using("read") as connection:
            rows = connection.execute("SELECT name, until <= now_seconds() FROM workers").fetchall()
        # After the leases: a worker has one before it takes anything.
        lost = set(working()) - {str(name) for name, _ in rows}
        if not lost and not any(ended for _, ended in rows):
            return ()
        with self._database.using("written") as connection:
            for name in lost:
                query = "INSERT INTO workers (name, host, until) VALUES (?, '', 0) ON CONFLICT (name) DO NOTHING"
                connection.execute(query, (name,))
        with self._database.writing("written") as connection:
            query = "DELETE FROM workers WHERE until <= now_seconds() RETURNING name"
            names = [str(row[0]) for row in connection.execute(query).fetchall()]
            for name in names:
                take_back(name)
        return names
