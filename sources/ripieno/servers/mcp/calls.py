"""One call of a client through the pipeline: validated, confirmed, limited, run, bounded and recorded as everywhere.

Calls that wait for what their clients say next: each is found again by a name that nobody can guess, once.
"""

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
from ripieno.servers.mcp.client import Client, UnaskedClient, can_fill_form, in_name_of

#: Reports of progress that may wait for a client that is slow to read; older ones are dropped.
PENDING = 64


class Performance:
    """One call of a client, from its first request to its result, over as many requests as that takes.

    It is a turn and a run of its own, with the limits of one.
    """

    def __init__(
        self, execution: Execution, offer: Offer, invoker: Invoker, arguments: Mapping[str, Any], client: Client
    ) -> None:
        self.invoker = invoker
        self.arguments = arguments
        self.client = client
        self._progress = _Progress(client)
        client.waits = self._progress.wake
        scope = Circumstances(conversation="mcp", turn=1, notify=self._progress.take, inquire=_inquire_of(client))
        self._turn = Turn(execution=execution, offer=offer, scope=scope, budget=Budget(execution.limits), patient=False)
        context = in_name_of(client)
        context.run(self._turn.seal, _invocation(invoker.exposed, arguments))
        # A task of its own: the SDK's cancel scopes cancel what they hold again and again until it ends.
        self._task = asyncio.create_task(self._turn.finish(), context=context)
        self._task.add_done_callback(lambda _: self._progress.wake())

    @property
    def done(self) -> bool:
        """Whether it has its result."""
        return self._task.done()

    async def proceed(self) -> ResultCanister | None:
        """Its result, whatever the tool does; None when it waits for what the client says next.

        Tells the client how far it is, where it wants to know. Cancelling this cancels the call, and is raised when
        that has its result, some seconds later at most.
        """
        try:
            while await self._progress.tell(final=self.done):
                if self.client.requests and not self.done:
                    return None
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.cancel()
            raise
        self._task.result()
        result = self._turn.entries[0].result
        assert result is not None  # The turn's law: a call that is hosted here has its result.
        return result

    async def cancel(self) -> None:
        """Cancels the call, and waits until it has its result."""
        if not self.done:
            self._task.cancel()
            await asyncio.wait((self._task,))


def _inquire_of(client: Client) -> Inquire:
    """What asks a person on the other side; where there is none to be asked, it says so."""
    names = itertools.count(1)

    async def inquire(text: str, schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if not can_fill_form(client, schema):
            raise NobodyAsked
        try:
            return await client.inquire(text, schema, f"question_{next(names)}")
        except UnaskedClient:
            return None

    return inquire


def refuse(execution: Execution, offer: Offer, name: str) -> str:
    """Records a call of a tool that is not there, and says what there is."""
    fault = offer.absence(name[:100])
    execution.refuse(_invocation(name[:100], {}), fault, Circumstances(conversation="mcp", turn=1))
    return f"Unknown tool: {name[:100]}. {fault.suggestion}"


def _invocation(name: str, arguments: Mapping[str, Any]) -> InvocationCanister:
    # A client counts its requests, and others do too: their numbers name nothing here.
    identifier = f"mcp_{uuid.uuid4().hex}"
    try:
        encode(arguments)
        return InvocationCanister(identifier=identifier, name=name, arguments=freeze(arguments))
    except JsonInvalidity as error:
        fault = Fault(category="validation", message=f"The arguments are not strict JSON: {error}")
        return InvocationCanister(identifier=identifier, name=name, fault=fault)


class _Progress:
    """Reports of one call on their way to its client: in order, growing, and only the latest of a flood."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._waiting: collections.deque[tuple[float, float | None, str | None]] = collections.deque(maxlen=PENDING)
        self._last = -math.inf
        self._woken = asyncio.Event()

    def take(self, event: Event) -> None:
        """Takes what happens to the call, whatever its tool made of it; never raises.

        Progress must grow with each report (specification, ``basic/utilities/progress``).
        """
        if not isinstance(event, ExecutionProgress) or not _is_number(event.done) or event.done <= self._last:
            return
        self._last = event.done
        total = event.total if _is_number(event.total) else None
        self._waiting.append((event.done, total, legible(str(event.message)) or None))
        self.wake()

    def wake(self) -> None:
        """Something is there to be told, or the call has ended."""
        self._woken.set()

    async def tell(self, *, final: bool) -> bool:
        """Tells what there is, after waiting for it unless this is the last time; whether there may be more."""
        if not final:
            await self._woken.wait()
            self._woken.clear()
        while self._waiting:
            await self._client.report(*self._waiting.popleft())
        return not final


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


#: Calls that may wait at the same time; the tools of more are told that nobody answers.
CAPACITY = 64


class Parking:
    """The calls that wait. One that ends meanwhile keeps its result for its client."""

    def __init__(self) -> None:
        self._waiting: dict[str, Performance] = {}

    @property
    def full(self) -> bool:
        """Whether no more calls may wait."""
        if len(self._waiting) >= CAPACITY:
            self._waiting = {state: one for state, one in self._waiting.items() if not one.done}
        return len(self._waiting) >= CAPACITY

    def put(self, performance: Performance) -> str:
        """Keeps a call; gives the state that its client sends back."""
        state = secrets.token_urlsafe(24)
        self._waiting[state] = performance
        return state

    def take(self, state: str, name: str, arguments: Mapping[str, Any]) -> Performance:
        """The call that waits under this state. Errors: ``MCPError`` where none does, or it was another call."""
        performance = self._waiting.get(state)
        if performance is None or performance.invoker.exposed != name or performance.arguments != arguments:
            raise MCPError(
                code=INVALID_PARAMS,
                message="No call waits with this requestState: it was changed, used before, or it belongs to another "
                "call. Call the tool again without it.",
                data={"reason": "invalid_request_state"},
            )
        del self._waiting[state]
        return performance

    async def clear(self) -> None:
        """Cancels all calls that wait."""
        waiting, self._waiting = self._waiting, {}
        await asyncio.gather(*(one.cancel() for one in waiting.values()))
