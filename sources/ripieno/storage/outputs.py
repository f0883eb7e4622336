"""Tool outputs that were too long for a result: one folder per workspace in the user's state, outside of the workspace.

A text belongs to one conversation and has a random handle. Its file's path is made of the hashes of both, so that
neither a folder's listing nor another conversation gives access to it. Old texts, and the oldest of too many, are
deleted.
"""

import hashlib
import os
import pathlib
import secrets
import shutil
import threading
import time

from ripieno.exceptions import ResourceFault
from ripieno.lazy.modules import logging
from ripieno.storage.files import make_private, open_private
from ripieno.values import Value

#: Bytes of all texts of a workspace; beyond it the oldest are deleted, down to half of it.
TOTAL_BYTES = 256 * 1024 * 1024
#: Seconds after which a text is deleted.
AGE = 7 * 24 * 3600.0
#: The identity of the tool that reads kept outputs.
READER = "outputs.read_output"


class Page(Value, kw_only=True):
    """A part of a text. ``offset`` and ``next`` are its start and end, in bytes of UTF-8 of ``total``."""

    text: str
    offset: int
    next: int
    total: int


class Outputs:
    """The kept texts of one workspace. The first one creates the folder. Threads and programs may share it."""

    def __init__(self, state: pathlib.Path, workspace: pathlib.Path) -> None:
        root = pathlib.Path(os.path.realpath(workspace))
        key = _hash(os.fsencode(root))
        self.folder = pathlib.Path(os.path.realpath(state)) / "outputs" / key
        # Inside of the workspace, tools could read and write it; nothing is kept then.
        self._apart = not self.folder.is_relative_to(root)
        self._quota: int | None = None
        self._guard = threading.Lock()

    def keep(self, text: str, conversation: str, limit: int) -> tuple[str, int] | None:
        """Keeps at most the first ``limit`` bytes of a text; returns its handle and the kept size.

        None where nothing can be kept, as without a conversation. Errors: ``OSError``.
        """
        if not self._apart or not conversation or limit <= 0:
            return None
        data = text.encode("utf-8", "backslashreplace")
        if len(data) > limit:
            data = data[: _boundary(data, limit)]
        handle = f"o_{secrets.token_hex(16)}"
        path = self._path(handle, conversation)
        make_private(path.parent)
        try:
            with open(path, "xb", opener=open_private) as file:
                file.write(data)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        self._prune(path, len(data))
        return handle, len(data)

    def keep_rest(self, text: str, offset: int, *, conversation: str, limit: int, reader: str) -> str:
        """Keeps a text, and returns how to read on from ``offset``; empty where it cannot be kept.

        ``reader`` is the exposed name of the tool that reads it. A full disk does not lose the result.
        """
        try:
            kept = self.keep(text, conversation, limit)
        except OSError as error:
            logging.getLogger(__name__).warning("An output could not be kept: %s", error)
            return ""
        if kept is None:
            return ""
        handle, size = kept
        total = len(text.encode("utf-8", "backslashreplace"))
        only = f" Only the first {size} of its {total} bytes are kept." if size < total else ""
        return (
            f'Read on with {reader}(handle="{handle}", offset={offset}), or search it with '
            f'{reader}(handle="{handle}", pattern="…").{only}'
        )

    def read(self, handle: str, conversation: str, offset: int, limit: int) -> Page:
        """At most ``limit`` bytes from ``offset`` on, as whole characters, and at least one character if there is one.

        Errors: ``ResourceFault`` where this conversation has no such text, or the offset is beyond its end.
        """
        try:
            with open(self._path(handle, conversation), "rb") as file:
                total = os.fstat(file.fileno()).st_size
                file.seek(offset)
                # Three more bytes complete any character at the end.
                data = file.read(limit + 3)
        except OSError:
            raise _gone(handle) from None
        if offset > total:
            raise ResourceFault(
                f"The output has {total} bytes; offset {offset} is beyond its end.",
                code="end_of_output",
                suggestion="Use a smaller offset.",
            )
        start = _next(data, 0)
        end = _boundary(data, max(limit, start + 1)) if len(data) > limit else len(data)
        if end <= start < len(data):
            end = _next(data, start + 1)
        return Page(text=data[start:end].decode(), offset=offset + start, next=offset + end, total=total)

    def load(self, handle: str, conversation: str) -> bytes:
        """A whole text. Errors: ``ResourceFault`` where this conversation has none with that handle."""
        try:
            return self._path(handle, conversation).read_bytes()
        except OSError:
            raise _gone(handle) from None

    def forget(self, conversation: str) -> None:
        """Deletes the texts of a conversation."""
        shutil.rmtree(self._path("", conversation).parent, ignore_errors=True)

    def _path(self, handle: str, conversation: str) -> pathlib.Path:
        owner = _hash(conversation.encode("utf-8", "backslashreplace"))
        return self.folder / owner / _hash(handle.encode("utf-8", "backslashreplace"))

    def _prune(self, latest: pathlib.Path, size: int) -> None:
        """Deletes old texts, and the oldest of too many. Scans at the first call and when the quota is used up."""
        with self._guard:
            if self._quota is not None:
                self._quota -= size
                if self._quota >= 0:
                    return
            found = [
                (path == latest, status.st_mtime, status.st_size, path)
                for path in self.folder.glob("*/*")
                if (status := _status(path)) is not None
            ]
            found.sort(reverse=True)
            total, oldest = sum(one[2] for one in found), time.time() - AGE
            allowed = TOTAL_BYTES if total <= TOTAL_BYTES else TOTAL_BYTES // 2
            kept = 0
            for is_latest, when, length, path in found:
                # The latest one stays, whatever its size.
                if not is_latest and (when < oldest or kept + length > allowed):
                    path.unlink(missing_ok=True)
                    allowed = min(allowed, kept)
                else:
                    kept += length
            self._quota = TOTAL_BYTES - kept


def _gone(handle: str) -> ResourceFault:
    return ResourceFault(
        f"This conversation has no kept output {handle!r}.",
        code="no_output",
        suggestion="Copy the handle exactly from the result. Outputs are kept for seven days; if this one has expired, "
        "repeat the call that produced it.",
    )


def _boundary(data: bytes, end: int) -> int:
    """The end of the last whole character before ``end``."""
    while 0 < end < len(data) and 0x80 <= data[end] < 0xC0:
        end -= 1
    return end


def _next(data: bytes, start: int) -> int:
    """The beginning of the first character that does not begin before ``start``."""
    return next((at for at in range(start, len(data)) if not 0x80 <= data[at] < 0xC0), len(data))


def _status(path: pathlib.Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
