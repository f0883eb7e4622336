"""The rates at which submitted runs begin, of each owner and each provider, over all programs with one database.

A run that would exceed a rate begins later. Its place is taken when it is submitted, so that it waits in the queue and
keeps no worker from other runs.
"""

import bisect
import datetime
import json
from collections.abc import Callable, Mapping, Sequence

from ripieno.descriptors.durable import Rate
from ripieno.jsonvalues import EMPTY
from ripieno.storage.databases.contract import Connection, Database
from ripieno.storage.dispatch.contract import Submission

_OWNER, _PROVIDER = "owner", "provider"
#: Of rows that programs of an earlier release have written.
_CONVERSATION = "conversation"


class Rates:
    """Gives each run that begins its time. ``provider_of`` names the provider of a submission, or is empty."""

    def __init__(
        self,
        database: Database,
        provider_of: Callable[[Submission], str],
        *,
        owner: Rate | None = None,
        providers: Mapping[str, Rate] = EMPTY,
    ) -> None:
        self._database = database
        self._provider_of = provider_of
        self._owner = owner
        self._providers = providers

    def start(self, submission: Submission, at: datetime.datetime | None) -> datetime.datetime | None:
        """The time at which a run may begin, not before ``at``, which is counted; None for at once.

        A run that continues after an answer has begun already. Errors: ``InputError``.
        """
        limits = self._limits(submission)
        if not (submission.canisters or submission.response) or not limits:
            return at
        with self._database.writing("written") as connection:
            here = datetime.datetime.now(datetime.UTC)
            (seconds,) = connection.execute("SELECT now_seconds()").fetchone()
            now = int(seconds * 1_000)
            wanted = now if at is None else now + max(0, int((at - here).total_seconds() * 1_000))
            known = {key: _starts(connection, key, now) for key in limits}
            found = wanted
            while (later := max(first_free(known[key], found, rate) for key, rate in limits.items())) > found:
                found = later
            for key, rate in limits.items():
                period = _milliseconds(rate)
                kept = [one for one in sorted((*known[key], found)) if one > now - period]
                _write(connection, key, kept, until=kept[-1] + period)
        return at if found <= wanted else here + datetime.timedelta(milliseconds=found - now)

    def clean(self) -> None:
        """Deletes what counts no more."""
        with self._database.using("written") as connection:
            # Each kind by itself: others lock one row of each, in this order.
            for kind in (_OWNER, _PROVIDER, _CONVERSATION):
                connection.execute("DELETE FROM rates WHERE kind = ? AND until < now_seconds() * 1000", (kind,))

    def close(self) -> None:
        """Closes the database."""
        self._database.close()

    def _limits(self, submission: Submission) -> Mapping[tuple[str, str], Rate]:
        """The rates that hold for a submission, by their rows, in the order in which programs lock these."""
        limits: dict[tuple[str, str], Rate] = {}
        if self._owner is not None:
            limits[_OWNER, json.dumps(submission.owner)] = self._owner
        provider = self._provider_of(submission)
        if provider in self._providers:
            limits[_PROVIDER, json.dumps(provider)] = self._providers[provider]
        return limits


def first_free(starts: Sequence[int], at: int, rate: Rate) -> int:
    """The first time from ``at`` on with which no period of the rate has more starts than it allows.

    Times are in milliseconds. ``starts`` are sorted, and may be later ones, too.
    """
    period = _milliseconds(rate)
    for candidate in (at, *(one + period for one in starts if one + period > at)):
        first, last = bisect.bisect_right(starts, candidate - period), bisect.bisect_left(starts, candidate + period)
        near = sorted((*starts[first:last], candidate))
        if all(later - earlier >= period for earlier, later in zip(near, near[rate.runs :], strict=False)):
            return candidate
    raise AssertionError("a period after the last start, one is free")


def _starts(connection: Connection, key: tuple[str, str], now: int) -> Sequence[int]:
    """The starts in a row, which is locked until the end of the transaction."""
    query = (
        "INSERT INTO rates (kind, name, until, starts) VALUES (?, ?, ?, '[]') "
        "ON CONFLICT (kind, name) DO UPDATE SET starts = rates.starts RETURNING starts"
    )
    found: list[int] = json.loads(connection.execute(query, (*key, now)).fetchone()[0])
    return found


def _write(connection: Connection, key: tuple[str, str], starts: Sequence[int], *, until: int) -> None:
    connection.execute(
        "UPDATE rates SET starts = ?, until = ? WHERE kind = ? AND name = ?", (json.dumps(starts), until, *key)
    )


def _milliseconds(rate: Rate) -> int:
    return int(rate.seconds * 1_000)
