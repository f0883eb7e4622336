"""Previews of the file tools' changes as diffs, for a confirmation. They only read.

Refusals have the tools' own messages. No preview is kept: the tool examines the files again.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ripieno.approvals.presentation import show_change
from ripieno.ensembles import Context
from ripieno.exceptions import ToolFault
from ripieno.toolset.files.diffs import FilePatch, apply, read_patch
from ripieno.toolset.files.manage import destination_of
from ripieno.toolset.files.patch import about
from ripieno.toolset.files.session import open_workspace
from ripieno.toolset.files.text_edits import edit
from ripieno.toolset.files.write import text_of
from ripieno.toolset.workspace.workspace import Workspace

#: Bytes of a file that are read for a preview.
_READ = 1024 * 1024
_Foresight = Callable[[Context, Mapping[str, Any]], str]


class _NotShown(Exception):
    """The change cannot be shown; the text is the reason."""


def _foreseeing(look: Callable[[Workspace, Mapping[str, Any]], str]) -> _Foresight:
    """A preview that returns the reason of a refusal instead of raising it."""

    def foresee(context: Context, arguments: Mapping[str, Any]) -> str:
        try:
            with open_workspace(context) as workspace:
                return look(workspace, arguments)
        except ToolFault as fault:
            return f"It would be refused now: {fault.message}"
        except _NotShown as reason:
            return str(reason)

    return foresee


@_foreseeing
def foresee_write(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    path, content, mode = str(arguments["path"]), str(arguments["content"]), arguments.get("mode", "overwrite")
    before = _text(workspace, path)
    if mode == "create" and before is not None:
        return f"It would be refused now: {path!r} already exists."
    return show_change(path, before, (before or "") + content if mode == "append" else content)


@_foreseeing
def foresee_edit(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    path = str(arguments["path"])
    before = _existing(workspace, path)
    mark = "\ufeff" if before.startswith("\ufeff") else ""
    old, new = str(arguments["old_content"]), str(arguments["new_content"])
    edited = edit(before.removeprefix(mark), old, new, arguments.get("occurrence"), path)
    return show_change(path, before, mark + edited.text)


@_foreseeing
def foresee_patch(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    patches = read_patch(str(arguments["patch"]))
    if arguments.get("path") is not None:
        patches = [about(patches, str(arguments["path"]))]
    return "".join(_patched(workspace, patch) for patch in patches)


def _patched(workspace: Workspace, patch: FilePatch) -> str:
    source, target = patch.source, patch.target
    before = None if source is None else _existing(workspace, source)
    mark = "\ufeff" if before is not None and before.startswith("\ufeff") else ""
    after = None if target is None else mark + apply((before or "").removeprefix(mark), patch)
    renamed = f"rename from {source}\nrename to {target}\n" if source and target and source != target else ""
    mode = "" if patch.mode is None else f"new mode {patch.mode:03o} of {patch.name}\n"
    return renamed + mode + show_change(patch.name, before, after)


@_foreseeing
def foresee_delete(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    path = str(arguments["path"])
    state = workspace.state(path)
    if state is None:
        return f"It would be refused now: {path!r} does not exist."
    if state.kind == "link":
        return f"The link {path} to {state.target} would be deleted, but not its target.\n"
    if state.kind == "directory":
        inside = " with all its contents" if arguments.get("recursive") else ", if it is empty"
        return f"The directory {path} would be deleted{inside}.\n"
    return show_change(path, _existing(workspace, path), None)


@_foreseeing
def foresee_move(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    source = str(arguments.get("source", arguments.get("path")))
    return _placed(workspace, "moved", source, destination_of(source, arguments), arguments)


@_foreseeing
def foresee_copy(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    return _placed(workspace, "copied", str(arguments["source"]), str(arguments["destination"]), arguments)


def _placed(workspace: Workspace, verb: str, source: str, destination: str, arguments: Mapping[str, Any]) -> str:
    message = f"{source} would be {verb} to {destination}.\n"
    existing = workspace.state(destination)
    if existing is None:
        return message
    if not arguments.get("overwrite") or existing.kind != "file":
        return f"It would be refused now: {destination!r} already exists."
    return f"{message}It would replace this file:\n{show_change(destination, _existing(workspace, destination), None)}"


def _text(workspace: Workspace, path: str) -> str | None:
    """The content of a file; None for a missing one."""
    state = workspace.state(path)
    if state is None:
        return None
    if state.kind != "file":
        raise _NotShown(f"It would be refused now: {path!r} is a {state.kind}.")
    with workspace.open_file(path) as file:
        data = file.read(_READ + 1)
    if len(data) > _READ:
        raise _NotShown(f"{path!r} has {state.size} bytes, which is too much to show the change.")
    try:
        return text_of(data, path)
    except ToolFault:
        raise _NotShown(f"{path!r} has {len(data)} bytes that are not text: the change cannot be shown.") from None


def _existing(workspace: Workspace, path: str) -> str:
    text = _text(workspace, path)
    if text is None:
        raise _NotShown(f"It would be refused now: {path!r} does not exist.")
    return text
