"""Calls of MCP clients: each runs through the pipeline, and may wait for further input from its client."""

import asyncio
import collections
import itertools
import math
import secrets
import uuid
from collections.abc import Mapping
from typing import Any

import anyio
from mcp import MCPError
from mcp_types import INVALID_PARAMS

from ripieno.approvals.questions import Inquire, NobodyAsked
from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.canisters.contents import legible
from ripieno.canisters.events import Event, ExecutionProgress
from ripieno.canisters.faults import Fault
from ripieno.ensembles import Invoker
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import JsonInvalidity
from ripieno.execution import Circumstances, Execution
from ripieno.execution.budget import Budget
from ripieno.execution.scheduling.turn import Turn
from ripieno.jsonvalues import encode, freeze
from ripieno.servers.mcp.client import Client, UnaskedClient, can_fill_form, context_of

#: The maximum number of unsent progress reports for a slow client; older ones are dropped.
PENDING = 64


class Performance:
    """One call of a client, from its first request to its result, over any number of requests.

    It is its own turn and run, with the limits of one. All calls of a connection are recorded in one ``conversation``.
    """

    def __init__(
        self,
        execution: Execution,
        offer: Offer,
        invoker: Invoker,
        arguments: Mapping[str, Any],
        client: Client,
        *,
        conversation: str,
    ) -> None:
        self.invoker = invoker
        self.arguments = arguments
        self.client = client
        self._progress = _Progress(client)
        client.waits = self._progress.wake
        scope = Circumstances(
            owner=client.owner,
            conversation=conversation,
            turn=1,
            notify=self._progress.take,
            inquire=_inquire_of(client),
        )
        self._turn = Turn(execution=execution, offer=offer, scope=scope, budget=Budget(execution.limits), patient=False)
        context = context_of(client)
        context.run(self._turn.seal, _invocation(invoker.exposed, arguments))
        # In its own task, because the SDK's cancel scopes cancel their content repeatedly until it ends.
        self._task = asyncio.create_task(self._turn.finish(), context=context)
        self._task.add_done_callback(lambda _: self._progress.wake())

    @property
    def done(self) -> bool:
        """Whether the result is available."""
        return self._task.done()

    async def proceed(self) -> ResultCanister | None:
        """The result, or None if it waits for further input from the client. Reports progress meanwhile.

        Cancelling this cancels the call, and is raised when the call has its result, some seconds later at most.
        """
        try:
            while await self._progress.send(final=self.done):
                if self.client.requests and not self.done:
                    return None
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.cancel()
            raise
        self._task.result()
        result = self._turn.entries[0].result
        assert result is not None  # A call that is hosted here always has a result.
        return result

    async def cancel(self) -> None:
        """Cancels the call, and waits for its result."""
        if not self.done:
            self._task.cancel()
            await asyncio.wait((self._task,))


def _inquire_of(client: Client) -> Inquire:
    """The function that asks the client's user; raises ``NobodyAsked`` if the client supports no forms."""
    names = itertools.count(1)

    async def inquire(text: str, schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if not can_fill_form(client, schema):
            raise NobodyAsked
        try:
            return await client.inquire(text, schema, f"question_{next(names)}")
        except UnaskedClient:
            return None

    return inquire


def refuse(execution: Execution, offer: Offer, name: str, client: Client, conversation: str) -> str:
    """Records a call of an unknown tool, and returns the error message with the known ones."""
    fault = offer.absence(name[:100])
    scope = Circumstances(owner=client.owner, conversation=conversation, turn=1)
    execution.reporter.refuse(_invocation(name[:100], {}), fault, scope)
    return f"Unknown tool: {name[:100]}. {fault.suggestion}"


def _invocation(name: str, arguments: Mapping[str, Any]) -> InvocationCanister:
    # The request numbers of clients are not unique here.
    identifier = f"mcp_{uuid.uuid4().hex}"
    try:
        encode(arguments)
        return InvocationCanister(identifier=identifier, name=name, arguments=freeze(arguments))
    except JsonInvalidity as error:
        fault = Fault(category="validation", message=f"The arguments are not strict JSON: {error}")
        return InvocationCanister(identifier=identifier, name=name, fault=fault)


class _Progress:
    """The progress reports of one call: in order, growing, and only the latest of many."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._waiting: collections.deque[tuple[float, float | None, str | None]] = collections.deque(maxlen=PENDING)
        self._last = -math.inf
        self._woken = asyncio.Event()

    def take(self, event: Event) -> None:
        """Accepts any event of the call; never raises.

        Progress must grow with each report (specification, ``basic/utilities/progress``).
        """
        if not isinstance(event, ExecutionProgress) or not _is_number(event.done) or event.done <= self._last:
            return
        self._last = event.done
        total = event.total if _is_number(event.total) else None
        self._waiting.append((event.done, total, legible(str(event.message)) or None))
        self.wake()

    def wake(self) -> None:
        """Wakes ``send``: there is a report, or the call has ended."""
        self._woken.set()

    async def send(self, *, final: bool) -> bool:
        """Sends the reports, after waiting for one unless ``final``. Returns whether more may follow."""
        if not final:
            await self._woken.wait()
            self._woken.clear()
        while self._waiting:
            await self._client.report(*self._waiting.popleft())
        return not final


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


#: The maximum number of waiting calls. The tools of further calls get an error instead of an answer.
CAPACITY = 64


class Parking:
    """The waiting calls. A call that ends meanwhile keeps its result for its client."""

    def __init__(self) -> None:
        self._waiting: dict[str, Performance] = {}

    @property
    def full(self) -> bool:
        """Whether no more calls may wait."""
        if len(self._waiting) >= CAPACITY:
            self._waiting = {state: one for state, one in self._waiting.items() if not one.done}
        return len(self._waiting) >= CAPACITY

    def put(self, performance: Performance) -> str:
        """Stores a call. Returns the unguessable state that its client sends back."""
        state = secrets.token_urlsafe(24)
        self._waiting[state] = performance
        return state

    def take(self, state: str, name: str, arguments: Mapping[str, Any]) -> Performance:
        """Removes the call with this state. Errors: ``MCPError`` if there is none, or it is another call."""
        performance = self._waiting.get(state)
        if performance is None or performance.invoker.exposed != name or performance.arguments != arguments:
            raise MCPError(
                code=INVALID_PARAMS,
                message="No call waits with this requestState: it was changed, used, or belongs to another call. "
                "Call the tool again without it.",
                data={"reason": "invalid_request_state"},
            )
        del self._waiting[state]
        return performance

    async def clear(self) -> None:
        """Cancels all waiting calls."""
        waiting, self._waiting = self._waiting, {}
        await asyncio.gather(*(one.cancel() for one in waiting.values()))
