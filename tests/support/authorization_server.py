"""A real authorization server and a real MCP server that accepts its tokens, on loopback, with adjustable faults."""

import asyncio
import base64
import contextlib
import dataclasses
import hashlib
import http.client
import itertools
import json
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Generator
from typing import Any

import uvicorn
from mcp.server import MCPServer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

#: The beginning of every secret of these servers, to search for leaks.
MARK = "hush-"


class Authority:
    """Issues tokens for codes, and renews them. A test may set its attributes, which are faults, at any time."""

    def __init__(self) -> None:
        self.url = ""
        self.lifetime: int | None = 3600
        self.renews: int = 200
        self.revokes: int | None = 200
        self.denies = False
        self.registers = True
        self.rotates = True
        #: The ``Authorization`` header of a client without a user.
        self.credentials: str | None = None
        self.state: str | None = None
        self.iss: str | None = ""
        self.page: str | None = None
        #: Called during a renewal.
        self.meanwhile: Callable[[], None] | None = None
        #: The requests: path and parameters.
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.scopes: dict[str, str] = {}
        self.renewable: dict[str, str] = {}
        self._codes: dict[str, dict[str, str]] = {}
        self._count = itertools.count()

    def count(self, path: str) -> int:
        """The number of requests to a path."""
        return sum(one == path for one, _ in self.asked)

    def last(self, path: str) -> dict[str, str]:
        """The parameters of the last request to a path."""
        return [parameters for one, parameters in self.asked if one == path][-1]

    def app(self) -> Starlette:
        posts = {"register": self._register, "token": self._token, "revoke": self._revoke}
        routes = [Route(f"/{name}", take, methods=["POST"]) for name, take in posts.items()]
        routes += [
            Route("/.well-known/oauth-authorization-server", self._metadata),
            Route("/authorize", self._authorize),
        ]
        return Starlette(routes=routes)

    async def _metadata(self, request: Request) -> Response:
        described: dict[str, Any] = {
            "issuer": self.url,
            "authorization_endpoint": self.page or f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "none"],
            "authorization_response_iss_parameter_supported": self.iss is not None,
        }
        if self.registers:
            described["registration_endpoint"] = f"{self.url}/register"
        if self.revokes is not None:
            described["revocation_endpoint"] = f"{self.url}/revoke"
        return JSONResponse(described)

    async def _register(self, request: Request) -> Response:
        given = await request.json()
        self.asked.append(("/register", {"redirect_uri": given["redirect_uris"][0]}))
        secret = {"client_id": f"client-{next(self._count)}", "client_secret": f"{MARK}client-{next(self._count)}"}
        return JSONResponse({**given, **secret, "token_endpoint_auth_method": "client_secret_basic"}, status_code=201)

    async def _authorize(self, request: Request) -> Response:
        given = dict(request.query_params)
        self.asked.append(("/authorize", given))
        answer = {"state": given["state"] if self.state is None else self.state}
        if self.denies:
            answer |= {"error": "access_denied", "error_description": "No.\x1b[31m"}
        else:
            code = f"{MARK}code-{next(self._count)}"
            self._codes[code] = given
            answer["code"] = code
        if self.iss is not None:
            answer["iss"] = self.iss or self.url
        return RedirectResponse(f"{given['redirect_uri']}?{urllib.parse.urlencode(answer)}", status_code=302)

    async def _token(self, request: Request) -> Response:
        form = dict(urllib.parse.parse_qsl((await request.body()).decode()))
        self.asked.append(("/token", {**form, "authorization": request.headers.get("authorization", "")}))
        if form["grant_type"] == "refresh_token":
            if self.meanwhile is not None:
                self.meanwhile()
            scope = self.renewable.get(form["refresh_token"])
            if self.renews != 200 or scope is None:
                failure = {"error": "invalid_grant", "error_description": f"{form['refresh_token']} is over"}
                return JSONResponse(failure, status_code=self.renews if self.renews != 200 else 400)
            if self.rotates:
                del self.renewable[form["refresh_token"]]
        elif form["grant_type"] == "client_credentials":
            if request.headers.get("authorization") != self.credentials:
                return JSONResponse({"error": "invalid_client"}, status_code=401)
            scope = form.get("scope", "")
        else:
            given = self._codes.pop(form["code"])
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            right = (given["code_challenge"], given["redirect_uri"], given["client_id"])
            if right != (challenge, form["redirect_uri"], form["client_id"]):
                return JSONResponse({"error": "invalid_grant"}, status_code=400)
            scope = given.get("scope", "")
        token, renewal = f"{MARK}access-{next(self._count)}", f"{MARK}refresh-{next(self._count)}"
        self.scopes[token] = scope
        self.renewable[renewal] = scope
        answer: dict[str, Any] = {"access_token": token, "token_type": "Bearer", "refresh_token": renewal}
        if self.lifetime is not None:
            answer["expires_in"] = self.lifetime
        return JSONResponse({**answer, "scope": scope})

    async def _revoke(self, request: Request) -> Response:
        form = dict(urllib.parse.parse_qsl((await request.body()).decode()))
        self.asked.append(("/revoke", {**form, "authorization": request.headers.get("authorization", "")}))
        return Response(status_code=self.revokes or 404)


