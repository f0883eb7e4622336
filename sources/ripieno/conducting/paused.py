"""Conversations that wait for a person: JSON files in the user's state, answered from any process, resumed by one.

::

    {"version": 1, "type": "paused", "at": "2026-01-01T00:00:00+00:00", "workspace": "/home/ada/project",
     "model": "provider/model", "agent": "coder", "tools": ["io.*"], "options": [], "owner": "ada", "conversation": {…},
     "answers": {"call_1": {"answer": {"type": "deny", "advice": "Not now."}}}}

An approval is a grant: a token that is valid once, for the call exactly as it was shown (``approvals.grants``).
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
from ripieno.descriptors.reader.regular_files import read_regular
from ripieno.exceptions import Conflict, InputError, NameAbsence, SerializationInvalidity
from ripieno.storage.files import replace_private

#: Seconds for which an approval is valid until the conversation is resumed.
LIFETIME = 7 * 86_400.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """A conversation that waits, with the model, agent and patterns of tools with which it is resumed.

    ``options`` are further options of the command line with which it is resumed, such as ``--config FILE``.
    ``answers`` are the answers so far, by the identifiers of invocations. ``owner`` is the user or the
    server's client for whom it is, if there are several.
    """

    conversation: Conversation
    workspace: str
    model: str
    agent: str = ""
    tools: tuple[str, ...] | None = None
    options: tuple[str, ...] = ()
    answers: Mapping[str, Given] = frozendict[str, Given]()
    owner: str = ""
    at: datetime.datetime = dataclasses.field(default_factory=lambda: datetime.datetime.now(datetime.UTC))

    @property
    def identifier(self) -> str:
        """The identifier of its conversation."""
        return self.conversation.identifier

    @property
    def short(self) -> str:
        """The first characters of its identifier, for people."""
        return self.identifier[:8]

    @property
    def unanswered(self) -> tuple[Waiting, ...]:
        """The calls that still need an approval."""
        waiting = (one for one in self.conversation.waiting if one.why == "approval")
        return tuple(one for one in waiting if one.invocation not in self.answers)


register({Paused: "paused"})


class PausedStore:
    """The paused conversations, a file of mode 0600 for each owner and identifier.

    Two owners may have the same identifier. Errors: ``InputError``, which names the file.
    """

    def __init__(self, state: pathlib.Path) -> None:
        self.folder = state / "paused"
        #: The approvals, which are redeemed where the call runs.
        self.grants = Grants(FileStore(state))

    def save(self, paused: Paused) -> None:
        """Writes a conversation, durably, in place of an earlier version of it."""
        path = self._file(paused.identifier, paused.owner)
        with _input_errors(path):
            # In ASCII: lone surrogates, as models write them, cannot be encoded in UTF-8.
            replace_private(path, json.dumps(serialize(paused)).encode(), durable=True)

    def all(self) -> tuple[Paused, ...]:
        """All paused conversations, the oldest first."""
        found = (self._read(path) for path in sorted(self.folder.glob("*.json")))
        return tuple(sorted((one for one in found if one is not None), key=lambda one: one.at))

    def load(self, identifier: str, *, owner: str = "") -> Paused | None:
        """The owner's paused conversation with exactly this identifier, if there is one."""
        return self._read(self._file(identifier, owner))

    def find(self, identifier: str) -> Paused:
        """The conversation that a person means: by its identifier or a unique prefix; for an empty text, the only one.

        Programs use ``load``. Errors: ``NameAbsence``; ``InputError`` if several match.
        """
        ones = self.all()
        fitting = [one for one in ones if one.identifier == identifier]
        fitting = fitting or [one for one in ones if one.identifier.startswith(identifier)]
        if not ones and not identifier:
            raise InputError("No conversation is paused.")
        if not fitting:
            raise NameAbsence("paused conversation", identifier, (one.identifier for one in ones))
        if len(fitting) > 1:
            # Applications may choose identifiers: several may have the same prefix.
            distinct = len({one.short for one in fitting}) == len(fitting)
            shown = [one.short if distinct else one.identifier for one in fitting]
            if len({*shown}) < len(shown):
                shown = [f"{one.identifier} (of {one.owner})" if one.owner else one.identifier for one in fitting]
            names = ", ".join(shown)
            raise InputError(f"Several conversations match: {names}. Name one of them; ripieno approvals list has all.")
        return fitting[0]

    def answer(self, identifier: str, answers: Mapping[str, Answer], *, owner: str = "") -> Paused:
        """Stores a person's answers to the owner's conversation with exactly this identifier. An answer is final.

        Errors: ``NameAbsence``; ``InputError`` for a call that waits for no answer, or already has one.
        """
        with self.claimed(identifier, owner=owner):
            paused = self.load(identifier, owner=owner)
            if paused is None:
                raise NameAbsence(
                    "paused conversation", identifier, (one.identifier for one in self.all() if one.owner == owner)
                )
            waiting = {one.invocation: one for one in paused.unanswered}
            for invocation in answers:
                if invocation not in waiting:
                    why = "was answered already" if invocation in paused.answers else "waits for no approval"
                    raise InputError(f"The call {invocation!r} of {paused.identifier} {why}.")
            given = {name: self._given(waiting[name], answer) for name, answer in answers.items()}
            changed = dataclasses.replace(paused, answers={**paused.answers, **given})
            self.save(changed)
        return changed

    def _given(self, waiting: Waiting, answer: Answer) -> Given:
        binding = Binding(**{name: str(part) for name, part in waiting.binding.items()})
        if not isinstance(answer, Approve):
            return Given(answer=answer, binding=binding)
        return Given(answer=answer, binding=binding, token=self.grants.issue(binding, seconds=LIFETIME).token)

    def forget(self, identifier: str, *, owner: str = "") -> None:
        """Deletes the file of a conversation, if there is one."""
        with contextlib.suppress(FileNotFoundError), _input_errors(self.folder):
            self._file(identifier, owner).unlink()

    @contextlib.contextmanager
    def claimed(self, identifier: str, *, owner: str = "") -> Generator[None, None, None]:
        """Locks a conversation against other processes. Errors: ``Conflict`` when another one has the lock."""
        path = self._file(identifier, owner).with_suffix(".lock")
        with _input_errors(path):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = _lock(path)
        if descriptor is None:
            raise Conflict(f"Another process conducts the conversation {identifier}. Wait until it ends.")
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                path.unlink()
            os.close(descriptor)

    def _file(self, identifier: str, owner: str) -> pathlib.Path:
        # A digest: applications choose owners and identifiers freely.
        name = hashlib.sha256(json.dumps([owner, identifier]).encode()).hexdigest()[:32]
        return self.folder / f"{name}.json"

    def _read(self, path: pathlib.Path) -> Paused | None:
        try:
            with _input_errors(path):
                text = read_regular(path)
        except FileNotFoundError:
            return None  # It was resumed meanwhile.
        try:
            return deserialize(Paused, json.loads(text))
        except (SerializationInvalidity, ValueError, RecursionError) as error:
            raise InputError(f"{path} is not a paused conversation: {error} Inspect it, or delete it.") from error


def _lock(path: pathlib.Path) -> int | None:
    """The descriptor of a file that this process has locked, or None if another process has the lock."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The previous owner may have removed the file: a lock on a removed file excludes no one.
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
def _input_errors(path: pathlib.Path) -> Generator[None, None, None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InputError(f"{path} cannot be used: {error.strerror or error}.") from error
