"""The stored events of a background response, as a stream for a client."""

import asyncio
import contextlib

from starlette.types import Send

from ripieno.servers.gateway.responses import COMMENT, STREAM
from ripieno.servers.gateway.stored.background import BackgroundRuns, Key


async def stream_events(runs: BackgroundRuns, key: Key, send: Send, *, quiet: float, after: int = -1) -> None:
    """Sends a response's events with numbers over ``after``, and a comment after ``quiet`` seconds of silence.

    The last part of the answer is the caller's to send.
    """
    loop = asyncio.get_running_loop()
    await send({"type": "http.response.start", "status": 200, "headers": STREAM})
    sent = loop.time()
    async with contextlib.aclosing(runs.follow(*key, after)) as events:
        async for piece in events:
            if not piece and loop.time() - sent < quiet:
                continue
            await send({"type": "http.response.body", "body": piece or COMMENT, "more_body": True})
            sent = loop.time()
