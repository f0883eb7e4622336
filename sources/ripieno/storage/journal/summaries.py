"""Summaries of a journal's conversations, and lookup by identifier prefix."""

import dataclasses
import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.exceptions import InputError, NameAbsence, nearest
from ripieno.lazy.expressions import expression
from ripieno.storage.databases.contract import Connection, Database, Rows
from ripieno.storage.journal.lines import DELETED
from ripieno.values import Value

#: The identifier and the owner of a conversation.
Key = tuple[str, str]
#: These, the number of the last line, and the number of lines.
End = tuple[str, str, int, int]
#: Characters of the user's first message that a summary keeps.
_WORDS = 200
#: The first characters of an identifier that this program made.
_ABBREVIATED = expression(r"([0-9a-f]{12})[0-9a-f]{20}")
#: The conversations of a query: names and owners.
PAGE = "WITH page (name, whose) AS (VALUES {rows})"
#: ``CROSS JOIN``: SQLite then looks up each conversation, and does not read all lines.
OF_PAGE = "FROM page CROSS JOIN lines WHERE conversation = name AND owner = whose"
_COUNTS = f"""
{PAGE}
SELECT name, whose, min(at), max(at), count(*),
    count(*) FILTER (WHERE stage = 'turned'), count(*) FILTER (WHERE stage = 'started'),
    max(number) FILTER (WHERE stage = 'began'), max(number) FILTER (WHERE stage = 'ended'),
    max(number) FILTER (WHERE stage = 'turned'), count(*) FILTER (WHERE stage = '{DELETED}'),
    max(number) FILTER (WHERE stage = 'titled'), count(*) FILTER (WHERE stage = 'refused'),
    count(body) FILTER (WHERE stage != '{DELETED}')
{OF_PAGE} GROUP BY name, whose
"""
_DETAILS = """
SELECT number, body ->> '$.details.model', body ->> '$.details.finish', body ->> '$.details.title'
FROM lines WHERE number IN ({numbers})
"""
_FIRST = f"""
{PAGE}
SELECT name, whose, (
    SELECT body FROM lines WHERE conversation = name AND owner = whose AND stage = 'said' AND body IS NOT NULL
        AND body ->> '$.canister.type' = 'user' ORDER BY place LIMIT 1
) FROM page
"""
_TOOL = f"""
{PAGE}
SELECT name, whose, (
    SELECT tool FROM lines WHERE conversation = name AND owner = whose AND tool != '' ORDER BY place LIMIT 1
) FROM page
"""


_LENGTHS = f"""
{PAGE}
SELECT name, whose, (SELECT max(place) FROM lines WHERE conversation = name AND owner = whose) FROM page
"""
#: The stages of lines with which a conversation comes into a list, changes there, or leaves it.
_LISTED = ("began", "ended", "titled", DELETED)
#: Only the lines after a number are read.
_CHANGES = f"""
SELECT conversation, owner, max(number), max(number) FILTER (WHERE stage = 'began') FROM lines
WHERE number > ? AND stage IN ({", ".join("?" * len(_LISTED))}) GROUP BY conversation, owner
"""


class Summary(Value):
    """A conversation in short. ``first`` and ``last`` are ISO 8601 in UTC; ``calls`` counts started calls.

    ``refused`` counts the calls that did not run: a person or a rule denied them, or they could not be made.
    ``conducted``: a model was asked; otherwise these are calls of ``ripieno invoke``, an MCP server or a program.
    ``deleted``: nothing is left of it. What was recorded after one of its ``deletions`` is, and cannot be restored.
    ``owner`` is the user or the server's client for whom it is. ``finish`` is None while a run is in progress or was
    killed. ``words`` is the user's first message, shortened; without one, the first tool. ``title`` is a person's.
    """

    identifier: str
    first: str
    last: str
    lines: int
    turns: int
    calls: int
    model: str | None
    finish: str | None
    words: str
    deleted: bool
    conducted: bool
    owner: str
    title: str
    refused: int
    deletions: int

    @property
    def is_open_ended(self) -> bool:
        """Whether its last run has no recorded end: it is under way, or its process was killed."""
        return self.conducted and self.finish is None

    def mapping(self) -> dict[str, Any]:
        """The JSON form."""
        return dataclasses.asdict(self)


