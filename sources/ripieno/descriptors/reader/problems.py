"""Collects what is wrong with one file or table: every problem, each with its line."""

import dataclasses
import re
from collections.abc import Iterable, Mapping

from ripieno.descriptors.reader.positions import Path, Positions
from ripieno.exceptions import Problem, nearest

#: Characters of an offending line that are shown.
LINE_LENGTH = 160
_PART = re.compile(r'\[([0-9]+)\]|"([^"]*)"|([A-Za-z0-9_-]+)')
#: Keys that have secrets in them, or whose tables have: what is shown of a line of theirs ends where its value begins.
_SECRETS = frozenset({"api_key", "client_secret", "headers", "keys", "secret"})
_VALUE = re.compile(r"([=:]\s*)\S.*", re.DOTALL)
#: Where one stands in a line whose path is not its own, or that nobody can read: bare, quoted, dotted or in a table.
_ASSIGNED = re.compile(
    r'(?i)((?:api[_-]?key|secret|headers|environment|authorization|token|password)["\']?\s*[=:]\s*)\S.*'
)
_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a mapping was read from: the file as messages name it, and its text, for positions.

    A mapping that came from a program has neither.
    """

    file: str | None = None
    text: str | None = None
    json: bool = False

    def positions(self) -> Positions | None:
        """The lines of its keys, or None without a text."""
        return None if self.text is None else Positions(self.text, json=self.json)


class Problems:
    """The problems of one source, in the order of its lines, and those of the files it refers to."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._found: list[tuple[Path, str, str | None]] = []
        self._foreign: list[Problem] = []

    def __len__(self) -> int:
        return len(self._found) + len(self._foreign)

    def add(self, path: Path, message: str, hint: str | None = None) -> None:
        """Something is wrong at ``path``."""
        self._found.append((path, message, hint))

    def extend(self, problems: Iterable[Problem]) -> None:
        """Takes over what another file has."""
        self._foreign.extend(problems)

    def finished(self) -> tuple[Problem, ...]:
        """All of them, with lines where the source has a text."""
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
    """What is shown of the line of a path: nothing that acts on a terminal, and of a secret only the key."""
    # Arguments of a tool have schemas, whatever they are called.
    if "arguments" not in path:
        # The table [environment] at the top has names of variables; all others have their values.
        secret = not _SECRETS.isdisjoint(path) or "environment" in path[1:]
        line = _VALUE.sub(r"\1…", line, count=1) if secret else _ASSIGNED.sub(r"\1…", line, count=1)
    return printable(line)


def dotted(path: Path) -> str:
    """A path as TOML would write it, with indexes in brackets: ``invokers[1].arguments."odd key"``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if _BARE.match(part) else f'"{printable(part)}"'
            text += f".{name}" if text else name
    return text


def subject(path: Path) -> str:
    """What a sentence about a path begins with: its last key, with the indexes that follow."""
    names = [position for position, part in enumerate(path) if isinstance(part, str)]
    return dotted(path[names[-1] if names else 0 :]) or "this"


def undotted(key: str) -> Path:
    """The path that ``dotted`` wrote; odd characters that it escaped stay escaped."""
    parts = _PART.findall(key)
    return tuple(int(index) if index else quoted or bare for index, quoted, bare in parts)


def printable(text: str, length: int = LINE_LENGTH) -> str:
    """Text that cannot move the cursor, hide anything or fill the screen."""
    cut = text if len(text) <= length else text[: length - 1] + "…"
    if cut.isprintable():
        return cut
    return "".join(
        one if one.isprintable() or one == "\t" else one.encode("unicode_escape").decode("ascii") for one in cut
    )


def describe(value: object) -> str:  # noqa: PLR0911  one line a type
    """What a value is, in the words of TOML; short, whatever the value."""
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
    """Whether one character less, more, other or exchanged makes a name of a key."""
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
    """A hint: the name that is one slip away, or the nearest ones, or all when they are few."""
    names = sorted(known)
    near = nearest(name, names)
    near = tuple(one for one in near if is_slip(name, one)) or near
    if near:
        return f"Did you mean {' or '.join(repr(one) for one in near)}?"
    if 0 < len(names) <= 20:
        return f"Known: {', '.join(names)}."
    return ""
