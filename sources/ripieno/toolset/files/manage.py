"""Deleting, renaming, moving and copying files, making directories, and setting permissions.

Source of names: seed 000, sections 11.2 and 11.3, which give no arguments. Plain functions, because files block.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.ensembles import Context, Outcome
from ripieno.exceptions import ValidationFault
from ripieno.storage.undo import Step
from ripieno.toolset.arguments import several
from ripieno.toolset.files.session import changes, learn, not_kept, open_workspace
from ripieno.toolset.workspace.walk import split
from ripieno.toolset.workspace.workspace import Workspace

_SHOWN = 200


def delete(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Deletes a file or an empty directory; with ``recursive`` any directory. ``kind`` is the required kind."""
    path: str = arguments["path"]
    with open_workspace(context) as workspace:
        steps, count = workspace.delete(path, kind=arguments["kind"], recursive=arguments.get("recursive", False))
        inside = f" with {several(count - 1, 'entry', 'entries')} in it" if count > 1 else ""
        return _outcome(context, workspace, f"Deleted {path}{inside}.", steps)


def move(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Moves ``source`` to the new path ``destination``; ``new_name`` renames it in its folder."""
    source: str = arguments["source"] if "source" in arguments else arguments["path"]
    with open_workspace(context) as workspace:
        destination = destination_of(source, arguments)
        steps = workspace.move(
            source,
            destination,
            kind=arguments["kind"],
            overwrite=arguments.get("overwrite", False),
            create_directories=arguments.get("create_directories", False),
        )
        return _outcome(context, workspace, f"Moved {source} to {destination}{_replacing(steps)}.", steps)


def copy(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Copies a file, or with ``recursive`` a directory, to the new path ``destination``."""
    source: str = arguments["source"]
    destination: str = arguments["destination"]
    with open_workspace(context) as workspace:
        steps = workspace.copy(
            source,
            destination,
            kind=arguments["kind"],
            recursive=arguments.get("recursive", False),
            overwrite=arguments.get("overwrite", False),
            create_directories=arguments.get("create_directories", False),
        )
        files = sum(step.after is not None and step.after.kind == "file" for step in steps)
        what = f" ({several(files, 'file')})" if arguments.get("recursive") and files != 1 else ""
        return _outcome(context, workspace, f"Copied {source} to {destination}{what}{_replacing(steps)}.", steps)


def make_directory(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Makes a directory; with ``parents`` also those above it, and an existing one is accepted."""
    path: str = arguments["path"]
    with open_workspace(context) as workspace:
        steps = workspace.make_directory(path, parents=arguments.get("parents", False))
        return _outcome(context, workspace, f"Made {path}." if steps else f"{path} already exists.", steps)


def chmod(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Sets the nine permission bits of a file or directory; ``mode`` is octal, such as "644"."""
    path: str = arguments["path"]
    mode = int(arguments["mode"], 8)
    if mode > 0o777:
        raise ValidationFault(
            f"Mode {arguments['mode']} has set-user-ID, set-group-ID or sticky bits, which cannot be set.",
            code="out_of_range",
            suggestion="Give three digits, such as 755.",
        )
    with open_workspace(context) as workspace:
        steps = workspace.change_mode(path, mode)
        before = steps[0].before
        former = "" if before is None else f"; it was {before.mode:03o}"
        return _outcome(context, workspace, f"{path} now has mode {mode:03o}{former}.", steps)


def destination_of(source: str, arguments: Mapping[str, Any]) -> str:
    """The full new path. Errors: ``ValidationFault`` for an invalid new name."""
    if "destination" in arguments:
        return str(arguments["destination"])
    name: str = arguments["new_name"]
    if split(name) != [name] or name == "..":
        raise ValidationFault(
            f"{name!r} is a path, not a name.", code="invalid_path", suggestion="Use move_file for another folder."
        )
    folder = source.rstrip("/").rpartition("/")
    return f"{folder[0]}{folder[1]}{name}"


def _replacing(steps: Sequence[Step]) -> str:
    return ", replacing the file there" if steps[-1].before is not None else ""


def _outcome(context: Context, workspace: Workspace, message: str, steps: Sequence[Step]) -> Outcome:
    learn(context, steps)
    more = f" Not listed: {several(len(steps) - _SHOWN, 'change')}." if len(steps) > _SHOWN else ""
    return Outcome(content=f"{message}{not_kept(workspace, steps)}{more}", changes=changes(steps[-_SHOWN:]))
