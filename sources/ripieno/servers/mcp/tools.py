"""Tells clients that the list of tools has changed: subscribers of 2026-07-28, and every peer of the handshake era.

Invokers as tools of the protocol: name, description, schemas, and hints about their effect.

The tools that are offered now: taken from the ensembles, and taken anew when one of them has changed.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from mcp.server import ServerRequestContext
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ServerEvent,
    ToolsListChanged,
)
from mcp_types import NotificationParams, Tool, ToolAnnotations

from ripieno.canisters.events import Alert
from ripieno.descriptors import Policy
from ripieno.ensembles import Ensemble, Invoker
from ripieno.ensembles.offers import Offer
from ripieno.jsonvalues import thaw


def describe(invoker: Invoker, *, modern: bool) -> Tool:
    """The tool that a client sees. ``modern``: of 2026-07-28 and later, where results may have any schema."""
    return Tool(
        name=invoker.exposed,
        description=invoker.description or None,
        input_schema=thaw(invoker.arguments_schema),
        output_schema=output_schema(invoker, modern=modern),
        annotations=_hints(invoker.policy),
    )


def output_schema(invoker: Invoker, *, modern: bool) -> dict[str, Any] | None:
    """The schema of structured results; the handshake era knows only objects."""
    schema = invoker.results_schema
    if schema is None or not (modern or schema.get("type") == "object"):
        return None
    thawed: dict[str, Any] = thaw(schema)
    return thawed


def _hints(policy: Policy) -> ToolAnnotations:
    """What the policy knows. ``write`` says nothing of destruction: what is not declared counts as a write.

    A hint that is missing is read as the dangerous one (specification, ``ToolAnnotations``).
    """
    if policy.harmless:
        # What only looks at its arguments meets nobody; what reads may read anything.
        closed = False if policy.effect == "none" else None
        return ToolAnnotations(
            read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=closed
        )
    return ToolAnnotations(
        read_only_hint=False,
        destructive_hint=True if policy.effect == "destructive" else None,
        idempotent_hint=policy.idempotent,
    )


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
    # A client has its own ways with many tools: nothing is searchable.
    return Offer(invoker for invoker in offer.everything if invoker.hosted == "here")


class Changes:
    """Watches a listing while it is entered, and tells all who want to know. ``listen`` serves subscriptions."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(self._bus)
        self._peers: set[int] = set()

    async def look(self) -> None:
        """Looks at the ensembles now, and tells what has changed."""
        if self._listing.refresh():
            await self._bus.publish(ToolsListChanged())

    async def publish(self, event: ServerEvent) -> None:
        """Tells that something else has changed, which an application serves beside the tools."""
        await self._bus.publish(event)

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncGenerator[None, None]:
        """Looks whenever an ensemble has changed while it is entered, by however many connections."""
        changed = asyncio.Event()
        leave = self._listing.watch(changed.set)
        # What changed before is looked for at once.
        changed.set()
        watcher = asyncio.create_task(self._watch(changed), name="watch for changed tools")
        try:
            yield
        finally:
            leave()
            watcher.cancel()
            await asyncio.wait((watcher,))

    def close(self) -> None:
        """Ends the subscriptions, each with its last message."""
        self.listen.close()

    async def _watch(self, changed: asyncio.Event) -> None:
        while True:
            await changed.wait()
            changed.clear()
            await self.look()

    async def follow(self, context: ServerRequestContext[Any], params: NotificationParams) -> None:
        """Handles ``notifications/initialized``: tells this peer of changes, as long as its connection lasts.

        The connection's task group ends this. A peer that says it again is not told twice.
        """
        del params
        peer = context.session.client_params
        if peer is None or id(peer) in self._peers:
            return
        changed = asyncio.Event()
        waiting: set[ServerEvent] = set()

        def note(event: ServerEvent) -> None:
            waiting.add(event)
            changed.set()

        leave = self._bus.subscribe(note)
        self._peers.add(id(peer))
        try:
            while True:
                await changed.wait()
                changed.clear()
                told = {type(event) for event in waiting}
                waiting.clear()
                if ToolsListChanged in told:
                    await context.session.send_tool_list_changed()
                if PromptsListChanged in told:
                    await context.session.send_prompt_list_changed()
                if ResourcesListChanged in told:
                    await context.session.send_resource_list_changed()
        finally:
            self._peers.discard(id(peer))
            leave()
