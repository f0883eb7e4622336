"""Saved conversations with calls that wait for a person, which clients continue through the stored response.

Only the saved conversation is continued, with the answers that the operator saved. What a client sends continues
nothing and approves nothing.
"""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from typing import TypeVar

from ripieno.approvals import Approve, Deny, Given, RulesConfirmer
from ripieno.approvals.confirmers import ServingConfirmer
from ripieno.assembly import Assembly
from ripieno.canisters import (
    Conversation,
    DocumentCanister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from ripieno.conducting.paused import LIFETIME, Paused, PausedStore
from ripieno.conducting.resume import UNKNOWN
from ripieno.ensembles.threads import run_in_thread
from ripieno.exceptions import Conflict, InputError, PermissionFault, RipienoError
from ripieno.models.protocol import Asked
from ripieno.servers.gateway import history_checks
from ripieno.servers.gateway.history_checks import described
from ripieno.servers.gateway.stored.library import database_of
from ripieno.servers.gateway.stored.requests import Waiting
from ripieno.storage.databases.contract import Disconnected
from ripieno.values import Value

_logger = logging.getLogger(__name__)
_Result = TypeVar("_Result")


class Resumption(Value, kw_only=True):
    """The saved conversation that a request continues, and how many of its canisters the caller has (``shown``).

    ``owner`` is the caller. ``results`` are those in its conversation, by identifiers of calls.
    """

    owner: str
    conversation: str
    shown: int
    results: Mapping[str, ResultCanister]


class Deferral:
    """Saves the waiting conversations of a gateway. Errors: ``InputError`` if calls cannot wait."""

    def __init__(self, assembly: Assembly) -> None:
        if isinstance(assembly.execution.confirmer, RulesConfirmer | ServingConfirmer):
            raise InputError(
                'absent = "defer" under [gateway] lets calls wait for a person, but the confirmer of this assembly '
                'denies them. Assemble it with confirmer=DeferredConfirmer(), or set absent = "deny".'
            )
        self._database = database_of(assembly)
        self._store = PausedStore(self._database)
        assembly.endings.push_async_callback(self.close)
        self._loaded = assembly.loaded

    def load(self, claim: Resumption) -> Paused:
        """The saved conversation. Errors: ``Conflict`` if there is none any more."""
        with _usable():
            paused = self._store.load(claim.conversation, owner=claim.owner)
        if paused is None or claim.shown > len(paused.conversation.canisters):
            raise Conflict(
                "The call no longer waits: another request or the operator of this server has continued the "
                "conversation. Leave out the call, or start again."
            )
        return paused

    async def run(self, function: Callable[..., _Result], *arguments: object) -> _Result:
        """Calls one of the other methods: in a thread if the database is beyond a network. It is never cut off."""
        if not self._database.remote:
            return function(*arguments)
        work = asyncio.ensure_future(run_in_thread(function, *arguments, name="paused conversations"))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            await asyncio.wait((work,))
            raise

    async def close(self) -> None:
        """Closes the database. The next use opens it again."""
        await self.run(self._database.close)

    @contextlib.asynccontextmanager
    async def claimed(self, claim: Resumption) -> AsyncGenerator[None, None]:
        """Prevents other requests and processes from continuing it. Errors: ``Conflict``."""
        held = contextlib.ExitStack()
        await self.run(self._claim, held, claim)
        try:
            yield
        finally:
            await self.run(held.close)

    def _claim(self, held: contextlib.ExitStack, claim: Resumption) -> None:
        with _usable():
            held.enter_context(self._store.claimed(claim.conversation, owner=claim.owner))

    def keep(
        self, conversation: Conversation, model: str, tools: Sequence[str], caller: str, *, by_client: bool
    ) -> Paused:
        """Saves a waiting conversation, durably."""
        paused = Paused(
            conversation=conversation,
            workspace=str(self._loaded.workspace),
            model=model,
            tools=tuple(tools),
            options=self._loaded.options,
            owner=caller,
            by_client=by_client,
        )
        self.save(paused)
        return paused

    def save(self, paused: Paused) -> None:
        """Replaces the saved state of the conversation, with the unused answers."""
        opened = [one.identifier for one in paused.conversation.open if one.identifier in paused.answers]
        with _usable():
            answers = {invocation: self._renew(paused.answers[invocation]) for invocation in opened}
            self._store.save(dataclasses.replace(paused, answers=answers))

    def forget(self, paused: Paused) -> None:
        """Deletes the saved state of a conversation that has ended."""
        with _usable():
            self._store.forget(paused.identifier, owner=paused.owner)

    def begin(self, paused: Paused, claim: Resumption) -> Paused:
        """The conversation to conduct, with valid answers. The caller must conduct it now.

        The saved state records an unknown outcome for the calls that start, so that none runs twice if this process is
        killed. Errors: ``InputError``, with calls of the client that have no result.
        """
        conversation = paused.conversation
        callers = {one.identifier: one.name for one in conversation.open if one.identifier in of_caller(conversation)}
        lacking = {identifier: name for identifier, name in callers.items() if identifier not in claim.results}
        if lacking:
            raise history_checks.missing(lacking)
        conversation = conversation.say([claim.results[identifier] for identifier in callers])
        opened = [one.identifier for one in conversation.open if one.identifier in paused.answers]
        with _usable():
            answers = {invocation: self._settle(paused.answers[invocation]) for invocation in opened}
        used = [invocation for invocation, given in answers.items() if given is None]
        conversation = conversation.say([_unknown(invocation) for invocation in used])
        counting = {invocation: given for invocation, given in answers.items() if given is not None}
        denied = {invocation: given for invocation, given in counting.items() if isinstance(given.answer, Deny)}
        begins = [one.identifier for one in conversation.open if one.identifier not in denied]
        if begins or used:
            pessimistic = conversation.say([_unknown(invocation) for invocation in begins])
            self.save(dataclasses.replace(paused, conversation=pessimistic, answers=denied))
        return dataclasses.replace(paused, conversation=conversation.replace(finish=None), answers=counting)

    def _settle(self, given: Given) -> Given | None:
        """The answer with its grant redeemed; None if it was redeemed before, by a process that did not finish."""
        if not isinstance(given.answer, Approve) or not given.token or given.binding is None:
            return given
        try:
            self._store.grants.redeem(given.token, given.binding)
        except PermissionFault as fault:
            if fault.code == "used_grant":
                return None
            return Given(answer=Deny(str(fault)), binding=given.binding)
        return dataclasses.replace(given, token="")

    def _renew(self, given: Given) -> Given:
        """A new grant for an approval that was redeemed for a call that did not start."""
        if not isinstance(given.answer, Approve) or given.token or given.binding is None:
            return given
        return dataclasses.replace(given, token=self._store.grants.issue(given.binding, seconds=LIFETIME).token)


def of_caller(conversation: Conversation) -> frozenset[str]:
    """The calls that wait for their client."""
    return frozenset(one.invocation for one in conversation.waiting if one.why == "caller")


def resumption_of(asked: Asked, unanswered: Mapping[str, str], waiting: Waiting, caller: str) -> Resumption:
    """The saved conversation that a request continues. ``unanswered`` are names of its calls without results.

    Errors: ``InputError``, with the call.
    """
    lacking = {identifier: name for identifier, name in unanswered.items() if identifier not in waiting.calls}
    if lacking:
        raise history_checks.missing(lacking)
    places = {one.identifier: at for at, one in enumerate(asked.canisters) if isinstance(one, InvocationCanister)}
    first = min(places[identifier] for identifier in waiting.calls)
    for identifier in waiting.calls:
        call = asked.canisters[places[identifier]]
        assert isinstance(call, InvocationCanister)
        if identifier not in unanswered:
            raise InputError(
                f"The call {described(call.name, identifier)} waits for a person, and has no result before. Leave out "
                "the result."
            )
        if any(
            isinstance(one, UserCanister | SupervisorCanister | DocumentCanister) for one in asked.canisters[first:]
        ):
            raise InputError(
                f"The call {described(call.name, identifier)} waits for a person, so no message can follow it yet. "
                "Send the request without messages, and add them later."
            )
    results = {one.invocation_id: one for one in asked.canisters if isinstance(one, ResultCanister)}
    return Resumption(owner=caller, conversation=waiting.conversation, shown=waiting.shown, results=results)


def _unknown(invocation: str) -> ResultCanister:
    return ResultCanister(invocation_id=invocation, error=UNKNOWN)


@contextlib.contextmanager
def _usable() -> Generator[None, None, None]:
    """Replaces errors of the store, which concern the operator only."""
    try:
        yield
    except Conflict as error:
        raise Conflict(
            "Another request or the operator of this server continues the conversation now. Try again later."
        ) from error
    except Disconnected:
        # Clients may try again, and are answered so.
        raise
    except InputError as error:
        _logger.error("The waiting conversation cannot be saved.", exc_info=error)
        raise RipienoError("The waiting conversation cannot be saved. The log of the server has the reason.") from error
