"""What passes is asked again, over real connections: refusals, resets, silence; and what waits is not stuck."""

import asyncio
import email.utils
import itertools
import json
import time
from collections.abc import Mapping
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ripieno.canisters import Controls, UserCanister
from ripieno.canisters.events import Alert, Event, TextDelta, TurnBegan, TurnEnded
from ripieno.descriptors.timeouts import Caution, Timeouts
from ripieno.exceptions import ProviderRefusal, ProviderUnreachable, WireInvalidity
from ripieno.execution.retries import seconds_after
from ripieno.models import Model, Protocol
from ripieno.models.protocol import Refusal
from ripieno.models.protocols.anthropic import PROTOCOL as ANTHROPIC
from ripieno.models.protocols.gemini import PROTOCOL as GEMINI
from ripieno.models.protocols.openai_chat import PROTOCOL as CHAT
from ripieno.models.protocols.openai_responses import PROTOCOL as RESPONSES
from ripieno.models.transport.breaker import Breaker
from ripieno.models.transport.transport import HttpTransport
from tests.support.golden_wires import PROTOCOLS
from tests.support.loopback_models import both, either_way, endpoint, golden, model_over, saying
from tests.support.loopback_servers import Talker, chunked, serving, talking, until_eof

HI = [UserCanister.of("Hi.")]
#: The server wants to be asked at once, so that nothing waits here.
SOON = {"retry-after-ms": "1"}
every = pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=lambda protocol: protocol.name)


def model_at(
    url: str, protocol: Protocol = CHAT, *, retries: int = 2, breaker: Breaker | None = None, **fields: Any
) -> Model:
    transport = HttpTransport(endpoint(url, protocol, **fields), breaker)
    return model_over(transport, protocol, retries=retries)


async def listen(model: Model, into: list[Event], *, stream: bool = True) -> None:
    """All events of one turn; the transport is closed."""
    try:
        async for event in model.stream(HI, controls=Controls(stream=stream)):
            into.append(event)
    finally:
        await model.provider.transport.close()


def good(protocol: Protocol, stream: bool) -> Response:
    kind = "sse" if stream else "json"
    return Response(golden(protocol, kind), media_type="text/event-stream" if stream else "application/json")


# What ends before its end.


@every
async def test_an_answer_that_ends_early_is_asked_again_as_long_as_it_has_said_nothing(protocol: Protocol) -> None:
    events: list[Event] = []
    async with serving(saying(lambda: _until(protocol, b'"The'), lambda: good(protocol, stream=True))) as (url, asked):
        await listen(model_at(url, protocol), events)
    told = [event for event in events if isinstance(event, Alert | TurnBegan | TurnEnded)]
    assert [type(event) for event in told] == [Alert, TurnBegan, TurnEnded]
    assert "The answer ended without its terminal event." in str(told[0])
    assert len(asked) == 2


@either_way
@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", "Application/XHTML+XML"])
async def test_a_page_for_people_is_not_asked_for_again(kind: str, stream: bool) -> None:
    def page() -> Response:
        return Response(b"<!doctype html><h1>Welcome</h1>", headers={"content-type": kind})

    async with serving(saying(page)) as (url, asked):
        with pytest.raises(WireInvalidity) as caught:
            await listen(model_at(url), [], stream=stream)
    error = caught.value
    page = kind.partition(";")[0].casefold()
    assert f"answered with a web page ({page}): '<!doctype html><h1>Welcome" in str(error)
    assert str(error).endswith(". Check base_url.")
    assert (len(asked), error.retryable, error.elsewhere) == (1, False, True)


def _until(protocol: Protocol, words: bytes) -> Response:
    """The events of an answer before the first one that has these words."""
    parts = golden(protocol, "sse").split(b"\n\n")
    before = parts[: next(at for at, part in enumerate(parts) if words in part)]
    return Response(b"".join(part + b"\n\n" for part in before), media_type="text/event-stream")


