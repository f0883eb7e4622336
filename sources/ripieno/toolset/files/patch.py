"""Applying a unified diff to several files: to all of them, or to none.

Source of the name: seed 000, section 11.3, which gives no arguments. A plain function, because files block.
"""

from collections.abc import Sequence
from typing import Any

from ripieno.ensembles import Context, Outcome
from ripieno.exceptions import ValidationFault
from ripieno.toolset.arguments import encoded, several
from ripieno.toolset.files.diffs import FilePatch, apply, read_patch
from ripieno.toolset.files.session import READ_CAP, changes, learn, open_workspace
from ripieno.toolset.files.write import text_of, unless_stale
from ripieno.toolset.workspace.directories import ChangeMode
from ripieno.toolset.workspace.remove import Remove
from ripieno.toolset.workspace.replace import Replace
from ripieno.toolset.workspace.transaction import ReversibleOperation
from ripieno.toolset.workspace.workspace import Workspace


def patch_file(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Changes, creates, deletes and renames files by a patch. ``path``, if given, is the only file that it may change.

    A file that this conversation has read must be unchanged since. Errors: those of ``Workspace``; ``ValidationFault``
    for an invalid patch or one that does not fit; nothing is changed then.
    """
    patches = read_patch(encoded(arguments["patch"], "patch").decode())
    only: str | None = arguments.get("path")
    if only is not None:
        patches = [about(patches, only)]
    _check_apart(patches)
    with open_workspace(context) as workspace:
        operations = [operation for patch in patches for operation in _operations(context, workspace, patch)]
        steps = workspace.perform(operations)
    learn(context, steps)
    hunks = sum(len(patch.hunks) for patch in patches)
    files = "\n".join(_described(patch) for patch in patches)
    return Outcome(
        content=f"Applied {several(hunks, 'hunk')} to {several(len(patches), 'file')}:\n{files}", changes=changes(steps)
    )


def about(patches: Sequence[FilePatch], path: str) -> FilePatch:
    """The only file of a patch, under the name ``path``. Errors: ``ValidationFault`` if it changes others."""
    if len(patches) != 1 or patches[0].source != patches[0].target:
        raise ValidationFault(
            f"The patch changes more than {path!r}.", code="invalid_patch", suggestion="Leave path out."
        )
    return FilePatch(source=path, target=path, hunks=patches[0].hunks, mode=patches[0].mode)


def _check_apart(patches: Sequence[FilePatch]) -> None:
    """Checks that no file occurs twice: one change would depend on the other."""
    seen: set[str] = set()
    for patch in patches:
        for name in {patch.source, patch.target} - {None}:
            if name in seen:
                raise ValidationFault(
                    f"{name!r} occurs twice in the patch.", code="invalid_patch", suggestion="Join its hunks."
                )
            seen.add(str(name))


def _operations(context: Context, workspace: Workspace, patch: FilePatch) -> list[ReversibleOperation]:
    source, target = patch.source, patch.target
    if source is None:
        assert target is not None
        return [Replace(target, encoded(apply("", patch), "patch"), new=True, mode=patch.mode)]

    def change(before: bytes | None) -> bytes:
        text = text_of(before, source)
        mark = "\ufeff" if text.startswith("\ufeff") else ""
        after = apply(text.removeprefix(mark), patch)
        if target is None and after:
            lines = len(after.splitlines())
            raise ValidationFault(
                f"The patch deletes {source!r} but leaves {several(lines, 'line')} of it.",
                code="no_match",
                suggestion="Remove all lines of a deleted file in the patch.",
            )
        return encoded(mark + after, "patch")

    check = unless_stale(context, workspace, source, change)
    if target is None or target != source:
        with workspace.open_file(source) as file:
            before = file.read(READ_CAP + 1)
        content = check(before if len(before) <= READ_CAP else None)
        removal = Remove(source, kind="file", expected=before)
        if target is None:
            return [removal]
        mode = workspace.state(source)
        return [Replace(target, content, new=True, mode=patch.mode or (mode.mode if mode else None)), removal]
    if not patch.hunks and patch.mode is not None:
        return [ChangeMode(source, patch.mode)]
    return [Replace(source, check, existing=True, create_directories=False, mode=patch.mode)]


def _described(patch: FilePatch) -> str:
    if patch.source is None:
        return f"  made {patch.target}"
    if patch.target is None:
        return f"  deleted {patch.source}"
    return (
        f"  changed {patch.target}" if patch.source == patch.target else f"  renamed {patch.source} to {patch.target}"
    )
