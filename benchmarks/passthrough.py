"""The floor of a gateway: a pass-through written by hand with aiohttp's server and client, without translation.

``python -m benchmarks.passthrough BACKEND PORT``: a body that comes in goes to the backend's chat completions, and what
comes from there goes out, chunk by chunk when it is a stream. No validation, no log.
"""

import sys
from collections.abc import AsyncGenerator

import aiohttp
from aiohttp import web

_SESSION = web.AppKey("session", aiohttp.ClientSession)
_HEADERS = {"content-type": "application/json", "authorization": "Bearer k"}


def application(backend: str) -> web.Application:
    """The application in front of one backend."""
    url = f"{backend}/v1/chat/completions"

    async def forward(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        async with request.app[_SESSION].post(url, data=body, headers=_HEADERS) as answer:
            headers = {"content-type": answer.headers["content-type"]}
            if not headers["content-type"].startswith("text/event-stream"):
                return web.Response(body=await answer.read(), status=answer.status, headers=headers)
            response = web.StreamResponse(status=answer.status, headers=headers)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response

    async def connected(app: web.Application) -> AsyncGenerator[None, None]:
        connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=None)
        jar = aiohttp.DummyCookieJar()
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, cookie_jar=jar) as session:
            app[_SESSION] = session
            yield

    app = web.Application()
    app.router.add_post("/v1/{path:.*}", forward)
    app.cleanup_ctx.append(connected)
    return app


def main() -> None:
    """Serves until it is ended."""
    backend, port = sys.argv[1:]
    web.run_app(application(backend), host="127.0.0.1", port=int(port), print=None, access_log=None)


if __name__ == "__main__":
    main()
