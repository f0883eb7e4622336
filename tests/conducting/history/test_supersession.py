"""Stale results become notes only where that saves more than it costs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.canisters import (
    AssistantCanister,
    Canister,
    Controls,
    InvocationCanister,
    OpaqueContent,
    ResultCanister,
    TextualContent,
    UserCanister,
)
from ripieno.canisters.faults import Fault
from ripieno.conducting.history import HistoryView, Superseding, Supersession, chain, drop_oldest, supersede
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import InputError
from ripieno.jsonvalues import freeze
from ripieno.models.protocol import RESERVED
from ripieno.models.tokens import EstimatingTokenizer
from tests.conducting.history.reference_cuts import asks
from tests.support.scripted_models import ensemble, says, scripted, tool

FILES = Supersession.of({"read": ["read:{path}"], "write": ["read:{path}"], "list": ["list"]})
PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
LARGE = "line of a file\n" * 100
ESTIMATE = EstimatingTokenizer()


def call(number: int, name: str, text: str = "", error: Fault | None = None, **arguments: Any) -> list[Canister]:
    """A call and its result."""
    return [
        AssistantCanister(),
        InvocationCanister(identifier=f"c{number}", name=name, arguments=freeze(arguments)),
        ResultCanister(invocation_id=f"c{number}", content=(TextualContent(text=text),), error=error),
    ]


def notes(canisters: list[Canister], supersession: Supersession = FILES, **options: Any) -> list[str]:
    """The calls whose results have become notes."""
    shown = supersede(canisters, supersession, **options).canisters
    assert len(shown) == len(canisters)
    for old, new in zip(canisters, shown, strict=True):
        assert old is new or (isinstance(new, ResultCanister) and isinstance(old, ResultCanister))
    return [new.invocation_id for old, new in zip(canisters, shown, strict=True) if old is not new]  # type: ignore[union-attr]


BEGIN: list[Canister] = [UserCanister.of("Begin.")]


def test_a_result_is_stale_when_a_later_call_of_its_key_succeeds() -> None:
    read = [*BEGIN, *call(1, "read", LARGE, path="a")]
    assert notes(read) == []
    assert notes([*read, *call(2, "write", "ok", path="a")]) == ["c1"]
    assert notes([*read, *call(2, "read", LARGE, path="a")]) == ["c1"]
    assert notes([*read, *call(2, "write", "ok", path="b")]) == []
    failed = Fault(category="execution", message="No.")
    assert notes([*read, *call(2, "write", "", failed, path="a")]) == []
    assert notes([*read, *call(2, "write", "ok", other="a")]) == []
    assert notes([*read, *call(2, "unknown", "ok", path="a")]) == []
    assert notes([*BEGIN, *call(1, "list", LARGE), *call(2, "list", LARGE)]) == ["c1"]
    # Nobody may take out of a result what a provider wants back.
    sealed = OpaqueContent(protocol="p", kind="k", data=freeze({"text": LARGE}))
    kept = ResultCanister(invocation_id="c1", content=(sealed,))
    assert notes([*read[:-1], kept, *call(2, "write", "ok", path="a")]) == []
    # What is short stays.
    assert notes([*BEGIN, *call(1, "read", "x", path="a"), *call(2, "write", "ok", path="a")]) == []


def test_values_of_arguments_are_never_taken_for_two() -> None:
    pairs = Supersession.of({"get": ["get:{one}:{other}"]})
    first = call(1, "get", LARGE, one="a:b", other="c")
    assert notes([*BEGIN, *first, *call(2, "get", LARGE, one="a", other="b:c")], pairs) == []
    assert notes([*BEGIN, *first, *call(2, "get", LARGE, one="a:b", other="c")], pairs) == ["c1"]


def test_nothing_is_replaced_where_more_would_be_read_anew() -> None:
    between = call(2, "read", LARGE * 2, path="b")
    first = [*BEGIN, *call(1, "read", LARGE, path="a")]
    stale = [*first, *between, *call(3, "write", "ok", path="a")]
    assert notes(stale) == []
    assert notes(stale, weight=0.4) == ["c1"]
    assert notes(stale, weight=0) == ["c1"]
    # Another stale result after it makes up for it.
    assert notes([*stale, *call(4, "write", "ok", path="b")]) == ["c1", "c2"]
    # What was not sent yet costs nothing: both were calls of one answer.
    calls = [*call(2, "read", LARGE * 2, path="b"), *call(1, "read", LARGE, path="a"), *call(3, "write", path="b")]
    together: list[Canister] = [AssistantCanister()]
    together += [one for one in calls if isinstance(one, InvocationCanister)]
    together += [one for one in calls if isinstance(one, ResultCanister)]
    assert notes([*BEGIN, *together], weight=100) == ["c2"]
    with pytest.raises(InputError, match="weight"):
        supersede(stale, FILES, weight=-1)


@pytest.mark.parametrize("text", ["{path}", "read{path}", "read:{path", "", ":{path}"])
def test_a_key_that_names_no_tool_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        Supersession.of({"write": [text]})


def test_keys_of_an_ensemble_are_about_its_own_tools() -> None:
    tools = [tool(name, schema=PATH, supersedes=("read:{path}",)) for name in ("read", "write")]
    offer = Offer.of([ensemble(*tools, name=name, prefix=name) for name in ("here", "there")])
    (read, write), other = offer.names[:2], offer.names[3]
    supersession = Supersession.of_offer(offer)
    first = [*BEGIN, *call(1, read, LARGE, path="a")]
    assert notes([*first, *call(2, write, "ok", path="a")], supersession) == ["c1"]
    assert notes([*first, *call(2, other, "ok", path="a")], supersession) == []


@st.composite
def sessions(draw: st.DrawFn) -> list[Canister]:
    said: list[Canister] = list(BEGIN)
    for number in range(draw(st.integers(1, 25))):
        name = draw(st.sampled_from(["read", "read", "write", "look"]))
        text = "x" * draw(st.sampled_from([0, 50, 400, 2000, 9000]))
        failed = draw(st.integers(0, 5)) == 0
        fault = Fault(category="execution", message="No.") if failed else None
        said += call(number, name, text, fault, path=draw(st.sampled_from("abc")))
    return said


@given(canisters=sessions(), weight=st.sampled_from([0.0, 0.2, 1.0, 3.0]))
def test_each_break_saves_more_than_it_costs(canisters: list[Canister], weight: float) -> None:
    def tokens(canister: Canister) -> int:
        return ESTIMATE.count((canister,)).tokens

    before: tuple[Canister, ...] = ()
    breaks = 0
    for end in asks(canisters):
        shown = supersede(canisters[:end], FILES, weight=weight)
        pairs = list(zip(before, shown.canisters, strict=False))
        changed = [number for number, (old, new) in enumerate(pairs) if old != new]
        if changed:
            breaks += 1
            saved = sum(tokens(pairs[number][0]) - tokens(pairs[number][1]) for number in changed)
            anew = sum(tokens(new) for old, new in pairs[changed[0] :] if old == new)
            assert saved > weight * anew
        assert shown.cuts == breaks
        before = shown.canisters
    # What is known last of a path is never taken away.
    for path in "abc":
        calls = [one for one in canisters if isinstance(one, InvocationCanister) and one.arguments["path"] == path]
        reads = [one.identifier for one in calls if one.name == "read"]
        if reads and calls[-1].identifier == reads[-1]:
            assert reads[-1] not in notes(canisters, weight=weight)


@given(canisters=sessions(), later=st.integers(0, 25))
async def test_a_view_that_starts_late_shows_the_same(canisters: list[Canister], later: int) -> None:
    read, write = (tool(name, schema=PATH, supersedes=("read:{path}",)) for name in ("read", "write"))
    look = tool("look", schema=PATH)
    whole, without = (Offer.of([ensemble(*tools)]) for tools in ((read, write, look), (read, look)))
    memory: dict[object, Any] = {}
    model = scripted(says())
    view = HistoryView(None, model=model, controls=Controls(), memory=memory, alert=lambda _: None)
    for number, end in enumerate(asks(canisters)):
        offer = without if number < later else whole
        shown = await view.show(tuple(canisters[:end]), offer=offer)
        expected = supersede(canisters[:end], Supersession.of_offer(offer)).canisters
        assert shown.canisters == expected == view.latest(tuple(canisters[:end]))
        if expected != tuple(canisters[:end]):
            calls = {one.identifier for one in canisters[:end] if isinstance(one, InvocationCanister)}
            assert calls == memory[RESERVED]


async def test_in_a_chain_fewer_exchanges_are_left_out() -> None:
    canisters = [*BEGIN]
    for number in range(40):
        canisters += call(number, "read", LARGE, path="a")
    alone = drop_oldest(5000)
    both = chain(Superseding(supersession=FILES), alone)
    memory: dict[object, Any] = {}
    shown, cut = await both.show(canisters, memory=memory), await alone.show(canisters)
    assert cut.left_out > 40
    assert shown.left_out == 0
    # Notes are the same objects each time: a protocol has encoded them already.
    again = await both.show(canisters, memory=memory)
    assert all(one is other for one, other in zip(shown.canisters, again.canisters, strict=True))
