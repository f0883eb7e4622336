"""Conversations that wait for a person: JSON beside the journal, answered from any process, resumed by one.

::

    {"version": 1, "type": "paused", "at": "2026-01-01T00:00:00+00:00", "workspace": "/home/ada/project",
     "model": "provider/model", "agent": "coder", "tools": ["io.*"], "options": [], "owner": "ada", "conversation": {…},
     "answers": {"call_1": {"answer": {"type": "deny", "advice": "Not now."}}}}

An approval is a grant: a token that is valid once, for the call exactly as it was shown (``approvals.grants``).
"""

import contextlib
import dataclasses
import datetime
import json
from collections.abc import Collection, Generator, Mapping, Sequence

import msgspec
from frozendict import frozendict

from ripieno.approvals import Answer, Approve, Deny, Edit, Given, Grants
from ripieno.approvals.grant_stores import DatabaseStore
from ripieno.approvals.grants import Binding
from ripieno.canisters import Conversation, ResultCanister
from ripieno.canisters.conversation import Waiting
from ripieno.canisters.display import SHORT, short
from ripieno.canisters.serialization import deserialize, register, serialize, write
from ripieno.exceptions import Conflict, InputError, NameAbsence, SerializationInvalidity, nearest
from ripieno.jsonvalues import digest
from ripieno.storage.databases.contract import Connection, Database, row_key
from ripieno.storage.dispatch.contract import Submission
from ripieno.values import Value

#: Seconds for which an approval is valid until the conversation is resumed.
LIFETIME = 7 * 86_400.0
#: Conversations that a message names.
_SHOWN = 3
_WORDS: Mapping[type[object], str] = {Approve: "approved", Deny: "denied", Edit: "edited"}


class Paused(Value, kw_only=True):
    """A conversation that waits, with the model, agent and patterns of tools with which it is resumed.

    ``options`` are further options of the command line with which it is resumed, such as ``--config FILE``.
    ``answers`` are the answers so far, by the identifiers of invocations; ``results`` are those of calls that the
    application runs itself. ``owner`` is the user or the server's client for whom it is, if there are several.
    ``by_client``: that client continues it, with a request that names the response that waits. ``submission`` is what
    a worker carried out, if one did. ``attempt`` counts the answers that were dropped: the next submission is another
    one.
    """

    conversation: Conversation
    workspace: str
    model: str
    agent: str = ""
    tools: tuple[str, ...] | None = None
    options: tuple[str, ...] = ()
    answers: Mapping[str, Given] = frozendict[str, Given]()
    results: tuple[ResultCanister, ...] = ()
    owner: str = ""
    by_client: bool = False
    submission: Submission | None = None
    attempt: int = 0
    at: datetime.datetime = msgspec.field(default_factory=lambda: datetime.datetime.now(datetime.UTC))

    @property
    def identifier(self) -> str:
        """The identifier of its conversation."""
        return self.conversation.identifier

    @property
    def short(self) -> str:
        """Its identifier, for people."""
        return short(self.identifier)

    @property
    def unanswered(self) -> tuple[Waiting, ...]:
        """The calls that still need an approval."""
        waiting = (one for one in self.conversation.waiting if one.why == "approval")
        return tuple(one for one in waiting if one.invocation not in self.answers)

    @property
    def next_submission(self) -> Submission | None:
        """The submission for a worker, when all answers are there. The same answers give the same identifier."""
        if self.submission is None or self.unanswered or self.lacking or not self.conversation.waiting:
            return None
        answers = {name: write(Answer, given.answer) for name, given in self.answers.items()}
        results = [serialize(one) for one in self.results]
        continues = self.submission.identifier
        named = [continues, len(self.conversation.canisters), answers, results, self.attempt]
        return dataclasses.replace(self.submission, identifier=digest(named)[:32], continues=continues, canisters=())

    @property
    def lacking(self) -> tuple[Waiting, ...]:
        """The calls that the application runs itself and whose results it has not given yet."""
        given = {one.invocation_id for one in self.results}
        waiting = (one for one in self.conversation.waiting if one.why == "caller")
        return tuple(one for one in waiting if one.invocation not in given)

    def answer_to(self, invocation: str) -> str:
        """The answer to a call so far, in words; empty without one."""
        if invocation in self.answers:
            return _WORDS[type(self.answers[invocation].answer)]
        given = next((one for one in self.results if one.invocation_id == invocation), None)
        return "" if given is None else "has its result" if given.error is None else "denied"

    def answered(self, invocation: str) -> Conflict:
        """The error for another answer to a call that has one."""
        text = f"The call {invocation!r} of {self.identifier} was answered already: {self.answer_to(invocation)}."
        if (following := self.next_submission) is not None:
            name = short(following.identifier)
            text += f" The run {name} continues it. To stop that run: ripieno runs cancel {name}"
        return Conflict(text)


