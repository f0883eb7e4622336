"""Summaries of a journal's conversations, and lookup by identifier prefix."""

import dataclasses
import json
from typing import Any

from ripieno.exceptions import InputError, NameAbsence
from ripieno.storage.databases.contract import Connection
from ripieno.storage.journal.lines import DELETED

#: Characters of the user's first message that a summary keeps.
_WORDS = 200
_CALLS = """
SELECT min(at), max(at), count(*),
    count(*) FILTER (WHERE stage = 'turned'), count(*) FILTER (WHERE stage = 'started'),
    max(number) FILTER (WHERE stage = 'began'), max(number) FILTER (WHERE stage = 'ended'),
    max(number) FILTER (WHERE stage = 'turned'), count(*) FILTER (WHERE stage = ?),
    max(number) FILTER (WHERE stage = 'titled')
FROM lines WHERE conversation = ? AND owner = ?
"""
_FIRST = """
SELECT body FROM lines WHERE conversation = ? AND owner = ? AND stage = 'said' AND body IS NOT NULL
    AND body ->> '$.canister.type' = 'user' ORDER BY number LIMIT 1
"""
_TOOL = "SELECT tool FROM lines WHERE conversation = ? AND owner = ? AND tool != '' ORDER BY number LIMIT 1"


@dataclasses.dataclass(frozen=True, slots=True)
class Summary:
    """A conversation in short. ``first`` and ``last`` are ISO 8601 in UTC; ``calls`` counts started calls.

    ``conducted``: a model was asked; otherwise these are calls of ``ripieno invoke``, an MCP server or a program.
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

    def mapping(self) -> dict[str, Any]:
        """The JSON form."""
        return dataclasses.asdict(self)


def summarize(connection: Connection, identifier: str, owner: str) -> Summary:
    """The summary of one conversation, in time proportional to its lines."""
    row = connection.execute(_CALLS, (DELETED, identifier, owner)).fetchone()
    first, last, lines, turns, calls, began, ended, turned, deleted, titled = row
    closed = ended is not None and ended > (began or 0)
    model = _text(connection, turned, "details.model") or _text(connection, began, "details.model")
    finish = _text(connection, ended, "details.finish") if closed else None
    words = _words(connection.execute(_FIRST, (identifier, owner)).fetchone())
    if not words and not deleted:
        found = connection.execute(_TOOL, (identifier, owner)).fetchone()
        words = "" if found is None else f"(call of {found[0]})"
    title = _text(connection, titled, "details.title") or ""
    return Summary(
        identifier,
        first,
        last,
        lines,
        turns,
        calls,
        model,
        finish,
        words,
        bool(deleted),
        began is not None,
        owner,
        title,
    )


def identify(connection: Connection, beginning: str) -> tuple[str, str]:
    """The identifier and the owner of the one conversation whose identifier equals or begins with a text.

    Errors: ``NameAbsence`` for none, ``InputError`` for several.
    """
    query = "SELECT DISTINCT conversation, owner FROM lines WHERE conversation >= ? ORDER BY conversation LIMIT 8"
    near = [(name, owner) for name, owner in connection.execute(query, (beginning,)) if name.startswith(beginning)]
    fitting = [one for one in near if one[0] == beginning] or near
    if len(fitting) == 1 and beginning:
        return fitting[0]
    if not near:
        raise _absence(connection, beginning, None)
    names = ", ".join(f"{name} (of {owner})" if owner else name for name, owner in fitting)
    raise InputError(f"Several conversations begin with {beginning!r}: {names}. Give more of the identifier.")


def of_owner(owner: str | None) -> tuple[str, tuple[str, ...]]:
    """The condition for the lines of one owner, and its parameters; for None, no condition."""
    if owner is None:
        return "true", ()
    # The second half lets SQLite use the index of lines that have an owner.
    return ("owner = ? AND owner != ''", (owner,)) if owner else ("owner = ''", ())


def require(connection: Connection, name: str, owner: str | None) -> None:
    """Errors: ``NameAbsence`` if no conversation of the owner has exactly this identifier."""
    condition, parameters = of_owner(owner)
    query = f"SELECT 1 FROM lines WHERE conversation = ? AND {condition} LIMIT 1"
    if connection.execute(query, (name, *parameters)).fetchone() is None:
        raise _absence(connection, name, owner)


def _absence(connection: Connection, name: str, owner: str | None) -> NameAbsence:
    condition, parameters = of_owner(owner)
    found = connection.execute(f"SELECT DISTINCT conversation FROM lines WHERE {condition}", parameters)
    names = (known for (known,) in found)
    return NameAbsence("conversation", name, names, hint="List them: ripieno journal list")


def _text(connection: Connection, number: int | None, path: str) -> str | None:
    """A text in the body of a line; None where there is none."""
    if number is None:
        return None
    query = f"SELECT body ->> '$.{path}' FROM lines WHERE number = ?"
    found = connection.execute(query, (number,)).fetchone()[0]
    return found if isinstance(found, str) else None


def _words(found: tuple[str] | None) -> str:
    if found is None:
        return ""
    contents: list[dict[str, Any]] = json.loads(found[0])["canister"]["content"]
    text = " ".join(" ".join(str(one["text"]) for one in contents if one["type"] == "text").split())
    return text if len(text) <= _WORDS else f"{text[:_WORDS]} ..."
