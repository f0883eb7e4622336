"""Calls and results of a request belong together: each result names a call before it, each call has one result.

A client's history is a claim: nothing is stored here that it could be compared with. What does not fit together is
refused by name, before a model is asked.
"""

from collections.abc import Mapping, Sequence

from ripieno.canisters import Canister, InvocationCanister, ResultCanister
from ripieno.exceptions import InputError


class Unpaired(InputError):
    """Calls and results of a history do not belong together."""


#: How many calls an error names, and how much it repeats of what a client wrote.
_NAMED = 5
_SHOWN = 100


def check(canisters: Sequence[Canister]) -> None:
    """Looks through a conversation, once. Errors: ``Unpaired``, which names the call and says what to send."""
    waiting = unanswered(canisters)
    if waiting:
        raise missing(waiting)


def unanswered(canisters: Sequence[Canister]) -> Mapping[str, str]:
    """The names of the calls that have no result, by their identifiers. Errors: as those of ``check``.

    Results may come in any order, and anywhere behind their calls: whatever is said in between stays where it is. An
    identifier may be used again when its call has been answered, as some servers do turn after turn.
    """
    waiting: dict[str, str] = {}
    answered: dict[str, str] = {}
    for canister in canisters:
        if isinstance(canister, InvocationCanister):
            identifier = canister.identifier
            if identifier in waiting:
                raise Unpaired(
                    f"Two calls that wait for their results have the identifier {_cut(identifier)}, so that nobody can "
                    f"tell whose is whose: {_cut(waiting[identifier])} and {_cut(canister.name)}. Give each its own."
                )
            waiting[identifier] = canister.name
        elif isinstance(canister, ResultCanister):
            identifier = canister.invocation_id
            name = waiting.pop(identifier, None)
            if name is None:
                raise _stray(identifier, answered)
            answered[identifier] = name
    return waiting


def _stray(identifier: str, answered: Mapping[str, str]) -> Unpaired:
    """Why a result of no call that waits is refused."""
    if identifier in answered:
        call = described(answered[identifier], identifier)
        return Unpaired(f"The call {call} has a second result. Send one result for each call.")
    return Unpaired(
        f"A result is for {_cut(identifier)}, and no call before it has that identifier. Send the call as well, as it "
        "was answered, or leave its result out."
    )


def missing(waiting: Mapping[str, str]) -> Unpaired:
    """Why calls without a result are refused."""
    named = [described(name, identifier) for identifier, name in list(waiting.items())[:_NAMED]]
    more = len(waiting) - len(named)
    calls = (
        f"{', '.join(named)} and {more} more"
        if more
        else " and ".join(filter(None, (", ".join(named[:-1]), named[-1])))
    )
    return Unpaired(
        f"There is no result for {calls}. Send one for each call, under its identifier; where it was not run, say so."
    )


def described(name: str, identifier: str) -> str:
    """A call, as errors name it."""
    return f"{_cut(name)} ({_cut(identifier)})"


def _cut(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