@pytest.mark.parametrize(
    ("protocol", "native"),
    [
        (ANTHROPIC, {"type": "message", "content": [], "stop_reason": None}),
        (GEMINI, {"candidates": [{"content": {"parts": []}}]}),
        (RESPONSES, {"object": "response", "status": "in_progress", "output": []}),
    ],
    ids=lambda value: value.name if isinstance(value, Protocol) else "",
)
async def test_a_whole_answer_without_its_end_is_asked_again(protocol: Protocol, native: Mapping[str, object]) -> None:
    events: list[Event] = []
    async with serving(saying(lambda: JSONResponse(native), lambda: good(protocol, stream=False))) as (url, asked):
        await listen(model_at(url, protocol), events, stream=False)
    assert isinstance(events[0], Alert)
    assert isinstance(events[-1], TurnEnded)
    assert len(asked) == 2


# What is refused.


@pytest.mark.parametrize(
    ("protocol", "stream", "status"),
    [
        (ANTHROPIC, True, 503),
        (ANTHROPIC, False, 503),
        (CHAT, False, 503),
        *((CHAT, True, status) for status in (408, 409, 429, 500, 502, 503, 504, 529, 599)),
    ],
)
async def test_a_refusal_that_may_pass_is_asked_again(protocol: Protocol, stream: bool, status: int) -> None:
    refused = protocol.refuse(Refusal(status=status, message=f"Not now ({status})."))
    answer = saying(
        lambda: Response(refused, status_code=status, headers=SOON),
        lambda: Response(refused, status_code=status, headers=SOON),
        lambda: good(protocol, stream),
    )
    events: list[Event] = []
    async with serving(answer) as (url, asked):
        await listen(model_at(url, protocol), events, stream=stream)
    alerts = [event for event in events if isinstance(event, Alert)]
    # As long as the server asks.
    assert [(alert.details["attempt"], alert.details["seconds"]) for alert in alerts] == [(1, 0.001), (2, 0.001)]
    named = {408: "timeout", 504: "timeout", 409: "resource", 429: "quota"}
    assert {alert.details["category"] for alert in alerts} == {named.get(status, "network")}
    # The provider's own words.
    assert all(f"HTTP {status}: Not now ({status})." in alert.message for alert in alerts)
    assert [event.model for event in events if isinstance(event, TurnBegan)] == ["house/m"]
    assert isinstance(events[-1], TurnEnded)
    assert len({one.body for one in asked}) == 1
    assert len(asked) == 3


@pytest.mark.parametrize(
    ("category", "statuses"),
    [("resource", [307, 404]), ("validation", [400, 405, 413, 422]), ("permission", [401, 403]), ("quota", [402])],
)
async def test_a_refusal_that_stays_is_not(category: str, statuses: list[int]) -> None:
    for status in statuses:
        async with serving(saying(lambda status=status: Response(b"{}", status_code=status))) as (url, asked):
            with pytest.raises(ProviderRefusal) as caught:
                await listen(model_at(url), [])
        assert len(asked) == 1
        assert (caught.value.retryable, caught.value.category) == (False, category)


@pytest.mark.parametrize(("status", "said", "times"), [(400, "true", 3), (503, "false", 1), (503, "perhaps", 3)])
async def test_a_server_may_say_whether_to(status: int, said: str, times: int) -> None:
    headers = {"x-should-retry": said, **SOON}
    async with serving(saying(lambda: Response(b"{}", status_code=status, headers=headers))) as (url, asked):
        with pytest.raises(ProviderRefusal):
            await listen(model_at(url), [])
    assert len(asked) == times


async def test_credit_that_is_used_up_does_not_come_back_in_a_moment() -> None:
    body = b'{"error":{"message":"You exceeded your quota.","type":"insufficient_quota","code":"insufficient_quota"}}'
    async with serving(saying(lambda: Response(body, status_code=429))) as (url, asked):
        with pytest.raises(ProviderRefusal, match="exceeded your quota") as caught:
            await listen(model_at(url), [])
    assert len(asked) == 1
    assert (caught.value.category, caught.value.elsewhere) == ("quota", True)


# When to come back.


def test_when_to_come_back_is_read_in_every_form() -> None:
    def date(seconds: float) -> str:
        return email.utils.formatdate(time.time() + seconds, usegmt=True)

    assert seconds_after({"retry-after": "7"}) == 7
    assert seconds_after({"retry-after": "0.5"}) == 0.5
    assert seconds_after({"retry-after": "-3"}) == 0
    assert seconds_after({"retry-after-ms": "250", "retry-after": "7"}) == 0.25
    assert seconds_after({"retry-after-ms": "soon", "retry-after": "7"}) == 7
    assert seconds_after({"retry-after": date(30)}) == pytest.approx(30, abs=2)
    assert seconds_after({"retry-after": date(-30)}) == 0
    for nonsense in ("", "soon", "nan", "inf", "1e999", "Mon, 99 Foo 2020", "é"):
        assert seconds_after({"retry-after": nonsense}) is None
    assert seconds_after({}) is None


