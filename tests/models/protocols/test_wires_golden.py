"""Every golden scenario of every wire: streamed and whole, as a client reads it and as our server writes it."""

import functools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from ripieno import exceptions
from ripieno.canisters import InvocationCanister, OpaqueContent, TextualContent, UserCanister
from ripieno.canisters.events import (
    ArgumentsDelta,
    ContentSealed,
    Event,
    InvocationBegan,
    InvocationSealed,
    ReasoningDelta,
    TextDelta,
    TurnBegan,
    TurnEnded,
    collect,
    play,
)
from ripieno.models import Protocol
from ripieno.models.protocol import Asked, Identifiers, Native, Refusal
from ripieno.models.reasoning import reasoning_in
from ripieno.models.transport.sse import Splitter
from tests.counts import ATTACK
from tests.support.golden_wires import (
    ANSWERS,
    CANISTER_KEYS,
    PROTOCOLS,
    REQUESTS,
    Scenario,
    addressed,
    carried,
    load,
    messages_in,
    named,
    revive,
    usage_in,
)
from tests.support.wire_requests import write

answers = pytest.mark.parametrize("scenario", ANSWERS, ids=named)
streams = pytest.mark.parametrize("scenario", [one for one in ANSWERS if one.has("sse")], ids=named)
wholes = pytest.mark.parametrize("scenario", [one for one in ANSWERS if one.has("json")], ids=named)
requests = pytest.mark.parametrize("scenario", REQUESTS, ids=named)


def natives_of(chunks: Iterable[bytes]) -> list[Native]:
    splitter = Splitter("house")
    natives = [native for chunk in chunks for native in splitter.feed(chunk)]
    return [*natives, *splitter.finish()]


def read(protocol: Protocol, natives: Iterable[Native], *, deltas: bool = True) -> list[Event]:
    decoder = protocol.decoder("house", Identifiers())
    decoder.deltas = deltas
    events = [event for native in natives for event in decoder.feed(native)]
    return [*events, *decoder.finish()]


def check(protocol: Protocol, expected: Any, attempt: Any) -> list[Event] | None:
    """Compares what an attempt at reading gives with what is expected. The events, where there is an answer."""
    if "error" in expected:
        with pytest.raises(getattr(exceptions, expected["error"]["class"])) as caught:
            attempt()
        assert expected["error"]["message"] in str(caught.value)
        assert "'house'" in str(caught.value)
        return None
    events: list[Event] = attempt()
    ended = events[-1]
    assert isinstance(ended, TurnEnded)
    assert collect(events) == revive(expected["canisters"])
    assert (ended.finish, ended.reason, ended.usage) == (expected["finish"], expected["reason"], usage_in(expected))
    return events


def test_all_wires_have_the_same_scenarios() -> None:
    names = {protocol: {scenario.name for scenario in load(protocol)} for protocol in PROTOCOLS}
    assert len(names["openai-chat"]) == 22
    assert all(found >= names["openai-chat"] for found in names.values())


def test_what_is_impossible_has_a_reason_and_no_file() -> None:
    for scenario in ANSWERS:
        for mode, kind in (("stream", "sse"), ("whole", "json")):
            reason = scenario.expectation(mode).get("impossible")
            assert scenario.has(kind) is (reason is None), named(scenario)
            assert reason != "", named(scenario)


# The client half.


@streams
def test_streamed_answers_are_read(scenario: Scenario) -> None:
    expected, golden = scenario.expectation("stream"), scenario.data("sse")
    for form, size in {**dict.fromkeys(FORMS, 7), "as it is": 1}.items():
        data = reform(golden, form)
        chunks = [data[at : at + size] for at in range(0, len(data), size)]
        events = check(scenario.protocol, expected, functools.partial(_read_chunks, scenario.protocol, chunks))
        if events is not None:
            check_deltas(events)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_reasoning_is_found_again_in_what_the_provider_gets_back(protocol: str) -> None:
    found: list[str] = []
    for scenario in (one for one in ANSWERS if one.protocol.name == protocol):
        answers = [natives_of([scenario.data("sse")])] if scenario.has("sse") else []
        answers += [[parsed(scenario.data("json"))]] if scenario.has("json") else []
        for natives in answers:
            try:
                events = read(scenario.protocol, natives)
            except exceptions.RipienoError:
                continue
            sealed = (one.content for one in events if isinstance(one, ContentSealed))
            kept = "".join(reasoning_in(one) for one in sealed if isinstance(one, OpaqueContent))
            streamed = "".join(one.text for one in events if isinstance(one, ReasoningDelta))
            # Parts are paragraphs, which not all streams separate.
            assert kept.replace("\n\n", "") == streamed.replace("\n\n", ""), named(scenario)
            found.append(kept)
    assert any(found)


