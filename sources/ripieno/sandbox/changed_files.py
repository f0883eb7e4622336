"""The files beneath a folder that programs create, change and delete, as the kernel reports them (inotify).

The first use lists the names in the folder. Each later use costs time for its own changes only. What is in ``.git`` is
left out. Changes that happen at the same time cannot be distinguished: each program that runs then reports them all.
"""

import dataclasses
import errno
import os
import struct
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Literal, TypeAlias

from ripieno.sandbox import libc

#: The kind of a change, and the path beneath the folder.
FileChange: TypeAlias = tuple[Literal["FileCreated", "FileModified", "FileDeleted", "DirectoryCreated"], str]
#: Entries of a folder above which it is not watched: the first look at 10,000 takes some 12 ms, half in the kernel.
MOST = 20_000
#: Changes of one look; further ones are not reported.
REPORTED = 500
_MODIFIED, _ATTRIBUTES, _MOVED_FROM, _MOVED_TO, _CREATED, _DELETED = 0x2, 0x4, 0x40, 0x80, 0x100, 0x200
_OVERFLOW, _FOLDER = 0x4000, 0x4000_0000
#: Only folders, no links, and no events about files that are deleted already.
_FLAGS = 0x0100_0000 | 0x0200_0000 | 0x0400_0000
_MASK = _MODIFIED | _ATTRIBUTES | _MOVED_FROM | _MOVED_TO | _CREATED | _DELETED | _FLAGS
_EVENT = struct.Struct("iIII")
_BYTES = 64 * 1024


@dataclasses.dataclass(slots=True, eq=False, weakref_slot=True)
class Look:
    """The changes since ``begin``. ``existed`` has each changed path, a folder's with a slash at its end.

    It ends when nothing refers to it.
    """

    existed: dict[str, bool] = dataclasses.field(default_factory=dict[str, bool])
    #: Why the changes are not known.
    unknown: str = ""


