"""Summaries of a journal's conversations, and lookup by identifier prefix."""

import dataclasses
import json
import sqlite3
from typing import Any

from ripieno.exceptions import InputError, NameAbsence
from ripieno.storage.journal.lines import DELETED

#: Characters of the user's first message that a summary keeps.
_WORDS = 200
_CALLS = """
SELECT min(at), max(at), count(*), coalesce(sum(stage = 'turned'), 0), coalesce(sum(stage = 'started'), 0),
    max(CASE WHEN stage = 'began' THEN number END), max(CASE WHEN stage = 'ended' THEN number END),
    max(CASE WHEN stage = 'turned' THEN number END), coalesce(sum(stage = ?), 0)
FROM lines WHERE conversation = ?
"""
_FIRST = """
SELECT body FROM lines WHERE conversation = ? AND stage = 'said' AND body NOT NULL
    AND json_extract(body, '$.canister.type') = 'user' ORDER BY number LIMIT 1
"""
_TOOL = "SELECT tool FROM lines WHERE conversation = ? AND tool != '' ORDER BY number LIMIT 1"


@dataclasses.dataclass(frozen=True, slots=True)
class Summary:
    """A conversation in short. ``first`` and ``last`` are ISO 8601 in UTC; ``calls`` counts started calls.

    ``conducted``: a model was asked; otherwise these are calls of ``ripieno invoke``, an MCP server or a program.
    ``caller`` is the gateway client that requested it. ``finish`` is None while a run is in progress or was killed.
    ``words`` is the user's first message, shortened; without one, the first tool.
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
    caller: str

    def mapping(self) -> dict[str, Any]:
        """The JSON form."""
        return dataclasses.asdict(self)


def summarize(connection: sqlite3.Connection, identifier: str) -> Summary:
    """The summary of one conversation, in time proportional to its lines."""
    row = connection.execute(_CALLS, (DELETED, identifier)).fetchone()
    first, last, lines, turns, calls, began, ended, turned, deleted = row
    closed = ended is not None and ended > (began or 0)
    model = _text(connection, turned, "details.model") or _text(connection, began, "details.model")
    finish = _text(connection, ended, "details.finish") if closed else None
    words = _words(connection.execute(_FIRST, (identifier,)).fetchone())
    if not words and not deleted:
        found = connection.execute(_TOOL, (identifier,)).fetchone()
        words = "" if found is None else f"(call of {found[0]})"
    caller = _text(connection, began, "caller") or ""
    return Summary(
        identifier, first, last, lines, turns, calls, model, finish, words, bool(deleted), began is not None, caller
    )


def identify(connection: sqlite3.Connection, beginning: str) -> str:
    """The one conversation whose identifier equals or begins with a text.

    Errors: ``NameAbsence`` for none, ``InputError`` for several.
    """
    query = "SELECT DISTINCT conversation FROM lines WHERE conversation >= ? ORDER BY conversation LIMIT 8"
    near: list[str] = [name for (name,) in connection.execute(query, (beginning,)) if name.startswith(beginning)]
    if beginning in near:
        return beginning
    if len(near) == 1 and beginning:
        return near[0]
    if not near:
        raise _absence(connection, beginning)
    raise InputError(f"Several conversations begin with {beginning!r}: {', '.join(near)}. Give more of the identifier.")


def require(connection: sqlite3.Connection, name: str) -> None:
    """Errors: ``NameAbsence`` if no conversation has exactly this identifier."""
    if connection.execute("SELECT 1 FROM lines WHERE conversation = ? LIMIT 1", (name,)).fetchone() is None:
        raise _absence(connection, name)


def _absence(connection: sqlite3.Connection, name: str) -> NameAbsence:
    names = (known for (known,) in connection.execute("SELECT DISTINCT conversation FROM lines"))
    return NameAbsence("conversation", name, names, hint="List them: ripieno journal list")


def _text(connection: sqlite3.Connection, number: int | None, path: str) -> str | None:
    """A text in the body of a line; None where there is none."""
    if number is None:
        return None
    query = f"SELECT json_extract(body, '$.{path}') FROM lines WHERE number = ?"
    found = connection.execute(query, (number,)).fetchone()[0]
    return found if isinstance(found, str) else None


def _words(found: tuple[str] | None) -> str:
    if found is None:
        return ""
    contents: list[dict[str, Any]] = json.loads(found[0])["canister"]["content"]
    text = " ".join(" ".join(str(one["text"]) for one in contents if one["type"] == "text").split())
    return text if len(text) <= _WORDS else f"{text[:_WORDS]} ..."
