"""What the file tools would change, as diffs, before anybody is asked: reads by the room of the tools, and no more.

What a tool would refuse is said in its own words. Nothing that is foreseen is kept: the tool looks again itself.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ripieno.approvals.presentation import show_change
from ripieno.ensembles import Context
from ripieno.exceptions import ToolFault
from ripieno.toolset.files.diffs import FilePatch, apply, read_patch
from ripieno.toolset.files.manage import destination_of
from ripieno.toolset.files.session import room_of
from ripieno.toolset.files.text_edits import edit
from ripieno.toolset.files.write import text_of
from ripieno.toolset.workspace.workspace import Workspace

#: Bytes of a file that are read for a preview.
_READ = 1024 * 1024
_Foresight = Callable[[Context, Mapping[str, Any]], str]


class _Untold(Exception):
    """What a change is cannot be shown; the text says why."""


def _foreseeing(look: Callable[[Workspace, Mapping[str, Any]], str]) -> _Foresight:
    """A preview that says what stands in its way, instead of raising it."""

    def foresee(context: Context, arguments: Mapping[str, Any]) -> str:
        try:
            with room_of(context) as room:
                return look(room, arguments)
        except ToolFault as fault:
            return f"It would be refused as things are: {fault.message}"
        except _Untold as reason:
            return str(reason)

    return foresee


def _write(room: Workspace, arguments: Mapping[str, Any]) -> str:
    path, content, mode = str(arguments["path"]), str(arguments["content"]), arguments.get("mode", "overwrite")
    before = _text(room, path)
    if mode == "create" and before is not None:
        return f"It would be refused as things are: {path!r} exists already."
    return show_change(path, before, (before or "") + content if mode == "append" else content)


def _edit(room: Workspace, arguments: Mapping[str, Any]) -> str:
    path = str(arguments["path"])
    before = _existing(room, path)
    mark = "\ufeff" if before.startswith("\ufeff") else ""
    old, new = str(arguments["old_content"]), str(arguments["new_content"])
    edited = edit(before.removeprefix(mark), old, new, arguments.get("occurrence"), path)
    return show_change(path, before, mark + edited.text)


def _patch(room: Workspace, arguments: Mapping[str, Any]) -> str:
    patches = read_patch(str(arguments["patch"]))
    if arguments.get("path") is not None and len(patches) == 1:
        path = str(arguments["path"])
        patches = [FilePatch(source=path, target=path, hunks=patches[0].hunks, mode=patches[0].mode)]
    return "".join(_patched(room, patch) for patch in patches)


def _patched(room: Workspace, patch: FilePatch) -> str:
    source, target = patch.source, patch.target
    before = None if source is None else _existing(room, source)
    mark = "\ufeff" if before is not None and before.startswith("\ufeff") else ""
    after = None if target is None else mark + apply((before or "").removeprefix(mark), patch)
    renamed = f"rename from {source}\nrename to {target}\n" if source and target and source != target else ""
    mode = "" if patch.mode is None else f"new mode {patch.mode:03o} of {patch.name}\n"
    return renamed + mode + show_change(patch.name, before, after)


def _delete(room: Workspace, arguments: Mapping[str, Any]) -> str:
    path = str(arguments["path"])
    state = room.state(path)
    if state is None:
        return f"It would be refused as things are: {path!r} is not there."
    if state.kind == "link":
        return f"The link {path} to {state.target} would be deleted, and not what it leads to.\n"
    if state.kind == "directory":
        inside = " with all that is in it" if arguments.get("recursive") else ", if it is empty"
        return f"The directory {path} would be deleted{inside}.\n"
    return show_change(path, _existing(room, path), None)


def _move(room: Workspace, arguments: Mapping[str, Any]) -> str:
    source = str(arguments.get("source", arguments.get("path")))
    return _placed(room, "moved", source, destination_of(source, arguments), arguments)


def _copy(room: Workspace, arguments: Mapping[str, Any]) -> str:
    return _placed(room, "copied", str(arguments["source"]), str(arguments["destination"]), arguments)


def _placed(room: Workspace, verb: str, source: str, destination: str, arguments: Mapping[str, Any]) -> str:
    said = f"{source} would be {verb} to {destination}.\n"
    there = room.state(destination)
    if there is None:
        return said
    if not arguments.get("overwrite") or there.kind != "file":
        return f"It would be refused as things are: {destination!r} exists already."
    return f"{said}It would replace this file:\n{show_change(destination, _existing(room, destination), None)}"


def _text(room: Workspace, path: str) -> str | None:
    """What a file has, None for a file that is not there."""
    state = room.state(path)
    if state is None:
        return None
    if state.kind != "file":
        raise _Untold(f"It would be refused as things are: {path!r} is a {state.kind}.")
    with room.open_file(path) as file:
        data = file.read(_READ + 1)
    if len(data) > _READ:
        raise _Untold(f"{path!r} has {state.size} bytes, which is too much to show what would change.")
    try:
        return text_of(data, path)
    except ToolFault:
        raise _Untold(f"{path!r} has {len(data)} bytes that are no text: what would change cannot be shown.") from None


def _existing(room: Workspace, path: str) -> str:
    text = _text(room, path)
    if text is None:
        raise _Untold(f"It would be refused as things are: {path!r} is not there.")
    return text


foresee_write = _foreseeing(_write)
foresee_edit = _foreseeing(_edit)
foresee_patch = _foreseeing(_patch)
foresee_delete = _foreseeing(_delete)
foresee_move = _foreseeing(_move)
foresee_copy = _foreseeing(_copy)
