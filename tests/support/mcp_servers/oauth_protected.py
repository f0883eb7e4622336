"""A server that wants tokens, and the authorization server that gives them: two ports, printed in this order."""

import asyncio
import base64
import contextlib
import sys
import urllib.parse
from typing import Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

CREDENTIALS = "Basic " + base64.b64encode(b"ripieno:a-secret-token").decode()


class Verifier:
    """Takes only what the authorization server gives."""

    def __init__(self, resource: str) -> None:
        self.resource = resource

    async def verify_token(self, token: str) -> AccessToken | None:
        if token != "good-token":
            return None
        return AccessToken(token=token, client_id="ripieno", scopes=["read"], subject="alice", resource=self.resource)


async def serve(app: Any, port: int) -> tuple[uvicorn.Server, asyncio.Task[None]]:
    """A running server."""
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="critical", timeout_graceful_shutdown=0))
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return server, task


async def main(issuer_port: int, port: int) -> None:
    """Serves both until it is told to stop."""
    issuer, resource = f"http://127.0.0.1:{issuer_port}", f"http://127.0.0.1:{port}"

    async def metadata(request: Request) -> JSONResponse:
        return JSONResponse(
            {
                "issuer": issuer,
                "authorization_endpoint": f"{issuer}/authorize",
                "token_endpoint": f"{issuer}/token",
                "grant_types_supported": ["client_credentials"],
                "token_endpoint_auth_methods_supported": ["client_secret_basic"],
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
            }
        )

    async def token(request: Request) -> JSONResponse:
        asked = urllib.parse.parse_qs((await request.body()).decode())
        if request.headers.get("authorization") != CREDENTIALS or not asked.get("resource", [""])[0].startswith(
            resource
        ):
            return JSONResponse({"error": "invalid_client"}, status_code=401)
        return JSONResponse(
            {"access_token": "good-token", "token_type": "Bearer", "expires_in": 3600, "scope": asked["scope"][0]}
        )

    app = MCPServer(
        "guarded",
        token_verifier=Verifier(f"{resource}/mcp"),
        auth=AuthSettings(
            issuer_url=issuer,
            resource_server_url=f"{resource}/mcp",
            required_scopes=["read"],
            validate_token_resource=True,
        ),
    )

    @app.tool()
    def who() -> str:
        """Says who calls."""
        access = get_access_token()
        return "nobody" if access is None else str(access.subject)

    routes = [
        Route("/.well-known/oauth-authorization-server", metadata),
        Route("/token", token, methods=["POST"]),
    ]
    _, first = await serve(Starlette(routes=routes), issuer_port)
    _, second = await serve(app.streamable_http_app(), port)
    print(issuer_port, port, flush=True)
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(first, second)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
