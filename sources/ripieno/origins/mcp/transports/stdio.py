"""A server process with messages as lines on its standard streams, and the explanation of its failures."""

import asyncio
import collections
import contextlib
import pathlib
import re
import shlex
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from ripieno.canisters.events import Alert
from ripieno.origins.mcp.peers import Loss, Peer
from ripieno.origins.mcp.text import clean
from ripieno.origins.mcp.transports.framing import LINE_LIMIT, PARSE_ERROR, UNUSABLE, Lines, answered, unusable
from ripieno.sandbox import Process, ProcessLimits, Spawner
from ripieno.sandbox.capture import Capture
from ripieno.sandbox.processes import LINGER

#: Lines that are not messages, after which a server is given up.
REFUSALS = 100
#: Bytes kept of standard error, half from its beginning and half from its end.
COMPLAINTS = 64 * 1024
#: Seconds in which a server may end by itself after its standard input has ended.
CLOSING = 1.0
_LIMITS = ProcessLimits(grace=1.0)
_SHOWN_LINES = 10
#: Blank lines, removed first, so that a flood of them costs nothing.
_BLANKS = re.compile(rb"\n(?:[ \t\r]*\n)+")
#: Errors that are not from a server: this package's own, and that of the SDK's ended session.
_UNUSABLE = (PARSE_ERROR, UNUSABLE)
_CLOSED = (-32000, "Connection closed")
_SHOWN_LENGTH = 400


class Server(Peer):
    """Lines in and out, for one reader. Created by ``run_server`` only."""

    def __init__(self, process: Process, ensemble: str, argv: Sequence[str], alert: Callable[[Alert], None]) -> None:
        super().__init__(ensemble)
        self._process = process
        self._argv = tuple(argv)
        self._alert = alert
        self._framing = Lines()
        self._lines: collections.deque[bytes | None] = collections.deque()
        self._refused = 0
        self._exit_code: int | None = None
        self._complaints = Capture(COMPLAINTS)
        self._done = asyncio.Event()
        self._stderr_ended = asyncio.Event()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def carrier(self) -> str:
        return "stdio"

    @property
    def place(self) -> str:
        return f"Its command: {shlex.join(self._argv)}"

    def transport(self) -> AbstractAsyncContextManager[Any]:
        from ripieno.origins.mcp.transports.lines import Transport

        return Transport(self)

    def loss(self, code: int, message: str, data: object) -> Loss | None:  # noqa: ARG002
        lost = self.ended.is_set() or (code, message) in (_UNUSABLE, _CLOSED)
        return "unknown" if lost else None

    @property
    def complaints(self) -> str:
        """Its standard error: beginning and end, without terminal controls."""
        return clean(self._complaints.captured().text)[0]

    async def read_line(self) -> bytes | None:
        """The next nonempty line; None at the end. Each takes a turn of the event loop."""
        if self._lines:
            await asyncio.sleep(0)
        while not self.ended.is_set():
            while self._lines:
                line = self._lines.popleft()
                if line is None:
                    self.refuse(f"a line of more than {LINE_LIMIT // 2**20} MiB")
                    identifier = answered(self._framing.dropped)
                    if identifier is not None:
                        return unusable(identifier)
                elif line.strip():
                    return line
            data = await self._process.stdout.read()
            if not data:
                self.ended.set()
            self._lines.extend(self._framing.feed(_BLANKS.sub(b"\n", data)))
        return None

    def refuse(self, what: str) -> None:
        """Counts a line that is not a message. The first is reported; too many end the connection."""
        self._refused += 1
        if self._refused == 1:
            message = (
                f"The MCP server of {self.ensemble!r} wrote a line to standard output that is not a message: {what}"
            )
            self._alert(Alert(message=message))
        if self._refused == REFUSALS:
            self.give_up(f"wrote {REFUSALS} lines that are not messages to its standard output; the last was {what}")

    def give_up(self, reason: str) -> None:
        # The reader ends at the end of the stream.
        self._reason = self._reason or reason
        self._lines.clear()
        self._process.stdout.close()

    async def write(self, data: bytes) -> None:
        """Writes all of it. A closed pipe ends the connection."""
        if self._process.stdin is not None:
            try:
                await self._process.stdin.write(data)
            except OSError:
                self._process.stdout.close()

    @property
    def last_words(self) -> str:
        lines = [line.rstrip()[:_SHOWN_LENGTH] for line in self.complaints.splitlines() if line.strip()]
        return "\n  ".join(["The last lines of its standard error:", *lines[-_SHOWN_LINES:]]) if lines else ""

    async def explain(self, reason: str | None = None) -> str:
        text = await super().explain(reason)
        return f"{text}\n{self.last_words}" if self.last_words else text

    async def ending(self) -> str:
        if self._reason is not None:
            return self._reason
        # Its streams end shortly before the process does.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2 * LINGER):
                await self._done.wait()
                await self._stderr_ended.wait()
        if self._exit_code is None:
            return "closed its standard output"
        if self._exit_code < 0:
            return f"was ended by signal {-self._exit_code}"
        return f"ended with exit code {self._exit_code}"

    async def listen(self) -> None:
        """Keeps its standard error until the end."""
        while data := await self._process.stderr.read():
            self._complaints.feed(data)
        self._stderr_ended.set()

    async def watch(self) -> None:
        """Ends the reading when the process has ended, even if its streams are open."""
        self._exit_code = await self._process.wait()
        self._done.set()
        await asyncio.sleep(LINGER)
        self._process.stdout.close()

    async def close(self) -> None:
        """Closes its standard input, and waits briefly for its end."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        # A server that is blocked in a write would not see the end of its input.
        draining = asyncio.create_task(self._discard())
        try:
            async with asyncio.timeout(CLOSING):
                await self._process.wait()
        except TimeoutError:
            pass
        finally:
            draining.cancel()
            await asyncio.wait((draining,))

    async def _discard(self) -> None:
        while await self._process.stdout.read():
            pass


@contextlib.asynccontextmanager
async def run_server(
    spawner: Spawner,
    argv: Sequence[str],
    environment: Mapping[str, str],
    directory: pathlib.Path,
    *,
    ensemble: str,
    alert: Callable[[Alert], None],
) -> AsyncGenerator[Server, None]:
    """Starts a server; on exit, it is ended with its whole process group.

    Errors: ``ResourceFault`` and ``ValidationFault`` of the spawner.
    """
    process = await spawner.start(argv, environment, directory, _LIMITS, pipe_stdin=True)
    async with process:
        server = Server(process, ensemble, argv, alert)
        watchers = (asyncio.create_task(server.listen()), asyncio.create_task(server.watch()))
        try:
            yield server
            # Only after success: a failed or cancelled server is ended at once.
            await server.close()
        finally:
            for watcher in watchers:
                watcher.cancel()
            await asyncio.wait(watchers)
