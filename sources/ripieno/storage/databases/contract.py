"""The contract of databases: connections that run the same SQL, transactions, and errors."""

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from ripieno.exceptions import InputError, Superseded
from ripieno.lazy.modules import logging
from ripieno.values import Value


class RowConflict(Exception):
    """Another program has written a row with this key first. Nothing was written; read again and try again."""


class Disconnected(InputError):
    """The server of the database went away. What was being written may be there or not; look before trying again."""


class Locked(Disconnected):
    """Another program holds a lock on what was to be used. It may end: a migration, for example."""


def sentences(text: str) -> str:
    """The lines of the message of a driver, such as libpq, as sentences of one line."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return " ".join(line if line.endswith((".", "?", "!", ":")) else f"{line}." for line in lines if line)


def warn_of_leftovers(name: str, reason: str) -> None:
    """Warns that a cleaning of the database of this name was not finished."""
    logging.getLogger(__name__).warning(
        "Deleted text may still be in a file of %s: %s. The next deletion removes it; so does the same one, repeated.",
        name,
        reason.rstrip("."),
    )


def row_key(owner: str, conversation: str) -> tuple[str, str]:
    """The columns that name a conversation of an owner: two texts of JSON in ASCII.

    Applications choose them freely, and databases refuse U+0000 and half a surrogate pair.
    """
    return json.dumps(owner), json.dumps(conversation)


class Rows(Protocol):
    """The rows of a query."""

    @property
    def rowcount(self) -> int:
        """The number of changed rows."""
        ...

    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection. Queries have ``?`` for parameters, and ``body ->> '$.a.b'`` for a value in a text of JSON.

    Numbers and booleans in JSON are numbers on SQLite and texts on PostgreSQL. ``now_seconds()`` is the clock of the
    database.
    """

    def execute(self, query: str, parameters: Sequence[Any] = (), /) -> Rows: ...


class Fence(Protocol):
    """A claim that another program may have taken meanwhile. ``query`` with ``parameters`` has a row if it has not."""

    @property
    def query(self) -> str: ...
    @property
    def parameters(self) -> Sequence[Any]: ...

    def check(self, connection: Connection, /) -> None:
        """Errors: ``Superseded``. Until the end of the transaction, nobody else takes the claim."""
        ...

    def lost(self) -> Superseded:
        """The error of who no longer has the claim."""
        ...


class Inspection(Value, kw_only=True):
    """The findings of a look at a database, which changes nothing.

    ``server``: the program that keeps it, with its version. ``version``: that of the tables; None if there are none.
    ``problem``: why a start would fail, with the next step. ``clock``: seconds by which the server's clock is ahead of
    this machine's. ``size`` is in bytes, and ``mode`` is that of a file, in octal.
    """

    server: str
    version: int | None = None
    problem: str = ""
    clock: float | None = None
    size: int | None = None
    mode: str = ""


class Database(Protocol):
    """One database with the tables of ``tables.py``. Threads may share it, and a process may fork at any time.

    It is opened, and created, at the first use.

    ``action`` is what fails, for messages: "read", "written". Errors of all methods: ``InputError`` with the reason and
    the next step; ``RowConflict``; ``Disconnected``.
    """

    @property
    def name(self) -> str:
        """Its name in messages: a path, or an address without a password."""
        ...

    @property
    def remote(self) -> bool:
        """Whether it is beyond a network, so that an event loop must not wait for it."""
        ...

    @property
    def gapless(self) -> bool:
        """Whether the numbers of lines have no gaps."""
        ...

    def inspect(self) -> Inspection:
        """Looks at it, and neither creates nor changes anything.

        Errors: ``InputError`` if it cannot be reached; ``Disconnected`` if that may pass.
        """
        ...

    def using(self, action: str) -> contextlib.AbstractContextManager[Connection]:
        """The connection; each statement is a transaction and is on the disk when it returns."""
        ...

    def writing(self, action: str) -> contextlib.AbstractContextManager[Connection]:
        """One transaction, which is rolled back when anything is raised."""
        ...

    def snapshot(self, action: str, *, complete: bool = False) -> contextlib.AbstractContextManager[Connection]:
        """A new connection that sees one state, for long reads; it does not block writers for long.

        ``complete``: no line with a lower number than the highest one appears later.
        """
        ...

    def claimed(
        self, owner: str, conversation: str, lost: Callable[[], None] | None = None
    ) -> contextlib.AbstractContextManager[bool]:
        """Holds a conversation against all other programs, until the block, the process or its machine ends.

        Yields whether it is held: false if another one has it. ``lost`` is called in another thread when another one
        has taken it, which is possible only where ``fence`` is not None.
        """
        ...

    def is_claimed(self, owner: str, conversation: str) -> bool:
        """Whether any program, this one too, holds a conversation now."""
        ...

    def fence(self, owner: str, conversation: str) -> "Fence | None":
        """The check of everything that is written to a conversation.

        None if this program has not claimed it, or where no other one can take a claim away.
        """
        ...

    def announce(self, connection: Connection, topic: str, /) -> None:
        """Wakes the subscribers of a topic, in all programs, when the present transaction is committed."""
        ...

    def subscribed(self, topic: str, woken: Callable[[], None]) -> contextlib.AbstractContextManager[None]:
        """Calls ``woken``, in another thread, soon after each announcement of a topic, and sometimes without one."""
        ...

    def damage(self, connection: Connection, /) -> str | None:
        """The findings of a check of the database, apart from its rows; None if nothing."""
        ...

    def clean(self) -> None:
        """Removes deleted content from the files that this program controls, on a connection of its own.

        It holds up no one and raises nothing: what others who read or write hold back, it leaves to the next cleaning,
        with a warning in the log.
        """
        ...

    def close(self) -> None:
        """Closes the connection. The next use opens it again."""
        ...
