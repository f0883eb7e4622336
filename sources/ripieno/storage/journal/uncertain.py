"""Lines of which it is not known whether they were written, because the server went away during their commit."""

import collections
from collections.abc import Collection, Sequence

from ripieno.storage.databases.contract import Connection
from ripieno.storage.journal.lines import Line
from ripieno.storage.journal.summaries import Key

#: Conversations whose lines are remembered.
_MOST = 1024


class UncertainLines:
    """The lines of the last commit of each conversation that failed with ``Disconnected``."""

    def __init__(self) -> None:
        self._lines: collections.OrderedDict[Key, list[Line]] = collections.OrderedDict()

    def add(self, lines: Sequence[Line]) -> None:
        """Remembers lines that were sent, in place of earlier ones of their conversations."""
        for chain in {(one.conversation, one.owner) for one in lines}:
            self._lines[chain] = [one for one in lines if (one.conversation, one.owner) == chain]
        while len(self._lines) > _MOST:
            self._lines.popitem(last=False)

    def forget(self, chains: Collection[Key]) -> None:
        """Forgets the lines of conversations, to which something was written since."""
        for chain in chains:
            self._lines.pop(chain, None)

    def lacking(self, connection: Connection, drafts: Sequence[Line]) -> Sequence[Line]:
        """The drafts without those that were written after all."""
        for chain in {(one.conversation, one.owner) for one in drafts} if self._lines else ():
            lines = self._lines.get(chain, [])
            if lines and has_line(connection, lines[-1]):
                drafts = [one for one in drafts if not any(_same(one, each) for each in lines)]
        return drafts


def has_line(connection: Connection, line: Line) -> bool:
    """Whether the database has exactly this line."""
    query = "SELECT 1 FROM lines WHERE conversation = ? AND owner = ? AND place = ? AND digest = ?"
    found = connection.execute(query, (line.conversation, line.owner, line.place, line.digest)).fetchone()
    return found is not None


def _same(one: Line, other: Line) -> bool:
    """Whether two lines say the same, whenever and wherever they are written."""
    names = ("conversation", "owner", "turn", "stage", "invocation", "body")
    return all(getattr(one, name) == getattr(other, name) for name in names)
