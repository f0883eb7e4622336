"""Chains of models: who is asked, in which order, and a conversation that changes models and wires in the middle."""

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from ripieno.assembly import Assembly, assemble
from ripieno.canisters import Canister, Conversation, UserCanister
from ripieno.canisters.events import Alert, Event, ResultReady, TextDelta, TurnBegan, TurnEnded
from ripieno.exceptions import (
    ConfigurationInvalidity,
    InputError,
    ProviderFailure,
    ProviderRefusal,
    ProviderUnreachable,
    WireInvalidity,
)
from ripieno.models import Model, Protocol
from ripieno.models.fallback import FallbackModel
from ripieno.models.protocol import Refusal
from ripieno.models.protocols.anthropic import PROTOCOL as ANTHROPIC
from ripieno.models.protocols.openai_chat import PROTOCOL as CHAT
from ripieno.testing import call, turn
from ripieno.testing.rehearsal.server import create_application
from ripieno.testing.scores import Score
from tests.support.loopback_servers import Asked, serving
from tests.support.scripted_models import Scripted, Step, ensemble, says, scripted, tool


def gone() -> ProviderUnreachable:
    return ProviderUnreachable("score", "Nothing answers.")


def chain(*scripts: list[Step]) -> tuple[Model, list[Scripted]]:
    models = [scripted(script) for script in scripts]
    return FallbackModel.of(models), models


async def events_of(model: Model) -> list[Event]:
    return [event async for event in model.stream([UserCanister.of("Hi.")])]


def test_a_chain_of_one_is_that_one() -> None:
    model = scripted(says())
    assert FallbackModel.of([model]) is model


@pytest.mark.parametrize(
    "error",
    [
        gone(),
        ProviderUnreachable("p", "left alone", retryable=False),
        ProviderUnreachable("p", "slow", category="timeout", retryable=False),
        ProviderRefusal("p", "busy", status=429, category="quota", retryable=True),
        ProviderRefusal("p", "paid up", status=402, category="quota"),
        ProviderRefusal("p", "broken", status=500, category="network", retryable=True),
        WireInvalidity("p", "a page of a proxy"),
    ],
    ids=str,
)
async def test_where_another_may_do_the_next_is_asked(error: ProviderFailure) -> None:
    model, (first, second) = chain([error], says("Here."))
    alert, *rest = await events_of(model)
    assert isinstance(alert, Alert)
    assert alert.message == f"score/scripted is asked instead of score/scripted: {error.reason}"
    assert alert.details["category"] == error.category
    assert rest[1] == TextDelta("Here.")
    assert [len(one.asked) for one in (first, second)] == [1, 1]
    assert first.asked == second.asked


@pytest.mark.parametrize(
    "error",
    [
        *(ProviderRefusal("p", "no", status=status, category="validation") for status in (400, 413, 422)),
        *(ProviderRefusal("p", "no", status=status, category="permission") for status in (401, 403)),
        ProviderRefusal("p", "no", status=404, category="resource"),
        InputError("This model does not support temperature."),
        ValueError("a bug"),
    ],
    ids=str,
)
async def test_where_the_request_is_at_fault_nobody_else_is_asked(error: Exception) -> None:
    model, (_, second) = chain([error], says())
    with pytest.raises(type(error)):
        await events_of(model)
    assert second.asked == []


async def test_nobody_else_is_asked_once_something_was_said() -> None:
    model, (_, second) = chain([TurnBegan(), TextDelta("Well"), gone()], says())
    with pytest.raises(ProviderUnreachable):
        await events_of(model)
    assert second.asked == []


async def test_the_error_is_that_of_the_last_one() -> None:
    last = ProviderRefusal("p", "no key", hint="Is it right?", status=401, category="permission")
    slow = ProviderUnreachable("p", f"It is slow: {'<p>' * 500}", category="timeout")
    model, models = chain([gone()], [slow], [last], says())
    with pytest.raises(ProviderRefusal) as caught:
        await events_of(model)
    assert caught.value is last
    # And it tells of the others, briefly.
    first, second, third = str(last).split("\n")
    assert first == "Provider 'p': no key. Is it right?"
    assert second == "  tried before: score/scripted: Nothing answers."
    assert third.startswith("  tried before: score/scripted: It is slow:")
    assert len(third) < 220
    assert len(last.before) == 2
    assert [len(one.asked) for one in models] == [1, 1, 1, 0]


