"""Resolves, validates and judges a call: what makes it ready, or the result that says why it cannot run."""

import dataclasses
import logging
from collections.abc import Mapping
from typing import Any

from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.canisters.faults import Fault
from ripieno.ensembles.offers import Offer
from ripieno.ensembles.tool_search import meant
from ripieno.exceptions import InputError, ToolFault
from ripieno.execution.circumstances import Circumstances, Prepared
from ripieno.execution.judging import Judge
from ripieno.execution.refusals import denied, unfit
from ripieno.execution.reporting import Reporter
from ripieno.jsonvalues import freeze, thaw
from ripieno.repeating import find_earlier

_logger = logging.getLogger(__name__)


class Preparer:
    """Makes calls ready, under one set of rules."""

    def __init__(self, judge: Judge, reporter: Reporter) -> None:
        self._judge = judge
        self._reporter = reporter

    def prepare(self, invocation: InvocationCanister, offer: Offer, around: Circumstances) -> Prepared | ResultCanister:
        """Resolves and validates a call, or gives the result that says why it cannot run."""
        refuse = self._reporter.refuse
        invoker = offer.named(invocation.name)
        if invoker is None:
            return refuse(invocation, offer.absence(invocation.name), around)
        if invoker.hosted != "here":
            raise InputError(f"{invoker.identity} is run by the {invoker.hosted}, not here.")
        if invocation.fault is not None:
            return refuse(invocation, invocation.fault, around, invoker)
        arguments: Mapping[str, Any] = invocation.arguments
        arguments = invoker.schema.complete(arguments)
        problems = invoker.schema.validate(arguments)
        if problems:
            coerced = invoker.schema.coerce(arguments)
            if coerced is arguments:
                return refuse(invocation, unfit(invoker, problems), around, invoker)
            changed = (name for name in arguments if name not in coerced or coerced[name] != arguments[name])
            _logger.debug("Arguments of %s were coerced to its schema: %s", invoker.identity, ", ".join(changed))
            # What was sent stays in the conversation; what is recorded, shown and run is this.
            arguments, invocation = coerced, dataclasses.replace(invocation, arguments=freeze(coerced))
        plain = thaw(arguments)
        verdict = self._judge.judge(invoker, plain)
        if verdict.action == "deny":
            return refuse(invocation, denied(invoker, f"It is not allowed here ({verdict.reason})."), around, invoker)
        prepared = Prepared(
            invocation=invocation, invoker=invoker, arguments=plain, verdict=verdict, reader=offer.reader
        )
        stands = invoker.policy.again_argument is not None
        stands = stands or (offer.helpers is not None and invoker is offer.helpers.call)
        return self._meant(prepared, offer, around) if stands else prepared

    def _meant(self, named: Prepared, offer: Offer, around: Circumstances) -> Prepared | ResultCanister:
        """The call that another one stands for, as if it were made now: an earlier one, or one of a deferred tool."""
        invoker, identifier = named.invoker, named.invocation.identifier
        try:
            if offer.helpers is not None and invoker is offer.helpers.call:
                call = meant(named.invocation, named.arguments, offer.helpers)
            else:
                wanted = str(named.arguments.get(str(invoker.policy.again_argument)))
                call = find_earlier(wanted, around.history, offer)
        except ToolFault as fault:
            return self._reporter.refuse(named.invocation, Fault.raised(fault), around, invoker)
        prepared = self.prepare(dataclasses.replace(call, identifier=identifier), offer, around)
        if isinstance(prepared, Prepared) and named.verdict.action == "ask":
            prepared.verdict = dataclasses.replace(named.verdict, waivable=False)
        return prepared
