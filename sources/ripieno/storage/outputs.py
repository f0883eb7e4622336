"""Texts that were too long to be shown: in the user's state, one folder for each workspace, never inside of it.

A text belongs to one conversation and has a handle that nobody can guess; its file lies under the hashes of both, so
that neither a folder's listing nor another conversation gets at it. Old texts go, and so do the oldest of too many.

What one call keeps of a text that is too long to be shown, and the words that say how to read on.
"""

import dataclasses
import hashlib
import logging
import os
import pathlib
import secrets
import shutil
import threading
import time

from ripieno.exceptions import ResourceFault
from ripieno.storage.files import open_private

#: What one workspace's texts may take together, in bytes; beyond it the oldest go, down to half of it.
TOTAL_BYTES = 256 * 1024 * 1024
#: Seconds after which a text goes.
AGE = 7 * 24 * 3600.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A part of a text. ``offset`` and ``next`` are where it begins and ends, in bytes of UTF-8 of ``total``."""

    text: str
    offset: int
    next: int
    total: int


class Outputs:
    """The texts of one workspace. Nothing is made before the first one. Threads and programs may share it."""

    def __init__(self, state: pathlib.Path, workspace: pathlib.Path) -> None:
        place = pathlib.Path(os.path.realpath(workspace))
        key = _hash(os.fsencode(place))
        self.folder = pathlib.Path(os.path.realpath(state)) / "outputs" / key
        #: Whether it lies outside of its workspace; inside, tools could read and write it, and nothing is kept.
        self.apart = not self.folder.is_relative_to(place)
        self._room: int | None = None
        self._guard = threading.Lock()

    def keep(self, text: str, conversation: str, limit: int) -> tuple[str, int] | None:
        """Keeps at most the first ``limit`` bytes of a text: its handle, and how much is kept.

        None where nothing can be kept: without a conversation it would belong to nobody. Errors: ``OSError``.
        """
        if not self.apart or not conversation or limit <= 0:
            return None
        data = text.encode("utf-8", "backslashreplace")
        if len(data) > limit:
            data = data[: _boundary(data, limit)]
        handle = f"o_{secrets.token_hex(16)}"
        path = self._path(handle, conversation)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            with open(path, "xb", opener=open_private) as file:
                file.write(data)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        self._prune(path, len(data))
        return handle, len(data)

    def read(self, handle: str, conversation: str, offset: int, limit: int) -> Page:
        """At most ``limit`` bytes from ``offset`` on, without half a character, but with at least one where there is.

        Errors: ``ResourceFault`` where this conversation has no such text, or no more.
        """
        try:
            with open(self._path(handle, conversation), "rb") as file:
                total = os.fstat(file.fileno()).st_size
                file.seek(offset)
                # Three more bytes hold whatever character stands at the end.
                data = file.read(limit + 3)
        except OSError:
            raise _gone(handle) from None
        if offset > total:
            raise ResourceFault(
                f"The output has {total} bytes, and none at {offset}.",
                code="end_of_output",
                suggestion="Ask for a smaller offset.",
            )
        start = next((at for at, byte in enumerate(data) if not 0x80 <= byte < 0xC0), len(data))
        end = _boundary(data, max(limit, start + 1)) if len(data) > limit else len(data)
        if end <= start < len(data):
            end = _after(data, start)
        return Page(text=data[start:end].decode(), offset=offset + start, next=offset + end, total=total)

    def load(self, handle: str, conversation: str) -> bytes:
        """All of a text. Errors: ``ResourceFault`` where this conversation has none of that handle."""
        try:
            return self._path(handle, conversation).read_bytes()
        except OSError:
            raise _gone(handle) from None

    def forget(self, conversation: str) -> None:
        """Deletes what a conversation has."""
        shutil.rmtree(self.folder / _hash(conversation.encode()), ignore_errors=True)

    def _path(self, handle: str, conversation: str) -> pathlib.Path:
        owner = _hash(conversation.encode("utf-8", "backslashreplace"))
        return self.folder / owner / _hash(handle.encode("utf-8", "backslashreplace"))

    def _prune(self, latest: pathlib.Path, size: int) -> None:
        """Deletes what is too old, and the oldest where it is too much; looked at once, and when the room is used."""
        with self._guard:
            if self._room is not None:
                self._room -= size
                if self._room >= 0:
                    return
            found = [
                (path == latest, status.st_mtime, status.st_size, path)
                for path in self.folder.glob("*/*")
                if (status := _status(path)) is not None
            ]
            found.sort(reverse=True)
            total, oldest = sum(one[2] for one in found), time.time() - AGE
            room = TOTAL_BYTES if total <= TOTAL_BYTES else TOTAL_BYTES // 2
            kept = 0
            for is_latest, when, length, path in found:
                # The latest one stays whatever it holds.
                if not is_latest and (when < oldest or kept + length > room):
                    path.unlink(missing_ok=True)
                    room = min(room, kept)
                else:
                    kept += length
            self._room = TOTAL_BYTES - kept


def _gone(handle: str) -> ResourceFault:
    return ResourceFault(
        f"This conversation has no kept output {handle!r}.",
        code="no_output",
        suggestion="Copy the handle exactly as the result has it. Outputs are kept for some days; when one is gone, "
        "call the tool that gave it again.",
    )


def _boundary(data: bytes, end: int) -> int:
    """The end of the last whole character before ``end``."""
    while 0 < end < len(data) and 0x80 <= data[end] < 0xC0:
        end -= 1
    return end


def _after(data: bytes, start: int) -> int:
    """The end of the character that begins at ``start``."""
    end = start + 1
    while end < len(data) and 0x80 <= data[end] < 0xC0:
        end += 1
    return end


def _status(path: pathlib.Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


#: The tool that reads what was kept, by its identity.
READER = "outputs.read_output"

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Keeper:
    """Keeps texts of one conversation. ``limit`` is in bytes of each; ``reader`` is what the model calls the tool."""

    outputs: Outputs
    conversation: str
    limit: int
    reader: str

    def keep(self, text: str, offset: int) -> str:
        """Keeps a text, and says how to read on from ``offset``; empty where it could not be kept.

        A disk that is full is no reason to lose a result.
        """
        try:
            kept = self.outputs.keep(text, self.conversation, self.limit)
        except OSError as error:
            _logger.warning("An output could not be kept: %s", error)
            return ""
        if kept is None:
            return ""
        handle, size = kept
        total = len(text.encode("utf-8", "backslashreplace"))
        only = f" The first {size} of its {total} bytes are kept." if size < total else ""
        return (
            f'Read on with {self.reader}(handle="{handle}", offset={offset}), or search it with '
            f'{self.reader}(handle="{handle}", pattern="…").{only}'
        )
