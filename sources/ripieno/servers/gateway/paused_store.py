"""Conversations in which a call waits for a person: kept for the operator, and claimed by the client that asks again.

The client holds the claim, which is signed, and the operator the conversation. What stands in the client's request is
never gone on with, and approves nothing: only what is kept is, with the answers that the operator gave there.
"""

import contextlib
import dataclasses
import logging
from collections.abc import Generator, Mapping, Sequence

from ripieno.approvals import Approve, Deny, Given, RulesConfirmer
from ripieno.approvals.confirmers import ServingConfirmer
from ripieno.assembly import Assembly
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

_logger = logging.getLogger(__name__)

_GONE = (
    "What waited for a person here waits no more: another request has gone on with it, or whoever runs this server. "
    "Leave the call out, or begin again."
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ResumeToken:
    """What a request goes on with: the conversation that is kept, and how many of its canisters its caller has.

    ``results`` are those of its request, by the identifiers of calls.
    """

    conversation: str
    told: int
    results: Mapping[str, ResultCanister]


class Deferral:
    """Keeps the conversations of a gateway that wait. Errors: ``InputError`` where calls cannot wait."""

    def __init__(self, assembly: Assembly, signer: Signer) -> None:
        state = assembly.loaded.state
        if state is None:
            raise InputError(
                "Calls cannot wait for a person without a folder for state, where they are kept: set "
                'absent = "deny" under [gateway].'
            )
        if isinstance(assembly.execution.confirmer, RulesConfirmer | ServingConfirmer):
            raise InputError(
                'absent = "defer" under [gateway] lets calls wait for a person, and the confirmer of this assembly '
                'denies them: assemble it with confirmer=DeferredConfirmer(), or set absent = "deny".'
            )
        self._store = PausedStore(state)
        self._workspace = str(assembly.loaded.workspace)
        self._signer = signer

    # What requests hold.

    def sign(self, call: InvocationCanister, paused: Paused) -> str:
        """The identifier of the item of a call that waits in what is kept."""
        return self._signer.claim(call, paused.caller, paused.identifier, len(paused.conversation.canisters))

    def find(self, asked: Asked, unanswered: Mapping[str, str], caller: str) -> ResumeToken:
        """What a request goes on with. ``unanswered`` are the names of its calls without results, by identifiers.

        Errors: ``InputError``, which names the call.
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
                    f"The call {described(name, identifier)} waits for nobody here: send its item back unchanged, with "
                    "its id, under the key that it was given to, or leave it out."
                )
            found.add(claimed)
        if len(found) > 1:
            raise InputError("Calls of several conversations wait in this one. Ask for one of them at a time.")
        first = min(places[identifier] for identifier in unanswered)
        after = asked.canisters[first:]
        if any(isinstance(one, UserCanister | SupervisorCanister | DocumentCanister) for one in after):
            identifier, name = next(iter(unanswered.items()))
            raise InputError(
                f"The call {described(name, identifier)} waits for a person, and nothing can be said behind it before "
                "it has its result. Ask again without what follows it, and say that later."
            )
        ((conversation, told),) = found
        results = {one.invocation_id: one for one in asked.canisters if isinstance(one, ResultCanister)}
        return ResumeToken(conversation=conversation, told=told, results=results)

    # What is kept.

    def load(self, claim: ResumeToken) -> Paused:
        """What is kept under a claim. Errors: ``Conflict`` when nothing is any more."""
        with _usable():
            paused = self._store.load(claim.conversation)
        if paused is None or claim.told > len(paused.conversation.canisters):
            raise Conflict(_GONE)
        return paused

    @contextlib.contextmanager
    def claimed(self, claim: ResumeToken) -> Generator[None, None, None]:
        """No other request, and no other process, goes on with it meanwhile. Errors: ``Conflict``."""
        with contextlib.ExitStack() as stack:
            with _usable():
                stack.enter_context(self._store.claimed(claim.conversation))
            yield

    def keep(self, conversation: Conversation, model: str, tools: Sequence[str], caller: str) -> Paused:
        """Keeps a conversation that waits. It is durable when this returns."""
        paused = Paused(
            conversation=conversation,
            workspace=self._workspace,
            model=model,
            tools=tuple(tools),
            caller=caller,
        )
        self.save(paused)
        return paused

    def save(self, paused: Paused) -> None:
        """Takes the place of what was kept of the same conversation, with the answers that nobody has heard yet."""
        opened = [one.identifier for one in paused.conversation.open if one.identifier in paused.answers]
        with _usable():
            answers = {invocation: self._renew(paused.answers[invocation]) for invocation in opened}
            self._store.save(dataclasses.replace(paused, answers=answers))

    def forget(self, paused: Paused) -> None:
        """It has ended."""
        with _usable():
            self._store.forget(paused.identifier)

    # Going on.

    def begin(self, paused: Paused, claim: ResumeToken) -> Paused:
        """What is conducted on, with answers that count; whoever claims it has to conduct it now.

        Kept is that nobody knows what came of the calls that begin: were this process killed, none would run twice.
        Errors: ``InputError``, which names calls of the client that have no result.
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
            feared = conversation.say([_unknown(invocation) for invocation in begins])
            self.save(dataclasses.replace(paused, conversation=feared, answers=denied))
        return dataclasses.replace(paused, conversation=conversation.replace(finish=None), answers=counting)

    def _settle(self, given: Given) -> Given | None:
        """An answer whose grant is used up; None where it was used before, by somebody who did not tell the end."""
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
        """An approval whose grant was used up for a call that did not begin: it is good once again."""
        if not isinstance(given.answer, Approve) or given.token or given.binding is None:
            return given
        return dataclasses.replace(given, token=self._store.grants.issue(given.binding, seconds=LIFETIME).token)


def of_caller(conversation: Conversation) -> frozenset[str]:
    """The calls that wait for their client."""
    return frozenset(one.invocation for one in conversation.waiting if one.why == "caller")


def once(asked: Asked) -> Asked:
    """The same, in which calls that wait stand once, however often the client was told that they do."""
    claims = claims_in(asked.native)
    if not claims:
        return asked
    kept: list[Canister] = []
    seen: list[InvocationCanister] = []
    for canister in asked.canisters:
        if isinstance(canister, InvocationCanister) and canister.identifier in claims:
            if canister in seen:
                if isinstance(kept[-1], AssistantCanister) and not kept[-1].content:
                    # It stood there for the call alone.
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
    """Files of the operator are no business of clients."""
    try:
        yield
    except Conflict as error:
        raise Conflict("Another request, or whoever runs this server, goes on with it now. Ask again later.") from error
    except InputError as error:
        _logger.error("What waits for a person cannot be kept.", exc_info=error)
        raise RipienoError("What waits for a person cannot be kept here now. Whoever runs this finds why.") from error
