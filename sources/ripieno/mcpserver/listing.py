"""The tools that are offered now: taken from the ensembles, and taken anew when one of them has changed."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from mcp_types import Tool

from ripieno.canisters.events import Alert
from ripieno.ensembles import Ensemble, Invoker
from ripieno.ensembles.offers import Offer
from ripieno.jsonvalues import thaw
from ripieno.mcpserver.describing import describe


class Listing:
    """The offer of some ensembles, and the same as tools of the protocol, in its order.

    Tools that the application would have to run itself are left out: here is no application. So is a tool that
    comes later under a name which is taken; ``alert`` is told. Errors: ``ConfigurationInvalidity`` for such a clash
    at the start.
    """

    def __init__(self, ensembles: Sequence[Ensemble], alert: Callable[[Alert], None]) -> None:
        self._ensembles = tuple(ensembles)
        self._alert = alert
        self._revisions = self._look()
        self.offer = _hosted_here(Offer.of(self._ensembles))
        self._tools: dict[bool, list[Tool]] = {}

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """As ``Ensemble.watch``, for all of the ensembles."""
        with contextlib.ExitStack() as stack:
            for ensemble in self._ensembles:
                stack.callback(ensemble.watch(callback))
            return stack.pop_all().close

    def refresh(self) -> bool:
        """Whether something has changed since the last time; what is offered is new then."""
        revisions = self._look()
        if revisions == self._revisions:
            return False
        self._revisions = revisions
        self.offer = _hosted_here(Offer.of(self._ensembles, left_out=self._leave_out))
        self._tools.clear()
        return True

    def tools(self, *, modern: bool) -> list[Tool]:
        """What ``tools/list`` answers, for clients of an era."""
        if modern not in self._tools:
            self._tools[modern] = [describe(invoker, modern=modern) for invoker in self.offer.invokers]
        return self._tools[modern]

    def input_schema(self, name: str) -> dict[str, Any] | None:
        """The schema of a tool's arguments; None where there is no such tool."""
        invoker = self.offer.named(name)
        return None if invoker is None else thaw(invoker.arguments_schema)

    def _look(self) -> tuple[int, ...]:
        return tuple(ensemble.revision for ensemble in self._ensembles)

    def _leave_out(self, newcomer: Invoker, holder: Invoker) -> None:
        message = f"The tool is left out: {holder.identity} is offered as {holder.exposed!r} already."
        self._alert(Alert(message=message, tool=newcomer.identity))


def _hosted_here(offer: Offer) -> Offer:
    # A client has its own ways with many tools: nothing is deferred.
    return Offer(invoker for invoker in offer.everything if invoker.hosted == "here")
