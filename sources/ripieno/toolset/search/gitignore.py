"""The filter of a search: hidden names and the workspace's ``.gitignore`` files, with ripgrep's rules.

Only ``.gitignore`` files count, with or without a repository; other ignore files and settings do not. A caller's globs
come first: an included name is found although it is hidden or ignored, unless a folder above it is; an excluded one is
not.
"""

import dataclasses
import os
import stat
from collections.abc import Sequence
from typing import Literal

from ripieno.descriptors.rules.globs import Matcher, translate
from ripieno.toolset.workspace.entries import SAFELY, read_within
from ripieno.values import Value

#: Rules read of a file, and bytes of the largest file that is read.
_BYTES, _RULES = 256 * 1024, 2000

Verdict = Literal["in", "out"] | None


class Rule(Value):
    """One line: matching names are left out, or with ``keeps`` are not."""

    matches: Matcher
    keeps: bool
    folders_only: bool


class Rules:
    """The lines of a file, or the globs of a caller. The last match decides."""

    __slots__ = ("_any", "_rules")

    def __init__(self, lines: Sequence[str]) -> None:
        expressions: list[str] = []
        self._rules: list[Rule] = []
        for line in lines[:_RULES]:
            read = _read(line)
            if read is not None:
                expression, keeps, folders_only = read
                self._rules.insert(0, Rule(Matcher([expression]), keeps, folders_only))
                expressions.append(expression)
        # Most names match none, which takes one test.
        self._any = _joined(expressions)

    def verdict(self, path: str, *, is_directory: bool) -> Verdict:
        """The verdict about a path, relative to the folder of the file."""
        if self._any is None or not self._any(path):
            return None
        for rule in self._rules:
            if (is_directory or not rule.folders_only) and rule.matches(path):
                return "in" if rule.keeps else "out"
        return None


def _joined(expressions: Sequence[str]) -> Matcher | None:
    if not expressions:
        return None
    try:
        return Matcher(expressions)
    except ValueError:
        return Matcher([".*"])  # Too large together: each is tested.


def _read(line: str) -> tuple[str, bool, bool] | None:
    """The expression of a line, whether it keeps, and whether it applies to folders only; None without a rule."""
    if line.startswith("#"):
        return None
    if not line.endswith("\\ "):
        line = line.rstrip()
    keeps = line.startswith("!")
    line = line[1:] if keeps or line[:2] in ("\\!", "\\#") else line
    anchored = line.startswith("/")
    line = line[1:] if anchored else line
    folders_only = line.endswith("/")
    line = line[:-1] if folders_only else line
    if not line:
        return None
    if not anchored and "/" not in line:
        line = f"**/{line}"
    if line.endswith("/**"):
        line = f"{line}/*"
    try:
        expression = translate(line)
        Matcher([expression])
    except ValueError:
        return None  # An invalid glob is ignored, as in ripgrep.
    return expression, keeps, folders_only


def rules_in(directory: int) -> Rules | None:
    """The rules of an open directory's ``.gitignore``; None without a readable one."""
    try:
        descriptor = os.open(".gitignore", os.O_RDONLY | SAFELY, dir_fd=directory)
    except OSError:
        return None
    try:
        data = read_within(descriptor, _BYTES) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return None if data is None else Rules(data.decode(errors="replace").removeprefix("\ufeff").splitlines())


class Globs:
    """A caller's included and excluded paths, relative to the searched folder."""

    __slots__ = ("_exclude", "_include")

    def __init__(self, include: str | None, exclude: str | None) -> None:
        self._include = None if include is None else Rules([as_rule(include, include=True)])
        self._exclude = None if exclude is None else Rules([as_rule(exclude)])

    def verdict(self, path: str, *, is_directory: bool) -> Verdict:
        """The verdict about a path; a folder that is not included may contain included ones."""
        if self._exclude is not None and self._exclude.verdict(path, is_directory=is_directory):
            return "out"
        if self._include is None:
            return None
        if self._include.verdict(path, is_directory=is_directory):
            return "in"
        return None if is_directory else "out"


def as_rule(glob: str, *, include: bool = False) -> str:
    """A glob as a rule line: never a comment or a negation; an included folder includes all its contents."""
    if include and glob.endswith("/"):
        glob = f"{'' if '/' in glob[:-1] else '**/'}{glob}**"
    glob = f"\\{glob}" if glob[:1] in ("!", "#") else glob
    return f"{glob[:-1]}\\ " if glob.endswith(" ") and not glob.endswith("\\ ") else glob


@dataclasses.dataclass(slots=True)
class Filter:
    """The filter of a walk. ``above`` are the rules of parent folders: (rules, path from there), nearest first.

    A folder must be entered before its contents are judged.
    """

    globs: Globs
    hidden: bool = False
    ignored: bool = False
    above: Sequence[tuple[Rules, str]] = ()
    _rules: dict[str, Rules | None] = dataclasses.field(default_factory=dict[str, "Rules | None"])

    def enter(self, path: str, directory: int) -> None:
        """Reads the rules of a folder; ``path`` is empty for the top, and otherwise ends with a slash."""
        if not self.ignored:
            self._rules[path] = rules_in(directory)

    def wants(self, folder: str, name: str, *, is_directory: bool) -> bool:
        """Whether a name in an entered folder is included."""
        path = folder + name
        verdict = self.globs.verdict(path, is_directory=is_directory)
        if verdict is not None:
            return verdict == "in" and name != ".git"
        verdict = None if self.ignored else self._verdict(folder, path, is_directory=is_directory)
        if verdict is not None:
            return verdict == "in" and name != ".git"
        return name != ".git" and (self.hidden or not name.startswith("."))

    def _verdict(self, folder: str, path: str, *, is_directory: bool) -> Verdict:
        """The verdict of the nearest rules."""
        while True:
            rules = self._rules.get(folder)
            verdict = None if rules is None else rules.verdict(path[len(folder) :], is_directory=is_directory)
            if verdict is not None:
                return verdict
            if not folder:
                break
            folder = folder[: folder.rstrip("/").rfind("/") + 1]
        for rules, before in self.above:
            verdict = rules.verdict(before + path, is_directory=is_directory)
            if verdict is not None:
                return verdict
        return None
