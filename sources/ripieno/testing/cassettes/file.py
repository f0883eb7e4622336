"""Cassette files: JSON lines after a header, written one by one and readable even if incomplete.

::

    {"kind": "cassette", "version": 1, "created": "2026-01-01T00:00:00+00:00"}
    {"kind": "mcp", "ms": 0.4, "ensemble": "files", "direction": "sent", "message": {…}}
    {"kind": "conduct", "run": 1, "ms": 0.0, "conversation": {…}, "models": [{…}], …}
    {"kind": "ensemble", "run": 1, "ms": 0.1, "ensembles": [{…}]}
    {"kind": "request", "run": 1, "ms": 0.2, "request": 1, "digest": "…", "body": {…}, …}
    {"kind": "native", "run": 1, "ms": 9.5, "request": 1, "events": [{…}]}
    {"kind": "result", "run": 1, "ms": 12.0, "invocation": "call_1", "turn": 1, "result": {…}, …}
    {"kind": "end"}

``ms`` are milliseconds since the run began. Natives also have ``since``, milliseconds since their request. Messages to
and from MCP servers belong to no run: their ``ms`` count from the start of the recording. They are not replayed.
"""

import datetime
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from ripieno.canisters import serialization
from ripieno.descriptors.reader.regular_files import read_regular
from ripieno.exceptions import InputError, SerializationInvalidity
from ripieno.jsonvalues import is_list, is_table
from ripieno.values import Value

VERSION = 1
#: The fields of each kind of line, with their types.
_FIELDS: Mapping[str, Mapping[str, type]] = {
    "conduct": {"run": int, "conversation": dict, "kept": int, "models": list, "settings": dict},
    "ensemble": {"run": int, "ensembles": list},
    "request": {"run": int, "request": int, "digest": str, "body": dict},
    "native": {"run": int, "request": int},
    "failure": {"run": int, "request": int, "failure": dict},
    "alert": {"run": int, "event": dict},
    "event": {"run": int, "invocation": str, "event": dict},
    "result": {"run": int, "invocation": str, "result": dict},
    "decision": {"run": int, "invocation": str, "answer": dict},
    "note": {"name": str},
    "mcp": {"ensemble": str, "direction": str, "message": dict},
    "end": {},
}


class CassetteLine(Value, kw_only=True):
    """One line after the header. ``number`` counts the file's lines from 1; ``ms`` count from the start of the run."""

    number: int
    kind: str
    run: int
    ms: float
    fields: Mapping[str, Any]

    def read(self, kind: Any, name: str) -> Any:
        """The value of a field, of the type ``kind``. Errors: ``SerializationInvalidity``."""
        return serialization.read(kind, self.fields.get(name), f"line {self.number} of the cassette: {name}")


class Tape(Value, kw_only=True):
    """A cassette. ``whole``: the recording ended properly."""

    path: str
    lines: tuple[CassetteLine, ...]
    whole: bool


class Writer:
    """Writes each line immediately, to a new file that only its owner can read. Errors: ``InputError``."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = pathlib.Path(path)
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            raise InputError(f"{self.path} already exists: move it away, or record to another file.") from None
        except OSError as error:
            raise InputError(f"Cannot record to {self.path}: {error.strerror}.") from error
        self._file = open(descriptor, "w", encoding="ascii", newline="\n")  # noqa: SIM115
        created = datetime.datetime.now(datetime.UTC).isoformat()
        self.write({"kind": "cassette", "version": VERSION, "created": created})

    def write(self, line: Mapping[str, Any]) -> None:
        """Writes a line. Errors: ``InputError`` if the file cannot be extended."""
        # ASCII, since lone surrogates in models' texts and file names are not valid UTF-8.
        text = json.dumps(line, separators=(",", ":"), allow_nan=False)
        try:
            self._file.write(f"{text}\n")
            self._file.flush()
        except OSError as error:
            raise InputError(f"Cannot continue recording to {self.path}: {error.strerror}.") from error

    @property
    def closed(self) -> bool:
        return self._file.closed

    def close(self) -> None:
        """Writes the last line. May be called twice."""
        if not self._file.closed:
            self.write({"kind": "end"})
            self._file.close()


def read(path: str | os.PathLike[str]) -> Tape:
    """Reads a cassette. An incomplete last line, as after a crash, marks the end of the recording.

    Errors: ``InputError`` if it cannot be read; ``SerializationInvalidity`` with the line if it is no cassette.
    """
    shown = os.fspath(path)
    try:
        data = read_regular(path)
    except OSError as error:
        raise InputError(f"The cassette {shown} cannot be read: {error.strerror}.") from error
    *rows, rest = data.split(b"\n")
    if not rows:
        raise SerializationInvalidity(f"{shown} is not a cassette: it has no complete line.")
    header = _row(rows[0], shown, 1)
    if header.get("kind") != "cassette":
        raise SerializationInvalidity(f"{shown} is not a cassette: its first line is not the header of one.")
    if (version := header.get("version")) != VERSION:
        raise SerializationInvalidity(
            f"{shown}: the cassette has version {version!r}; this Ripieno reads version {VERSION}. Record it again."
        )
    lines = tuple(_line(_row(row, shown, number), shown, number) for number, row in enumerate(rows[1:], 2))
    whole = bool(lines) and lines[-1].kind == "end" and not rest
    return Tape(path=shown, lines=lines, whole=whole)


def _row(row: bytes, path: str, number: int) -> Mapping[str, Any]:
    try:
        value = json.loads(row)
    except (ValueError, RecursionError) as error:
        raise SerializationInvalidity(f"{path}, line {number}: invalid JSON ({error}).") from None
    if not is_table(value):
        raise SerializationInvalidity(f"{path}, line {number}: not a JSON object.")
    return value


def _line(fields: Mapping[str, Any], path: str, number: int) -> CassetteLine:
    kind = fields.get("kind")
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise SerializationInvalidity(f"{path}, line {number}: unknown kind {kind!r}.")
    for name, wanted in _FIELDS[kind].items():
        if type(fields.get(name)) is not wanted:
            raise SerializationInvalidity(f"{path}, line {number}: {name!r} of {kind!r} is not a {wanted.__name__}.")
    events = fields.get("events")
    valid = is_list(events) and all(map(is_table, events))
    if kind == "native" and not valid and fields.get("ended") not in ("whole", "left"):
        raise SerializationInvalidity(f"{path}, line {number}: 'events' is not a list of objects.")
    ms = fields.get("ms", 0.0)
    if type(ms) not in (int, float):
        raise SerializationInvalidity(f"{path}, line {number}: 'ms' is not a number.")
    return CassetteLine(number=number, kind=kind, run=fields.get("run", 0), ms=float(ms), fields=fields)
