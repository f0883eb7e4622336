"""Problems of one file or table, each with its line."""

import re
from collections.abc import Iterable, Mapping

from ripieno.descriptors.reader.positions import Path, Positions
from ripieno.exceptions import Problem, nearest
from ripieno.lazy.expressions import expression
from ripieno.values import Value

#: The most characters of a line that are shown.
LINE_LENGTH = 160
_PART = expression(r'\[([0-9]+)\]|"([^"]*)"|([A-Za-z0-9_-]+)')
#: Keys with secrets in them or in their tables. Their values are never shown.
_SECRETS = frozenset({"api_key", "client_secret", "headers", "keys", "secret"})
_VALUE = expression(r"([=:]\s*)\S.*", re.DOTALL)
#: The key of a secret in a line whose path is another or unknown: bare, quoted, dotted or in a table.
_ASSIGNED = expression(
    r'(?i)((?:api[_-]?key|secret|headers|environment|authorization|token|password)["\']?\s*[=:]\s*)\S.*'
)
#: The password of an address, up to the last @, as far as it may be one.
_PASSWORD = expression(r"""(//[^\s/:@"']*:)\S*@""")
#: Characters of a name that may be the beginning of another, as env is of environment.
_BEGINNING = 3
_BARE = expression(r"[A-Za-z0-9_-]+\Z")


class Source(Value, kw_only=True):
    """The origin of a mapping: the file as messages name it, and its text. A mapping from a program has neither."""

    file: str | None = None
    text: str | None = None
    json: bool = False

    def positions(self) -> Positions | None:
        """The lines of the keys; None without a text."""
        return None if self.text is None else Positions(self.text, json=self.json)


NO_SOURCE = Source()


class Problems:
    """The problems of one source, in the order of its lines, and those of files that it refers to."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._found: list[tuple[Path, str, str | None]] = []
        self._foreign: list[Problem] = []

    def __len__(self) -> int:
        return len(self._found) + len(self._foreign)

    def add(self, path: Path, message: str, hint: str | None = None) -> None:
        """Adds a problem at ``path``."""
        self._found.append((path, message, hint))

    def has(self, path: Path) -> bool:
        """Whether there is a problem at ``path``, or of a part of it."""
        return any(found[: len(path)] == path for found, _, _ in self._found)

    def beneath(self, path: Path) -> set[str | int]:
        """The keys of the table or list at ``path`` that have problems."""
        length = len(path)
        return {found[length] for found, _, _ in self._found if found[:length] == path and len(found) > length}

    def extend(self, problems: Iterable[Problem]) -> None:
        """Adds the problems of another file."""
        self._foreign.extend(problems)

    def finished(self) -> tuple[Problem, ...]:
        """All problems, with lines if the source has a text."""
        if not self._found:
            return tuple(self._foreign)
        positions = self.source.positions()
        own = [self._problem(positions, *found) for found in self._found]
        own.sort(key=lambda problem: problem.line or 0)
        return (*own, *self._foreign)

    def _problem(self, positions: Positions | None, path: Path, message: str, hint: str | None) -> Problem:
        position = None if positions is None else positions.find(path)
        line, text = position or (None, None)
        return Problem(
            message=message,
            file=self.source.file,
            line=line,
            key=dotted(path) or None,
            source=None if text is None else excerpt(text, path),
            hint=hint,
        )


def excerpt(line: str, path: Path = ()) -> str:
    """A line as it is shown: without control characters, and without the value of a secret."""
    # Arguments of a tool have schemas, whatever their names are.
    if "arguments" not in path:
        # The top-level table [environment] has names of variables; others of that name have values.
        secret = not _SECRETS.isdisjoint(path) or "environment" in path[1:] or path[:2] == ("journal", "url")
        line = _VALUE.sub(r"\1…", line, count=1) if secret else _ASSIGNED.sub(r"\1…", line, count=1)
        line = _PASSWORD.sub(r"\1…@", line)
    return printable(line)


def dotted(path: Path) -> str:
    """A path as a dotted TOML key, with indexes in brackets: ``invokers[1].arguments."odd key"``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if _BARE.match(part) else f'"{printable(part)}"'
            text += f".{name}" if text else name
    return text


def subject(path: Path) -> str:
    """The subject of a sentence about a path: its last key, with the indexes that follow."""
    names = [position for position, part in enumerate(path) if isinstance(part, str)]
    return dotted(path[names[-1] if names else 0 :]) or "this"


def undotted(key: str) -> Path:
    """The inverse of ``dotted``; escaped characters stay escaped."""
    parts = _PART.findall(key)
    return tuple(int(index) if index else quoted or bare for index, quoted, bare in parts)


def printable(text: str, length: int = LINE_LENGTH) -> str:
    """Text without control characters, cut at ``length``."""
    cut = text if len(text) <= length else text[: length - 1] + "…"
    if cut.isprintable():
        return cut
    return "".join(
        one if one.isprintable() or one == "\t" else one.encode("unicode_escape").decode("ascii") for one in cut
    )


def describe(value: object) -> str:  # noqa: PLR0911  one line a type
    """A short description of a value, in TOML's terms."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f'the string "{printable(value, 40)}"' if value else "an empty string"
        case int():
            return f"the number {value}" if abs(value) < 10**18 else "a very large number"
        case float():
            return f"the number {value}"
        case Mapping():
            return "a table"
        case list() | tuple():
            return "a list"
        case None:
            return "nothing"
        case _:
            return f"a {type(value).__name__}"


def is_slip(name: str, key: str) -> bool:
    """Whether a name differs from a key by one inserted, deleted, replaced or exchanged character."""
    if name == key or abs(len(name) - len(key)) > 1:
        return False
    at = next((at for at, (one, other) in enumerate(zip(name, key, strict=False)) if one != other), len(key))
    rest, wanted = name[at:], key[at:]
    return (
        rest[1:] == wanted[1:]
        or rest[1:] == wanted
        or rest == wanted[1:]
        or (rest[:2] == wanted[1::-1] and rest[2:] == wanted[2:])
    )


def spelling(name: str, known: Iterable[str]) -> str:
    """A hint: the names that differ by one character, the nearest ones, some that it begins, or all if they are few."""
    names = sorted(known)
    near = nearest(name, names)
    near = tuple(one for one in near if is_slip(name, one)) or near
    if not near and len(name) >= _BEGINNING:
        near = tuple(one for one in names if one.startswith(name))[:3]
    if near:
        return f"Did you mean {' or '.join(repr(one) for one in near)}?"
    if 0 < len(names) <= 20:
        return f"Known: {', '.join(names)}."
    return ""
