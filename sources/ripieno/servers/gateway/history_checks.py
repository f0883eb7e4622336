"""Checks that calls and results of a request match: each result follows its call, and each call has one result.

A client's history cannot be verified, because nothing is stored. A mismatch is refused before a model is asked.
"""

from collections.abc import Mapping, Sequence

from ripieno.canisters import Canister, InvocationCanister, ResultCanister
from ripieno.exceptions import InputError


class Unpaired(InputError):
    """The calls and results of a history do not match. Of such a history, the log shows only the code."""

    code = "unpaired_calls"


#: The maximum number of calls in an error, and of characters quoted from a client.
_NAMED = 5
_SHOWN = 100


def check(canisters: Sequence[Canister]) -> None:
    """Checks a conversation. Errors: ``Unpaired``, with the call and what to send."""
    waiting = unanswered(canisters)
    if waiting:
        raise missing(waiting)


def unanswered(canisters: Sequence[Canister]) -> Mapping[str, str]:
    """The names of the calls without a result, by identifier. Errors: as those of ``check``.

    Results may come in any order, anywhere after their calls. An identifier may be reused when its call has a result,
    as some servers do in every turn.
    """
    waiting: dict[str, str] = {}
    answered: dict[str, str] = {}
    for canister in canisters:
        if isinstance(canister, InvocationCanister):
            identifier = canister.identifier
            if identifier in waiting:
                raise Unpaired(
                    f"Two calls without a result have the same identifier {_cut(identifier)}: "
                    f"{_cut(waiting[identifier])} and {_cut(canister.name)}. Give each its own."
                )
            waiting[identifier] = canister.name
        elif isinstance(canister, ResultCanister):
            identifier = canister.invocation_id
            name = waiting.pop(identifier, None)
            if name is None and identifier in answered:
                call = described(answered[identifier], identifier)
                raise Unpaired(f"The call {call} has a second result. Send one result for each call.")
            if name is None:
                raise Unpaired(
                    f"A result is for {_cut(identifier)}, but no earlier call has that identifier. Send the call as "
                    "well, as you received it, or leave out the result."
                )
            answered[identifier] = name
    return waiting


def missing(waiting: Mapping[str, str]) -> Unpaired:
    """The error for calls without a result."""
    named = [described(name, identifier) for identifier, name in list(waiting.items())[:_NAMED]]
    if len(waiting) > _NAMED:
        named.append(f"{len(waiting) - _NAMED} more")
    calls = " and ".join(filter(None, (", ".join(named[:-1]), named[-1])))
    return Unpaired(
        f"There is no result for {calls}. Send one for each call, with its identifier, even if it did not run."
    )


def described(name: str, identifier: str) -> str:
    """The description of a call in errors."""
    return f"{_cut(name)} ({_cut(identifier)})"


def _cut(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
