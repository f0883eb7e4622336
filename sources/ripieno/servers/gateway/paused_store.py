"""Saved conversations with calls that wait for a person, which clients continue with a signed token.

Only the saved conversation is continued, with the answers that the operator saved. A client's own history continues
nothing and approves nothing.
"""

import contextlib
import dataclasses
import logging
import os
from collections.abc import Generator, Mapping, Sequence

from ripieno.approvals import Approve, Deny, Given, RulesConfirmer
from ripieno.approvals.confirmers import ServingConfirmer
from ripieno.assembly import Assembly
from ripieno.assembly.journal import open_database
from ripieno.canisters import (
    AssistantCanister,
    Canister,
    Conversation,
    DocumentCanister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from ripieno.conducting.paused import LIFETIME, Paused, PausedStore
from ripieno.conducting.resume import UNKNOWN
from ripieno.exceptions import Conflict, InputError, PermissionFault, RipienoError
from ripieno.models.protocol import Asked
from ripieno.servers.gateway import history_checks
from ripieno.servers.gateway.history_checks import described
from ripieno.servers.gateway.signatures import Signer, claims_in
from ripieno.storage.journal import Journal

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ResumeToken:
    """The saved conversation that a request continues, and how many of its canisters the caller has (``shown``).

    ``owner`` is the caller. ``results`` are those in the request, by identifiers of calls.
    """

    owner: str
    conversation: str
    shown: int
    results: Mapping[str, ResultCanister]


class Deferral:
    """Saves the waiting conversations of a gateway. Errors: ``InputError`` if calls cannot wait."""

    def __init__(self, assembly: Assembly, signer: Signer) -> None:
        if assembly.loaded.state is None:
            raise InputError('absent = "defer" under [gateway] needs a state folder. Set one, or set absent = "deny".')
        if isinstance(assembly.execution.confirmer, RulesConfirmer | ServingConfirmer):
            raise InputError(
                'absent = "defer" under [gateway] lets calls wait for a person, but the confirmer of this assembly '
                'denies them. Assemble it with confirmer=DeferredConfirmer(), or set absent = "deny".'
            )
        journal = assembly.execution.reporter.recorder
        # The same database, so that the journal's lines are checked against the claims that are made here.
        own = journal.database if isinstance(journal, Journal) else open_database(assembly.loaded, os.environ)
        self._store = PausedStore(own)
        self._workspace = str(assembly.loaded.workspace)
        self._signer = signer

    def sign(self, call: InvocationCanister, paused: Paused) -> str:
        """The identifier of the item of a waiting call."""
        return self._signer.claim(call, paused.owner, paused.identifier, len(paused.conversation.canisters))

    def find(self, asked: Asked, unanswered: Mapping[str, str], caller: str) -> ResumeToken:
        """The token of a request. ``unanswered`` are the names of its calls without results, by identifier.

        Errors: ``InputError``, with the call.
        """
        claims = claims_in(asked.native)
        lacking = {identifier: name for identifier, name in unanswered.items() if identifier not in claims}
        if lacking:
            raise history_checks.missing(lacking)
        places = {
            one.identifier: place for place, one in enumerate(asked.canisters) if isinstance(one, InvocationCanister)
        }
        found: set[tuple[str, int]] = set()
        for identifier, name in unanswered.items():
            call = asked.canisters[places[identifier]]
            assert isinstance(call, InvocationCanister)
            claimed = self._signer.claimed(call, caller, claims[identifier])
            if claimed is None:
                raise InputError(
                    f"The call {described(name, identifier)} does not wait here. Send its item back unchanged, with "
                    "its id and the same key, or leave it out."
                )
            found.add(claimed)
        if len(found) > 1:
            raise InputError(
                "Calls of several saved conversations wait in this request. Send those of one conversation."
            )
        first = min(places[identifier] for identifier in unanswered)
        after = asked.canisters[first:]
        if any(isinstance(one, UserCanister | SupervisorCanister | DocumentCanister) for one in after):
            identifier, name = next(iter(unanswered.items()))
            raise InputError(
                f"The call {described(name, identifier)} waits for a person, so no message can follow it yet. Send the "
                "request without the messages after it, and add them later."
            )
        ((conversation, shown),) = found
        results = {one.invocation_id: one for one in asked.canisters if isinstance(one, ResultCanister)}
        return ResumeToken(owner=caller, conversation=conversation, shown=shown, results=results)

    def load(self, claim: ResumeToken) -> Paused:
        """The saved conversation of a token. Errors: ``Conflict`` if there is none any more."""
        with _usable():
            paused = self._store.load(claim.conversation, owner=claim.owner)
        if paused is None or claim.shown > len(paused.conversation.canisters):
            raise Conflict(
                "The call no longer waits: another request or the operator of this server has continued the "
                "conversation. Leave out the call, or start again."
            )
        return paused

    @contextlib.contextmanager
    def claimed(self, claim: ResumeToken) -> Generator[None, None, None]:
        """Prevents other requests and processes from continuing it. Errors: ``Conflict``."""
        with contextlib.ExitStack() as stack:
            with _usable():
                stack.enter_context(self._store.claimed(claim.conversation, owner=claim.owner))
            yield

    def keep(self, conversation: Conversation, model: str, tools: Sequence[str], caller: str) -> Paused:
        """Saves a waiting conversation, durably."""
        paused = Paused(
            conversation=conversation, workspace=self._workspace, model=model, tools=tuple(tools), owner=caller
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

    def begin(self, paused: Paused, claim: ResumeToken) -> Paused:
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


def once(asked: Asked) -> Asked:
    """The request with each waiting call once, however often the client received it."""
    claims = claims_in(asked.native)
    if not claims:
        return asked
    kept: list[Canister] = []
    seen: list[InvocationCanister] = []
    for canister in asked.canisters:
        if isinstance(canister, InvocationCanister) and canister.identifier in claims:
            if canister in seen:
                if isinstance(kept[-1], AssistantCanister) and not kept[-1].content:
                    # It had no other content.
                    kept.pop()
                continue
            seen.append(canister)
        elif isinstance(canister, ResultCanister):
            seen = [one for one in seen if one.identifier != canister.invocation_id]
        kept.append(canister)
    return dataclasses.replace(asked, canisters=tuple(kept))


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
    except InputError as error:
        _logger.error("The waiting conversation cannot be saved.", exc_info=error)
        raise RipienoError("The waiting conversation cannot be saved. The log of the server has the reason.") from error
