"""Which earlier call of a conversation is meant to run again, and why it may not.

A tool with ``again_argument`` stands for such a call. It goes through the pipeline as the call that it names, so that
its arguments, its rules and its limits are those of the tool that it runs.
"""

from collections.abc import Iterable, Sequence

from ripieno.canisters import Canister, InvocationCanister, ResultCanister
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import PermissionFault, ResourceFault, ValidationFault

#: Calls that are listed where none is meant.
_TOLD = 8


def find_earlier(named: str, history: Sequence[Canister], offer: Offer) -> InvocationCanister:
    """The latest call with that identifier; or the latest one of the tool that models see under that name.

    Errors: ``ValidationFault`` where there is none, or none that can be run again; ``PermissionFault`` for one of which
    nobody knows what it did, unless its tool is idempotent; ``ResourceFault`` for one that is run elsewhere.
    """
    # A call that stands for that of a deferred tool counts as that.
    history = [offer.direct(one) if isinstance(one, InvocationCanister) else one for one in history]
    calls = [one for one in history if isinstance(one, InvocationCanister)]
    call = _meant(named, calls, offer)
    if call is None:
        raise ValidationFault(f"There is no earlier call {named!r} in this conversation.", suggestion=_advice(calls))
    invoker = offer.named(call.name)
    if invoker is None:
        raise ResourceFault(f"The tool {call.name!r} is not offered any more.", suggestion="Try another way.")
    if invoker.policy.again_argument is not None:
        raise ValidationFault(f"{named!r} ran another call again.", suggestion="Name the call that it ran.")
    if invoker.hosted != "here":
        raise ResourceFault(f"{call.name!r} is run by the {invoker.hosted}.", suggestion="Call it as you did before.")
    if not (invoker.policy.harmless or invoker.policy.idempotent) and _is_unknown(call, history, offer):
        raise PermissionFault(
            f"Nobody knows what {named!r} did, so it is not run again.",
            code="outcome_unknown",
            suggestion="Find out what it did. If it did nothing, call the tool itself.",
        )
    return call


def _meant(named: str, calls: Sequence[InvocationCanister], offer: Offer) -> InvocationCanister | None:
    fitting = [one for one in calls if one.identifier == named]
    fitting = fitting or [one for one in calls if one.name == named and offer.named(named) is not None]
    return fitting[-1] if fitting else None


def _is_unknown(call: InvocationCanister, history: Sequence[Canister], offer: Offer) -> bool:
    """Whether the outcome of a call is not known, or that of one which ran it again."""
    same = {call.identifier}
    earlier: list[InvocationCanister] = []
    for canister in history:
        if isinstance(canister, InvocationCanister):
            invoker = offer.named(canister.name)
            argument = None if invoker is None else invoker.policy.again_argument
            if argument is not None and _meant(str(canister.arguments.get(argument)), earlier, offer) is call:
                same.add(canister.identifier)
            earlier.append(canister)
    errors = (one.error for one in history if isinstance(one, ResultCanister) and one.invocation_id in same)
    return any(error is not None and error.category == "outcome_unknown" for error in errors)


def _advice(calls: Iterable[InvocationCanister]) -> str:
    known = [f"{one.identifier} ({one.name})" for one in calls][-_TOLD:]
    return f"Calls: {', '.join(known)}." if known else "There was no call before this one."
