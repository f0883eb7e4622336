"""Outcomes of a merge: whether it needs a commit, and the files in conflict with their resolution."""

import os
import re
from collections.abc import Sequence

from ripieno.exceptions import ExecutionFault, ToolFault
from ripieno.origins.command.programs import surroundings_of, true_path
from ripieno.sandbox.processes import Completed
from ripieno.toolset.arguments import several
from ripieno.toolset.git.repository import Repository, explain
from ripieno.toolset.workspace.workspace import Workspace

#: Files in conflict in a message; the details have all of them.
_NAMED = 20
#: Bytes of a file searched for conflict markers.
_LOOK = 4 * 2**20
_BEGIN, _END = (re.compile(rb"^" + mark * 7 + rb"(?: |\r?$)", re.MULTILINE) for mark in (b"<", b">"))


async def is_fast_forward(repository: Repository, commit: str) -> bool:
    """Whether the current branch has no commits that the other one lacks."""
    head = await repository.ask("rev-parse", "--verify", "--quiet", "HEAD")
    if head.exit_code != 0:
        # A branch without commits takes any commit.
        return True
    name = head.stdout.text.strip()
    return name != commit and (await repository.ask("merge-base", "--is-ancestor", name, commit)).exit_code == 0


async def refuse_conflict(repository: Repository, done: Completed, what: str, after: str) -> None:
    """Errors: ``ExecutionFault`` for a command that left files in conflict, with paths relative to its directory.

    ``after`` is a sentence about the alternative to resolving them.
    """
    listed = await repository.ask("diff", "--name-only", "--diff-filter=U", "--no-ext-diff", "--no-textconv", "-z")
    files = _from(repository, listed.stdout.text.split("\0")[:-1])
    if listed.exit_code != 0 or not files:
        return
    fault = explain(done, repository.context, what)
    shown = ", ".join(map(repr, files[:_NAMED]))
    more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
    raise ExecutionFault(
        f"{several(len(files), 'file is', 'files are')} in conflict: {shown}{more}.\n{fault.message}",
        code="conflict",
        details={**fault.details, "files": files},
        suggestion="Edit each file until no line with <<<<<<<, ======= or >>>>>>> is left, stage it with git_add, and "
        f"run git_commit after the last one. {after}",
    )


async def find_markers(repository: Repository, paths: Sequence[str]) -> list[str]:
    """A sentence for each file in conflict, among these paths, that still has conflict markers."""
    listed = await repository.ask("diff", "--name-only", "--diff-filter=U", "--no-ext-diff", "-z", *paths)
    names = listed.stdout.text.split("\0")[:-1] if listed.exit_code == 0 else []
    marked = [(name, line) for name in names if (line := _find_line(repository, name)) is not None]
    shown = _from(repository, [name for name, _ in marked[:_NAMED]])
    named = [f"{name} still has conflict markers, line {line}" for name, (_, line) in zip(shown, marked, strict=False)]
    more = len(marked) - len(named)
    return [*named, *([f"{several(more, 'more file has', 'more files have')} some, too"] if more else [])]


def _find_line(repository: Repository, name: str) -> int | None:
    """The line of the first complete conflict in a file; None without one."""
    path = os.path.relpath(os.path.join(repository.top, name), true_path(repository.context, "."))
    try:
        with Workspace(surroundings_of(repository.context).workspace) as workspace, workspace.open_file(path) as file:
            data = file.read(_LOOK) or b""
    except ToolFault:
        # A deleted file is resolved, and an unreadable one has no lines.
        return None
    begin = _BEGIN.search(data)
    if begin is None or _END.search(data, begin.end()) is None:
        return None
    return data.count(b"\n", 0, begin.start()) + 1


def _from(repository: Repository, names: Sequence[str]) -> list[str]:
    """Paths from the top of the working tree, relative to the directory of the call."""
    place = true_path(repository.context, repository.directory)
    return [os.path.relpath(os.path.join(repository.top, name), place) for name in names]
