"""The ASGI sub-application of a chat: conversations over HTTP with JSON, and their events as server-sent events.

Starlette, FastAPI and Django mount it beneath any path. It has no user accounts: the application that mounts it names
the owner of each request.
"""

import contextlib
import inspect
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from ripieno.canisters import ResultCanister, TextualContent
from ripieno.canisters.faults import Fault
from ripieno.exceptions import JsonInvalidity, NameAbsence, RequestInvalidity
from ripieno.jsonvalues import is_table, parse
from ripieno.models.protocol import Refusal
from ripieno.servers.chat.chat import Chat
from ripieno.servers.chat.messages import read_message
from ripieno.servers.chat.ring import EventsLost
from ripieno.servers.http.bodies import Gone, json_response, receive_body
from ripieno.servers.http.errors import headers_of, plain, refusal_of
from ripieno.servers.http.limits import Refused

#: Names the owner of a request; None if the request has none, which is then refused.
Authenticate = Callable[[Request], str | Awaitable[str | None] | None]
#: Seconds of silence after which a stream sends a comment, so that proxies keep it open.
_QUIET = 15.0
#: Seconds for the body of a request to arrive.
_BODY_SECONDS = 60.0
_DEPTH = 64
_STREAM = {"cache-control": "no-store", "x-accel-buffering": "no"}
_TITLE = 200


def create_application(chat: Chat, *, authenticate: Authenticate, origins: Collection[str] = ()) -> Starlette:
    """The application over an entered ``Chat``.

    ``authenticate`` names the owner of a request. ``origins`` are pages of other origins that may use it, such as
    ``https://app.example.com``; a page of its own origin always may.
    """
    endpoints = _Endpoints(chat, authenticate, frozenset(origins))
    one = "/conversations/{identifier}"
    routes = [
        ("GET", "/conversations", endpoints.index),
        ("POST", "/conversations", endpoints.create),
        ("GET", one, endpoints.open),
        ("PATCH", one, endpoints.rename),
        ("DELETE", one, endpoints.delete),
        ("POST", f"{one}/messages", endpoints.say),
        ("POST", f"{one}/answers", endpoints.answer),
        ("POST", f"{one}/results", endpoints.deliver),
        ("POST", f"{one}/stop", endpoints.stop),
        ("POST", f"{one}/resume", endpoints.resume),
        ("GET", f"{one}/events", endpoints.events),
        ("GET", "/questions", endpoints.questions),
        ("GET", "/usage", endpoints.usage),
    ]
    application = Starlette(
        routes=[Route(path, endpoints.checked(endpoint), methods=[method]) for method, path, endpoint in routes]
    )
    # No redirect to an address made from a request.
    application.router.redirect_slashes = False
    return application


Answered = Mapping[str, Any] | Response
Endpoint = Callable[[Request, str], Awaitable[Answered]]


