"""The lines of the journal: their values, the text of a record, and the digests that chain them.

Each conversation of an owner has a chain of its own, so that programs on several machines can write at once. A line's
digest is the SHA-256 over the previous digest (hexadecimal) and the line's canonical JSON, in which the body is
replaced by its own digest: SHA-256 over the salt (16 random bytes, hexadecimal) and the body's UTF-8. A body can
therefore be deleted without breaking the chain, and without the salt a guess of the deleted text cannot be verified.
The number of a line, which orders all of a journal, is not in its digest: a copy in another database may have others.
"""

import datetime
import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.canisters.serialization import deserialize_canister, serialize
from ripieno.exceptions import JsonInvalidity, SerializationInvalidity
from ripieno.jsonvalues import canonical, is_list, is_table
from ripieno.storage.records import Record, Stage
from ripieno.storage.redaction import NO_SECRETS, Redactor
from ripieno.values import Value

#: The digest before the first line of a conversation.
GENESIS = "0" * 64
#: The stage of the journal's own line about deleted bodies. No record has it.
DELETED = "deleted"
_VERSION = 1
#: The fields whose values are chained, beside the digest of the body.
_CHAINED = ("conversation", "turn", "stage", "tool", "invocation", "at")


class Anchor(Value, kw_only=True):
    """The last line's number and the digest of the ends of all conversations.

    Kept elsewhere, it detects truncation.
    """

    number: int = 0
    digest: str = GENESIS


class Break(Value, kw_only=True):
    """The first altered line, and the reason. ``number`` is None for damage outside the lines."""

    number: int | None
    reason: str


class Line(NamedTuple):
    """One line, in the order of the tables' columns. ``at`` is ISO 8601 in UTC; digests and ``salt`` are hexadecimal.

    ``number`` is its place in the journal, ``place`` that in its conversation, both from 1. ``body`` is canonical JSON.
    It and its salt are None after deletion; ``body_digest`` stays. ``owner`` is empty where there is only one user.
    """

    number: int
    conversation: str
    turn: int
    stage: str
    tool: str
    invocation: str | None
    at: str
    body: str | None
    salt: str | None
    body_digest: str
    previous: str
    digest: str
    owner: str = ""
    place: int = 0

    @property
    def record(self) -> Record | None:
        """The record; None for a deleted body and for the line about a deletion.

        Errors: ``SerializationInvalidity`` when the body is not of this version.
        """
        if self.body is None or self.stage == DELETED:
            return None
        parts = _read(self.body, self.number)
        return Record(
            stage=cast("Stage", self.stage),
            conversation=self.conversation,
            turn=self.turn,
            tool=self.tool,
            owner=self.owner,
            **parts,
        )

    def mapping(self) -> dict[str, Any]:
        """The JSON form, with the body as a value."""
        mapping = self._asdict()
        mapping["body"] = None if self.body is None else json.loads(self.body)
        return mapping


#: The columns of a line in the tables.
COLUMNS = ", ".join(Line._fields)


def draft(record: Record, redactor: Redactor = NO_SECRETS) -> Line:
    """The line of a record, without number and digest."""
    invocation = _identifier(record)
    return _draft(
        conversation=redactor.text(record.conversation),
        turn=record.turn,
        stage=record.stage,
        tool=redactor.text(record.tool),
        invocation=None if invocation is None else redactor.text(invocation),
        body=_write(record, redactor),
        owner=redactor.text(record.owner),
    )


def draft_deletion(conversation: str, bodies: int, owner: str = "") -> Line:
    """The line about the deletion of a conversation's bodies."""
    body = _text({"version": _VERSION, "details": {"bodies": bodies}})
    return _draft(conversation=conversation, stage=DELETED, body=body, owner=owner)


def placed(line: Line, end: tuple[int, str]) -> Line:
    """A draft as the line after the end of its conversation: the place and the digest of the last line."""
    place, previous = end[0] + 1, end[1]
    return line._replace(previous=previous, digest=chain(previous, line, place), place=place)