register({Paused: "paused"})


class PausedStore:
    """The paused conversations of all owners, in the database of the journal.

    Two owners may have the same identifier. Errors: ``InputError``, which names the database; ``Superseded`` for a
    change of a conversation that this program had claimed, and another one has taken.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        #: The approvals, which are redeemed where the call runs.
        self.grants = Grants(DatabaseStore(database))

    def save(self, paused: Paused) -> None:
        """Writes a conversation, durably, in place of an earlier version of it."""
        key = row_key(paused.owner, paused.identifier)
        row = (*key, paused.at.isoformat(), json.dumps(serialize(paused)))
        with self._writing(paused.owner, paused.identifier) as connection:
            connection.execute(
                "INSERT INTO paused (owner, conversation, at, body) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (owner, conversation) DO UPDATE SET at = excluded.at, body = excluded.body",
                row,
            )

    def all(self, owner: str | None = None) -> tuple[Paused, ...]:
        """The paused conversations of an owner, or of all; the oldest first."""
        with self._database.using("read") as connection:
            query = "SELECT conversation, body FROM paused WHERE owner = coalesce(?, owner) ORDER BY at, conversation"
            rows = connection.execute(query, (None if owner is None else json.dumps(owner),)).fetchall()
        return tuple(_read(self._database.name, *row) for row in rows)

    def load(self, identifier: str, *, owner: str = "") -> Paused | None:
        """The owner's paused conversation with exactly this identifier, if there is one."""
        with self._database.using("read") as connection:
            return find_paused(connection, identifier, owner=owner, place=self._database.name)

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
            near = nearest(identifier, (one.identifier for one in ones))
            raise NameAbsence("paused conversation", identifier, near, hint="" if near else _listed("Waiting", ones))
        if len(fitting) > 1:
            raise InputError(_listed("Several conversations match", fitting))
        return fitting[0]

    def answer(self, identifier: str, answers: Mapping[str, Answer | Given], *, owner: str = "") -> Paused:
        """Stores a person's answers to the owner's conversation with exactly this identifier. An answer is final.

        One that was given with its binding is stored as it is, without a grant. Errors: ``NameAbsence``; ``Conflict``
        for a call that waits for no answer, or already has one.
        """
        with self._changing(identifier, owner) as paused:
            waiting = {one.invocation: one for one in paused.unanswered}
            for invocation in answers:
                if paused.answer_to(invocation):
                    raise paused.answered(invocation)
                if invocation not in waiting:
                    raise Conflict(f"The call {invocation!r} of {paused.identifier} waits for no approval.")
            given = {
                name: answer if isinstance(answer, Given) else self._given(waiting[name], answer)
                for name, answer in answers.items()
            }
            changed = dataclasses.replace(paused, answers={**paused.answers, **given})
            self.save(changed)
        return changed

    def revoke(self, identifier: str, invocations: Collection[str], *, owner: str = "") -> Paused:
        """Takes back approvals that no run has used: their calls wait again.

        Errors: ``NameAbsence``; ``InputError`` for a call without such an approval.
        """
        with self._changing(identifier, owner) as paused:
            for invocation in invocations:
                given = paused.answers.get(invocation)
                if given is None or not isinstance(given.answer, Approve):
                    raise InputError(f"The call {invocation!r} of {identifier} has no approval.")
                if not given.token:
                    # Whether the server still has it cannot be seen from here.
                    raise InputError(
                        f"The call {invocation!r} of {identifier} was approved in a chat, which may use it."
                    )
                if not self.grants.revoke(given.token):
                    raise InputError(f"The approval of {invocation!r} of {identifier} was used already.")
            left = {name: given for name, given in paused.answers.items() if name not in invocations}
            changed = dataclasses.replace(paused, answers=left, attempt=paused.attempt + 1)
            self.save(changed)
        return changed

    def reopen(self, paused: Paused) -> Paused:
        """Drops the answers of a conversation that no run has taken: its calls wait again. Results stay.

        If it has other answers meanwhile, it stays as it is. Errors: ``NameAbsence``, ``Conflict``.
        """
        with self._changing(paused.identifier, paused.owner) as found:
            if found.next_submission != paused.next_submission:
                return found
            for given in found.answers.values():
                if given.token:
                    self.grants.revoke(given.token)
            changed = dataclasses.replace(found, answers={}, attempt=found.attempt + 1)
            self.save(changed)
        return changed

    def give(self, identifier: str, results: Sequence[ResultCanister], *, owner: str = "") -> Paused:
        """Stores results of calls that the application runs itself. A result is final.

        Errors: ``NameAbsence``; ``Conflict`` for a call that waits for no result, or already has one.
        """
        with self._changing(identifier, owner) as paused:
            for one in results:
                if paused.answer_to(one.invocation_id):
                    raise paused.answered(one.invocation_id)
                if one.invocation_id not in {waiting.invocation for waiting in paused.lacking}:
                    raise Conflict(f"The call {one.invocation_id!r} of {paused.identifier} waits for no result.")
            changed = dataclasses.replace(paused, results=(*paused.results, *results))
            self.save(changed)
        return changed

    @contextlib.contextmanager
    def _changing(self, identifier: str, owner: str) -> Generator[Paused, None, None]:
        """The owner's conversation, locked. Errors: ``NameAbsence``, ``Conflict``."""
        with self.claimed(identifier, owner=owner):
            paused = self.load(identifier, owner=owner)
            if paused is None:
                raise NameAbsence("paused conversation", identifier, (one.identifier for one in self.all(owner)))
            yield paused

    def _given(self, waiting: Waiting, answer: Answer) -> Given:
        binding = Binding(**{name: str(part) for name, part in waiting.binding.items()})
        if not isinstance(answer, Approve):
            return Given(answer=answer, binding=binding)
        return Given(answer=answer, binding=binding, token=self.grants.issue(binding, seconds=LIFETIME).token)

    def forget(self, identifier: str, *, owner: str = "") -> None:
        """Deletes a conversation, if it is there."""
        where, key = "FROM paused WHERE owner = ? AND conversation = ?", row_key(owner, identifier)
        with self._database.using("read") as connection:
            # Most conversations never wait, and a deletion of nothing costs as much as any.
            if connection.execute(f"SELECT 1 {where}", key).fetchone() is None:
                return
        with self._writing(owner, identifier) as connection:
            connection.execute(f"DELETE {where}", key)

    @contextlib.contextmanager
    def claimed(self, identifier: str, *, owner: str = "") -> Generator[None, None, None]:
        """Locks a conversation against other programs. Errors: ``Conflict`` when another one has the lock."""
        with self._database.claimed(owner, identifier) as held:
            if not held:
                raise Conflict(f"Another process conducts the conversation {identifier}. Wait until it ends.")
            yield

    def is_claimed(self, identifier: str, *, owner: str = "") -> bool:
        """Whether any program has the lock of a conversation now."""
        return self._database.is_claimed(owner, identifier)

    @contextlib.contextmanager
    def _writing(self, owner: str, identifier: str) -> Generator[Connection, None, None]:
        """A connection to change a conversation. Errors: ``Superseded`` if another program has taken its claim."""
        fence = self._database.fence(owner, identifier)
        with (self._database.using if fence is None else self._database.writing)("written") as connection:
            if fence is not None:
                fence.check(connection)
            yield connection

    def close(self) -> None:
        """Closes the database. The next use opens it again."""
        self._database.close()