async def test_what_the_next_one_cannot_be_sent_is_told() -> None:
    class Deaf(Scripted):
        def left_out(self, canisters: Iterable[Canister]) -> Mapping[str, int]:
            return {"AudioContent": 2}

    second = Deaf(provider=scripted(says()).provider, name="deaf", turns=(tuple(says()),))
    events = await events_of(FallbackModel.of([scripted([gone()]), second]))
    assert [event.message for event in events if isinstance(event, Alert)] == [
        "score/deaf is asked instead of score/scripted: Nothing answers.",
        "2 of AudioContent cannot be sent to score/deaf: left out.",
    ]


async def test_each_has_a_memory_of_its_own() -> None:
    seen: list[dict[object, Any] | None] = []

    class Remembering(Scripted):
        async def batches(self, canisters: Any, **settings: Any) -> AsyncGenerator[Iterable[Event], None]:
            seen.append(settings["memory"])
            async for batch in super().batches(canisters, **settings):
                yield batch

    models = [
        Remembering(provider=scripted(says()).provider, name="one", turns=(tuple(script),))
        for script in ([gone()], says())
    ]
    memory: dict[object, Any] = {}
    for _ in range(2):
        async for _ in FallbackModel.of(models).batches([UserCanister.of("Hi.")], memory=memory):
            pass
    first, second, *again = seen
    assert first is not second
    assert again[0] is first
    assert again[1] is second


async def test_whoever_leaves_leaves_the_model_that_is_asked() -> None:
    hanging = asyncio.Event()
    model, (_, second) = chain([gone()], [TurnBegan(), TextDelta("H"), hanging.wait])
    stream = model.stream([UserCanister.of("Hi.")])
    async for event in stream:
        if isinstance(event, TextDelta):
            break
    await stream.aclose()
    assert second.closed == [0]


# Real servers, one configuration.

TURNS = [
    turn("First I look.", calls=[call("look", "one", place="north"), call("look", "two", place="south")]),
    turn("Then I look again.", calls=[call("look", "three", place="east")]),
    turn("Nothing is there."),
]
#: The server wants to be asked at once.
SOON = {"retry-after-ms": "1"}


def table(url: str, protocol: Protocol, **keys: Any) -> dict[str, Any]:
    return {"protocol": protocol.name, "base_url": url, "api_key": "k", **keys}


FALLBACK = {"default": "one/m", "fallback": ["two/m"]}


def configured(model: Mapping[str, Any] = FALLBACK, **providers: Any) -> dict[str, Any]:
    return {"ensembles": {"enabled": []}, "model": model, "providers": providers}


@contextlib.asynccontextmanager
async def two_servers(failing: Any) -> AsyncIterator[tuple[str, list[Asked], str, list[Asked]]]:
    """Both play the same score; the first fails with what ``failing(number)`` gives, unless that is None."""
    application = create_application(Score.of_turns(tuple(TURNS)), [CHAT, ANTHROPIC])
    count = itertools.count()

    async def plays(request: Request) -> Response:
        return Rehearsed(application, await request.body())

    async def fails(request: Request) -> Response:
        refused: Response | None = failing(next(count))
        return Rehearsed(application, await request.body()) if refused is None else refused

    async with serving(fails) as (first, asked_first), serving(plays) as (second, asked_second):
        yield first, asked_first, second, asked_second


class Rehearsed(Response):
    """What an application of ours answers to a request whose body was read."""

    def __init__(self, application: Any, body: bytes) -> None:
        super().__init__()
        self._application, self._asked = application, [{"type": "http.request", "body": body}]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def again() -> Any:
            return self._asked.pop() if self._asked else await receive()

        await self._application(scope, again, send)


async def conducted(assembly: Assembly, **settings: Any) -> tuple[list[Event], Conversation]:
    run = assembly.conduct("Look around.", ensembles=[ensemble(tool("look", schema=LOOK))], **settings)
    events = [event async for event in run]
    return events, await run


