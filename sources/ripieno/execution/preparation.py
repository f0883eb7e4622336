"""Resolves, validates and judges a call: the prepared call, or the result that says why it cannot run.

A call of a tool with ``again_argument`` repeats an earlier call. It goes through the pipeline as that earlier call, so
that the arguments, rules and limits are those of the tool that runs.
"""

import dataclasses
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ripieno.canisters import Canister, InvocationCanister, ResultCanister
from ripieno.canisters.faults import Fault
from ripieno.ensembles.offers import Offer
from ripieno.ensembles.tool_search import resolve_call
from ripieno.exceptions import InputError, PermissionFault, ResourceFault, ToolFault, ValidationFault
from ripieno.execution.approval import Judge
from ripieno.execution.context import Circumstances, Prepared
from ripieno.execution.records import Reporter, denied, unfit
from ripieno.jsonvalues import freeze, thaw

#: Earlier calls that an error lists.
_LISTED = 8


def find_earlier(named: str, history: Sequence[Canister], offer: Offer) -> InvocationCanister:
    """The latest call with this identifier; or the latest call of the tool with this exposed name.

    Errors: ``ValidationFault`` if there is none, or none that can be repeated; ``PermissionFault`` for a call with an
    unknown outcome, unless its tool is idempotent; ``ResourceFault`` for one that is run elsewhere.
    """
    # A call through tool search counts as a call of the tool itself.
    history = [offer.direct(one) if isinstance(one, InvocationCanister) else one for one in history]
    calls = [one for one in history if isinstance(one, InvocationCanister)]
    call = _latest(named, calls, offer)
    if call is None:
        raise ValidationFault(f"There is no earlier call {named!r} in this conversation.", suggestion=_advice(calls))
    invoker = offer.named(call.name)
    if invoker is None:
        raise ResourceFault(f"The tool {call.name!r} is no longer offered.", suggestion="Try another way.")
    if invoker.policy.again_argument is not None:
        raise ValidationFault(f"{named!r} ran another call again.", suggestion="Name the call that it ran.")
    if invoker.hosted != "here":
        raise ResourceFault(f"{call.name!r} is run by the {invoker.hosted}.", suggestion="Call it as you did before.")
    if not (invoker.policy.harmless or invoker.policy.idempotent) and _is_unknown(call, history, offer):
        raise PermissionFault(
            f"The outcome of {named!r} is unknown, so it is not run again.",
            code="outcome_unknown",
            suggestion="Find out what it did. If it did nothing, call the tool itself.",
        )
    return call


def _latest(named: str, calls: Sequence[InvocationCanister], offer: Offer) -> InvocationCanister | None:
    fitting = [one for one in calls if one.identifier == named]
    fitting = fitting or [one for one in calls if one.name == named and offer.named(named) is not None]
    return fitting[-1] if fitting else None


def _is_unknown(call: InvocationCanister, history: Sequence[Canister], offer: Offer) -> bool:
    same = {call.identifier}
    earlier: list[InvocationCanister] = []
    for canister in history:
        if isinstance(canister, InvocationCanister):
            invoker = offer.named(canister.name)
            argument = None if invoker is None else invoker.policy.again_argument
            if argument is not None and _latest(str(canister.arguments.get(argument)), earlier, offer) is call:
                same.add(canister.identifier)
            earlier.append(canister)
    errors = (one.error for one in history if isinstance(one, ResultCanister) and one.invocation_id in same)
    return any(error is not None and error.category == "outcome_unknown" for error in errors)


def _advice(calls: Iterable[InvocationCanister]) -> str:
    known = [f"{one.identifier} ({one.name})" for one in calls][-_LISTED:]
    return f"Calls: {', '.join(known)}." if known else "There was no call before this one."


_logger = logging.getLogger(__name__)


class Preparer:
    """Prepares calls under one set of rules."""

    def __init__(self, judge: Judge, reporter: Reporter) -> None:
        self._judge = judge
        self._reporter = reporter

    def prepare(self, invocation: InvocationCanister, offer: Offer, scope: Circumstances) -> Prepared | ResultCanister:
        """Resolves and validates a call, or returns the result that says why it cannot run."""
        refuse = self._reporter.refuse
        invoker = offer.named(invocation.name)
        if invoker is None:
            return refuse(invocation, offer.absence(invocation.name), scope)
        if invoker.hosted != "here":
            raise InputError(f"{invoker.identity} is run by the {invoker.hosted}, not here.")
        if invocation.fault is not None:
            return refuse(invocation, invocation.fault, scope, invoker)
        arguments: Mapping[str, Any] = invocation.arguments
        arguments = invoker.schema.complete(arguments)
        problems = invoker.schema.validate(arguments)
        if problems:
            coerced = invoker.schema.coerce(arguments)
            if coerced is arguments:
                return refuse(invocation, unfit(invoker, problems), scope, invoker)
            changed = (name for name in arguments if name not in coerced or coerced[name] != arguments[name])
            _logger.debug("Arguments of %s were coerced to its schema: %s", invoker.identity, ", ".join(changed))
            # The conversation keeps the arguments that were sent; the coerced ones are recorded, shown and run.
            arguments, invocation = coerced, dataclasses.replace(invocation, arguments=freeze(coerced))
        plain = thaw(arguments)
        verdict = self._judge.judge(invoker, plain, scope)
        if verdict.action == "deny":
            return refuse(invocation, denied(invoker, f"It is not allowed here ({verdict.reason})."), scope, invoker)
        if verdict.action == "run" and invocation.identifier in scope.answers:
            # It was asked about, and its answer counts, whatever has been allowed since.
            verdict = dataclasses.replace(verdict, action="ask")
        prepared = Prepared(
            invocation=invocation, invoker=invoker, arguments=plain, verdict=verdict, reader=offer.reader
        )
        indirect = invoker.policy.again_argument is not None
        indirect = indirect or (offer.helpers is not None and invoker is offer.helpers.call)
        return self._follow(prepared, offer, scope) if indirect else prepared

    def _follow(self, named: Prepared, offer: Offer, scope: Circumstances) -> Prepared | ResultCanister:
        """Prepares the call that another call names: an earlier one, or one of a tool found by tool search."""
        invoker, identifier = named.invoker, named.invocation.identifier
        try:
            if offer.helpers is not None and invoker is offer.helpers.call:
                call = resolve_call(named.invocation, named.arguments, offer.helpers)
            else:
                wanted = str(named.arguments.get(str(invoker.policy.again_argument)))
                call = find_earlier(wanted, scope.history, offer)
        except ToolFault as fault:
            return self._reporter.refuse(named.invocation, Fault.raised(fault), scope, invoker)
        prepared = self.prepare(dataclasses.replace(call, identifier=identifier), offer, scope)
        if isinstance(prepared, Prepared) and named.verdict.action == "ask":
            prepared.verdict = dataclasses.replace(named.verdict, waivable=False)
        return prepared
