"""Reads one TOML or JSON file within bounds. A referenced file must be beneath the folder of the referring file."""

import contextlib
import dataclasses
import errno
import hashlib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ripieno.descriptors.reader.positions import Positions, ScanFailure
from ripieno.descriptors.reader.problems import Source, excerpt, printable, undotted
from ripieno.descriptors.reader.regular_files import require_regular
from ripieno.exceptions import ConfigurationInvalidity, InputError, JsonInvalidity, Problem, nearest_files
from ripieno.jsonvalues import is_list, is_table, parse
from ripieno.lazy.expressions import expression
from ripieno.values import Value

#: Bounds of one file. Measured: the standard library's parser takes 42 s for a dotted key of 100 KB, and endless
#: brackets exhaust the stack.
FILE_BYTES = 256 * 1024
KEY_PARTS = 64
DEPTH = 32

_AT_LINE = expression(r"(?P<message>.*) \(at (?:line (?P<line>\d+), column \d+|end of document)\)", re.DOTALL)
#: What does not belong in a list, at the beginning of a line: a table, or a key with its value.
_NO_ELEMENT = expression(r"\s*(?:\[+[\w.\"' -]+\]+\s*(?:#.*)?$|[\w.\"'-]+\s*=)")
_LIST = expression(r"[^#=]*=\s*\[")
_TEXT_OR_COMMENT = expression(r"\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'|#[^\n]*")
_LONG_NUMBER = expression(r"[0-9_]{4000}")
#: Messages of the standard library's parser, better messages, and hints.
_SYNTAX: Sequence[tuple[str, str, str]] = (
    (r"Invalid value", "this is not a value", "Write text in quotes, and true or false in lower case."),
    (r"Invalid statement", "this is neither a key nor a table", 'Write key = "value", or [table].'),
    (r"Expected '=' after a key.*", "a key has no value", 'Write key = "value".'),
    (r"Expected newline or end of document.*", "a line must end here", "Write text in quotes, and one key per line."),
    (r"Cannot overwrite a value", "this key is defined twice", "Delete one of them."),
    (r"Duplicate inline table key '(.*)'", r"the key \1 is defined twice", "Delete one of them."),
    (
        r"Cannot declare \((.*?),?\) twice",
        r"the table \1 is defined twice",
        "Delete one of them, or write both as lists: [[name]].",
    ),
    (r"Illegal character '\\n'", "the text has no closing quotes", "Close the text on its line, or use three quotes."),
    (r"Unterminated string", "the text has no closing quotes", "Close the text on its line, or use three quotes."),
    (
        r"Unescaped '\\' in a string",
        "a backslash must be escaped in double quotes",
        "Write the text in single quotes, or each backslash twice.",
    ),
    (r"Unclosed array", "this list has no closing bracket", "Write a comma between elements, and ] at the end."),
    (r"Unclosed inline table", "a table has no closing brace", "Write an inline table in one line, or use [table]."),
)


class Document(Value, kw_only=True):
    """A file that was read: its mapping, path, text, and the SHA-256 of its bytes in hexadecimal."""

    mapping: Mapping[str, Any]
    path: Path
    text: str
    digest: str

    @property
    def source(self) -> Source:
        """The file's name for messages, and its text for positions."""
        file = file_name(self.path)
        return Source(file=file, text=self.text, json=file.endswith(".json"))


def read_toml(path: Path | str) -> Document:
    """Reads a file that the user named. Errors: ``ConfigurationInvalidity``, also for a missing file."""
    path = Path(path)
    try:
        return _document(path, _read(os.open(path, _FLAGS), path))
    except OSError as error:
        message, hint = f"it cannot be read: {_reason(error)}", _similar(path, error) or None
        raise ConfigurationInvalidity([Problem(message=message, file=file_name(path), hint=hint)]) from error


