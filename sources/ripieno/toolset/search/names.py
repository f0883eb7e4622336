"""Finding files and folders by their names and paths.

Source of names: seed 000, section 11.3. Plain functions, because files block.
"""

import os
from typing import Any

from ripieno.ensembles import Context
from ripieno.toolset.arguments import matcher
from ripieno.toolset.files.session import described, open_workspace, printable
from ripieno.toolset.search.gitignore import Filter, Globs
from ripieno.toolset.search.python import walk
from ripieno.toolset.search.query import find, names_hidden, rules_above
from ripieno.toolset.workspace.tree import MAX_DEPTH, Visit, left_out_by_rules

#: Entries listed.
_CAP = 10_000


def find_files(context: Context, arguments: dict[str, Any]) -> str:
    """The matching paths from the workspace, sorted, one a line: ``path (12 bytes)``, ``folder/``, ``link -> target``.

    ``pattern`` is for names, or, with a slash or with ``whole``, for paths from ``path``. ``type`` is ``file``,
    ``directory``, ``link`` or ``any``. Errors: those of ``Workspace``; ``ValidationFault`` for an invalid glob.
    """
    pattern: str | None = arguments.get("pattern") or None
    whole: bool = arguments.get("whole", False)
    wanted: str = arguments.get("type", "file")
    fits = None if pattern is None else matcher(pattern, names=not whole)
    hidden = arguments.get("include_hidden", False) or names_hidden(pattern)
    ignored: bool = arguments.get("include_ignored", False)
    depth = min(arguments.get("max_depth", MAX_DEPTH), MAX_DEPTH)
    found: list[tuple[bytes, str]] = []
    with open_workspace(context) as workspace:
        base, file = find(context, workspace, arguments.get("path", "."))
        if file is not None:
            return f"{base}/{file} is a file.".removeprefix("./")
        above = () if ignored else rules_above(workspace, base)
        chosen = Filter(globs=Globs(None, None), hidden=hidden, ignored=ignored, above=above)
        with workspace.open_tree(base) as (directory, shown):
            for one in walk(directory, chosen, shown, depth=depth):
                if fits is None or fits(one.path):
                    line = _line(one, base, wanted)
                    if line is not None:
                        found.append((os.fsencode(one.path), line))
    lines = [line for _, line in sorted(found)[:_CAP]]
    if len(found) > _CAP:
        lines.append(f"[... {len(found) - _CAP} more left out: give a narrower pattern or path ...]")
    lines = lines or [_nothing(base, pattern, hidden=hidden, ignored=ignored)]
    return "\n".join([*lines, *left_out_by_rules(shown.left_out)])


def _line(one: Visit, base: str, wanted: str) -> str | None:
    """The line of an entry; None for other types, or if it is gone."""
    if wanted != "any" and one.is_directory != (wanted == "directory"):
        return None
    shown = printable(one.path if base == "." else f"{base}/{one.path}")
    if one.is_directory:
        return f"{shown}/"
    try:
        kind, line = described(one, shown)
    except OSError:
        return None
    return line if wanted in (kind, "any") else None


def _nothing(base: str, pattern: str | None, *, hidden: bool, ignored: bool) -> str:
    where = "the workspace" if base == "." else printable(base)
    left_out = [] if hidden else ["hidden entries"]
    left_out += [] if ignored else ["entries ignored by .gitignore"]
    without = f" Not searched: {', '.join(left_out)}." if left_out else ""
    return f"Nothing in {where} matches{'' if pattern is None else f' {pattern!r}'}.{without}"