# Connections that fail.


def cutting(*said: bytes | None) -> tuple[Talker, list[int]]:
    """Says something and hangs up, connection after connection; where it is None, all of an answer."""
    count = itertools.count()
    seen: list[int] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = next(count)
        seen.append(number)
        one = said[min(number, len(said) - 1)]
        if one is None:
            writer.write(chunked(golden(CHAT, "sse")))
            await until_eof(reader)
        else:
            writer.write(one)
            await writer.drain()
        writer.transport.abort()

    return talk, seen


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
BEGUN = b'data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant"}}]}\n\n'
SAID = b'data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Well"}}]}\n\n'


@pytest.mark.parametrize(
    "said",
    [b"", b"HTTP/1.1 2", HEAD, HEAD + b"5\r\ndata:", chunked(BEGUN, end=False), chunked(BEGUN)],
    ids=["nothing", "half a head", "a head", "half an event", "an empty beginning", "a peaceful end"],
)
async def test_a_connection_that_is_lost_before_anything_was_said_is_made_again(said: bytes) -> None:
    talk, seen = cutting(said, said, None)
    events: list[Event] = []
    async with talking(talk) as (url, all_gone):
        await listen(model_at(url), events)
        await all_gone()
    assert len(seen) == 3
    assert [type(event) for event in events[:3]] == [Alert, Alert, TurnBegan]
    assert isinstance(events[-1], TurnEnded)


@pytest.mark.parametrize("end", [False, True], ids=["cut", "in peace"])
async def test_one_that_is_lost_later_is_an_error(end: bool) -> None:
    talk, seen = cutting(chunked(BEGUN, SAID, end=end), None)
    events: list[Event] = []
    async with talking(talk) as (url, all_gone):
        with pytest.raises(WireInvalidity if end else ProviderUnreachable):
            await listen(model_at(url), events)
        await all_gone()
    assert len(seen) == 1
    assert [type(event) for event in events] == [TurnBegan, TextDelta]


@both
async def test_an_error_that_begins_a_stream_is_asked_again(protocol: Protocol) -> None:
    """Overload is told with a good status, once the stream has begun."""
    error = json.loads(protocol.refuse(Refusal(status=529, message="Overloaded.")))
    error["error"]["type"] = "overloaded_error"
    stream = b"event: error\ndata: " + json.dumps(error).encode() + b"\n\n"
    answer = saying(lambda: Response(stream, media_type="text/event-stream"), lambda: good(protocol, True))
    events: list[Event] = []
    async with serving(answer) as (url, asked):
        await listen(model_at(url, protocol), events)
    assert len(asked) == 2
    assert isinstance(events[0], Alert)
    assert "Overloaded." in events[0].message


@pytest.mark.parametrize("kind", ["invalid_request_error", "authentication_error", "something_else"])
async def test_an_error_in_a_stream_that_stays_is_not(kind: str) -> None:
    stream = b'event: error\ndata: {"type":"error","error":{"type":"%s","message":"No."}}\n\n' % kind.encode()
    async with serving(saying(lambda: Response(stream, media_type="text/event-stream"))) as (url, asked):
        with pytest.raises(ProviderRefusal, match="No"):
            await listen(model_at(url, ANTHROPIC), [])
    assert len(asked) == 1


# Silence.


