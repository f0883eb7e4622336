"""A server with the protocols' server halves, whose only model is a score. It has no vendor's code of its own."""

import contextlib
import dataclasses
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from ripieno.canisters import AssistantCanister, InvocationCanister, SupervisorCanister, UserCanister
from ripieno.canisters.contents import text_of
from ripieno.canisters.conversation import Usage
from ripieno.canisters.display import brief
from ripieno.ensembles import Ensemble
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import InputError, ProviderFailure, RipienoError
from ripieno.jsonvalues import encode
from ripieno.models import Protocol
from ripieno.models.protocol import Asked, Refusal
from ripieno.models.protocols.prompted.reader import ended, in_words, recover
from ripieno.models.repair import Requirements
from ripieno.models.tokens import EstimatingTokenizer
from ripieno.servers.gateway import history_checks
from ripieno.servers.http import bodies, limits
from ripieno.testing.scores import Score
from ripieno.testing.scores.player import Answer, callable_names, events_of, perform

#: Maximum bytes of a request's body.
BODY_BYTES = 10 * 1024 * 1024
#: Maximum number of different warnings.
_NOTICES = 100
#: Seconds within which a request's body must arrive.
BODY_SECONDS = 30.0


def create_application(
    score: Score,
    protocols: Iterable[Protocol],
    *,
    warn: Callable[[str], None] | None = None,
    lenient: bool = False,
) -> Starlette:
    """The application that plays a score over these protocols.

    Conversations that strict servers refuse get status 400, unless it is ``lenient``.

    ``warn`` receives, once each, warnings about requests that do not fit the score. Errors: ``InputError`` if two
    protocols have the same route.
    """
    routes = bodies.routes_of(protocols)
    listed = ", ".join([*(f"POST {route} ({protocol.name})" for route, protocol in routes.items()), "GET /v1/models"])

    async def models(_: Request) -> Response:
        # The wires use two different keys.
        named = {"name": f"models/{score.name}", "displayName": score.name}
        return bodies.json_response(encode({**bodies.model_list([score.name]), "models": [named]}))

    async def refuse(request: Request, error: Exception) -> Response:
        """The error for an unknown route, whose wire is unknown, too."""
        status = error.status_code if isinstance(error, HTTPException) else 500
        message = f"There is no route {request.method} {request.url.path}. Routes: {listed}."
        return bodies.json_response(encode({"error": {"type": "not_found_error", "message": message}}), status)

    warnings = _Warnings(score, warn)
    endpoints = [
        Route(route, _endpoint(score, protocol, warnings, lenient=lenient), methods=["POST"])
        for route, protocol in routes.items()
    ]
    return Starlette(
        routes=[*endpoints, Route("/v1/models", models, methods=["GET"])], exception_handlers={404: refuse, 405: refuse}
    )


class _Warnings:
    """Warns once about each kind of request that does not fit the score. Such requests are answered."""

    def __init__(self, score: Score, warn: Callable[[str], None] | None) -> None:
        self._score = score
        self._warn = warn
        self._issued: set[str] = set()

    def check(self, asked: Asked, tools: Collection[str]) -> None:
        missing = [name for name in self._score.tools if name not in tools]
        if missing:
            offered = brief(", ".join(sorted(tools))) or "none"
            self._issue(
                f"A client does not offer {', '.join(missing)}, which the score {self._score.name!r} calls. "
                f"It offers: {offered}."
            )
        prompt = next((text_of(one.content) for one in asked.canisters if isinstance(one, UserCanister)), "")
        if self._score.prompt and prompt.strip() != self._score.prompt.strip():
            self._issue(
                f"A client asked {brief(prompt)!r}; the score {self._score.name!r} expects {self._score.prompt!r}, and "
                "answers as if it had."
            )

    def _issue(self, text: str) -> None:
        if self._warn is not None and text not in self._issued and len(self._issued) < _NOTICES:
            self._issued.add(text)
            self._warn(text)


