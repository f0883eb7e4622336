"""The gateway's application: the routes of all wires, the list of models, metrics and access checks."""

import asyncio
import contextlib
import dataclasses
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute, compile_path
from starlette.types import Receive, Scope, Send

from ripieno.assembly import Assembly
from ripieno.canisters.events import Batches
from ripieno.conducting import Watcher
from ripieno.descriptors import GatewayDescriptor
from ripieno.descriptors.templates import Template
from ripieno.exceptions import InputError
from ripieno.models import Protocol
from ripieno.models.protocol import Asked, Refusal
from ripieno.servers.gateway.gateway import Gateway, protocols_of
from ripieno.servers.gateway.middleware import Guard, Identifier, Slots, path_in
from ripieno.servers.gateway.request_log import RequestLog, RequestObserver
from ripieno.servers.gateway.responses import Streaming, send_body, send_refusal, while_present
from ripieno.servers.gateway.sockets import GENERATES, PREVIOUS, SocketEndpoint
from ripieno.servers.http.bodies import Gone, json_response, read_asked, receive_body, routes_of
from ripieno.servers.http.errors import plain, refusal_of
from ripieno.servers.http.limits import MemoryBudget, Refused, RequestLimits, Reservation

_MODELS = "/v1/models"
_METRICS = "/metrics"


def create_application(
    assembly: Assembly, *, settings: GatewayDescriptor | None = None, watchers: Sequence[Watcher] = ()
) -> Starlette:
    """The application over an entered assembly. Default ``settings``: those of its configuration.

    ``watchers`` observe requests without a run; those of the assembly observe runs. The server enters the assembly
    around the application. Errors: ``InputError`` for an unknown model, and if two protocols have the same route.
    """
    chosen = assembly.configuration.gateway if settings is None else settings
    gateway = Gateway(assembly, chosen, _secret(assembly, chosen), watchers)
    observer = RequestObserver(metrics=chosen.metrics, openings=lambda: assembly.openings)
    budget = MemoryBudget(chosen.memory_bytes)
    routes = routes_of(protocols_of(assembly))

    async def models(_: Request) -> Response:
        return json_response(gateway.names.listed)

    async def model(request: Request) -> Response:
        name = request.path_params["name"]
        entry = gateway.names.one(name)
        if entry is None:
            return json_response(plain(Refusal(status=404, message=f"There is no model named {name!r}.")), 404)
        return json_response(entry)

    async def metrics(_: Request) -> Response:
        if observer.metrics is not None:
            return Response(observer.metrics.text(), media_type=observer.metrics.media_type)
        why = (
            "Their library is not installed. To install it: pip install 'ripieno[otel]'."
            if chosen.metrics
            else "They are disabled: metrics = false under [gateway]."
        )
        return json_response(plain(Refusal(status=404, message=f"The gateway records no metrics. {why}")), 404)

    async def health(_: Request) -> Response:
        return json_response(b'{"status":"ok"}')

    compacting = {f"{route}/compact": one for route, one in routes.items() if one.compacted is not None}
    routes = {**routes, **compacting}
    posted = [("POST", route.replace(":path}", "}")) for route in routes]
    listed = [*posted, *(("GET", path) for path in (_MODELS, "/healthz", _METRICS))]

    async def refuse(request: Request, error: Exception) -> Response:
        """Answers for an unknown path in the plain form, because the wire is unknown."""
        status = error.status_code if isinstance(error, HTTPException) else 500
        path = request.scope["path"]
        # The application may be mounted below another path.
        root = path[: len(path) - len(path_in(request.scope))]
        available = ", ".join(f"{method} {root}{route}" for method, route in listed)
        message = f"Unknown route: {request.method} {path}. Available: {available}."
        refusal = Refusal(status=status, message=message)
        observer.refuse("", refusal, path)
        return json_response(plain(refusal), status)

    def refuse_early(path: str, refusal: Refusal) -> bytes:
        # A route may have parameters, such as the name of a model.
        fitting = (one for route, one in routes.items() if compile_path(route)[0].match(path))
        protocol = routes.get(path) or next(fitting, None)
        observer.refuse("" if protocol is None else protocol.name, refusal, path)
        return plain(refusal) if protocol is None else protocol.refuse(refusal)

    slots = Slots(chosen.concurrency)
    endpoints = {
        route: (Compactions if route in compacting else Endpoint)(protocol, gateway, chosen, observer, budget)
        for route, protocol in routes.items()
    }
    application = Starlette(
        routes=[
            # Before the wire that has POST routes with the model in the path.
            Route(_MODELS, models, methods=["GET"]),
            Route(_MODELS + "/{name:path}", model, methods=["GET"]),
            *(Route(route, endpoint) for route, endpoint in endpoints.items()),
            *(
                WebSocketRoute(route, SocketEndpoint(endpoints[route], protocol, chosen, slots, budget))
                for route, protocol in routes.items()
                if protocol.sockets and route not in compacting
            ),
            Route("/healthz", health, methods=["GET"]),
            Route(_METRICS, metrics, methods=["GET"]),
        ],
        middleware=[Middleware(Identifier), Middleware(Guard, chosen, slots, refuse_early)],
        exception_handlers={404: refuse, 405: refuse},
    )
    # No redirect to an address made from a request.
    application.router.redirect_slashes = False
    return application