def on_page(connection: Connection, query: str, page: Sequence[Key], *more: str) -> Rows:
    """The rows of a query that begins with ``PAGE``."""
    rows = ", ".join(["(?, ?)"] * len(page))
    return connection.execute(query.format(rows=rows), [*(part for key in page for part in key), *more])


def summarize(connection: Connection, page: Sequence[Key]) -> Sequence[Summary]:
    """The summaries of conversations, in their order, with at most four queries.

    It takes a time proportional to their lines. A conversation without lines has none.
    """
    if not page:
        return ()
    counts = {(row[0], row[1]): row[2:] for row in on_page(connection, _COUNTS, page)}
    numbers = sorted({number for row in counts.values() for number in (*row[5:8], row[9]) if number is not None})
    query = _DETAILS.format(numbers=", ".join("?" * len(numbers)))
    details = {row[0]: row[1:] for row in connection.execute(query, numbers)} if numbers else {}
    words = {(row[0], row[1]): _words(row[2]) for row in on_page(connection, _FIRST, page)}
    silent = [key for key in page if key in counts and not words[key] and not counts[key][8]]
    for name, owner, tool in on_page(connection, _TOOL, silent) if silent else ():
        words[name, owner] = "" if tool is None else f"(call of {tool})"
    return [_summary(key, counts[key], words[key], details) for key in page if key in counts]


def lengths(connection: Connection, page: Sequence[Key]) -> Mapping[Key, int]:
    """The numbers of lines of conversations; 0 for one that is not there. Their lines are not read."""
    return {(name, owner): last or 0 for name, owner, last in on_page(connection, _LENGTHS, page)} if page else {}


class ListChanges(Value):
    """The changes in the lists of conversations of all owners since a line.

    ``last`` is the number of the last line by owner, ``began`` has the conversations that have begun a run, and
    ``newest`` is the number of the journal's newest line.
    """

    newest: int
    last: Mapping[str, int]
    began: Sequence[Key]


def list_changes(connection: Connection, after: int | None) -> ListChanges:
    """The changes after the line of this number; None for ``newest`` only."""
    newest = connection.execute("SELECT coalesce(max(number), 0) FROM lines").fetchone()[0]
    if after is None or newest == after:
        return ListChanges(newest, {}, ())
    rows = connection.execute(_CHANGES, (after, *_LISTED)).fetchall()
    last: dict[str, int] = {}
    for _, owner, number, _ in rows:
        last[owner] = max(number, last.get(owner, 0))
    return ListChanges(max(newest, *last.values(), 0), last, [(name, owner) for name, owner, _, began in rows if began])


def _summary(key: Key, counts: Sequence[Any], words: str, details: Mapping[int, Sequence[Any]]) -> Summary:
    first, last, lines, turns, calls, began, ended, turned, deletions, titled, refused, bodies = counts

    def text(number: int | None, part: int) -> str | None:
        found = None if number is None else details[number][part]
        return found if isinstance(found, str) else None

    closed = ended is not None and ended > (began or 0)
    return Summary(
        key[0],
        first,
        last,
        lines,
        turns,
        calls,
        text(turned, 0) or text(began, 0),
        text(ended, 1) if closed else None,
        words,
        bool(deletions) and not bodies,
        began is not None,
        key[1],
        text(titled, 2) or "",
        refused,
        deletions,
    )


