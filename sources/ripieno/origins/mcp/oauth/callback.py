"""The local address to which a browser returns after a sign-in: one path, one answer, then it is closed."""

import asyncio
import contextlib
import html
import secrets
import urllib.parse
from collections.abc import AsyncGenerator

from ripieno.origins.mcp.oauth.person import SignInRefused
from ripieno.origins.mcp.text import clean

HOST = "127.0.0.1"
PATH = "/callback"
#: Seconds and bytes for a browser's request.
_PATIENCE = 10.0
_CLOSING = 0.2
_LONGEST = 16 * 1024
#: Characters shown of an authorization server's message.
_SHOWN = 300
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>ripieno</title>
<body style="font-family: sans-serif; margin: 3em"><h1>{title}</h1><p>{text}</p></body></html>
"""
_STATUSES = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed"}


class Loopback:
    """Waits for the browser. ``strangers`` counts requests without the state of this sign-in."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.strangers = 0
        self._state: str | None = None
        self._answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()

    @property
    def redirect_uri(self) -> str:
        """The address to which the browser returns."""
        return f"http://{HOST}:{self.port}{PATH}"

    def expect(self, url: str) -> None:
        """Accepts only the answer to this request; another page does not know its state."""
        self._state = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query)).get("state")

    async def answer(self) -> dict[str, str]:
        """The parameters that the browser brought. Errors: ``SignInRefused``."""
        given = await self._answer
        if "error" in given:
            described = " ".join(given.get("error_description", "").split())
            text = clean(f"{given['error']}: {described}" if described else given["error"])[0][:_SHOWN]
            if given["error"] == "access_denied":
                raise SignInRefused(f"The sign-in was denied ({text}).")
            raise SignInRefused(f"The authorization server refused the sign-in ({text}).")
        return given

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers one request."""
        try:
            async with asyncio.timeout(_PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
                status, title, text = self._judge(head.decode("latin-1"))
                writer.write(_response(status, title, text))
                await writer.drain()
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return  # It was not a browser, or it has disconnected.
        finally:
            writer.close()

    def _judge(self, head: str) -> tuple[int, str, str]:
        line, *fields = head.split("\r\n")
        method, _, rest = line.partition(" ")
        parts = urllib.parse.urlsplit(rest.partition(" ")[0])
        hosts = {name.strip().lower(): value.strip() for name, _, value in (one.partition(":") for one in fields)}
        if parts.path != PATH or hosts.get("host") != f"{HOST}:{self.port}":
            return 404, "Nothing is here", "This address is only for the end of a sign-in."
        if method != "GET":
            return 405, "Nothing is here", "This address is only for the end of a sign-in."
        pairs = urllib.parse.parse_qsl(parts.query, keep_blank_values=True)
        given = dict(pairs)
        state = given.get("state", "")
        known = self._state is not None and secrets.compare_digest(state.encode(), self._state.encode())
        if not known or len(given) != len(pairs) or not ("code" in given or "error" in given):
            self.strangers += 1
            return 400, "This is another sign-in", "ripieno does not wait for this sign-in. Nothing was changed."
        if not self._answer.done():
            self._answer.set_result(given)
        if "error" in given:
            return 200, "Not signed in", "The sign-in was refused. You can close this window."
        return 200, "Back to ripieno", "The terminal shows the result of the sign-in. You can close this window."


def _response(status: int, title: str, text: str) -> bytes:
    body = _PAGE.format(title=html.escape(title), text=html.escape(text)).encode()
    head = (
        f"HTTP/1.1 {status} {_STATUSES[status]}\r\nContent-Type: text/html; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
        "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


@contextlib.asynccontextmanager
async def listening_back(port: int, registered: int = 0) -> AsyncGenerator[Loopback, None]:
    """Listens on this machine only. ``port`` 0: the ``registered`` one if it is free, or any.

    Errors: ``OSError`` when the port is in use.
    """
    loopback: Loopback | None = None
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if loopback is None:
            writer.close()
            return
        task = asyncio.get_running_loop().create_task(loopback.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    try:
        server = await asyncio.start_server(accept, HOST, port or registered, limit=_LONGEST)
    except OSError:
        if port or not registered:
            raise
        server = await asyncio.start_server(accept, HOST, 0, limit=_LONGEST)
    async with server:
        loopback = Loopback(server.sockets[0].getsockname()[1])
        try:
            yield loopback
        finally:
            server.close()
            if tasks:
                # Answers in progress are completed; browsers also open connections without a request.
                await asyncio.wait(tasks, timeout=_CLOSING)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
