"""Conversations that wait for a person: plain JSON in the user's state, answered from any process, resumed by one.

::

    {"version": 1, "type": "paused", "at": "2026-01-01T00:00:00+00:00", "workspace": "/home/ada/project",
     "model": "provider/model", "tools": ["io.*"], "caller": "ada", "conversation": {…},
     "answers": {"call_1": {"answer": {"type": "deny", "advice": "Not now."}}}}

An approval is a grant: a token that is good once, for the call exactly as it was shown (``approvals.grants``).
"""

import contextlib
import dataclasses
import datetime
import fcntl
import hashlib
import json
import os
import pathlib
from collections.abc import Generator, Mapping

from frozendict import frozendict

from ripieno.approvals import Answer, Approve, Given, Grants
from ripieno.approvals.grant_stores import FileStore
from ripieno.approvals.grants import Binding
from ripieno.canisters import Conversation
from ripieno.canisters.conversation import Waiting
from ripieno.canisters.serialization import deserialize, register, serialize
from ripieno.exceptions import Conflict, InputError, NameAbsence, SerializationInvalidity
from ripieno.storage.files import replace_private

#: Seconds for which an approval is good that waits for somebody to resume.
LIFETIME = 7 * 86_400.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """A conversation that waits, and how to go on with it: the model and the patterns of tools that it had.

    ``answers`` are those that were given so far, by the identifiers of invocations. ``caller`` is who asked
    for it, where that was a client of a server.
    """

    conversation: Conversation
    workspace: str
    model: str
    tools: tuple[str, ...] | None = None
    answers: Mapping[str, Given] = frozendict[str, Given]()
    caller: str = ""
    at: datetime.datetime = dataclasses.field(default_factory=lambda: datetime.datetime.now(datetime.UTC))

    @property
    def identifier(self) -> str:
        """That of its conversation."""
        return self.conversation.identifier

    @property
    def short(self) -> str:
        """The beginning of its identifier, as people see it and say it."""
        return self.identifier[:8]

    @property
    def unanswered(self) -> tuple[Waiting, ...]:
        """What a person has still to be asked about."""
        waiting = (one for one in self.conversation.waiting if one.why == "approval")
        return tuple(one for one in waiting if one.invocation not in self.answers)


register({Paused: "paused"})


class PausedStore:
    """The conversations that wait, a file of mode 0600 for each. Errors: ``InputError``, which names the file."""

    def __init__(self, state: pathlib.Path) -> None:
        self.folder = state / "paused"
        #: The approvals, which are redeemed where the call runs.
        self.grants = Grants(FileStore(state))

    def save(self, paused: Paused) -> None:
        """Keeps a conversation, or takes the place of what was kept of it. It is durable when this returns."""
        self._write(paused)

    def all(self) -> tuple[Paused, ...]:
        """All of them, the oldest first."""
        found = (self._read(path) for path in sorted(self.folder.glob("*.json")))
        return tuple(sorted((one for one in found if one is not None), key=lambda one: one.at))

    def load(self, identifier: str) -> Paused | None:
        """The one with just this identifier, if it waits."""
        return self._read(self._file(identifier))

    def find(self, identifier: str) -> Paused:
        """The one whose identifier is this, or begins with it as no other does; or the only one, for an empty text.

        Errors: ``NameAbsence``; ``InputError`` where several are meant.
        """
        ones = self.all()
        fitting = [one for one in ones if one.identifier == identifier]
        fitting = fitting or [one for one in ones if one.identifier.startswith(identifier)]
        if not ones and not identifier:
            raise InputError("No conversation waits for anybody.")
        if not fitting:
            raise NameAbsence("paused conversation", identifier, (one.identifier for one in ones))
        if len(fitting) > 1:
            # Applications choose identifiers, too: several may begin alike.
            distinct = len({one.short for one in fitting}) == len(fitting)
            names = ", ".join(one.short if distinct else one.identifier for one in fitting)
            raise InputError(f"Several conversations wait: {names}. Say which one: ripieno approvals list shows them.")
        return fitting[0]

    def answer(self, identifier: str, answers: Mapping[str, Answer]) -> Paused:
        """Keeps answers of a person. The first answer to a call stands.

        Errors: ``InputError`` for a call that does not wait for one, or has one already.
        """
        with self.claimed(identifier):
            paused = self.find(identifier)
            waiting = {one.invocation: one for one in paused.unanswered}
            for invocation in answers:
                if invocation not in waiting:
                    why = "was answered already" if invocation in paused.answers else "waits for nobody"
                    raise InputError(f"The call {invocation!r} of {paused.identifier} {why}.")
            given = {name: self._given(waiting[name], answer) for name, answer in answers.items()}
            changed = dataclasses.replace(paused, answers={**paused.answers, **given})
            self._write(changed)
        return changed

    def _given(self, waiting: Waiting, answer: Answer) -> Given:
        binding = Binding(**{name: str(part) for name, part in waiting.binding.items()})
        if not isinstance(answer, Approve):
            return Given(answer=answer, binding=binding)
        return Given(answer=answer, binding=binding, token=self.grants.issue(binding, seconds=LIFETIME).token)

    def forget(self, identifier: str) -> None:
        """Drops what is kept of a conversation, if anything is."""
        with contextlib.suppress(FileNotFoundError), _told(self.folder):
            self._file(identifier).unlink()

    @contextlib.contextmanager
    def claimed(self, identifier: str) -> Generator[None, None, None]:
        """Nobody else goes on with this conversation meanwhile. Errors: ``Conflict`` when somebody else does now."""
        path = self._file(identifier).with_suffix(".lock")
        with _told(path):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = _lock(path)
        if descriptor is None:
            raise Conflict(f"The conversation {identifier} is being conducted by another process. Wait for its end.")
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                path.unlink()
            os.close(descriptor)

    def _file(self, identifier: str) -> pathlib.Path:
        # An application chooses identifiers as it likes.
        name = hashlib.sha256(identifier.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return self.folder / f"{name}.json"

    def _write(self, paused: Paused) -> None:
        path = self._file(paused.identifier)
        with _told(path):
            # In ASCII: half of a character, as models write them, is no UTF-8.
            replace_private(path, json.dumps(serialize(paused)), durable=True)

    def _read(self, path: pathlib.Path) -> Paused | None:
        try:
            with _told(path):
                text = path.read_bytes()
        except FileNotFoundError:
            return None  # It was resumed just now.
        try:
            return deserialize(Paused, json.loads(text))
        except (SerializationInvalidity, ValueError, RecursionError) as error:
            raise InputError(f"{path} is no paused conversation: {error} Look at it, or delete it.") from error


def _lock(path: pathlib.Path) -> int | None:
    """The descriptor of a file that this process alone has locked, or None where another process has it."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever had it before has removed it at its end: a lock on that keeps nobody out.
            if os.fstat(descriptor).st_ino == os.stat(path).st_ino:
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


@contextlib.contextmanager
def _told(path: pathlib.Path) -> Generator[None, None, None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InputError(f"{path} cannot be used: {error.strerror or error}.") from error
