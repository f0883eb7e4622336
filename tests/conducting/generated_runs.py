"""What happens in generated runs: what the model says, what goes wrong, and how the run is used and left."""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any, Literal

from hypothesis import strategies as st

from ripieno.canisters.controls import Finish, Limits
from ripieno.exceptions import ProviderRefusal, ProviderUnreachable, WireInvalidity
from tests.conducting.faulty_tools import DEEDS
from tests.support.scripted_models import Step

#: What mostly goes well comes more often, so that runs get anywhere.
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
        Said,
        steps=steps,
        finish=finishes,
        fault=st.none() | st.sampled_from([*FAULTS, "no end"]),
        at=st.integers(0, 6),
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
manners = st.sampled_from(
    [
        "await",
        "await",
        "iterate",
        "iterate",
        "enter",
        "break",
        "raise",
        "leave",
        "cancel run",
        "cancel consumer",
        "cancel often",
    ]
)
#: Seconds, then rounds of the loop: enough to hit every await between them.
instants = st.tuples(st.sampled_from([0.0, 0.0, 0.1, 0.35, 5.05, 10.0, 11.0, 61.0]), st.integers(0, 40))