def piece(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


@either_way
@pytest.mark.parametrize(
    ("pieces", "timeouts", "words"),
    [
        ((), {"first_byte": 0.2, "between": 60}, "no answer began within 0.2 s"),
        ((HEAD,), {"first_byte": 0.2, "between": 60}, "no answer began within 0.2 s"),
        ((HEAD, piece(BEGUN)), {"first_byte": 60, "between": 0.2}, "no more of its answer came within 0.2 s"),
        (
            (HEAD, piece(b": alive\n\n")),
            {"first_byte": 60, "between": 60, "whole": 0.2},
            "its answer was not complete within 0.2 s",
        ),
    ],
    ids=["no head", "no body", "a stop", "no end"],
)
async def test_an_answer_that_is_late(
    pieces: tuple[bytes, ...], timeouts: dict[str, float], words: str, stream: bool
) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.writelines(pieces)
        await until_eof(reader)

    async with talking(talk) as (url, all_gone):
        with pytest.raises(ProviderUnreachable, match=f"took too long.*{words}") as caught:
            await listen(model_at(url, retries=0, timeouts=Timeouts(**timeouts)), [], stream=stream)
        await all_gone()
    assert caught.value.category == "timeout"
    assert "under [providers.house.timeouts]" in str(caught.value)
    # What is too long as a whole would be as long the next time.
    assert caught.value.retryable is ("whole" not in timeouts)


async def test_whoever_cancels_while_it_is_silent_is_not_told_of_lateness() -> None:
    begun = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        begun.set()
        await until_eof(reader)

    async with talking(talk) as (url, all_gone):
        task = asyncio.create_task(listen(model_at(url, timeouts=Timeouts(first_byte=30)), []))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await all_gone()


# The breaker.


async def test_an_endpoint_that_keeps_failing_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    well, later = False, 0.0
    clock = asyncio.get_running_loop().time
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: clock() + later)

    def answer() -> Response:
        return good(CHAT, True) if well else Response(b'{"error":"on fire"}', status_code=500)

    breaker = Breaker(Caution(failures=3, cooldown=600))
    async with serving(saying(answer)) as (url, asked):
        model = model_at(url, retries=0, breaker=breaker)
        for _ in range(3):
            with pytest.raises(ProviderRefusal):
                await listen(model, [])
        with pytest.raises(ProviderUnreachable) as caught:
            await listen(model, [])
        assert len(asked) == 3
        error = caught.value
        assert "failed 3 times in a row" in str(error)
        assert "The next try is in 600 s" in str(error)
        assert "The last failure: HTTP 500: on fire" in str(error)
        assert (error.category, error.retryable, error.elsewhere) == ("network", False, True)
        # Whoever comes back then is let through.
        assert error.after is not None
        assert 0 < error.after <= 600
        later += 601
        with pytest.raises(ProviderRefusal):  # One tries, and it is left alone again.
            await listen(model, [])
        with pytest.raises(ProviderUnreachable):
            await listen(model, [])
        assert len(asked) == 4
        well, later = True, later + 601
        for _ in range(2):
            events: list[Event] = []
            await listen(model, events)
            assert isinstance(events[-1], TurnEnded)
    assert len(asked) == 6


async def test_while_one_tries_the_others_do_not() -> None:
    come, go = asyncio.Event(), asyncio.Event()

    async def answer(_: Request) -> Response:
        come.set()
        await go.wait()
        return good(CHAT, True)

    breaker = Breaker(Caution(failures=1, cooldown=0.001))
    breaker.fail(0, "gone", trying=False)
    async with serving(answer) as (url, asked):
        models = [model_at(url, retries=0, breaker=breaker) for _ in range(3)]
        first = asyncio.create_task(listen(models[0], []))
        await come.wait()
        with pytest.raises(ProviderUnreachable, match="after the trial request that is under way") as caught:
            await listen(models[1], [])
        assert caught.value.after is None
        first.cancel()  # Nobody knows how it would have ended: the next one tries.
        with pytest.raises(asyncio.CancelledError):
            await first
        go.set()
        await listen(models[2], [])
    assert len(asked) == 2


@pytest.mark.parametrize("status", [400, 401, 404, 429])
async def test_who_refuses_is_well(status: int) -> None:
    breaker = Breaker(Caution(failures=2))
    breaker.fail(0, "gone", trying=False)
    async with serving(saying(lambda: Response(b"{}", status_code=status))) as (url, asked):
        for _ in range(4):
            with pytest.raises(ProviderRefusal):
                await listen(model_at(url, retries=0, breaker=breaker), [])
    assert len(asked) == 4
    assert breaker.failures == 0


async def test_retries_stop_where_the_breaker_opens() -> None:
    events: list[Event] = []
    async with serving(saying(lambda: Response(b"{}", status_code=503, headers=SOON))) as (url, asked):
        with pytest.raises(ProviderUnreachable, match="no requests are sent"):
            await listen(model_at(url, retries=9, breaker=Breaker(Caution(failures=3))), events)
    assert len(asked) == 3
    assert [type(event) for event in events] == [Alert] * 3