def read_beneath(folder: Path | str, relative: str) -> Document:
    """Reads a TOML or JSON file that another file refers to. It must be beneath ``folder``, also through links.

    Errors: ``ConfigurationInvalidity`` for its contents, another ``InputError`` if it cannot be read.
    """
    path = Path(folder, relative)
    try:
        data = _read(_open_beneath(os.fspath(folder), relative), path)
    except OSError as error:
        message = f"{file_name(path)} cannot be read: {_reason(error)}. {_similar(path, error)}"
        raise InputError(message.strip()) from error
    return _document(path, data)


def locate(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The problems, with lines for those that only have a file and a key. A file that cannot be read gives no line."""
    files: dict[str, Positions | None] = {}

    def place(problem: Problem) -> Problem:
        if problem.file is None or problem.key is None or problem.line is not None:
            return problem
        if problem.file not in files:
            files[problem.file] = None
            with contextlib.suppress(ConfigurationInvalidity):
                files[problem.file] = read_toml(problem.file).source.positions()
        positions = files[problem.file]
        path = undotted(problem.key)
        found = None if positions is None else positions.find(path)
        return problem if found is None else dataclasses.replace(problem, line=found[0], source=excerpt(found[1], path))

    return tuple(place(problem) for problem in problems)


def file_name(path: Path) -> str:
    """A path as messages name it."""
    return printable(str(path), 1_000)


_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def _read(descriptor: int, path: Path) -> bytes:
    """The bytes of a regular file, at most one more than allowed. Closes the descriptor."""
    try:
        require_regular(os.fstat(descriptor), str(path))
        data = b""
        while more := os.read(descriptor, FILE_BYTES + 1 - len(data)):
            data += more
        return data
    finally:
        os.close(descriptor)


def _open_beneath(folder: str, relative: str) -> int:
    """Opens a file folder by folder, so that a link that is exchanged meanwhile cannot lead out of the folder.

    Links inside the folder are resolved first.
    """
    parts = [part for part in relative.split("/") if part not in ("", ".")]
    if relative.startswith("/") or ".." in parts or not parts or "\0" in relative:
        raise OSError(errno.EPERM, "it is not beneath the folder of the file that names it")
    try:
        return _walk(folder, parts)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
    root, target = os.path.realpath(folder), os.path.realpath(os.path.join(folder, *parts))
    if os.path.commonpath((root, target)) != root:
        raise OSError(errno.EPERM, "a link leads out of the folder of the file that names it")
    return _walk(root, os.path.relpath(target, root).split("/"))


def _walk(folder: str, parts: Sequence[str]) -> int:
    current = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for position, part in enumerate(parts):
        last = position == len(parts) - 1
        flags = _FLAGS if last else os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            following = os.open(part, flags | os.O_NOFOLLOW, dir_fd=current)
        finally:
            os.close(current)
        current = following
    return current


def _document(path: Path, data: bytes) -> Document:
    file = file_name(path)
    if len(data) > FILE_BYTES:
        raise ConfigurationInvalidity([Problem(message=f"the file is larger than {FILE_BYTES // 1024} KiB", file=file)])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigurationInvalidity(
            [Problem(message="the file is not UTF-8", file=file, line=line, hint="Save it with that encoding.")]
        ) from error
    mapping = parse_json(text, file) if file.endswith(".json") else parse_toml(text, file)
    return Document(mapping=mapping, path=path, text=text, digest=hashlib.sha256(data).hexdigest())


def parse_toml(text: str, file: str | None = None) -> dict[str, Any]:
    """The mapping of a text, within the bounds of keys and depth. Errors: ``ConfigurationInvalidity``."""
    # The parser's time grows with the third power of a path's length: that of its table's key and its own.
    if text.count(".") >= DEPTH // 2 and any(line.count(".") >= DEPTH // 2 for line in text.split("\n")):
        _scan(text, file)
    try:
        mapping = tomllib.loads(text)
    except RecursionError:
        mapping = None
    except ValueError as error:
        raise ConfigurationInvalidity([_syntax(str(error), text, file)]) from error
    # Each level of nesting needs one of these characters.
    nesting = text.count("[") + text.count("{") + text.count(".")
    if mapping is None or (nesting >= DEPTH and _is_deeper(mapping, DEPTH)):
        _scan(text, file)
        raise ConfigurationInvalidity([Problem(message=f"values are nested more than {DEPTH} deep", file=file)])
    return mapping


def parse_json(text: str, file: str | None = None) -> Mapping[str, Any]:
    """The mapping of a JSON text. Errors: ``ConfigurationInvalidity``."""
    try:
        mapping: Any = parse(text)
    except JsonInvalidity as error:
        line = None if error.position is None else text.count("\n", 0, error.position) + 1
        raise ConfigurationInvalidity([_at(line, text, file, str(error), None)]) from error
    if not is_table(mapping):
        raise ConfigurationInvalidity([_at(1, text, file, "the file must contain one JSON object", None)])
    return mapping


def _scan(text: str, file: str | None) -> None:
    """Refuses keys and values that exceed the bounds, with their line."""
    try:
        Positions(text, parts=KEY_PARTS, depth=DEPTH, strict=True)
    except ScanFailure as failure:
        raise ConfigurationInvalidity([_at(failure.line, text, file, str(failure), None)]) from failure


def _is_deeper(value: object, depth: int) -> bool:
    """Whether tables and lists have more than ``depth`` levels."""
    items = value.values() if is_table(value) else value if is_list(value) else None
    if items is None or depth == 0:
        return items is not None
    return any(not isinstance(item, str) and _is_deeper(item, depth - 1) for item in items)


def _syntax(message: str, text: str, file: str | None) -> Problem:
    """The problem of a parser's message, with its line, and a hint if one is known."""
    line: int | None = None
    if match := _AT_LINE.fullmatch(message):
        message = match["message"]
        line = int(match["line"] or text.count("\n") + 1)
    elif number := _LONG_NUMBER.search(text):
        message, line = "a number is too long", text.count("\n", 0, number.start()) + 1
    if line is not None and message in ("Invalid value", "Unclosed array") and (begins := _open_list(text, line)):
        # The parser fails where the next key or table is no element of it.
        line, message = begins, "Unclosed array"
    for pattern, better, hint in _SYNTAX:
        if match := re.fullmatch(pattern, message, re.DOTALL):
            return _at(line, text, file, match.expand(better), hint)
    return _at(line, text, file, message, None)


def _open_list(text: str, line: int) -> int | None:
    """The line in which a list begins that is not closed before a line which is no element of one, or the end."""
    lines = text.split("\n")
    if line < len(lines) and not _NO_ELEMENT.match(lines[line - 1]):
        return None
    for begins in range(line - 1, 0, -1):
        if _LIST.match(lines[begins - 1]):
            between = _TEXT_OR_COMMENT.sub("", "\n".join(lines[begins - 1 : line - 1]))
            return begins if between.count("[") > between.count("]") else None
    return None


def _at(line: int | None, text: str, file: str | None, message: str, hint: str | None) -> Problem:
    lines = text.split("\n")
    source = excerpt(lines[line - 1].rstrip("\r")) if line is not None and line <= len(lines) else None
    return Problem(message=message, file=file, line=line, source=source, hint=hint)


def _reason(error: OSError) -> str:
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]


def _similar(path: Path, error: OSError) -> str:
    if error.errno != errno.ENOENT:
        return ""
    try:
        names = sorted(os.listdir(path.parent))[:1_000]
    except OSError:
        return f"There is no folder {file_name(path.parent)}."
    kinds = {path.suffix, ".toml", ".json"}  # The suffix may be the misspelled part.
    near = nearest_files(path.name, (name for name in names if Path(name).suffix in kinds))
    return f"Did you mean {' or '.join(repr(name) for name in near)}?" if near else ""