class _Endpoints:
    """One method for each route. Each gets the request and its owner, and returns JSON."""

    def __init__(self, chat: Chat, authenticate: Authenticate, origins: frozenset[str]) -> None:
        self._chat = chat
        self._authenticate = authenticate
        self._origins = origins

    def checked(self, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
        """The endpoint behind the checks of a request, and with its errors as answers."""

        async def handle(request: Request) -> Response:
            try:
                self._check(request)
                owner = self._authenticate(request)
                name = await owner if inspect.isawaitable(owner) else owner
                if name is None:
                    raise Refused(Refusal(status=401, code="unauthenticated", message="Sign in first."))
                answer = await endpoint(request, name)
            except Exception as error:
                return _refused(error)
            return answer if isinstance(answer, Response) else json_response(json.dumps(answer).encode())

        return handle

    def _check(self, request: Request) -> None:
        """Errors: ``Refused`` for a page of another origin, and for a body that is not JSON."""
        site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
        if site not in (None, "same-origin", "none") and origin not in self._origins:
            message = "Web pages of other origins cannot use this chat."
            raise Refused(Refusal(status=403, code="origin_not_allowed", message=message))
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if request.method in ("POST", "PATCH") and kind != "application/json":
            message = "Send Content-Type: application/json, and nothing else."
            raise Refused(Refusal(status=415, code="unsupported_media_type", message=message))

    async def index(self, _: Request, owner: str) -> Answered:
        found = self._chat.conversations(owner)
        return {
            "conversations": [
                {
                    "identifier": one.identifier,
                    "title": one.title or one.words,
                    "created": one.first,
                    "changed": one.last,
                    "model": one.model,
                    "turns": one.turns,
                    "calls": one.calls,
                }
                for one in found
            ]
        }

    async def create(self, request: Request, owner: str) -> Answered:
        title = _title(await self._body(request))
        return {"identifier": self._chat.create(owner, title)}

    async def open(self, request: Request, owner: str) -> Answered:
        return self._chat.snapshot(owner, _identifier(request))

    async def rename(self, request: Request, owner: str) -> Answered:
        self._chat.rename(owner, _identifier(request), _title(await self._body(request)))
        return {}

    async def delete(self, request: Request, owner: str) -> Answered:
        await self._chat.delete(owner, _identifier(request))
        return {}

    async def say(self, request: Request, owner: str) -> Answered:
        sent = await self._body(request)
        model, agent = _text(sent, "model"), _text(sent, "agent")
        message = read_message(sent, self._chat.limits)
        self._chat.say(owner, _identifier(request), message, model=model, agent=agent)
        return {}

    async def answer(self, request: Request, owner: str) -> Answered:
        sent = await self._body(request)
        invocation = _required(sent, "invocation")
        return {"left": self._chat.answer(owner, _identifier(request), invocation, sent)}

    async def deliver(self, request: Request, owner: str) -> Answered:
        sent = await self._body(request)
        text, failed = _required(sent, "text"), _text(sent, "error")
        fault = None if failed is None else Fault(category="execution", message=failed)
        result = ResultCanister(
            invocation_id=_required(sent, "invocation"), content=(TextualContent(text=text),), error=fault
        )
        return {"left": self._chat.deliver(owner, _identifier(request), result)}

    async def stop(self, request: Request, owner: str) -> Answered:
        self._chat.stop(owner, _identifier(request))
        return {}

    async def resume(self, request: Request, owner: str) -> Answered:
        self._chat.resume(owner, _identifier(request))
        return {}

    async def events(self, request: Request, owner: str) -> Answered:
        position = request.headers.get("last-event-id") or request.query_params.get("after")
        batches = self._chat.read(owner, _identifier(request), position, quiet=_QUIET)
        return StreamingResponse(_frames(batches), media_type="text/event-stream", headers=_STREAM)

    async def questions(self, _: Request, owner: str) -> Answered:
        return {"conversations": self._chat.questions(owner)}

    async def usage(self, request: Request, owner: str) -> Answered:
        return self._chat.usage(owner, request.query_params.get("since", ""))

    async def _body(self, request: Request) -> Mapping[str, Any]:
        most = self._chat.limits.body_bytes
        body = await receive_body(request.receive, most=most, seconds=_BODY_SECONDS)
        try:
            sent = parse(body or b"{}", max_bytes=most, max_depth=_DEPTH)
        except JsonInvalidity as error:
            message = f"The request is not strict JSON: {error}"
            raise Refused(Refusal(status=400, code="invalid_json", message=message)) from error
        if not is_table(sent):
            raise RequestInvalidity("The request is not a JSON object.")
        return sent


async def _frames(batches: AsyncGenerator[Any, None]) -> AsyncGenerator[bytes, None]:
    """Server-sent events: ``id`` is the position of a reader, ``data`` an event as JSON.

    A reader that needs a snapshot gets ``Resync``, and its stream ends.
    """
    yield b": ripieno\n\n"
    try:
        async with contextlib.aclosing(batches):
            async for batch in batches:
                yield b"".join(b"id: %s\ndata: %s\n\n" % (one.position.encode(), one.data) for one in batch) or b":\n\n"
    except EventsLost:
        yield b'data: {"type":"Resync"}\n\n'


def _refused(error: Exception) -> Response:
    if isinstance(error, Gone):
        return Response(status_code=400)
    refusal = error.refusal if isinstance(error, Refused) else refusal_of(error)
    if isinstance(error, NameAbsence) and error.kind == "conversation":
        # Nothing about other identifiers, nor whether it was somebody else's.
        refusal = Refusal(status=404, code="not_found", message="There is no such conversation.")
    answer = Response(plain(refusal), status_code=refusal.status)
    answer.raw_headers += headers_of(refusal)
    return answer


def _identifier(request: Request) -> str:
    return str(request.path_params["identifier"])


def _text(sent: Mapping[str, Any], name: str) -> str | None:
    value = sent.get(name)
    if value is not None and not isinstance(value, str):
        raise RequestInvalidity(f"{name} is a text.", parameter=name)
    return value


def _required(sent: Mapping[str, Any], name: str) -> str:
    value = _text(sent, name)
    if value is None:
        raise RequestInvalidity(f"{name} is missing.", parameter=name)
    return value


def _title(sent: Mapping[str, Any]) -> str:
    title = _text(sent, "title") or ""
    if len(title) > _TITLE:
        raise RequestInvalidity(f"A title has at most {_TITLE} characters.", parameter="title")
    return title