class Resource:
    """An MCP server whose tools require a token, one of them with an additional scope."""

    def __init__(self, authority: Authority) -> None:
        self.authority = authority
        self.origin = ""
        #: The received tokens, in order.
        self.tokens: list[str] = []

    @property
    def url(self) -> str:
        return f"{self.origin}/mcp"

    def app(self) -> Any:
        """The server behind a check of tokens."""
        server = MCPServer("guarded")

        @server.tool()
        def who() -> str:
            """Says who calls."""
            return "alice"

        @server.tool()
        def erase() -> str:
            """Wants more."""
            return "erased"

        inner = server.streamable_http_app()

        async def guarded(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                await inner(scope, receive, send)
                return
            request = Request(scope, receive)
            if request.url.path.startswith("/.well-known/oauth-protected-resource"):
                described = {"resource": self.url, "authorization_servers": [self.authority.url]}
                await JSONResponse({**described, "scopes_supported": ["read"]})(scope, receive, send)
                return
            body = await request.body()
            refused = self._refuse(request.headers.get("authorization", ""), body)
            if refused is not None:
                await refused(scope, receive, send)
                return
            parts = iter([{"type": "http.request", "body": body, "more_body": False}])

            async def replay() -> Any:
                return next(parts, None) or await receive()

            await inner(scope, replay, send)

        return guarded

    def _refuse(self, authorization: str, body: bytes) -> Response | None:
        token = authorization.removeprefix("Bearer ")
        if token:
            self.tokens.append(token)
        scopes = self.authority.scopes.get(token)
        metadata = f'resource_metadata="{self.origin}/.well-known/oauth-protected-resource/mcp"'
        if scopes is None:
            header = f'Bearer error="invalid_token", {metadata}'
            return JSONResponse({"error": "invalid_token"}, status_code=401, headers={"www-authenticate": header})
        message = json.loads(body) if body else {}
        wants = message.get("method") == "tools/call" and message["params"]["name"] == "erase"
        if wants and "write" not in scopes.split():
            header = f'Bearer error="insufficient_scope", scope="write", {metadata}'
            return JSONResponse({"error": "insufficient_scope"}, status_code=403, headers={"www-authenticate": header})
        return None


@dataclasses.dataclass(slots=True)
class Place:
    """Both servers, and a second authority that no metadata names yet."""

    authority: Authority
    other: Authority
    resource: Resource

    def reset(self) -> None:
        """Restores the initial state, at the same URLs."""
        for one in (self.authority, self.other):
            vars(one).update(vars(Authority()) | {"url": one.url})
        self.resource.authority = self.authority
        self.resource.tokens.clear()


@contextlib.contextmanager
def place() -> Generator[Place, None, None]:
    """Both servers, in a thread of their own."""
    authority, other = Authority(), Authority()
    resource = Resource(authority)
    with contextlib.ExitStack() as stack:
        authority.url = stack.enter_context(_served(authority.app()))
        other.url = stack.enter_context(_served(other.app()))
        resource.origin = stack.enter_context(_served(resource.app()))
        yield Place(authority, other, resource)


@contextlib.contextmanager
def _served(app: Any) -> Generator[str, None, None]:
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", timeout_graceful_shutdown=0))
    started = threading.Event()
    ports: list[int] = []

    async def serve() -> None:
        task = asyncio.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        ports.append(server.servers[0].sockets[0].getsockname()[1])
        started.set()
        await task

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="authority")
    thread.start()
    assert started.wait(10)
    try:
        yield f"http://127.0.0.1:{ports[0]}"
    finally:
        server.should_exit = True
        thread.join()


class Browser:
    """A user's browser: follows URLs, and keeps the pages."""

    def __init__(self) -> None:
        self.visited: list[str] = []
        self.pages: list[str] = []

    async def __call__(self, url: str) -> None:
        await asyncio.to_thread(self.go, url)

    def go(self, url: str) -> None:
        """Follows a URL through its redirects."""
        self.visited.append(url)
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                self.pages.append(answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                self.pages.append(error.read().decode())
        except (OSError, http.client.HTTPException) as error:
            self.pages.append(str(error))