def _read_chunks(protocol: Protocol, chunks: Iterable[bytes]) -> list[Event]:
    return read(protocol, natives_of(chunks))


FORMS = ("as it is", "CR LF", "CR", "data only", "with comments", "cut lines")


def reform(data: bytes, form: str) -> bytes:
    """A stream in another form that means the same."""
    if form == "CR LF":
        return data.replace(b"\n", b"\r\n")
    if form == "CR":
        return data.replace(b"\n", b"\r")
    if form == "data only":
        return re.sub(rb"(?m)^event: .*\n", b"", data)
    if form == "with comments":
        return b": hello\n\n" + data.replace(b"\n\n", b"\nid: 7\nretry: 10\n: data: no\n\n\n: ping\n\n")
    if form == "cut lines":
        # One event in several lines of data: JSON may be cut at each comma outside of its texts.
        return re.sub(rb'(?m)^(data: \{"\w+":"[^"\\]*"),', rb"\1\ndata: ,", data)
    return data


def check_deltas(events: Sequence[Event]) -> None:
    """Deltas and sealed events say the same, each call begins once and before it is sealed."""
    assert sum(isinstance(event, TurnBegan) for event in events) == 1
    assert sum(isinstance(event, TurnEnded) for event in events) == 1
    said = "".join(event.text for event in events if isinstance(event, TextDelta))
    sealed = [event.content for event in events if isinstance(event, ContentSealed)]
    assert said == "".join(content.text for content in sealed if isinstance(content, TextualContent))
    began: dict[int, InvocationBegan] = {}
    arguments: dict[int, str] = {}
    for event in events:
        if isinstance(event, InvocationBegan):
            assert event.index not in began
            began[event.index] = event
        elif isinstance(event, ArgumentsDelta):
            arguments[event.index] = arguments.get(event.index, "") + event.text
        elif isinstance(event, InvocationSealed):
            begin, invocation = began.pop(event.index), event.invocation
            assert (begin.identifier, begin.name, begin.kind) == (
                invocation.identifier,
                invocation.name,
                invocation.kind,
            )
            assert known(begin.opaque) <= known(invocation.opaque)
            text = arguments.pop(event.index, "")
            if text and invocation.fault is None and invocation.kind == "function":
                assert json.loads(text) == json.loads(json.dumps(invocation.arguments, default=list))
            elif text:
                assert text == invocation.raw
    assert not began
    assert not arguments


def known(opaque: Mapping[str, Any]) -> set[tuple[str, str, Any]]:
    """What stands beside a call, by protocol and key."""
    return {(protocol, key, value) for protocol, extras in opaque.items() for key, value in extras.items()}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_it_does_not_matter_where_chunks_are_cut(protocol: str) -> None:
    scenarios = [one for one in load(protocol) if one.has("sse")]
    for scenario in scenarios if ATTACK else [one for one in scenarios if one.name == "parallel_calls"]:
        for forms in (("as it is",), ("cut lines", "CR LF")):
            data = functools.reduce(reform, forms, scenario.data("sse"))
            whole = natives_of([data])
            assert len(whole) > 2
            for place in range(1, len(data), 1 if ATTACK else 7):
                assert natives_of([data[:place], data[place:]]) == whole


@streams
def test_events_are_the_same_without_deltas(scenario: Scenario) -> None:
    natives = natives_of([scenario.data("sse")])
    expected = scenario.expectation("stream")
    events = check(scenario.protocol, expected, lambda: read(scenario.protocol, natives, deltas=False))
    if events is not None:
        kinds = (TextDelta, ArgumentsDelta, ReasoningDelta)
        seen = [event for event in read(scenario.protocol, natives) if not isinstance(event, kinds)]
        assert [event for event in events if not isinstance(event, kinds)] == seen


@wholes
def test_whole_answers_are_read(scenario: Scenario) -> None:
    expected = scenario.expectation("whole")
    protocol, native = scenario.protocol, parsed(scenario.data("json"))
    check(protocol, expected, lambda: list(protocol.decoder("house", Identifiers()).play(native)))
    # Some servers answer whole where a stream was asked for.
    check(protocol, expected, lambda: read(protocol, [native]))
    if "error" not in expected:
        invocations = [one for one in revive(expected["canisters"]) if isinstance(one, InvocationCanister)]
        found = protocol.invocations.normalize_invocations(native)
        assert [(one.identifier, one.name, one.arguments) for one in found] == [
            (one.identifier, one.name, one.arguments) for one in invocations
        ]


def parsed(data: bytes) -> Native:
    (native,) = natives_of([b"data: " + data.replace(b"\n", b"\ndata: ") + b"\n\n"])
    return native


