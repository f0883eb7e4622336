"""Generated runs: answers of the model, deeds of the tools, faults, limits, and ways to use and leave a run."""

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine
from typing import Any, Literal, get_args

from hypothesis import strategies as st

from ripieno.canisters.controls import Finish, Limits
from ripieno.ensembles import Context
from ripieno.exceptions import FatalFault, ProviderRefusal, ProviderUnreachable, ResourceFault, WireInvalidity
from tests.support.scripted_models import Step


class Mute(Exception):
    """An error that cannot even be printed."""

    def __str__(self) -> str:
        raise ValueError

    __repr__ = __str__


async def _slowly(context: Context) -> object:
    for step in range(3):
        context.progress(step, 3)
        await asyncio.sleep(0.3)
    return {"slowly": [1, None]}


async def _hang(context: Context) -> object:
    await asyncio.Event().wait()
    return "never"


async def _stubborn(context: Context) -> object:
    """Takes one cancellation, and ends with the second."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.Event().wait()
    return "never"


async def _late(context: Context) -> object:
    """Has a value after all when it is cancelled."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return "late"
    return "never"


async def _clean_up(context: Context) -> object:
    try:
        await asyncio.sleep(0.5)
    finally:
        await asyncio.sleep(1.5)
    return "clean"


async def _fail_when_cancelled(context: Context) -> object:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        raise ConnectionError("interrupted") from None
    return "never"


async def _cancel_itself(context: Context) -> object:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)
    return "never"


def _raising(make: Callable[[], BaseException]) -> Callable[[Context], Coroutine[Any, Any, object]]:
    async def fail(context: Context) -> object:
        await asyncio.sleep(0)
        raise make()

    return fail


def _returning(value: object) -> Callable[[Context], Coroutine[Any, Any, object]]:
    async def give(context: Context) -> object:
        return value

    return give


DEEDS: dict[str, Callable[[Context], Coroutine[Any, Any, object]]] = {
    "value": _returning("done"),
    "slowly": _slowly,
    "hang": _hang,
    "stubborn": _stubborn,
    "late": _late,
    "clean up": _clean_up,
    "fail when cancelled": _fail_when_cancelled,
    "cancel itself": _cancel_itself,
    "fault": _raising(lambda: ResourceFault("There is no x.", details={"set": {1}})),
    "fatal": _raising(lambda: FatalFault("The disk is gone.")),
    "bug": _raising(lambda: KeyError("x")),
    "exit": _raising(lambda: SystemExit(1)),
    "interrupt": _raising(KeyboardInterrupt),
    "cancelled": _raising(asyncio.CancelledError),
    "stop": _raising(StopAsyncIteration),
    "hostile": _raising(lambda: ResourceFault("Look.", details={"here": Mute(), "set": {1}})),
    "mute": _raising(Mute),
    "group": _raising(lambda: BaseExceptionGroup("many", [SystemExit(1)])),
    "nonsense": _returning(object()),
    "half": _returning("\udcff" * 3),
    "nothing": _returning(None),
}
#: Deeds that mostly succeed are more frequent, so that runs go on.
DOES = st.sampled_from([*DEEDS, *["value"] * 12, *["slowly"] * 4, *["fault"] * 3])
LATER = ("later", "later", "later")
ANSWERS = ("approve", "deny", "edit", "edit badly", "raise", "cancel", "hang", "say nothing", "hesitate", *LATER)
TOOLS = ("think", "read", "write", "erase", "careful", "report", "submit", "forbidden", "ask", "unknown")
OURS = frozenset(TOOLS) - {"ask"}


@dataclasses.dataclass(frozen=True)
class Ask:
    """A call as it is generated; it gets its identifier when it is played."""

    tool: str
    arguments: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Said:
    """An answer of the model: calls and pauses in order, how it ends, and what goes wrong where."""

    steps: list[Ask | float]
    finish: Finish
    fault: str | None
    at: int


arguments = st.one_of(
    st.fixed_dictionaries({"does": DOES}, optional={"answer": st.sampled_from(ANSWERS)}),
    st.fixed_dictionaries({"does": DOES}),
    st.fixed_dictionaries({"does": st.sampled_from(sorted(DEEDS))}),
    st.sampled_from([{"does": "value"}, {}, {"does": 5}, {"does": "value", "colour": "red"}]),
)
asks = st.builds(Ask, tool=st.sampled_from([*TOOLS, *["read"] * 6, *["write"] * 3]), arguments=arguments)
FAULTS: dict[str, Callable[[], Step]] = {
    "unreachable": lambda: ProviderUnreachable("p", "gone"),
    "refusal": lambda: ProviderRefusal("p", "no", status=500),
    "nonsense": lambda: WireInvalidity("p", "what?"),
    "bug": lambda: KeyError("x"),
    "time-out": lambda: TimeoutError("the socket's own"),
    "cancelled": asyncio.CancelledError,
    "hang": lambda: asyncio.Event().wait,
}
steps = st.lists(asks | asks | st.sampled_from([0.0, 0.1, 5.0]), min_size=1, max_size=6)
finishes: st.SearchStrategy[Finish] = st.sampled_from(["invocations"] * 8 + ["stop", "length", "filter"])  # type: ignore[list-item]
answers = st.one_of(
    st.builds(Said, steps=steps, finish=st.just("invocations"), fault=st.none(), at=st.just(0)),
    st.builds(Said, steps=steps, finish=st.just("invocations"), fault=st.none(), at=st.just(0)),
    st.builds(
        Said, steps=steps, finish=finishes, fault=st.none() | st.sampled_from([*FAULTS, "no end"]), at=st.integers(0, 6)
    ),
)
limits = st.one_of(
    st.just(Limits()),
    st.just(Limits(output=10)),
    st.just(Limits(turns=40, repeats=9)),
    st.builds(
        Limits,
        turns=st.sampled_from([20, 3, 1, 0]),
        calls=st.sampled_from([100, 3, 1, 0]),
        wall=st.sampled_from([600.0, 600.0, 0.0]),
        repeats=st.sampled_from([3, 1]),
    ),
)
Manner = Literal[
    "await", "iterate", "enter", "break", "raise", "leave", "cancel run", "cancel consumer", "cancel often"
]
manners = st.sampled_from(["await", "iterate", *get_args(Manner)])
#: Seconds, then rounds of the loop: enough to hit every await between them.
instants = st.tuples(st.sampled_from([0.0, 0.0, 0.1, 0.35, 5.05, 10.0, 11.0, 61.0]), st.integers(0, 40))
