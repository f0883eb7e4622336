"""Requests of every HTTP interface of a chat: their checks, owners and bodies, and errors as answers."""

import inspect
import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ripieno.exceptions import JsonInvalidity, NameAbsence, RequestInvalidity
from ripieno.jsonvalues import is_table, listed, parse
from ripieno.models.protocol import Refusal
from ripieno.servers.http.bodies import Gone, json_response, receive_body
from ripieno.servers.http.errors import headers_of, plain, refusal_of
from ripieno.servers.http.limits import Refused

#: Names the owner of a request; None if the request has none, which is then refused.
Authenticate = Callable[[Request], str | Awaitable[str | None] | None]
#: What an endpoint returns: JSON, or a whole response. It gets the request and its owner.
Answered = Mapping[str, Any] | Response
Endpoint = Callable[[Request, str], Awaitable[Answered]]
#: The method of a route whose body is a file.
UPLOAD = "UPLOAD"
#: Seconds of silence after which a stream sends a comment, so that proxies keep it open.
QUIET = 15.0
#: The headers of a stream of events.
STREAM_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}
#: Seconds for the body of a request to arrive.
_BODY_SECONDS = 60.0
_DEPTH = 64


class RequestChecks:
    """The checks of an interface, before each of its endpoints.

    ``origins`` are pages of other origins that may use it. A body has at most ``body_bytes``.
    """

    def __init__(self, authenticate: Authenticate, origins: Collection[str], *, body_bytes: int) -> None:
        self._authenticate = authenticate
        self._origins = frozenset(listed(origins))
        self._body_bytes = body_bytes

    def application(self, routes: Sequence[tuple[str, str, Endpoint]], *more: Route) -> Starlette:
        """An application of these routes: method, path, endpoint. ``more`` are without checks.

        Bodies are JSON, but for the method ``UPLOAD``: a ``POST`` of any type.
        """
        checked = [
            Route(
                path,
                self.checked(endpoint, raw=method == UPLOAD),
                methods=["POST" if method == UPLOAD else method],
            )
            for method, path, endpoint in routes
        ]
        application = Starlette(routes=[*checked, *more])
        # No redirect to an address made from a request.
        application.router.redirect_slashes = False
        return application

    def checked(self, endpoint: Endpoint, *, raw: bool = False) -> Callable[[Request], Awaitable[Response]]:
        """The endpoint behind the checks of a request, and with its errors as answers. ``raw``: its body is no JSON."""

        async def handle(request: Request) -> Response:
            try:
                self._check(request, raw=raw)
                owner = self._authenticate(request)
                name = await owner if inspect.isawaitable(owner) else owner
                if name is None:
                    raise Refused(Refusal(status=401, code="unauthenticated", message="Sign in first."))
                answer = await endpoint(request, name)
            except Exception as error:
                return _refused(error)
            return answer if isinstance(answer, Response) else json_response(json.dumps(answer).encode())

        return handle

    async def raw_body(self, request: Request, *, most: int) -> bytes:
        """The body of a request, of at most ``most`` bytes. Errors: ``Refused``, ``Gone``."""
        return await receive_body(request.receive, most=most, seconds=_BODY_SECONDS)

    async def body(self, request: Request) -> Mapping[str, Any]:
        """The body of a request: a JSON object. Errors: ``Refused``, ``RequestInvalidity``, ``Gone``."""
        body = await self.raw_body(request, most=self._body_bytes)
        try:
            sent = parse(body or b"{}", max_bytes=self._body_bytes, max_depth=_DEPTH)
        except JsonInvalidity as error:
            message = f"The request is not strict JSON: {error}"
            raise Refused(Refusal(status=400, code="invalid_json", message=message)) from error
        if not is_table(sent):
            raise RequestInvalidity("The request is not a JSON object.")
        return sent

    def _check(self, request: Request, *, raw: bool) -> None:
        """Errors: ``Refused`` for a page of another origin, and for a body that is not JSON."""
        site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
        foreign = site not in (None, "same-origin", "none")
        if raw and site is None and origin is not None:
            # A browser sends a text to any site without asking; an old one says only where the page is from.
            foreign = origin.partition("://")[2] != request.headers.get("host")
        if foreign and origin not in self._origins:
            message = "Web pages of other origins cannot use this chat."
            raise Refused(Refusal(status=403, code="origin_not_allowed", message=message))
        if not raw and request.method in ("POST", "PATCH") and type_in(request) != "application/json":
            message = "Send Content-Type: application/json, and nothing else."
            raise Refused(Refusal(status=415, code="unsupported_media_type", message=message))


def identifier_of(request: Request) -> str:
    """The identifier of the conversation, from the path."""
    return str(request.path_params["identifier"])


def number_in(request: Request, name: str, *, digits: int = 9) -> int | None:
    """A number of the query, or None. Errors: ``RequestInvalidity``."""
    text = request.query_params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= digits):
        raise RequestInvalidity(f"{name} is a number.", parameter=name)
    return int(text)


def type_in(request: Request) -> str:
    """The type of the body, from its header."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def text(sent: Mapping[str, Any], name: str) -> str | None:
    """A text of a body, or None. Errors: ``RequestInvalidity``."""
    value = sent.get(name)
    if value is not None and not isinstance(value, str):
        raise RequestInvalidity(f"{name} is a text.", parameter=name)
    return value


def required(sent: Mapping[str, Any], name: str) -> str:
    """A text that a body must have. Errors: ``RequestInvalidity``."""
    value = text(sent, name)
    if value is None:
        raise RequestInvalidity(f"{name} is missing.", parameter=name)
    return value


def _refused(error: Exception) -> Response:
    if isinstance(error, Gone):
        return Response(status_code=400)
    refusal = refusal_of(error)
    if isinstance(error, NameAbsence) and error.kind in ("conversation", "content", "allowance"):
        # Nothing about other identifiers, nor whether another owner has it.
        message = f"There is no such {error.kind}." + (" Upload it again." if error.kind == "content" else "")
        refusal = Refusal(status=404, code="not_found", message=message)
    answer = Response(plain(refusal), status_code=refusal.status)
    answer.raw_headers += headers_of(refusal)
    return answer
