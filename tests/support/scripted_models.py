"""Models, tools, recorders and confirmers that a test controls step by step."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ripieno.approvals import Approve, ConfirmationRequest
from ripieno.canisters import Canister, Controls, InvocationCanister, ResultCanister, TextualContent
from ripieno.canisters.controls import Finish
from ripieno.canisters.conversation import NO_USAGE, Usage
from ripieno.canisters.events import Alert, ContentSealed, Event, InvocationSealed, TextDelta, TurnBegan, TurnEnded
from ripieno.canisters.faults import Fault
from ripieno.descriptors import Policy, RetryPolicy
from ripieno.ensembles import Definition, Ensemble, Invocable, Surroundings
from ripieno.ensembles.offers import Offer
from ripieno.jsonvalues import freeze
from ripieno.models import Model
from ripieno.schemas import Schema
from ripieno.storage.records import Record
from ripieno.testing import turn
from ripieno.testing.wires import model_of

#: A step of a scripted turn: an event is emitted, an error is raised, anything else is called and awaited.
Step = Event | BaseException | Callable[[], Awaitable[object] | object]


class Scripted(Model, kw_only=True):
    """A model of given steps, turn after turn. ``asked`` has its requests."""

    turns: tuple[tuple[Step, ...], ...]
    asked: list[tuple[tuple[Canister, ...], Offer, Controls]] = msgspec.field(default_factory=list)
    closed: list[int] = msgspec.field(default_factory=list)

    async def batches(
        self,
        canisters: Sequence[Canister],
        *,
        ensembles: Sequence[Ensemble] | Offer = (),
        controls: Controls | None = None,
        memory: dict[object, Any] | None = None,
        deltas: bool = True,
    ) -> AsyncGenerator[Iterable[Event], None]:
        offer = ensembles if isinstance(ensembles, Offer) else Offer.of(ensembles)
        number = len(self.asked)
        self.asked.append((tuple(canisters), offer, controls or Controls()))
        try:
            for step in self.turns[number % len(self.turns)]:
                if isinstance(step, BaseException):
                    raise step
                if callable(step):
                    done = step()
                    if isinstance(done, Awaitable):
                        await done
                    continue
                yield (step,)
        finally:
            self.closed.append(number)

    def left_out(self, canisters: Iterable[Canister]) -> Mapping[str, int]:
        return {}


def scripted(*turns: Iterable[Step]) -> Scripted:
    """A model of these turns, in a cycle."""
    return Scripted(
        provider=model_of([turn("unused")]).provider, name="scripted", turns=tuple(tuple(one) for one in turns)
    )


def says(text: str = "Done.", finish: Finish = "stop", usage: Usage = NO_USAGE) -> list[Step]:
    """A turn of one text."""
    return [
        TurnBegan(),
        TextDelta(text),
        ContentSealed(TextualContent(text=text)),
        TurnEnded(finish=finish, usage=usage),
    ]


def invokes(
    *invocations: InvocationCanister | Callable[[], Awaitable[object] | object],
    finish: Finish = "invocations",
    usage: Usage = NO_USAGE,
) -> list[Step]:
    """A turn of calls; functions among them are called between them."""
    steps: list[Step] = [TurnBegan()]
    for index, one in enumerate(invocations):
        steps.append(InvocationSealed(index=index, invocation=one) if isinstance(one, InvocationCanister) else one)
    return [*steps, TurnEnded(finish=finish, usage=usage)]


def invoke(name: str, identifier: str = "", **arguments: Any) -> InvocationCanister:
    """A call; its identifier is the tool's name unless it has one."""
    return InvocationCanister(identifier=identifier or name, name=name, arguments=freeze(arguments))


def tool(name: str, invocable: Invocable | None = None, *, schema: Any = None, **policy: Any) -> Definition:
    """A tool of effect ``read`` without retries, unless ``policy`` says otherwise. By default it returns its name."""

    async def say_name(context: Any, arguments: dict[str, Any]) -> str:
        return name

    hosted = policy.pop("hosted", "here")
    results = policy.pop("results", None)
    return Definition(
        name=name,
        schema=Schema.of(schema or {}),
        invocable=None if hosted != "here" else invocable or say_name,
        results=None if results is None else Schema.of_results(results),
        policy=Policy(**{"effect": "read", "retry": RetryPolicy(max_retries=0), **policy}),
        hosted=hosted,
    )


def ensemble(*definitions: Definition, name: str = "mine", **settings: Any) -> Ensemble:
    """An ensemble of these tools."""
    return Ensemble.of(name, definitions, **settings)


async def settle_down(rounds: int = 20) -> None:
    """Runs the event loop for some rounds."""
    for _ in range(rounds):
        await asyncio.sleep(0)


class Person:
    """A confirmer that gives these answers, one after the other, and keeps the requests."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[ConfirmationRequest] = []

    async def confirm(self, request: ConfirmationRequest) -> Any:
        self.requests.append(request)
        return self.answers.pop(0)


class Hesitating:
    """A confirmer that waits for ``go`` before it approves."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.go = asyncio.Event()

    async def confirm(self, request: ConfirmationRequest) -> Approve:
        self.began.set()
        await self.go.wait()
        return Approve()


class Listening:
    """Surroundings that keep their alerts."""

    def __init__(self, tmp: Any = None) -> None:
        self.alerts: list[Alert] = []
        unused: Any = None
        self.surroundings = Surroundings(workspace=tmp, spawner=unused, secrets={}, alert=self.alerts.append)

    @property
    def messages(self) -> list[str]:
        """The texts of the alerts."""
        return [alert.message for alert in self.alerts]


class Recording:
    """A recorder that keeps all records, and fails for some."""

    #: Whether it is called in a thread.
    remote = False

    def __init__(self, fails: Callable[[Record], bool] = lambda record: False) -> None:
        self.records: list[Record] = []
        self._fails = fails

    def record(self, records: Sequence[Record]) -> None:
        for record in records:
            if self._fails(record):
                raise OSError(28, "No space left on device")
            self.records.append(record)

    @property
    def stages(self) -> list[tuple[str, str]]:
        """Stage and tool of each record."""
        return [(record.stage, record.tool) for record in self.records]


class Blocking:
    """A tool that waits for ``go``, and counts its running calls."""

    def __init__(self, *, stubborn: bool = False, value: object = "late") -> None:
        self.go = asyncio.Event()
        self.began = asyncio.Event()
        self.ended = asyncio.Event()
        self.running = 0
        self.cancellations = 0
        self._stubborn = stubborn
        self._value = value

    async def __call__(self, context: Any, arguments: dict[str, Any]) -> object:
        self.running += 1
        self.began.set()
        try:
            while not self.go.is_set():
                try:
                    await self.go.wait()
                except asyncio.CancelledError:
                    self.cancellations += 1
                    if not self._stubborn:
                        raise
            return self._value
        finally:
            self.running -= 1
            self.ended.set()


def results_of(canisters: Iterable[Canister]) -> list[ResultCanister]:
    """The results among canisters."""
    return [one for one in canisters if isinstance(one, ResultCanister)]


def fault_of(result: ResultCanister) -> Fault:
    """The fault of a result that has one."""
    assert result.error is not None
    return result.error


def fates(canisters: Iterable[Canister]) -> list[tuple[str, str]]:
    """The result of each call: its identifier, and its text or the category of its fault."""
    return [
        (one.invocation_id, one.text if one.error is None else f"!{one.error.category}")
        for one in results_of(canisters)
    ]
