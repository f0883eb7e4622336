"""Clients of the gateway that leave, at any time: what they asked for is given up at once, as the backend sees it."""

import asyncio
import contextlib
import json
import pathlib
import random
from collections.abc import AsyncGenerator

from starlette.types import Receive, Scope, Send

from ripieno.servers.http.server import serve
from tests.counts import ATTACK, count
from tests.support.gateways import KINDS, Front, fronting

CHAT = KINDS["openai-chat"]
#: Seconds in which a backend must see that nobody waits for it any more.
PROMPT = 0.25
#: Before a request is complete; before anything is said, asked for whole or streamed; in the middle; near the end.
PHASES = ("asking", "whole", "silent", "begun", "talking", "ending")
WIRES = {
    "/v1/responses": lambda said: {"model": "m", "input": said},
    "/v1/chat/completions": lambda said: {"model": "m", "messages": [{"role": "user", "content": said}]},
    "/v1/messages": lambda said: {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": said}]},
}


def chunk(text: str, reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": reason}
    return b"data: %s\n\n" % json.dumps({"id": "c", "model": "small", "choices": [choice]}).encode()


class Backend:
    """Answers as the text of a request says, and notes when each began and when its client had left."""

    def __init__(self) -> None:
        self.open: set[str] = set()
        self.left: dict[str, float] = {}
        self._events: dict[tuple[str, str], asyncio.Event] = {}

    def event(self, name: str, what: str) -> asyncio.Event:
        return self._events.setdefault((name, what), asyncio.Event())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        name: str = json.loads(body)["messages"][-1]["content"]
        self.open.add(name)
        self.event(name, "begun").set()
        answering = asyncio.ensure_future(self._answer(name.partition(" ")[0], send))
        while (await receive())["type"] != "http.disconnect":
            pass
        self.left[name] = asyncio.get_running_loop().time()
        self.open.discard(name)
        answering.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await answering
        self.event(name, "left").set()

    async def _answer(self, how: str, send: Send) -> None:
        if how in ("whole", "silent"):
            return
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": chunk("I begin. "), "more_body": True})
        number = 0
        while how == "talking" or (how == "ending" and number < 20):
            number += 1
            await send({"type": "http.response.body", "body": chunk(f"And {number}. "), "more_body": True})
            await asyncio.sleep(0.001)
        if how == "ending":
            await send({"type": "http.response.body", "body": chunk("", "stop") + b"data: [DONE]\n\n"})


def request(path: str, name: str) -> bytes:
    body = json.dumps({**WIRES[path](name), "stream": not name.startswith("whole")}).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


async def leave(front: Front, backend: Backend, name: str, path: str, chance: random.Random) -> float | None:
    """Asks, leaves, and waits until the backend knows. Seconds that it took; None where it was never asked."""
    phase = name.partition(" ")[0]
    reader, writer = await asyncio.open_connection("127.0.0.1", int(front.url.rpartition(":")[2]))
    data = request(path, name)
    async with asyncio.timeout(30):
        if phase == "asking":
            writer.write(data[: chance.randrange(1, len(data))])
        else:
            writer.write(data)
            await backend.event(name, "begun").wait()
            if phase == "begun":
                await reader.readuntil(b"I begin.")
            elif phase in ("talking", "ending"):
                await reader.readexactly(chance.randrange(1, 3000))
        gone = asyncio.get_running_loop().time()
        # Some say good-bye, some are cut off.
        writer.close() if chance.random() < 0.5 else writer.transport.abort()
        if phase == "asking":
            return None
        await backend.event(name, "left").wait()
    return max(0.0, backend.left[name] - gone)


@contextlib.asynccontextmanager
async def opened(folder: pathlib.Path) -> AsyncGenerator[tuple[Front, Backend]]:
    backend = Backend()
    async with serve(backend) as url, fronting(folder, CHAT, f"{url}/v1", concurrency=10) as front:
        yield front, backend


async def test_the_backend_sees_at_once_that_a_client_has_left(tmp_path: pathlib.Path) -> None:
    async with opened(tmp_path) as (front, backend):
        for path in WIRES:
            for phase in PHASES:
                took = await leave(front, backend, f"{phase} {path}", path, random.Random(0))
                assert not backend.open
                assert took is None if phase == "asking" else took is not None


async def test_nothing_is_left_of_those_who_leave_at_any_time(tmp_path: pathlib.Path) -> None:
    """So many at once that a place which is not given back would be missed: more than are let in together."""
    chance = random.Random(0)
    took: list[float] = []
    async with opened(tmp_path) as (front, backend):
        # Whatever is made once is made before anybody counts.
        await leave(front, backend, "talking first", "/v1/responses", chance)
        tasks = len(asyncio.all_tasks())
        leaving = [(f"{chance.choice(PHASES)} {number}", chance.choice(list(WIRES))) for number in range(count(1000))]
        for start in range(0, len(leaving), 10):
            seconds = await asyncio.gather(
                *(leave(front, backend, name, path, chance) for name, path in leaving[start : start + 10])
            )
            took += [one for one in seconds if one is not None]
        assert not backend.open
        async with asyncio.timeout(10):
            while len(asyncio.all_tasks()) > tasks:  # noqa: ASYNC110 - what ends has nothing to tell it by
                await asyncio.sleep(0)
        # All places are free again.
        assert await leave(front, backend, "talking last", "/v1/responses", chance) is not None
    # A machine that is busy with something else is late.
    assert not ATTACK or sorted(took)[len(took) * 95 // 100] <= PROMPT
