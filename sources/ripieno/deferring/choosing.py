"""Which tools are deferred: those that say so, and, where there are more than a number of them, all that may be."""

from collections.abc import Iterable, Sequence

from ripieno.ensembles import Ensemble, Invoker


def choose_deferred(invokers: Sequence[Invoker], ensembles: Iterable[Ensemble]) -> frozenset[str]:
    """The exposed names of the tools that are not sent.

    Only what is run here can be deferred. Where more than ``defer_over`` tools would be sent, each is deferred that
    does not say ``deferred = false``; those that may end a run are always sent.
    """
    here = [one for one in invokers if one.hosted == "here"]
    deferred = {one.exposed for one in here if one.policy.deferred}
    over = _over(ensembles)
    if over is not None and len(invokers) - len(deferred) > over:
        deferred.update(one.exposed for one in here if one.policy.deferred is None and not one.policy.terminal)
    return frozenset(deferred)


def _over(ensembles: Iterable[Ensemble]) -> int | None:
    """How many tools may be sent before they are deferred, as the application of these ensembles has it."""
    lent = (one.surroundings.defer_over for one in ensembles if one.surroundings is not None)
    return min((number for number in lent if number is not None), default=None)