class WatchedFolder:
    """The changes beneath one folder. Threads may share it; ``close`` ends the watch, and the next use begins anew."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._descriptor: int | None = None
        #: Why the folder cannot be watched.
        self._refused = "" if sys.platform == "linux" else "this system does not report them"
        #: Folders by watch, watches by folder, and the files in each folder. The names of folders end with a slash.
        self._folders: dict[int, str] = {}
        self._watches: dict[str, int] = {}
        self._files: dict[str, set[str]] = {}
        self._entries = 0
        self._looks: weakref.WeakSet[Look] = weakref.WeakSet()

    @property
    def listed(self) -> bool:
        """Whether ``begin`` returns at once."""
        return self._descriptor is not None or bool(self._refused)

    def begin(self) -> Look:
        """Begins to look. The first time, it lists the folder, which may take some milliseconds."""
        with self._lock:
            self._read()
            return self._begin()

    def end(self, look: Look) -> list[FileChange]:
        """The changes since ``begin``, in order. Sets ``look.unknown`` if they, or some of them, are not known."""
        with self._lock:
            self._read()
            return self._end(look)

    def renew(self, look: Look) -> tuple[list[FileChange], Look]:
        """Ends a look and begins the next one: each change is in one of them."""
        with self._lock:
            self._read()
            return self._end(look), self._begin()

    def _begin(self) -> Look:
        if not self.listed:
            self._open()
        look = Look(unknown=self._refused)
        if not look.unknown:
            self._looks.add(look)
        return look

    def _end(self, look: Look) -> list[FileChange]:
        if look not in self._looks:
            return []
        self._looks.discard(look)
        found = list(self._changes(look))
        if len(found) > REPORTED:
            look.unknown = f"only the first {REPORTED} of {len(found)} are listed"
        return found[:REPORTED]

    def close(self) -> None:
        """Ends the watch."""
        with self._lock:
            self._lose("the watch was ended")

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None
        for known in (self._folders, self._watches, self._files):
            known.clear()

    def _open(self) -> None:
        self._entries = 0
        descriptor = libc.library().inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if descriptor < 0:
            self._refused = f"the system refuses to report them ({os.strerror(libc.error_number())})"
            return
        self._descriptor = descriptor
        self._list("")

    def _list(self, folder: str) -> None:
        """Watches a new folder and all in it."""
        pending = [folder]
        while pending and self._descriptor is not None:
            folder = pending.pop()
            path = os.path.join(self._root, folder)
            watch = libc.library().inotify_add_watch(self._descriptor, os.fsencode(path), _MASK)
            if watch < 0:
                if libc.error_number() in (errno.ENOSPC, errno.ENOMEM):
                    self._refuse("the system's limit of watches (fs.inotify.max_user_watches) is reached")
                # Otherwise it is gone already, or may not be read.
                continue
            self._folders[watch], self._watches[folder] = folder, watch
            files = self._files[folder] = set()
            try:
                with os.scandir(path) as entries:
                    found = list(entries)
            except OSError:
                continue
            folders = [entry.name for entry in found if entry.is_dir(follow_symlinks=False)]
            files.update([entry.name for entry in found])
            files.difference_update(folders)
            self._entries += len(found)
            inner = [f"{folder}{name}/" for name in folders if name != ".git"]
            pending += inner
            # The first listing has none, and asking for each name took most of its time.
            if self._looks:
                for one in (*inner, *(folder + name for name in files)):
                    self._touch(one, existed=False)
            self._check_size()

    def _check_size(self) -> None:
        if self._entries > MOST and not self._refused:
            self._refuse(f"the folder has more than {MOST} files")

    def _refuse(self, reason: str) -> None:
        self._refused = reason
        self._lose(reason)

    def _lose(self, reason: str) -> None:
        self._close()
        for look in self._looks:
            look.unknown = reason
        self._looks.clear()

    def _read(self) -> None:
        """Takes all events that are there."""
        while self._descriptor is not None:
            try:
                data = os.read(self._descriptor, _BYTES)
            except BlockingIOError:
                break
            self._parse(data)
        self._check_size()
        # A long look at files that come and go.
        for look in [one for one in self._looks if len(one.existed) > MOST]:
            look.unknown = f"more than {MOST} files changed"
            self._looks.discard(look)

    def _parse(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            watch, mask, _, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size + length
            name = data[at - length : at].rstrip(b"\0")
            if mask & _OVERFLOW:
                self._lose("there were too many at once")
            elif name and watch in self._folders:
                self._take(self._folders[watch], mask, os.fsdecode(name))

    def _take(self, folder: str, mask: int, name: str) -> None:
        gone = bool(mask & (_DELETED | _MOVED_FROM))
        if not mask & _FOLDER:
            files = self._files[folder]
            self._touch(folder + name, existed=name in files)
            before = len(files)
            (files.discard if gone else files.add)(name)
            self._entries += len(files) - before
        elif name != ".git" and gone:
            self._forget(f"{folder}{name}/")
        elif name != ".git" and mask & (_CREATED | _MOVED_TO):
            self._entries += 1
            self._touch(f"{folder}{name}/", existed=f"{folder}{name}/" in self._watches)
            self._list(f"{folder}{name}/")

    def _forget(self, beginning: str) -> None:
        """Removes a folder that was deleted or moved away."""
        for folder in [one for one in self._watches if one.startswith(beginning)]:
            watch = self._watches.pop(folder)
            self._folders.pop(watch, None)
            if self._descriptor is not None:
                libc.library().inotify_rm_watch(self._descriptor, watch)
            self._touch(folder, existed=True)
            files = self._files.pop(folder)
            self._entries -= len(files) + 1
            for name in files:
                self._touch(folder + name, existed=True)

    def _touch(self, path: str, *, existed: bool) -> None:
        for look in self._looks:
            look.existed.setdefault(path, existed)

    def _changes(self, look: Look) -> Iterator[FileChange]:
        for path, existed in sorted(look.existed.items()):
            folder, slash, name = path.rpartition("/")
            is_folder = bool(slash) and not name
            exists = path in self._watches if is_folder else name in self._files.get(folder + slash, ())
            shown = os.fsencode(path.rstrip("/")).decode(errors="backslashreplace")
            if existed and not exists:
                yield "FileDeleted", shown
            elif exists and not existed:
                yield ("DirectoryCreated" if is_folder else "FileCreated"), shown
            elif exists and not is_folder:
                yield "FileModified", shown