def _secret(assembly: Assembly, settings: GatewayDescriptor) -> bytes:
    """The secret for signatures: the operator's, or a random one of this application."""
    if not settings.secret:
        return secrets.token_bytes(32)
    template = Template.parse(settings.secret, variables=True)
    lacking = [name for name in template.variables if not assembly.surroundings.secrets.get(name)]
    if lacking:
        raise InputError(f"secret under [gateway] needs the variable {' and '.join(lacking)}, which is not set.")
    return template.header({}, assembly.surroundings.secrets).encode()


class Endpoint:
    """An ASGI application for the requests of one wire."""

    _streams = True

    def __init__(
        self,
        protocol: Protocol,
        gateway: Gateway,
        settings: GatewayDescriptor,
        observer: RequestObserver,
        budget: MemoryBudget,
    ) -> None:
        self._protocol = protocol.variant(settings.events)
        self._gateway = gateway
        self._settings = settings
        self._observer = observer
        self._budget = budget
        self._limits = RequestLimits(
            messages=settings.messages, parts=settings.parts, tools=settings.tools, containers=settings.containers
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._observer.observe(self._protocol.name, scope) as log:
            reservation = self._budget.reserve()
            try:
                await self._handle(scope, receive, send, log, reservation)
            finally:
                reservation.release()

    async def _handle(
        self, scope: Scope, receive: Receive, send: Send, log: RequestLog, reservation: Reservation
    ) -> None:
        protocol, settings = self._protocol, self._settings
        if scope["method"] != "POST":
            message = f"{scope['path']} accepts POST, not {scope['method']}."
            await self._refuse(send, Refusal(status=405, message=message), log)
            return
        try:
            most = settings.body_bytes
            parameters: dict[str, Any] = scope.get("path_params") or {}
            body = await receive_body(receive, most=most, seconds=settings.body_seconds, reservation=reservation)
            asked = await read_asked(body, protocol, parameters, most=most, limits=self._limits)
            del body
        except Refused as refused:
            await self._refuse(send, refused.refusal, log)
        except Gone:
            return
        except Exception as error:
            await self._refuse(send, refusal_of(error), log)
        else:
            state = scope.get("state", {})
            previous = state.get(PREVIOUS)
            if previous is not None:
                # The answer names it, as the client did.
                asked = dataclasses.replace(asked, native={**asked.native, "previous_response_id": previous})
            log.read(asked)
            await self._answer(asked, state, receive, send, log)

    async def _refuse(self, send: Send, refusal: Refusal, log: RequestLog) -> None:
        log.refuse(refusal)
        await send_refusal(send, self._protocol, refusal)

    async def _answer(
        self, asked: Asked, state: Mapping[str, Any], receive: Receive, send: Send, log: RequestLog
    ) -> None:
        settings, caller = self._settings, state.get("caller", "")
        with while_present(receive) as presence:
            if asked.controls.stream and self._streams:
                batches = self._respond(asked, caller, log)
                if not state.get(GENERATES, True):
                    batches = self._gateway.prepare(asked, log)
                streaming = Streaming(send, self._protocol, asked, quiet=settings.keep_alive, log=log)
                await streaming.send(batches, presence, seconds=settings.seconds)
                return
            try:
                async with asyncio.timeout(settings.seconds):
                    answer = await self._whole(asked, caller, log)
            except BaseException as error:
                refusal = presence.refusal_for(error)
                presence.stop()
                await self._refuse(send, refusal, log)
                return
            presence.stop()
            log.answer()
            await send_body(send, answer)

    def _respond(self, asked: Asked, caller: str, log: RequestLog) -> Batches:
        return self._gateway.respond(asked, self._protocol, caller, log)

    async def _whole(self, asked: Asked, caller: str, log: RequestLog) -> bytes:
        """The body of an answer that is not streamed."""
        async with contextlib.aclosing(self._respond(asked, caller, log)) as batches:
            events = [event async for batch in batches for event in batch]
        return self._protocol.encode(events, asked)


class Compactions(Endpoint):
    """An ASGI application for requests for a compaction."""

    _streams = False

    async def _whole(self, asked: Asked, caller: str, log: RequestLog) -> bytes:
        return await self._gateway.compact(asked, self._protocol, caller, log)
