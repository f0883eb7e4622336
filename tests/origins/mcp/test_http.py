"""Servers behind URLs, in both eras, as real processes on loopback: called, changed, cut off, and killed."""

import asyncio
import contextlib
import dataclasses
import logging
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

import pytest

from ripieno.canisters import TextualContent
from ripieno.ensembles import Ensemble, Surroundings
from ripieno.exceptions import (
    ConnectionFailure,
    ExecutionFault,
    NetworkFault,
    OutcomeUnknownFault,
    ToolFault,
    ValidationFault,
)
from ripieno.origins.mcp.calls import make_invocable
from tests.support.toml_ensembles import SERVERS, Alerts, call, make_ensemble

ERAS = pytest.mark.parametrize("era", ["2026-07-28", "2025-11-25"])


class Web:
    """A server that can be killed, and started again at the same port."""

    def __init__(self, *arguments: str) -> None:
        self.arguments = arguments
        self.port = 0
        self.process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{'sse' if 'sse' in self.arguments else 'mcp'}"

    def start(self) -> None:
        command = [sys.executable, str(SERVERS / "growing_tools.py"), *self.arguments]
        environment = {**os.environ, "PORT": str(self.port)}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def revive(self) -> None:
        self.kill()
        self.start()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


@contextlib.contextmanager
def web(*arguments: str) -> Generator[Web, None, None]:
    """A running server."""
    server = Web(*arguments)
    server.start()
    try:
        yield server
    finally:
        server.kill()


def at(url: str, more: str = "") -> str:
    """An ensemble of the server at a URL."""
    transport = 'transport = "sse"\n' if url.endswith("/sse") else ""
    return f'[ensemble]\nname = "it"\n[connection]\norigin = "mcp"\n{transport}url = "{url}"\n{more}'


@contextlib.asynccontextmanager
async def connected(
    era: str, surroundings: Surroundings, more: str = "", kind: str = "http"
) -> AsyncGenerator[tuple[Ensemble, Web], None]:
    """An ensemble that is connected to a server of that era, over HTTP as it is today or was before (``sse``)."""
    with web(kind, *(["legacy"] if era < "2026" else [])) as server:
        async with make_ensemble(at(server.url, more), surroundings) as ensemble:
            assert ensemble.connection.protocol == era
            assert (ensemble.connection.facts()["transport"] == "sse") is (kind == "sse")
            yield ensemble, server


