"""The end of a conversation: its last line, where its newest messages begin, and the tokens of all its turns."""

import dataclasses
from typing import NamedTuple

from ripieno.canisters.conversation import Usage
from ripieno.storage.databases.contract import Connection
from ripieno.storage.journal.lines import GENESIS
from ripieno.storage.journal.summaries import Key

#: Lines of messages that are looked at together.
_BATCH = 256
_COUNTS = tuple(field.name for field in dataclasses.fields(Usage))
_OF_CHAIN = "FROM lines WHERE conversation = ? AND owner = ?"
_FIRST = f"SELECT body ->> '$.details.place' {_OF_CHAIN} AND stage = 'said' ORDER BY place LIMIT 1"
_NEWEST = f"""
SELECT number, place, body ->> '$.details.place', body ->> '$.canister.type' {_OF_CHAIN}
AND stage = 'said' AND body IS NOT NULL AND place < ? ORDER BY place DESC LIMIT {_BATCH}
"""
_RUN = f"SELECT number {_OF_CHAIN} AND stage = 'began' AND place < ? ORDER BY place DESC LIMIT 1"
_USED = (f"coalesce(body ->> '$.details.usage.{one}', body ->> '$.details.forked.usage.{one}')" for one in _COUNTS)
_USAGE = f"SELECT {', '.join(_USED)} {_OF_CHAIN} AND stage IN ('turned', 'began')"


def end_of(connection: Connection, chain: Key) -> tuple[int, str]:
    """The place and the digest of the last line of a conversation."""
    found = connection.execute(f"SELECT place, digest {_OF_CHAIN} ORDER BY place DESC LIMIT 1", chain).fetchone()
    return (0, GENESIS) if found is None else (int(found[0]), str(found[1]))


def digest_at(connection: Connection, chain: Key, place: int) -> str | None:
    """The digest of the line at a place of a conversation, if it is there."""
    found = connection.execute(f"SELECT digest {_OF_CHAIN} AND place = ?", (*chain, place)).fetchone()
    return None if found is None else str(found[0])


class Beginning(NamedTuple):
    """The numbers of two lines: of a message of the user, and of the beginning of the run that it is in."""

    message: int
    run: int


def find_beginning(connection: Connection, chain: Key, count: int) -> Beginning | None:
    """The beginning of the part of a conversation that has at least the newest ``count`` messages.

    None if all lines are needed: the conversation is short, its messages have no places, or its first ones are not in
    the journal.
    """
    first = connection.execute(_FIRST, chain).fetchone()
    if first is None or int(first[0] or 0):
        return None
    last = lowest = None
    before = 2**62
    while True:
        rows = connection.execute(_NEWEST, (*chain, before)).fetchall()
        for number, before, place, kind in rows:
            if place is None:
                return None
            last = int(place) if last is None else last
            # Where a conversation was rolled back to an earlier place, that place is among its newest messages.
            lowest = int(place) if lowest is None else min(lowest, int(place))
            if kind == "user" and 0 < int(place) == lowest <= last + 1 - count:
                run = connection.execute(_RUN, (*chain, before)).fetchone()
                return None if run is None else Beginning(int(number), int(run[0]))
        if len(rows) < _BATCH:
            return None


def usage_of(connection: Connection, chain: Key) -> Usage:
    """The tokens of all turns of a conversation, also of the one that it continues as a fork."""
    rows = connection.execute(_USAGE, chain).fetchall()
    counts = [sum(int(one or 0) for one in column) for column in zip(*rows, strict=True)]
    return Usage(**dict(zip(_COUNTS, counts, strict=False)))
