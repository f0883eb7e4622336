"""The undo log: in the user's state, one folder per workspace, outside of the workspace.

An entry is a file that is complete before it gets its name, and is written before the change is made: a killed program
loses no change's undo. Contents are stored once each, under their hashes. Old entries are deleted when there are too
many, or their contents are too large.
"""

import contextlib
import dataclasses
import datetime
import hashlib
import json
import os
import pathlib
import threading
from collections import OrderedDict
from collections.abc import Generator, Sequence
from typing import Literal

from ripieno.canisters.serialization import deserialize, register, serialize
from ripieno.exceptions import InputError, SerializationInvalidity
from ripieno.lazy.expressions import expression
from ripieno.storage.files import locked, make_private, replace_private
from ripieno.values import Value

Kind = Literal["file", "link", "directory"]


class State(Value, kw_only=True):
    """The state of a path. ``size`` is in bytes, ``mode`` the nine permission bits.

    ``digest`` is ``sha256:…`` of a file's content, empty if that is too large to be read; ``target`` is a link's.
    """

    kind: Kind
    mode: int = 0
    digest: str = ""
    size: int = 0
    target: str = ""

    def same(self, other: "State | None") -> bool:
        """Whether both are known to be equal. Modes count for files only; a folder's may depend on the umask."""
        if other is None or self.kind != other.kind:
            return False
        if self.kind == "file":
            return bool(self.digest) and (self.digest, self.mode) == (other.digest, other.mode)
        return self.target == other.target


class Step(Value, kw_only=True):
    """A change of one path, relative to the workspace and without links. None means absent.

    ``source`` is the old path of a move. ``kept`` says whether ``before`` can be restored.
    """

    path: str
    before: State | None
    after: State | None
    source: str = ""
    kept: bool = True


class Cause(Value, kw_only=True):
    """The call that makes a change: a tool's identity, a conversation, and the call's identifier."""

    tool: str = ""
    conversation: str = ""
    invocation: str = ""


#: The cause of a change outside of any call.
NOWHERE = Cause()


class UndoEntry(Value, kw_only=True):
    """The changes of one call, or, with a ``label`` and no steps, a checkpoint. ``time`` is ISO 8601, in UTC."""

    number: int
    time: str
    cause: Cause = NOWHERE
    steps: tuple[Step, ...] = ()
    label: str = ""
    undone: bool = False

    @property
    def kept(self) -> bool:
        """Whether all earlier content was kept. Content that was not can never be restored."""
        return all(step.kept for step in self.steps)


register({UndoEntry: "undo entry"})


#: A larger file's content is not kept, and a change of it cannot be undone.
KEEP_BYTES = 10 * 1024 * 1024
#: Limits of one workspace's log.
TOTAL_BYTES = 256 * 1024 * 1024
TOTAL_ENTRIES = 10_000
#: Conversations, and paths of each, whose read hashes are remembered.
_CONVERSATIONS = 256
_PATHS = 4_096
_NAME = expression(r"(\d{12})(\.undone)?\.json\Z")


