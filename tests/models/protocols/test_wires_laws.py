"""Laws over answers that nobody wrote down."""

import contextlib
import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.canisters import AssistantCanister, Canister, InvocationCanister, OpaqueContent, TextualContent
from ripieno.canisters.contents import text_of
from ripieno.canisters.controls import Finish
from ripieno.canisters.conversation import Usage
from ripieno.canisters.events import Event, InvocationBegan, InvocationSealed, TextDelta, TurnEnded, collect, play
from ripieno.exceptions import ProviderFailure
from ripieno.jsonvalues import encode, freeze
from ripieno.models import Protocol
from ripieno.models.protocol import Asked, Identifiers
from ripieno.models.protocols.openai_chat import PROTOCOL as CHAT
from tests.models.protocols.test_wires_golden import natives_of, paced, read, written
from tests.models.protocols.wire_strategies import OWN, foreign
from tests.support.golden_wires import ANSWERS, PROTOCOLS, carried
from tests.support.json_strategies import objects, texts
from tests.support.wire_requests import break_somewhere

both = pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=lambda protocol: protocol.name)


@both
@given(data=st.data())
def test_no_answer_breaks_a_client(protocol: Protocol, data: st.DataObject) -> None:
    """Golden events of which some are broken, doubled, lost or swapped become events, or an error of the family."""
    scenario = data.draw(st.sampled_from([one for one in ANSWERS if one.protocol is protocol and one.has("sse")]))
    natives: list[Any] = json.loads(json.dumps(natives_of([scenario.data("sse")])))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(natives) - 1))
        match data.draw(st.sampled_from(["break", "double", "lose", "swap"])):
            case "break":
                break_somewhere(data, natives[place])
            case "double":
                natives.insert(place, natives[place])
            case "lose" if len(natives) > 1:
                del natives[place]
            case _:
                natives[place], natives[0] = natives[0], natives[place]
    with contextlib.suppress(ProviderFailure):
        check_calls(read(protocol, natives))
    with contextlib.suppress(ProviderFailure):
        check_calls(protocol.decoder("house", Identifiers()).play(natives[0]))


def check_calls(events: Iterable[Event]) -> None:
    """Whatever came, each call is sealed once and in order, and no two have one identifier."""
    sealed = [event for event in events if isinstance(event, InvocationSealed)]
    assert [event.index for event in sealed] == list(range(len(sealed)))
    identifiers = [event.invocation.identifier for event in sealed]
    assert len(set(identifiers)) == len(identifiers)
    assert all(identifiers)


@st.composite
def answers(draw: st.DrawFn, protocol: Protocol) -> tuple[Canister, ...]:
    contents = st.lists(st.builds(TextualContent, text=texts.filter(bool)) | OWN[protocol.name] | foreign, max_size=3)
    canisters: list[Canister] = [AssistantCanister(content=tuple(draw(contents)))]
    for number in range(draw(st.integers(0, 4))):
        arguments = freeze(draw(objects))
        extras = draw(st.sampled_from([{}, {protocol.name: {"caller": {"type": "direct"}}}]))
        canisters.append(
            InvocationCanister(
                identifier=f"call_{number}",
                name=draw(st.sampled_from(["read_file", "tell_time"])),
                arguments=arguments,
                raw=encode(arguments).decode() if protocol is CHAT else None,
                opaque=freeze(extras),
            )
        )
        said = draw(contents)
        if said:
            canisters.append(AssistantCanister(content=tuple(said)))
    return tuple(canisters)


@both
@given(data=st.data())
def test_what_a_server_encodes_a_client_decodes(protocol: Protocol, data: st.DataObject) -> None:
    canisters = data.draw(answers(protocol))
    calls = any(isinstance(canister, InvocationCanister) for canister in canisters)
    finish: Finish = "invocations" if calls else data.draw(st.sampled_from(["stop", "length", "filter"]))
    usage = data.draw(st.builds(Usage, input_tokens=st.integers(9, 99), output_tokens=st.integers(0, 99)))
    events = list(play(canisters, finish=finish, usage=usage))
    deltas = data.draw(st.booleans())
    bytes_ = written(protocol, paced(events) if deltas else events)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(bytes_)), max_size=4)))
    chunks = [bytes_[one:other] for one, other in zip([0, *cuts], [*cuts, len(bytes_)], strict=True)]
    back = read(protocol, natives_of(chunks))
    mine = without_foreign(canisters)
    assert shape(carried(protocol, collect(back), deltas=deltas)) == shape(carried(protocol, mine, deltas=deltas))
    assert back[-1] == TurnEnded(finish=finish, usage=usage, reason=getattr(back[-1], "reason", None))
    whole = json.loads(protocol.encode(events, Asked(model="m")))
    back = list(protocol.decoder("house", Identifiers()).play(whole))
    assert shape(carried(protocol, collect(back), whole=True)) == shape(carried(protocol, mine, whole=True))


def without_foreign(canisters: Iterable[Canister]) -> tuple[Canister, ...]:
    """The canisters without what another protocol alone understands."""
    return tuple(
        AssistantCanister(
            content=tuple(
                one for one in canister.content if not (isinstance(one, OpaqueContent) and one.protocol == "elsewhere")
            )
        )
        if isinstance(canister, AssistantCanister)
        else canister
        for canister in canisters
    )


def shape(canisters: Iterable[Canister]) -> list[Any]:
    """What was said and called, in order: contents of a message that stand together are compared together."""
    row: list[Any] = []
    for canister in canisters:
        if isinstance(canister, InvocationCanister):
            row.append(canister)
        elif isinstance(canister, AssistantCanister):
            own = [one for one in canister.content if isinstance(one, OpaqueContent)]
            reasoning = [detail for one in own for detail in one.data.get("reasoning_details", ())]  # type: ignore[attr-defined]
            row.extend(reasoning or own)
            row.append(text_of(canister.content))
    return [one for one in row if one != ""]


@both
@given(text=texts.filter(bool), data=st.data())
def test_deltas_are_the_text(protocol: Protocol, text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(text) - 1)), max_size=3)))
    pieces = [text[one:other] for one, other in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    events: list[Event] = [TextDelta(piece) for piece in pieces if piece]
    bytes_ = written(protocol, [*events, *list(play([AssistantCanister.of(text)], finish="stop"))[1:]])
    back = read(protocol, natives_of([bytes_]))
    assert [event for event in back if isinstance(event, TextDelta)] == events
    assert text_of(collect(back)[0].content) == text  # type: ignore[union-attr]
    assert not [event for event in back if isinstance(event, InvocationBegan)]