def chain(previous: str, line: Line, place: int) -> str:
    """The digest of a line at a place of its conversation, after another. Errors: ``JsonInvalidity``."""
    content: dict[str, Any] = {name: getattr(line, name) for name in _CHAINED}
    content |= {"place": place, "body": line.body_digest}
    if line.owner:
        content["owner"] = line.owner
    return hashlib.sha256(previous.encode() + canonical(content)).hexdigest()


def digest_body(salt: str, body: str) -> str:
    """The digest of a body. The salt is hashed as written, so that no other spelling of it is valid."""
    return hashlib.sha256(salt.encode() + body.encode()).hexdigest()


def written(text: str) -> tuple[str, ...]:
    """The forms that a text may have in a body: ASCII, and UTF-8 where it can be encoded."""
    in_ascii = json.dumps(text)[1:-1].replace("\x7f", "\\u007f")
    try:
        return in_ascii, canonical(text).decode()[1:-1]
    except JsonInvalidity:
        return (in_ascii,)


def says(line: Line, text: str) -> str | None:
    """A value of the line's body that contains a text, or None."""
    if line.body is None:
        return None
    level: list[Any] = [json.loads(line.body)]
    while level:
        for item in level:
            if isinstance(item, str) and text in item:
                return item
        parts = (item.values() if is_table(item) else item if is_list(item) else () for item in level)
        level = [one for part in parts for one in part]
    return None


def excerpt(text: str, sought: str, width: int = 40) -> str:
    """The text around a match."""
    at = text.index(sought)
    begin, end = max(at - width, 0), at + len(sought) + width
    return f"{'... ' if begin else ''}{text[begin:end]}{' ...' if end < len(text) else ''}"


def _draft(
    *,
    conversation: str,
    stage: str,
    body: str,
    turn: int = 0,
    tool: str = "",
    invocation: str | None = None,
    owner: str = "",
) -> Line:
    salt, at = os.urandom(16).hex(), datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
    return Line(0, conversation, turn, stage, tool, invocation, at, body, salt, digest_body(salt, body), "", "", owner)


def _identifier(record: Record) -> str | None:
    """The identifier of the record's call."""
    if record.invocation is not None:
        return record.invocation.identifier
    for part in (record.canister, record.result):
        if isinstance(part, InvocationCanister):
            return part.identifier
        if isinstance(part, ResultCanister):
            return part.invocation_id
    return None


def _write(record: Record, redactor: Redactor) -> str:
    body: dict[str, Any] = {"version": _VERSION}
    for name in ("invocation", "result", "canister"):
        part = getattr(record, name)
        if part is not None:
            body[name] = serialize(part, redactor.value if redactor else None)
    if record.details:
        body["details"] = redactor.value(record.details)
    return _text(body)


def _text(value: Mapping[str, Any]) -> str:
    """Canonical JSON; ASCII for a text with half a surrogate pair, which UTF-8 cannot encode."""
    try:
        return canonical(value).decode()
    except JsonInvalidity:
        return ascii_json(value)


def ascii_json(value: Mapping[str, Any]) -> str:
    """Compact JSON in printable ASCII with sorted keys, without terminal control characters.

    Errors: ``JsonInvalidity``.
    """
    try:
        text = json.dumps(value, allow_nan=False, separators=(",", ":"), sort_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise JsonInvalidity(f"The journal cannot record a value that is not JSON: {error}") from None
    return text.replace("\x7f", "\\u007f")


def _read(body: str, number: int) -> dict[str, Any]:
    try:
        stored = dict(json.loads(body))
    except (ValueError, TypeError, RecursionError) as error:
        raise SerializationInvalidity(f"Line {number} of the journal cannot be read: {error}.") from None
    version = stored.pop("version", None)
    if version != _VERSION:
        raise SerializationInvalidity(
            f"Line {number} of the journal has version {version!r}; this program reads {_VERSION}."
        )
    return {name: part if name == "details" else deserialize_canister(part) for name, part in stored.items()}