def find_paused(
    connection: Connection, identifier: str, *, owner: str = "", place: str = "The journal"
) -> Paused | None:
    """The owner's paused conversation in a database with the name ``place``, if it is there. Errors: ``InputError``."""
    query = "SELECT conversation, body FROM paused WHERE owner = ? AND conversation = ?"
    found = connection.execute(query, row_key(owner, identifier)).fetchone()
    return None if found is None else _read(place, *found)


def _read(place: str, identifier: str, text: str) -> Paused:
    try:
        return deserialize(Paused, json.loads(text))
    except (SerializationInvalidity, ValueError, RecursionError) as error:
        name = json.loads(identifier)
        raise InputError(f"{place}: the paused conversation {name!r} cannot be read: {error}") from error


def _listed(head: str, ones: Sequence[Paused]) -> str:
    """The first of some conversations, by the shortest beginnings that differ, and the command that lists all."""
    if not ones:
        return ""
    names = [one.identifier for one in ones]
    # Applications choose identifiers: equal ones of two owners have no such beginning.
    widths = range(SHORT, max(map(len, names)))
    width = next((width for width in widths if len({name[:width] for name in names}) == len(names)), None)
    owners = [f" (of {one.owner})" if width is None and one.owner else "" for one in ones]
    shown = ", ".join(f"{name[:width]}{owner}" for name, owner in zip(names[:_SHOWN], owners, strict=False))
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{head}: {shown}{more}. To list all: ripieno approvals list"