LOOK = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("first", "second"), [(CHAT, ANTHROPIC), (ANTHROPIC, CHAT)], ids=["to-messages", "to-chat"])
async def test_a_conversation_goes_on_elsewhere(first: Protocol, second: Protocol, stream: bool) -> None:
    """The first model answers the first turn and the last; the turn between is the second's."""
    down = {1, 2}  # Its second turn, asked for twice.

    refused = first.refuse(Refusal(status=503, message="Gone for lunch."))

    def failing(number: int) -> Response | None:
        return Response(refused, status_code=503, headers=SOON) if number in down else None

    async with two_servers(failing) as (one, asked_one, two, asked_two):
        base = {CHAT.name: "/v1", ANTHROPIC.name: ""}
        configuration = configured(
            model={**FALLBACK, "stream": stream},
            one=table(one + base[first.name], first, retries=1),
            two=table(two + base[second.name], second),
        )
        async with assemble(configuration) as assembly:
            events, conversation = await conducted(assembly)
    assert conversation.text == "Nothing is there."
    assert [event.model for event in events if isinstance(event, TurnBegan)] == ["one/m", "two/m", "one/m"]
    assert [event.turn for event in events if isinstance(event, TurnEnded)] == [1, 2, 3]
    assert len([event for event in events if isinstance(event, ResultReady)]) == 3
    again, instead = [event.message for event in events if isinstance(event, Alert)]
    assert again.startswith("one/m will be retried in ")
    assert instead == "two/m is asked instead of one/m: HTTP 503: Gone for lunch."
    assert (len(asked_one), len(asked_two)) == (4, 1)
    # The second was told all that had been said, in its own words; and the first, what the second did.
    places = ["north", "south"]
    assert all(place in asked_two[0].body.decode() for place in places)
    assert "Then I look again." in asked_one[-1].body.decode()
    assert "east" in asked_one[-1].body.decode()
    assert json.loads(asked_two[0].body)["model"] == "m"


async def test_providers_at_one_address_share_its_breaker() -> None:
    async with two_servers(lambda _: Response(b"{}", status_code=500)) as (one, asked, _, _):
        providers = {
            "a": table(f"{one}/v1", CHAT, retries=0),
            "b": table(f"{one}/v1/", CHAT, retries=0),
            "c": table(f"{one}/v1", CHAT, retries=0, breaker={"failures": 9}),
        }
        configuration = {**configured({}, **providers), "breaker": {"failures": 2, "cooldown": 600}}
        async with assemble(configuration) as assembly:
            for model in ("a/m", "b/m"):
                with pytest.raises(ProviderRefusal):
                    await conducted(assembly, model=model)
            for model in ("a/m", "b/m"):
                with pytest.raises(ProviderUnreachable, match="no requests are sent"):
                    await conducted(assembly, model=model)
            with pytest.raises(ProviderRefusal):
                await conducted(assembly, model="c/m")
    assert len(asked) == 3


def chain_of(assembly: Assembly, **settings: Any) -> list[str]:
    model = assembly.conduct("Hi.", **settings).model
    return [one.identity for one in model.models] if isinstance(model, FallbackModel) else [model.identity]


async def test_who_has_which_fallback() -> None:
    here = "http://127.0.0.1:9"
    configuration = {
        "ensembles": {"enabled": []},
        "model": {"default": "one/m", "fallback": ["two/m", "one/m", "two/n"]},
        "agents": {
            "plain": {"instructions": "Be brief."},
            "other": {"model": "two/x"},
            "careful": {"model": "two/x", "fallback": ["one/x"]},
            "alone": {"fallback": []},
        },
        "providers": {"one": table(here, CHAT), "two": table(here, ANTHROPIC)},
    }
    async with assemble(configuration) as assembly:
        whole = ["one/m", "two/m", "two/n"]
        assert chain_of(assembly) == whole
        assert chain_of(assembly, agent="plain") == whole
        assert chain_of(assembly, model="one/m") == ["one/m"]  # Whoever names a model wants that one.
        assert chain_of(assembly, agent="plain", model="two/y") == ["two/y"]
        assert chain_of(assembly, agent="other") == ["two/x"]
        assert chain_of(assembly, agent="careful") == ["two/x", "one/x"]
        assert chain_of(assembly, agent="alone") == ["one/m"]


async def test_a_fallback_that_cannot_be_asked_is_left_out_and_told() -> None:
    here = table("http://127.0.0.1:9", CHAT)
    configuration = configured(one=here, two={**here, "api_key": "{env:NONE}"})
    async with assemble(configuration, secrets={}) as assembly:
        assert chain_of(assembly) == ["one/m"]
        with pytest.raises(ConfigurationInvalidity, match="'two'"):
            assembly.conduct("Hi.", model="two/m")
    (alert,) = assembly.alerts
    assert "two/m is left out" in alert.message