def digest(data: bytes) -> str:
    """``sha256:…`` of a content."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


class UndoLog:
    """The undo log of one workspace. The first change creates it. Threads and programs may share it."""

    def __init__(self, state: pathlib.Path, workspace: pathlib.Path) -> None:
        self.workspace = pathlib.Path(os.path.realpath(workspace))
        key = hashlib.sha256(os.fsencode(self.workspace)).hexdigest()[:32]
        self.folder = pathlib.Path(os.path.realpath(state)) / "undo" / key
        self._held: int | None = None
        self._left: int | None = None
        self._readings: OrderedDict[str, OrderedDict[str, str]] = OrderedDict()
        self._guard = threading.Lock()

    @property
    def apart(self) -> bool:
        """Whether it is outside of its workspace. Inside, tools could write it; nothing is kept then."""
        return not self.folder.is_relative_to(self.workspace)

    def readings(self, conversation: str) -> "OrderedDict[str, str]":
        """The hashes of the files that a conversation has read, by path, in memory. The oldest are dropped."""
        with self._guard:
            found = self._readings.setdefault(conversation, OrderedDict())
            self._readings.move_to_end(conversation)
            while len(self._readings) > _CONVERSATIONS:
                self._readings.popitem(last=False)
            while len(found) > _PATHS:
                found.popitem(last=False)
            return found

    @contextlib.contextmanager
    def locked(self) -> Generator[None, None, None]:
        """Holds the lock for changes through a log of this workspace. Not reentrant."""
        self._make()
        with locked(self.folder / "lock") as descriptor:
            self._held = descriptor
            try:
                yield
            finally:
                self._held = None

    def keep(self, data: bytes) -> str:
        """Keeps a content, and returns its hash. It is deleted when no entry names it any more."""
        name = digest(data)
        path = self._content(name)
        if not path.exists():
            replace_private(path, data, durable=True)
            if self._left is not None:
                self._left -= len(data)
        return name

    def load(self, name: str) -> bytes:
        """A content by its hash. Errors: ``InputError`` when it is missing or altered."""
        try:
            data = self._content(name).read_bytes()
        except OSError as error:
            raise InputError(f"The undo log no longer has the content {name}: {error.strerror}.") from error
        if digest(data) != name:
            raise InputError(f"The content {name} in the undo log was altered.")
        return data

    def add(self, steps: Sequence[Step], cause: Cause = NOWHERE, *, label: str = "") -> UndoEntry:
        """Writes an entry. The log must be locked."""
        number = self._next()
        time = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        entry = UndoEntry(number=number, time=time, cause=cause, steps=tuple(steps), label=label)
        replace_private(self._file(number), json.dumps(serialize(entry)).encode(), durable=True)
        self._prune()
        return entry

    def drop(self, entry: UndoEntry) -> None:
        """Deletes the entry of a change that was not made."""
        self._file(entry.number).unlink(missing_ok=True)

    def set_undone(self, entry: UndoEntry) -> None:
        """Marks an entry as undone."""
        source = self._file(entry.number)
        with contextlib.suppress(FileNotFoundError):
            source.rename(source.with_suffix(".undone.json"))

    def entries(self, *, undone: bool = False) -> Generator[UndoEntry, None, None]:
        """The entries, latest first, with the undone ones only if requested.

        Errors: ``InputError`` for an unreadable one.
        """
        for name, _, was_undone in sorted(self._names(), key=lambda one: -one[1]):
            if was_undone and not undone:
                continue
            try:
                entry = deserialize(UndoEntry, json.loads((self.folder / "entries" / name).read_text(encoding="utf-8")))
            except FileNotFoundError:
                continue  # Another program has pruned it meanwhile.
            except (OSError, SerializationInvalidity, ValueError, RecursionError) as error:
                path = self.folder / "entries" / name
                raise InputError(f"{path} cannot be read: {error} Repair or delete it.") from error
            yield dataclasses.replace(entry, undone=was_undone)

    def _make(self) -> None:
        for name in ("entries", "contents"):
            make_private(self.folder / name)
        about = self.folder / "workspace"
        if not about.exists():
            replace_private(about, os.fsencode(self.workspace) + b"\n", durable=True)

    def _content(self, name: str) -> pathlib.Path:
        return self.folder / "contents" / name.removeprefix("sha256:")

    def _file(self, number: int) -> pathlib.Path:
        return self.folder / "entries" / f"{number:012}.json"

    def _next(self) -> int:
        """The next number. The last one is in the lock file; if it is lost, the entries supply it."""
        assert self._held is not None
        stored = os.pread(self._held, 12, 0)
        last = int(stored) if stored.isdigit() else max((number for _, number, _ in self._names()), default=0)
        os.pwrite(self._held, b"%012d" % (last + 1), 0)
        return last + 1

    def _names(self) -> list[tuple[str, int, bool]]:
        """Files of entries: name, number, and whether it was undone."""
        try:
            names = os.listdir(self.folder / "entries")
        except FileNotFoundError:
            return []
        found = ((name, _NAME.match(name)) for name in names)
        return [(name, int(match[1]), bool(match[2])) for name, match in found if match]

    def _prune(self) -> None:
        """Deletes the oldest entries, and the contents that only they name, if there is too much."""
        if self._left is None:
            with os.scandir(self.folder / "contents") as contents:
                self._left = TOTAL_BYTES - sum(one.stat().st_size for one in contents)
        if self._left >= 0 and self._held is not None and not self._crowded():
            return
        kept, size = set[str](), 0
        full = False
        for count, entry in enumerate([*self.entries(undone=True)]):
            own = {step.before.digest: step.before.size for step in entry.steps if step.before and step.before.digest}
            size += sum(length for name, length in own.items() if name not in kept)
            # The latest one stays, whatever its size.
            full = full or (count > 0 and (count >= TOTAL_ENTRIES // 2 or size > TOTAL_BYTES // 2))
            if full:
                path = self._file(entry.number)
                (path.with_suffix(".undone.json") if entry.undone else path).unlink(missing_ok=True)
            else:
                kept.update(own)
        self._left = TOTAL_BYTES
        with os.scandir(self.folder / "contents") as contents:
            for one in contents:
                if f"sha256:{one.name}" in kept:
                    self._left -= one.stat().st_size
                else:
                    pathlib.Path(one.path).unlink(missing_ok=True)

    def _crowded(self) -> bool:
        """Whether there are too many entries. Checks one of 500 numbers."""
        assert self._held is not None
        number = int(os.pread(self._held, 12, 0))
        return number % 500 == 0 and len(self._names()) > TOTAL_ENTRIES