# The server half.


def written(protocol: Protocol, events: Iterable[Event]) -> bytes:
    encoder = protocol.encoder(Asked(model="house/model"))
    return b"".join(encoder.feed(event) for event in events)


def failed(protocol: Protocol, message: str) -> bytes:
    """The event with which a server of ours ends a stream that it cannot finish."""
    return protocol.encoder(Asked(model="house/model")).fail(Refusal(status=500, message=message))


def paced(events: Iterable[Event]) -> list[Event]:
    """The events with a delta for each character, as a stream that is written while it is made."""
    slow: list[Event] = []
    for event in events:
        if isinstance(event, ContentSealed) and isinstance(event.content, TextualContent):
            slow.extend(map(TextDelta, event.content.text))
        elif isinstance(event, InvocationSealed):
            invocation = event.invocation
            slow.append(
                InvocationBegan(
                    index=event.index,
                    identifier=invocation.identifier,
                    name=invocation.name,
                    kind=invocation.kind,
                    opaque=invocation.opaque,
                )
            )
            slow.extend(ArgumentsDelta(index=event.index, text=one) for one in invocation.raw or "")
        slow.append(event)
    return slow


@answers
def test_streams_of_ours_are_read_back(scenario: Scenario) -> None:
    protocol, expected = scenario.protocol, scenario.expectation("served")
    if "impossible" in expected:
        assert not scenario.has("sse")
        return
    if "error" in expected:
        unfinished = [*play(revive(expected["before"]), finish="invocations")][:-1]
        for events in (unfinished, paced(unfinished)):
            data = written(protocol, events)
            if expected["error"]["class"] == "ProviderRefusal":
                data += failed(protocol, expected["error"]["message"])
            check(protocol, expected, functools.partial(_read_chunks, protocol, [data]))
        return
    canisters = revive(expected["canisters"])
    played = list(play(canisters, finish=expected["finish"], usage=usage_in(expected), model="m"))
    came = read(protocol, natives_of([scenario.data("sse")])) if scenario.has("sse") else played
    for events in (played, paced(played), came):
        back = read(protocol, natives_of([written(protocol, events)]))
        check_deltas(back)
        deltas = events is not played
        assert carried(protocol, collect(back), deltas=deltas) == carried(protocol, canisters, deltas=deltas)
        ended = back[-1]
        assert isinstance(ended, TurnEnded)
        assert (ended.finish, ended.usage) == (expected["finish"], usage_in(expected))


@answers
def test_whole_answers_of_ours_are_read_back(scenario: Scenario) -> None:
    protocol, expected = scenario.protocol, scenario.expectation("served")
    if "impossible" in expected.get("whole", expected):
        assert "error" in expected or not scenario.has("json")
        return
    if "error" in expected:
        refused = json.loads(protocol.refuse(Refusal(status=500, message=expected["error"]["message"])))
        check(protocol, expected, lambda: list(protocol.decoder("house", Identifiers()).play(refused)))
        return
    canisters = revive(expected["canisters"])
    data = protocol.encode(
        play(canisters, finish=expected["finish"], usage=usage_in(expected)), Asked(model="house/model")
    )
    back = list(protocol.decoder("house", Identifiers()).play(parsed(data)))
    assert carried(protocol, collect(back), whole=True) == carried(protocol, canisters, whole=True)
    ended = back[-1]
    assert isinstance(ended, TurnEnded)
    assert (ended.finish, ended.usage) == (expected["finish"], usage_in(expected))


# Requests.


@requests
def test_requests_are_written(scenario: Scenario) -> None:
    native = json.loads(write(scenario.protocol, revive(scenario.expected["request"])))
    golden = json.loads(scenario.data("json"))
    assert {key: native[key] for key in CANISTER_KEYS if key in native} == golden


@requests
def test_requests_are_read(scenario: Scenario) -> None:
    expected = scenario.expected.get("returned", scenario.expected["request"])
    native = {"model": "m", **json.loads(scenario.data("json"))}
    canisters = scenario.protocol.parse(addressed(scenario.protocol, native)).canisters
    assert canisters == revive(expected)
    # What came back once is written the same way again.
    again = json.loads(write(scenario.protocol, canisters))
    assert {key: again[key] for key in native if key != "model"} == {
        key: value for key, value in native.items() if key != "model"
    }


def test_a_user_who_says_nothing_is_left_out() -> None:
    for protocol in PROTOCOLS.values():
        for silent in (UserCanister(content=()), UserCanister.of("")):
            body = write(protocol, [UserCanister.of("Hi."), silent])
            assert len(messages_in(protocol, json.loads(body))) == 1
