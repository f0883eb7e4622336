"""Writing whole files, appending, and editing.

Source of names and arguments: seed 000, sections 3.2.3, 3.2.4 and 11.3. Plain functions, because files block.
"""

import codecs
from typing import Any

from ripieno.ensembles import Context, Outcome
from ripieno.exceptions import ResourceFault, ValidationFault
from ripieno.storage.undo import digest
from ripieno.toolset.arguments import encoded, several
from ripieno.toolset.files.session import BINARY_PROBE, READ_CAP, changes, learn, not_kept, open_workspace, readings
from ripieno.toolset.files.text_edits import Edited, edit, excerpt, listed
from ripieno.toolset.workspace.workspace import Workspace

_ONLY_UTF_8 = "Only UTF-8 text can be edited. Replace the whole file with write_file, or change it with a program."


def write_file(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Writes text to a file, as UTF-8 with unchanged line ends; creates it, and its directories, if missing.

    ``mode`` is "overwrite", "append", or "create", which refuses a file that exists. Errors: those of ``Workspace``.
    """
    path: str = arguments["path"]
    mode: str = arguments.get("mode", "overwrite")
    data = encoded(arguments["content"], "content")
    with open_workspace(context) as workspace:
        written = workspace.write_file(
            path,
            data,
            append=mode == "append",
            new=mode == "create",
            create_directories=arguments.get("create_directories", True),
        )
        lost = not_kept(workspace, written.steps)
    learn(context, written.steps, whole=mode != "append")
    verb = "Appended" if mode == "append" else "Wrote"
    how = ", a new file" if written.created else "" if mode == "append" else ", replacing its content"
    return Outcome(
        content=f"{verb} {several(written.size, 'byte')} to {path}{how}.{lost}", changes=changes(written.steps)
    )


def edit_file(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Replaces a text in a file: the only occurrence, or the one of ``occurrence``.

    A file that this conversation has read must be unchanged since. One that it never read may be edited, since the text
    must match exactly; ``[configuration] read_first = true`` refuses that. Errors: those of ``Workspace``;
    ``ResourceFault`` ``conflict`` for a stale edit; ``ValidationFault`` if the text occurs nowhere or more than once.
    """
    path: str = arguments["path"]
    old, new = arguments["old_content"], arguments["new_content"]
    edited: list[Edited] = []

    def change(before: bytes | None) -> bytes:
        text = text_of(before, path)
        edited.append(edit(text.removeprefix("\ufeff"), old, new, arguments.get("occurrence"), path))
        return encoded(("\ufeff" if text.startswith("\ufeff") else "") + edited[0].text, "new_content")

    encoded(old, "old_content")
    encoded(new, "new_content")
    with open_workspace(context) as workspace:
        written = workspace.write_file(
            path, unless_stale(context, workspace, path, change), existing=True, create_directories=False
        )
    learn(context, written.steps)
    done = edited[0]
    places = (
        f"line {done.lines[0]}" if len(done.lines) == 1 else f"{len(done.lines)} places, lines {listed(done.lines)}"
    )
    message = f"Replaced old_content in {path} at {places}."
    if len(done.lines) == 1:
        message += f"\n{excerpt(done.text, done.lines[0], new.count(chr(10)) + 1)}"
    return Outcome(content=message, changes=changes(written.steps))


def unless_stale(context: Context, workspace: Workspace, path: str, change: Any) -> Any:
    """``change``, which refuses content other than the conversation has read, if it has read the file."""
    known = readings(context)
    file, true_path = workspace.find_file(path)
    file.close()

    def check(before: bytes | None) -> bytes:
        read = known.get(true_path)
        if read is None and context.configuration.get("read_first", False):
            raise ResourceFault(
                f"{path!r} has not been read in this conversation.", code="not_read", suggestion="Read it first."
            )
        if read is not None and before is not None and read != digest(before):
            raise ResourceFault(
                f"{path!r} was changed outside of this conversation since it was read.",
                code="conflict",
                details={"read": read, "now": digest(before)},
                suggestion="Read it again, and edit its present content.",
            )
        changed: bytes = change(before)
        return changed

    return check


def text_of(before: bytes | None, path: str) -> str:
    """A file's content as editable text. Errors: ``ResourceFault``, ``ValidationFault``."""
    if before is None:
        raise ResourceFault(
            f"{path!r} cannot be edited: it is larger than {READ_CAP} bytes, or cannot be read.",
            code="too_large",
            details={"limit": READ_CAP},
            suggestion="Change it with a program, such as sed with bash, or write it again.",
        )
    if b"\0" in before[:BINARY_PROBE] or before.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ResourceFault(
            f"{path!r} cannot be edited: it is a binary file, or not UTF-8.", code="binary_file", suggestion=_ONLY_UTF_8
        )
    try:
        return before.decode()
    except UnicodeDecodeError as error:
        raise ValidationFault(
            f"{path!r} cannot be edited: it is not UTF-8 ({error.reason} at byte {error.start}).",
            code="wrong_encoding",
            suggestion=_ONLY_UTF_8,
        ) from None
