"""The floor of a gateway: a pass-through written by hand with Starlette and an HTTP client, without translation.

``python -m benchmarks.passthrough BACKEND PORT``: a body that comes in goes to the backend's chat completions, and what
comes from there goes out, chunk by chunk when it is a stream. The same HTTP implementation as our servers', no log.
"""

import contextlib
import sys
from collections.abc import AsyncGenerator, AsyncIterator

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route


def application(backend: str) -> Starlette:
    """The application in front of one backend."""
    url = f"{backend}/v1/chat/completions"
    client = httpx2.AsyncClient(timeout=None, limits=httpx2.Limits(max_connections=None, max_keepalive_connections=64))

    async def forward(request: Request) -> Response:
        headers = {"content-type": "application/json", "authorization": "Bearer k"}
        asked = client.build_request("POST", url, content=await request.body(), headers=headers)
        answer = await client.send(asked, stream=True)
        kind = answer.headers["content-type"]
        if not kind.startswith("text/event-stream"):
            await answer.aread()
            return Response(answer.content, status_code=answer.status_code, media_type=kind)
        return StreamingResponse(_chunks(answer), status_code=answer.status_code, media_type=kind)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None, None]:
        async with client:
            yield

    return Starlette(routes=[Route("/v1/{path:path}", forward, methods=["POST"])], lifespan=lifespan)


async def _chunks(answer: httpx2.Response) -> AsyncIterator[bytes]:
    async with contextlib.aclosing(answer):
        async for chunk in answer.aiter_raw():
            yield chunk


def main() -> None:
    """Serves until it is ended."""
    backend, port = sys.argv[1:]
    uvicorn.run(
        application(backend),
        host="127.0.0.1",
        port=int(port),
        http="h11",
        loop="asyncio",
        ws="none",
        log_level="error",
        access_log=False,
        server_header=False,
    )


if __name__ == "__main__":
    main()
