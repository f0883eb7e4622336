"""The lines of the journal: their values, the text of a record, and the digests that chain them.

A line's digest is the SHA-256 over the digest before it (hexadecimal) and the canonical JSON of the line, in which the
body is there by its own digest: SHA-256 over the salt (16 random bytes, hexadecimal) and the body's UTF-8. So a body
can be deleted, and the chain still holds; and without the salt, no guess of what was deleted can be tried out.
"""

import dataclasses
import datetime
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.canisters.serialization import deserialize_canister, serialize
from ripieno.exceptions import JsonInvalidity, SerializationInvalidity
from ripieno.jsonvalues import canonical, is_list, is_table
from ripieno.storage.records import Record, Stage
from ripieno.storage.redaction import NO_SECRETS, Redactor

#: The digest before the first line.
GENESIS = "0" * 64
#: The stage of the journal's own line about bodies that it deleted. No record has it.
DELETED = "deleted"
_VERSION = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """How far a journal had come: a line's number and digest. Kept elsewhere, it shows that a tail was cut."""

    number: int = 0
    digest: str = GENESIS


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """The first line that is not as it was written, and why. ``number`` is None for damage beside the lines."""

    number: int | None
    reason: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line. ``at`` is ISO 8601 in UTC, digests and ``salt`` are hexadecimal.

    ``body`` is canonical JSON; it and its salt are None once they are deleted. ``body_digest`` stays.
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

    @property
    def record(self) -> Record | None:
        """The record as it was kept; None when its body is deleted, and for the line that says so.

        Errors: ``SerializationInvalidity`` when the body is not one of this version.
        """
        if self.body is None or self.stage == DELETED:
            return None
        parts = _read(self.body, self.number)
        return Record(
            stage=cast("Stage", self.stage),
            conversation=self.conversation,
            turn=self.turn,
            tool=self.tool,
            **parts,
        )

    def mapping(self) -> dict[str, Any]:
        """All of it as JSON, the body as a value."""
        mapping = dataclasses.asdict(self)
        mapping["body"] = None if self.body is None else json.loads(self.body)
        return mapping


#: A line as it stands in the file: the fields of ``Line`` in their order.
Row = tuple[int, str, int, str, str, str | None, str, str | None, str | None, str, str, str]


def draft(record: Record, redactor: Redactor = NO_SECRETS) -> Line:
    """The line of a record that has no place yet: no number, no digest."""
    invocation = _identifier(record)
    return _draft(
        conversation=redactor.text(record.conversation),
        turn=record.turn,
        stage=record.stage,
        tool=redactor.text(record.tool),
        invocation=None if invocation is None else redactor.text(invocation),
        body=_write(record, redactor),
    )


def draft_deletion(conversation: str, bodies: int) -> Line:
    """The line that says how many bodies of a conversation were deleted."""
    body = _text({"version": _VERSION, "details": {"bodies": bodies}})
    return _draft(conversation=conversation, stage=DELETED, body=body)


def placed(line: Line, anchor: Anchor) -> Row:
    """A draft as the line after an anchor."""
    number = anchor.number + 1
    row = (number, line.conversation, line.turn, line.stage, line.tool, line.invocation, line.at)
    return (*row, line.body, line.salt, line.body_digest, anchor.digest, chain(anchor.digest, row, line.body_digest))


def chain(previous: str, row: Sequence[object], body_digest: str) -> str:
    """The digest of a line from its first seven fields. Errors: ``JsonInvalidity``."""
    number, conversation, turn, stage, tool, invocation, at = row
    content = canonical(
        {
            "number": number,
            "conversation": conversation,
            "turn": turn,
            "stage": stage,
            "tool": tool,
            "invocation": invocation,
            "at": at,
            "body": body_digest,
        }
    )
    return hashlib.sha256(previous.encode() + content).hexdigest()


def digest_body(salt: str, body: str) -> str:
    """The digest of a body. The salt counts as it is written, so that no other spelling of it passes."""
    return hashlib.sha256(salt.encode() + body.encode()).hexdigest()


def written(text: str) -> tuple[str, ...]:
    """A text as it may stand inside of a body: in ASCII, and in UTF-8 where that can say it."""
    in_ascii = json.dumps(text)[1:-1].replace("\x7f", "\\u007f")
    try:
        return in_ascii, canonical(text).decode()[1:-1]
    except JsonInvalidity:
        return (in_ascii,)


def says(line: Line, text: str) -> str | None:
    """A value of the line's body in which a text stands, if there is one."""
    if line.body is None:
        return None
    level: list[Any] = [json.loads(line.body)]
    while level:
        for item in level:
            if isinstance(item, str) and text in item:
                return item
        level = [part for item in level for part in _parts(item)]
    return None


def _parts(item: object) -> Iterable[Any]:
    if is_table(item):
        return item.values()
    return item if is_list(item) else ()


def _draft(
    *, conversation: str, stage: str, body: str, turn: int = 0, tool: str = "", invocation: str | None = None
) -> Line:
    salt = os.urandom(16).hex()
    return Line(
        number=0,
        conversation=conversation,
        turn=turn,
        stage=stage,
        tool=tool,
        invocation=invocation,
        at=datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds"),
        body=body,
        salt=salt,
        body_digest=digest_body(salt, body),
        previous="",
        digest="",
    )


def _identifier(record: Record) -> str | None:
    """The call that a record is about."""
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
    """Canonical JSON; in ASCII where a text has half of a character, which UTF-8 has not."""
    try:
        return canonical(value).decode()
    except JsonInvalidity:
        return ascii_json(value)


def ascii_json(value: Mapping[str, Any]) -> str:
    """Compact JSON in printable ASCII, keys sorted: no control character of a terminal stands in it.

    Errors: ``JsonInvalidity``.
    """
    try:
        text = json.dumps(value, allow_nan=False, separators=(",", ":"), sort_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise JsonInvalidity(f"The journal cannot keep this, which is not JSON: {error}") from None
    return text.replace("\x7f", "\\u007f")


def _read(body: str, number: int) -> dict[str, Any]:
    try:
        stored = dict(json.loads(body))
    except (ValueError, TypeError, RecursionError) as error:
        raise SerializationInvalidity(f"Line {number} of the journal cannot be read: {error}.") from None
    version = stored.pop("version", None)
    if version != _VERSION:
        raise SerializationInvalidity(f"Line {number} of the journal has version {version!r}; this is {_VERSION}.")
    return {name: part if name == "details" else deserialize_canister(part) for name, part in stored.items()}