def newest(connection: Connection, owner: str | None, before: int | None = None) -> Sequence[End]:
    """The conversations, those first that were written last.

    ``before``: only those that were written last before the line of this number.
    """
    condition, parameters = of_owner(owner)
    limit, last = ("", ()) if before is None else ("HAVING max(number) < ?", (before,))
    query = f"SELECT conversation, owner, max(number), count(*) FROM lines WHERE {condition} GROUP BY 1, 2 {limit}"
    return connection.execute(f"{query} ORDER BY 3 DESC", (*parameters, *last)).fetchall()


def find(database: Database, beginning: str, owner: str | None) -> Summary:
    """The one conversation whose identifier equals or begins with a text.

    Errors: ``NameAbsence`` for none, with similar names; ``InputError`` for several.
    """
    with database.using("read") as connection:
        if (found := _identify(connection, beginning, owner)) is not None:
            return summarize(connection, [found])[0]
    condition, parameters = of_owner(owner)
    # All lines are read: others can write meanwhile.
    with database.snapshot("read") as connection:
        rows = connection.execute(f"SELECT DISTINCT conversation FROM lines WHERE {condition}", parameters).fetchall()
    # Only similar names: all of them would be many, and say nothing.
    raise _absence(beginning, nearest(beginning, [_ABBREVIATED.sub(r"\1", one) for (one,) in rows]))


def _absence(name: str, near: Sequence[str] = ()) -> NameAbsence:
    return NameAbsence("conversation", name, near, hint="List them: ripieno journal list")


def _identify(connection: Connection, beginning: str, owner: str | None) -> Key | None:
    """The identifier and the owner of the one conversation whose identifier equals or begins with a text; None if none.

    Errors: ``InputError`` for several.
    """
    condition, parameters = of_owner(owner)
    query = f"SELECT DISTINCT conversation, owner FROM lines WHERE conversation >= ? AND {condition}"
    rows = connection.execute(f"{query} ORDER BY conversation LIMIT 8", (beginning, *parameters))
    near = [(name, whose) for name, whose in rows if name.startswith(beginning)]
    fitting = [one for one in near if one[0] == beginning] or near
    if len(fitting) == 1 and beginning:
        return fitting[0]
    if not near:
        return None
    names = ", ".join(f"{name} (of {whose})" if whose else name for name, whose in fitting)
    advice = "Give more of the identifier."
    if len({name for name, _ in fitting}) == 1:
        one = shlex.join(["ripieno", "journal", "show", fitting[-1][0], "--owner", fitting[-1][1]])
        advice = f"They differ in their owners. To see one: {one}"
    raise InputError(f"Several conversations begin with {beginning!r}: {names}. {advice}")


def of_owner(owner: str | None) -> tuple[str, tuple[str, ...]]:
    """The condition for the lines of one owner, and its parameters; for None, no condition."""
    if owner is None:
        return "true", ()
    # The second half lets SQLite use the index of lines that have an owner.
    return ("owner = ? AND owner != ''", (owner,)) if owner else ("owner = ''", ())


def require(connection: Connection, name: str, owner: str | None) -> None:
    """Errors: ``NameAbsence`` if no conversation of the owner has exactly this identifier."""
    if not is_known(connection, name, owner):
        raise _absence(name)


def is_known(connection: Connection, name: str, owner: str | None) -> bool:
    """Whether a conversation of the owner has exactly this identifier."""
    condition, parameters = of_owner(owner)
    query = f"SELECT 1 FROM lines WHERE conversation = ? AND {condition} LIMIT 1"
    return connection.execute(query, (name, *parameters)).fetchone() is not None


def _words(body: str | None) -> str:
    if body is None:
        return ""
    contents: list[dict[str, Any]] = json.loads(body)["canister"]["content"]
    return first_words(" ".join(str(one["text"]) for one in contents if one["type"] == "text"))


def first_words(text: str) -> str:
    """A message, shortened to a title."""
    text = " ".join(text.split())
    return text if len(text) <= _WORDS else f"{text[:_WORDS]} ..."