def _refuse_as_strict(asked: Asked, requirements: Requirements) -> None:
    """Checks what strict servers check: calls with one result each, names, identifiers, and who speaks first.

    Errors: ``InputError``.
    """
    history_checks.check(asked.canisters)
    calls = [one for one in asked.canisters if isinstance(one, InvocationCanister)]
    names = [*(tool.exposed or tool.name for tool in asked.tools), *(call.name for call in calls)]
    for kind, texts, pattern in (
        ("name of a tool", names, requirements.names),
        ("identifier of a call", [call.identifier for call in calls], requirements.identifiers),
    ):
        for text in texts:
            if pattern.fullmatch(text) is None:
                raise InputError(f"The {kind} {brief(text)!r} does not match {pattern.pattern}.")
    first = next((one for one in asked.canisters if not isinstance(one, SupervisorCanister)), None)
    if requirements.user_first and isinstance(first, AssistantCanister | InvocationCanister):
        raise InputError("The first message must be the user's.")


def _endpoint(
    score: Score, protocol: Protocol, warnings: _Warnings, *, lenient: bool
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            body = await bodies.receive_body(request.receive, most=BODY_BYTES, seconds=BODY_SECONDS)
            asked = await bodies.read_asked(body, protocol, request.path_params, most=BODY_BYTES)
            if not lenient:
                _refuse_as_strict(asked, protocol.requirements)
        except limits.Refused as refused:
            return bodies.json_response(protocol.refuse(refused.refusal), refused.refusal.status)
        except (InputError, ProviderFailure) as error:
            return bodies.json_response(protocol.refuse(Refusal(status=400, message=str(error))), 400)
        except bodies.Gone:
            return Response(status_code=400)
        received = asked
        # A prompted model gets tools, calls and results as text, and answers with calls as text.
        prompted = recover(asked)
        asked = prompted or asked
        tools = callable_names([tool.exposed or tool.name for tool in asked.tools], asked.controls)
        warnings.check(asked, tools)
        try:
            played = score.answer(asked.canisters, tools, asked.controls.format)
        except InputError as error:
            return bodies.json_response(protocol.refuse(Refusal(status=400, message=str(error))), 400)
        if prompted is not None:
            played = dataclasses.replace(played, canisters=(in_words(played.canisters),), finish=ended(played.finish))
        played = dataclasses.replace(played, usage=_usage(received, played))
        if not asked.controls.stream:
            return bodies.json_response(protocol.encode(events_of(played, model=asked.model), asked))
        return StreamingResponse(
            _stream(played, protocol, asked), media_type="text/event-stream", headers={"cache-control": "no-cache"}
        )

    return answer


def _usage(asked: Asked, answer: Answer) -> Usage:
    tokenizer = EstimatingTokenizer()
    # A count must not fail for the name of a client's tool.
    offer = Offer(Ensemble.of_request(asked.tools).invokers.values())
    output = tokenizer.count(answer.canisters).tokens
    reasoning = tokenizer.count((AssistantCanister.of(answer.reasoning),)).tokens if answer.reasoning else 0
    return Usage(
        input_tokens=tokenizer.count(asked.canisters, offer).tokens,
        output_tokens=output + reasoning,
        reasoning_tokens=reasoning,
    )


async def _stream(answer: Answer, protocol: Protocol, asked: Asked) -> AsyncGenerator[bytes, None]:
    encoder = protocol.encoder(asked)
    events = perform(answer, model=asked.model)
    try:
        async with contextlib.aclosing(events):
            async for event in events:
                data = encoder.feed(event)
                if data:
                    yield data
    except Exception as error:
        # The answer has begun with status 200, so the error must be part of the stream.
        yield encoder.fail(Refusal(status=500, message=f"The score failed: {str(error) or type(error).__name__}"))
        if not isinstance(error, RipienoError):
            raise


def base_url(url: str, protocol: Protocol) -> str:
    """The base URL for a client of this protocol, given the server's URL."""
    return url + protocol.routes[0].rpartition(protocol.path.partition("{")[0])[0]
