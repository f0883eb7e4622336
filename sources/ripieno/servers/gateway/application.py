"""The gateway's application: the routes of all wires, the list of models, metrics and access checks."""

import functools
import secrets
from collections.abc import Mapping, Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, compile_path

from ripieno.assembly import Assembly
from ripieno.conducting import Watcher
from ripieno.descriptors import GatewayDescriptor
from ripieno.descriptors.templates import Template
from ripieno.exceptions import InputError
from ripieno.models import Protocol
from ripieno.models.protocol import Refusal
from ripieno.servers.gateway.endpoint import Endpoint
from ripieno.servers.gateway.errors import plain
from ripieno.servers.gateway.gateway import Gateway, protocols_of
from ripieno.servers.gateway.middleware import Guard, Identifier, path_in
from ripieno.servers.gateway.request_log import RequestObserver

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
    routes: dict[str, Protocol] = {}
    for protocol in protocols_of(assembly):
        for route in protocol.routes:
            holder = routes.setdefault(route, protocol)
            if holder is not protocol:
                raise InputError(f"The protocols {holder.name!r} and {protocol.name!r} both answer at {route}.")

    async def models(_: Request) -> Response:
        return _json(gateway.names.listed)

    async def model(request: Request) -> Response:
        name = request.path_params["name"]
        entry = gateway.names.one(name)
        if entry is None:
            return _json(plain(Refusal(status=404, message=f"There is no model named {name!r}.")), 404)
        return _json(entry)

    async def metrics(_: Request) -> Response:
        return _metrics(observer, wanted=chosen.metrics)

    async def health(_: Request) -> Response:
        return _json(b'{"status":"ok"}')

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
        return _json(plain(refusal), status)

    application = Starlette(
        routes=[
            # Before the wire that has POST routes with the model in the path.
            Route(_MODELS, models, methods=["GET"]),
            Route(_MODELS + "/{name:path}", model, methods=["GET"]),
            *(Route(route, Endpoint(protocol, gateway, chosen, observer)) for route, protocol in routes.items()),
            Route("/healthz", health, methods=["GET"]),
            Route(_METRICS, metrics, methods=["GET"]),
        ],
        middleware=[Middleware(Identifier), Middleware(Guard, chosen, functools.partial(_refuse, routes, observer))],
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


def _metrics(observer: RequestObserver, *, wanted: bool) -> Response:
    if observer.metrics is not None:
        return Response(observer.metrics.text(), media_type=observer.metrics.media_type)
    why = (
        "Their library is not installed. To install it: pip install 'ripieno[otel]'."
        if wanted
        else "They are disabled: metrics = false under [gateway]."
    )
    return _json(plain(Refusal(status=404, message=f"The gateway records no metrics. {why}")), 404)


def _refuse(routes: Mapping[str, Protocol], observer: RequestObserver, path: str, refusal: Refusal) -> bytes:
    protocol = routes.get(path)
    if protocol is None:
        # A route may have parameters, such as the name of a model.
        protocol = next((one for route, one in routes.items() if compile_path(route)[0].match(path)), None)
    observer.refuse("" if protocol is None else protocol.name, refusal, path)
    return plain(refusal) if protocol is None else protocol.refuse(refusal)


def _json(body: bytes, status: int = 200) -> Response:
    return Response(body, status_code=status, media_type="application/json")