async def until(condition: Callable[[], bool]) -> None:
    """Waits for something that nothing tells."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def said(text: str) -> list[TextualContent]:
    return [TextualContent(text=text)]


@pytest.mark.parametrize(("era", "kind"), [("2026-07-28", "http"), ("2025-11-25", "http"), ("2025-11-25", "sse")])
async def test_calls_their_faults_and_tools_that_come_later(
    era: str, kind: str, surroundings: Surroundings, alerts: Alerts
) -> None:
    """One call waits all the while; what becomes of the others is their own matter."""
    more = '[connection.headers]\nAuthorization = "Bearer {env:TOKEN}"\n[overrides.cut_json]\neffect = "read"\n'
    async with connected(era, surroundings, more, kind) as (ensemble, _):
        waiting = asyncio.create_task(call(ensemble, "wait"))
        answers = await asyncio.gather(*(call(ensemble, "echo", number=number) for number in range(20)))
        assert answers == [said(f'echo {{"number": {number}}}') for number in range(20)]
        steps: list[Any] = []
        assert await call(ensemble, "count", progress=lambda *step: steps.append(step)) == said("count {}")
        assert steps == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]
        with pytest.raises(ExecutionFault, match=r"^it broke$"):
            await call(ensemble, "echo", fail=True)
        with pytest.raises(OutcomeUnknownFault, match=r"answer of 'fail' from the server of 'it' was lost.*500"):
            await call(ensemble, "fail")
        if kind == "http":
            with pytest.raises(NetworkFault, match="The answer of 'cut_json' from the server of 'it' was lost"):
                await call(ensemble, "cut_json")
            with pytest.raises(OutcomeUnknownFault, match="answer of 'cut_events' from the server of 'it' was lost"):
                await call(ensemble, "cut_events")
        else:
            sent = "GET Bearer a-secret-token POST Bearer a-secret-token"
            assert await call(ensemble, "echo", headers=True) == said(sent)
        assert ensemble.state == "connected"
        assert not waiting.done()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        revision = ensemble.revision
        assert await call(ensemble, "grow") == said("grow {}")
        await alerts.wait_for("Ensemble 'it' has changed its tools. New: grown9.")
        assert ensemble.revision == revision + 1
        assert list(ensemble.invokers) == sorted(ensemble.invokers)
        assert await call(ensemble, "grown9") == said("grown9 {}")
        object.__setattr__(ensemble.access_invoker("echo"), "invocable", make_invocable("nobody"))
        with pytest.raises(ValidationFault, match="Unknown tool: nobody"):
            await call(ensemble, "echo")


async def test_a_server_that_dies_is_connected_again_twice_in_a_row(surroundings: Surroundings, alerts: Alerts) -> None:
    async with connected("2026-07-28", surroundings) as (ensemble, server):
        await call(ensemble, "grow")
        await alerts.wait_for("New: grown9.")
        for _ in range(2):
            waiting = asyncio.create_task(call(ensemble, "wait"))
            while not waiting.done():
                with contextlib.suppress(ToolFault):
                    await call(ensemble, "die", waited=True)
            with pytest.raises(OutcomeUnknownFault, match="The answer of 'wait' from the server of 'it' was lost"):
                await waiting
            # Nothing tells that a server without a connection is gone, but the next calls.
            while ensemble.state == "connected":
                with pytest.raises((NetworkFault, OutcomeUnknownFault)):
                    await call(ensemble, "echo")
                await asyncio.sleep(0)
            with pytest.raises(NetworkFault, match="is not connected; nothing was sent"):
                await call(ensemble, "echo")
            server.revive()
            await until(lambda: ensemble.state == "connected")
            assert await call(ensemble, "echo") == said("echo {}")
        assert "grown9" not in ensemble.invokers
    assert [alert.message.partition(":")[0].partition(",")[0] for alert in alerts] == [
        "Ensemble 'it' has changed its tools. New",
        "Ensemble 'it' lost its connection",
        "Ensemble 'it' has reconnected. Gone",
        "Ensemble 'it' lost its connection",
        "Ensemble 'it' has reconnected.",
    ]


async def test_a_session_that_the_server_has_forgotten_is_begun_anew(surroundings: Surroundings) -> None:
    async with connected("2025-11-25", surroundings) as (ensemble, server):
        server.revive()
        with pytest.raises(ToolFault):
            await call(ensemble, "echo")
        await until(lambda: ensemble.state == "connected")
        async with asyncio.timeout(60):
            while True:
                with contextlib.suppress(ToolFault):
                    assert await call(ensemble, "echo") == said("echo {}")
                    break
                await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def answering(
    answer: bytes, path: str = "mcp", *, close: bool = True
) -> AsyncGenerator[tuple[str, list[bytes]], None]:
    """A server that answers every request with the same bytes; and what it was asked."""
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(answer)
            await writer.drain()
            if not close:
                await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/{path}", asked


async def refused(url: str, surroundings: Surroundings, more: str = "") -> str:
    ensemble = make_ensemble(at(url, more), surroundings)
    with pytest.raises(ConnectionFailure) as raised:
        await ensemble.connect()
    assert ensemble.state == "failed"
    return str(raised.value)


@pytest.mark.parametrize("path", ["mcp", "sse"])
async def test_nobody_answers(path: str, surroundings: Surroundings) -> None:
    message = await refused(f"http://127.0.0.1:9/{path}", surroundings)
    assert message.startswith("Ensemble 'it': the MCP server cannot be reached (")
    assert message.endswith(f"Its URL: http://127.0.0.1:9/{path}")


async def test_headers_are_sent_and_never_shown(surroundings: Surroundings, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    headers = '[connection.headers]\nAuthorization = "Bearer {env:TOKEN}"\n'
    async with answering(b"HTTP/1.1 401 a-secret-token\r\nContent-Length: 0\r\n\r\n") as (url, asked):
        message = await refused(url, surroundings, headers)
    assert b"authorization: bearer a-secret-token" in asked[0].lower()
    assert "a-secret-token" not in message + caplog.text
    assert "answered 401" in message
    assert "401, b'[hidden]'" in caplog.text


@pytest.mark.parametrize("challenge", ["", "WWW-Authenticate: Bearer\r\n"], ids=["plain", "bearer"])
async def test_who_is_not_let_in_is_told_once_and_what_to_do(challenge: str, surroundings: Surroundings) -> None:
    answer = f"HTTP/1.1 401 Unauthorized\r\n{challenge}Content-Length: 0\r\n\r\n".encode()
    key = 'headers = { Authorization = "Bearer {env:NAME}" }'
    async with answering(answer) as (url, _):
        said, place, first, *others = (await refused(url, surroundings)).splitlines()
        assert said == "Ensemble 'it': the MCP server answered 401 Unauthorized."
        assert place == f"Its URL: {url}"
        assert first == f"If it requires a key: set {key} under [connection], and the variable."
        assert [line.partition(":")[0] for line in others] == (["If it requires a sign-in"] if challenge else [])
        advice = (await refused(url, surroundings, key.replace("NAME", "TOKEN"))).splitlines()[2:]
        assert advice == ["It does not accept the Authorization set under headers: check whether it is still valid."]


async def test_a_missing_variable_is_named_before_anything_is_sent(surroundings: Surroundings) -> None:
    async with answering(b"") as (url, asked):
        message = await refused(url, surroundings, '[connection.headers]\nA = "{env:ABSENT}"\n')
    assert message.endswith("the variable ABSENT is not set. Set it: export ABSENT=...")
    async with answering(b"") as (url, asked):
        chosen = dataclasses.replace(surroundings, allow=("TOKEN", "SET_*"))
        message = await refused(url, chosen, '[connection.headers]\nA = "{env:ABSENT}{env:SET_LATER}"\n')
    assert message.endswith(
        "the variables ABSENT, SET_LATER are not set. Set them: export ABSENT=... SET_LATER=... "
        "Only variables in allow under [environment] are read: add ABSENT to it."
    )
    assert asked == []
