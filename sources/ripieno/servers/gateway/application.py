"""The gateway's application: the routes of all wires, the list of models, metrics and access checks."""

import secrets
from collections.abc import Callable, Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute, compile_path

from ripieno.assembly import Assembly
from ripieno.conducting import Watcher
from ripieno.descriptors import GatewayDescriptor
from ripieno.descriptors.gateway import store_fault
from ripieno.descriptors.templates import Template
from ripieno.exceptions import InputError
from ripieno.models.protocol import Refusal
from ripieno.origins.settings import advise_setting
from ripieno.servers.gateway.endpoint import Compactions, Endpoint, Serving
from ripieno.servers.gateway.gateway import Gateway, protocols_of
from ripieno.servers.gateway.middleware import Guard, Identifier, Slots, path_in
from ripieno.servers.gateway.request_log import RequestObserver
from ripieno.servers.gateway.sockets import SocketEndpoint
from ripieno.servers.gateway.stored.background import BackgroundRuns
from ripieno.servers.gateway.stored.library import Library
from ripieno.servers.gateway.stored.routes import stored_routes
from ripieno.servers.http.bodies import json_response, routes_of
from ripieno.servers.http.errors import plain
from ripieno.servers.http.limits import MemoryBudget
from ripieno.storage.dispatch.contract import Dispatcher

_MODELS = "/v1/models"
_METRICS = "/metrics"


def create_application(
    assembly: Assembly,
    *,
    settings: GatewayDescriptor | None = None,
    watchers: Sequence[Watcher] = (),
    clock: Callable[[], float] | None = None,
) -> Starlette:
    """The application over an entered assembly. Default ``settings``: those of its configuration.

    ``watchers`` observe requests without a run; those of the assembly observe runs. The server enters the assembly
    around the application. ``clock`` replaces the one of the database, for what is stored. Errors: ``InputError`` for
    an unknown model, for a store without a secret or with another one than before, if that cannot be read, and if two
    protocols have the same route.
    """
    durable = assembly.configuration.durable
    chosen = assembly.configuration.gateway if settings is None else settings
    dispatcher = assembly.dispatcher if durable.servers and chosen.store is not None else None
    serving = serving_of(assembly, chosen, watchers=watchers, clock=clock, dispatcher=dispatcher)
    gateway, runs, observer, budget = serving.gateway, serving.runs, serving.observer, serving.budget
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
    listed: list[tuple[str, str]] = [*posted, *(("GET", path) for path in (_MODELS, "/healthz", _METRICS))]

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

    slots = serving.slots
    endpoints = {
        route: (Compactions if route in compacting else Endpoint)(protocol, serving)
        for route, protocol in routes.items()
    }
    direct = {route: one for route, one in endpoints.items() if "{" not in route}
    kept = [] if runs is None else stored_routes(routes, chosen, runs, budget, observer)
    listed += [(method, route.path) for route in kept for method in sorted(route.methods or ()) if method != "HEAD"]
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
            *kept,
            Route("/healthz", health, methods=["GET"]),
            Route(_METRICS, metrics, methods=["GET"]),
        ],
        middleware=[Middleware(Identifier), Middleware(Guard, chosen, slots, refuse_early, direct)],
        exception_handlers={404: refuse, 405: refuse},
    )
    # No redirect to an address made from a request.
    application.router.redirect_slashes = False
    return application


def serving_of(
    assembly: Assembly,
    settings: GatewayDescriptor,
    *,
    watchers: Sequence[Watcher] = (),
    clock: Callable[[], float] | None = None,
    dispatcher: Dispatcher | None = None,
) -> Serving:
    """The shared parts of all endpoints. With a ``dispatcher``, workers answer background responses.

    Errors: those of ``create_application``.
    """
    fault = store_fault(settings)
    if fault is not None:
        _, why, advice = fault
        raise InputError(f"{why}. {advice}.")
    secret = _secret(assembly, settings)
    runs: BackgroundRuns | None = None
    gateway = Gateway(assembly, settings, secret, watchers)
    if settings.store is not None:
        library = Library.of(assembly, settings.store, secret, clock)
        runs = BackgroundRuns(library, dispatcher)
        assembly.endings.push_async_callback(runs.close)
        # Otherwise each request would fail, after its model was asked and calls were saved.
        library.responses.keys.check()
    return Serving(
        gateway=gateway,
        settings=settings,
        observer=RequestObserver(metrics=settings.metrics, openings=lambda: assembly.openings),
        budget=MemoryBudget(settings.memory_bytes),
        slots=Slots(settings.concurrency),
        runs=runs,
    )


def _secret(assembly: Assembly, settings: GatewayDescriptor) -> bytes:
    """The secret for signatures: the operator's, or a random one of this application."""
    if not settings.secret:
        return secrets.token_bytes(32)
    template = Template.parse(settings.secret, variables=True)
    lacking = [name for name in template.variables if not assembly.surroundings.secrets.get(name)]
    if lacking:
        advice = advise_setting(lacking, assembly.surroundings)
        raise InputError(
            f"secret under [gateway] needs the variable {' and '.join(lacking)}, which is not set. {advice}"
        )
    return template.header({}, assembly.surroundings.secrets).encode()
