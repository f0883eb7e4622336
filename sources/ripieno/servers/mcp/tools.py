"""The list of offered tools in the protocol's form, and notifications when it changes."""

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
    """The tool for a client. ``modern``: for 2026-07-28 and later, where results may have any schema."""
    return Tool(
        name=invoker.exposed,
        description=invoker.description or None,
        input_schema=thaw(invoker.arguments_schema),
        output_schema=output_schema(invoker, modern=modern),
        annotations=_hints(invoker.policy),
    )


def output_schema(invoker: Invoker, *, modern: bool) -> dict[str, Any] | None:
    """The schema of structured results. The handshake era supports only objects."""
    schema = invoker.results_schema
    if schema is None or not (modern or schema.get("type") == "object"):
        return None
    thawed: dict[str, Any] = thaw(schema)
    return thawed


def _hints(policy: Policy) -> ToolAnnotations:
    """The hints from the policy. ``write`` leaves destructiveness open, because it is the default effect.

    A missing hint means the dangerous value (specification, ``ToolAnnotations``).
    """
    if policy.harmless:
        # A tool without effects stays in a closed world; one that reads may read anything.
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

    Omits tools that the application would have to run, and later tools with a name in use, which cause an ``alert``.
    Errors: ``ConfigurationInvalidity`` for such a conflict at the start.
    """

    def __init__(self, ensembles: Sequence[Ensemble], alert: Callable[[Alert], None]) -> None:
        self._ensembles = tuple(ensembles)
        self._alert = alert
        self._revisions = self._read_revisions()
        self.offer = _hosted_here(Offer.of(self._ensembles))
        self._tools: dict[bool, list[Tool]] = {}

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Like ``Ensemble.watch``, for all ensembles."""
        with contextlib.ExitStack() as stack:
            for ensemble in self._ensembles:
                stack.callback(ensemble.watch(callback))
            return stack.pop_all().close

    def refresh(self) -> bool:
        """Updates the offer if an ensemble has changed. Returns whether one has."""
        revisions = self._read_revisions()
        if revisions == self._revisions:
            return False
        self._revisions = revisions
        self.offer = _hosted_here(Offer.of(self._ensembles, left_out=self._leave_out))
        self._tools.clear()
        return True

    def tools(self, *, modern: bool) -> list[Tool]:
        """The answer to ``tools/list``, for clients of an era."""
        if modern not in self._tools:
            self._tools[modern] = [describe(invoker, modern=modern) for invoker in self.offer.invokers]
        return self._tools[modern]

    def input_schema(self, name: str) -> dict[str, Any] | None:
        """The schema of a tool's arguments; None for an unknown tool."""
        invoker = self.offer.named(name)
        return None if invoker is None else thaw(invoker.arguments_schema)

    def _read_revisions(self) -> tuple[int, ...]:
        return tuple(ensemble.revision for ensemble in self._ensembles)

    def _leave_out(self, newcomer: Invoker, holder: Invoker) -> None:
        message = f"The tool is not offered: {holder.identity} already has the name {holder.exposed!r}."
        self._alert(Alert(message=message, tool=newcomer.identity))


def _hosted_here(offer: Offer) -> Offer:
    # Clients handle many tools themselves: no tool search.
    return Offer(invoker for invoker in offer.everything if invoker.hosted == "here")


class Changes:
    """Watches a listing, and notifies clients of changes. ``listen`` serves subscriptions."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(self._bus)
        self._peers: set[int] = set()

    async def look(self) -> None:
        """Checks the ensembles now, and publishes changes."""
        if self._listing.refresh():
            await self._bus.publish(ToolsListChanged())

    async def publish(self, event: ServerEvent) -> None:
        """Publishes another change, for an application that serves more than tools."""
        await self._bus.publish(event)

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncGenerator[None, None]:
        """Publishes changes for the duration of the block, for any number of connections."""
        changed = asyncio.Event()
        leave = self._listing.watch(changed.set)
        # Checks at once for earlier changes.
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
        """Handles ``notifications/initialized``: notifies this peer of changes until its connection ends.

        The connection's task group ends this. A repeated notification has no effect.
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
                kinds = {type(event) for event in waiting}
                waiting.clear()
                if ToolsListChanged in kinds:
                    await context.session.send_tool_list_changed()
                if PromptsListChanged in kinds:
                    await context.session.send_prompt_list_changed()
                if ResourcesListChanged in kinds:
                    await context.session.send_resource_list_changed()
        finally:
            self._peers.discard(id(peer))
            leave()
