"""Directory listings: one level, several, or as a tree.

Source of names and arguments: seed 000, sections 3.2.6 and 11.3. Plain functions, because files block.
"""

import functools
import heapq
import itertools
import os
from collections.abc import Iterator
from typing import Any

from ripieno.ensembles import Context
from ripieno.toolset.arguments import matcher, several
from ripieno.toolset.files.session import described, open_workspace, printable
from ripieno.toolset.workspace.tree import MAX_DEPTH, Shown, Visit, left_out_by_rules, visit

#: Entries listed.
LIST_CAP = 10_000
#: Entries examined for them.
_LOOKED_AT = 2_000_000


def list_files(context: Context, arguments: dict[str, Any]) -> str:
    """The entries of a directory, sorted by name, one a line: ``folder/``, ``file (12 bytes)``, ``link -> target``.

    With ``recursive``, also those of its folders, as paths. ``pattern`` is for names, or, with a slash, for paths, in
    which ``**`` is any number of folders; folders that do not match it are left out. ``style = "tree"`` draws a tree.
    Errors: those of ``Workspace``; ``ValidationFault`` for an invalid pattern.
    """
    path: str = arguments.get("path", ".")
    hidden: bool = arguments.get("include_hidden", False)
    pattern: str | None = arguments.get("pattern")
    depth = min(arguments.get("max_depth", 10), MAX_DEPTH) if arguments.get("recursive", False) else 1
    drawn = arguments.get("style") == "tree"
    fits = None if pattern is None else matcher(pattern, names=True)
    seen = itertools.count()
    lines: list[str] = []
    with open_workspace(context) as workspace, workspace.open_tree(path) as (directory, shown):
        lister = functools.partial(_list, hidden=hidden, seen=seen, shown=shown)
        left_out = visited = 0
        for one in visit(directory, lister=lister, depth=depth, cut=True):
            if one.leaving:
                continue
            visited += 1
            if fits is not None and not fits(one.path):
                continue
            if len(lines) < LIST_CAP:
                lines.append(_line(one, drawn=drawn, nested=depth > 1))
            else:
                left_out += 1
    unseen = next(seen) - visited
    if (more := left_out + (unseen if pattern is None else 0)) > 0:
        lines.append(f"[... {several(more, 'more entry', 'more entries')} left out ...]")
    if pattern is not None and unseen > 0:
        lines.append(
            f"[... {several(unseen, 'entry', 'entries')} not examined: use find_files, or a smaller directory ...]"
        )
    lines += left_out_by_rules(shown.left_out)
    if lines:
        return "\n".join([f"{printable(path)}/".replace("//", "/"), *lines] if drawn else lines)
    if pattern is not None:
        return f"Nothing in {path} matches {pattern!r}."
    return f"{path} is empty." if hidden else f"{path} is empty or has only hidden entries."


def _list(directory: int, base: str, *, hidden: bool, seen: Iterator[int], shown: Shown) -> list[tuple[str, bool]]:
    """The first of a directory's entries by name, in bounded memory."""
    with os.scandir(directory) as entries:
        wanted = (
            (entry.name, entry.is_dir(follow_symlinks=False))
            for entry in entries
            if (hidden or not entry.name.startswith(".")) and shown(f"{base}{entry.name}")
        )
        counted = (pair for pair, _ in zip(wanted, itertools.takewhile(_LOOKED_AT.__gt__, seen), strict=False))
        return heapq.nsmallest(LIST_CAP, counted)


def _line(one: Visit, *, drawn: bool, nested: bool) -> str:
    before = "    " * (one.path.count("/") + 1) if drawn else ""
    shown = printable(one.path if nested and not drawn else one.name)
    try:
        return before + described(one, shown)[1]
    except OSError:
        # Deleted meanwhile, or not accessible; it was listed.
        return f"{before}{shown}"
