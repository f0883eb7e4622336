"""The application's side of a keeper: a channel that starts, observes and ends one process."""

import contextlib
import signal
import socket
from typing import TypeVar

from ripieno.lazy.modules import asyncio
from ripieno.sandbox.supervision.wire import Failure, Order, Request, expect_numbers, receive_number, send_with
from ripieno.sandbox.zygote import NO_SIGNAL, ZYGOTES, signal_keeper

#: Seconds in which a keeper must accept an order, and then start it. It takes milliseconds, unless one was stopped.
_PATIENCE = 10.0
#: Seconds until the next attempt when the zygote's queue is full.
_QUEUE = 0.005
#: Attempts at a start whose keeper was lost before it had the order.
_ATTEMPTS = 3
_Value = TypeVar("_Value")


class _Lost(Exception):
    """The keeper is gone and never received the order."""


class Channel:
    """Our end of the connection to a keeper. Created by ``supervise`` only.

    ``started`` is the number of the process as seen from here, 0 when the keeper was killed before its report, or the
    failure. ``exit`` is the exit code, negative for a signal, as soon as the process has ended; ``gone`` is the number
    of processes killed beside it, when none is left. ``exceeded`` is what was over its limit, if all were killed for
    that: its kind, the number, and the limit. If the keeper itself was killed they are -9 and 0, and the zygote kills
    the rest. ``unstarted`` is whether bubblewrap has ended, and never started the program.
    """

    def __init__(self, end: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = end
        expect_numbers(end)
        self._text = b""
        self._keeper = 0
        self._kept: asyncio.Future[bool] = self._loop.create_future()
        self.started: asyncio.Future[int | Failure] = self._loop.create_future()
        self.exit: asyncio.Future[int] = self._loop.create_future()
        self.gone: asyncio.Future[int] = self._loop.create_future()
        self.exceeded: tuple[str, int, int] | None = None
        self.unstarted = False

    async def open(self, order: bytes, descriptors: list[int]) -> None:
        """Sends an order; returns when the keeper has it. Errors: ``_Lost``."""
        self._loop.add_reader(self._socket.fileno(), self._read)
        await self._send(order, descriptors)
        if not await self._kept:
            raise _Lost

    async def _send(self, order: bytes, descriptors: list[int]) -> None:
        # The keeper may be gone; ``_read`` then notices.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            send_with(self._socket, order[:1], descriptors, NO_SIGNAL)
            sent = 1 + self._socket.send(order[1:], NO_SIGNAL)
            if sent < len(order):
                await self._loop.sock_sendall(self._socket, memoryview(order)[sent:])

    def ask(self, request: Request) -> None:
        """Sends a request to the keeper; ignored by one that is gone."""
        with contextlib.suppress(OSError):
            self._socket.send(request.pack(), NO_SIGNAL)

    def abandon(self) -> None:
        """Lets the keeper kill all processes at once, as at the end of this program."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Abandons the process, if it still runs; may be called twice."""
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            with contextlib.suppress(OSError):
                # Effective even if a forked process also holds it.
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
        self._settle()

    def give_up(self) -> None:
        """Ends a keeper that does not answer: one without an order by force, another one when it is continued.

        Such a keeper was stopped, and its zygote was, too, or is gone. Only it ends a program that it has started.
        """
        if self._keeper:
            kept = self._kept.done() and not self._kept.cancelled()
            signal_keeper(self._keeper, self._socket, signal.SIGCONT if kept else signal.SIGKILL)
        self.close()

    def _read(self) -> None:
        try:
            data, sender = receive_number(self._socket, 65536)
        except BlockingIOError:
            return
        except OSError:
            data, sender = b"", 0
        if not data:
            self._loop.remove_reader(self._socket.fileno())
            self._settle()
            return
        *lines, self._text = (self._text + data).split(b"\n")
        for line in lines:
            word, _, rest = line.decode(errors="replace").partition(" ")
            self._hear(word, rest, sender)

    def _hear(self, word: str, rest: str, sender: int) -> None:
        if word == "keeper":
            self._keeper = int(rest)
        elif word == "kept":
            _set(self._kept, True)
        elif word == "started":
            _set(self.started, int(rest) or sender or self._keeper)
        elif word == "failed":
            _set(self._kept, True)
            _set(self.started, Failure.unpack(rest))
        elif word == "exceeded":
            kind, number, limit = rest.split()
            self.exceeded = kind, int(number), int(limit)
        elif word == "unstarted":
            self.unstarted = True
        elif word == "ended":
            _set(self.exit, int(rest))
        else:
            _set(self.gone, int(rest))

    def _settle(self) -> None:
        """Resolves the futures after the last message."""
        _set(self._kept, False)
        _set(self.started, 0)
        _set(self.exit, -signal.SIGKILL)
        _set(self.gone, 0)


def _set(future: "asyncio.Future[_Value]", value: _Value) -> None:
    if not future.done():
        future.set_result(value)


async def supervise(order: Order, descriptors: list[int]) -> tuple[Channel, int | Failure]:
    """Starts a process; returns its channel and ``Channel.started``.

    The descriptors stay the caller's. If this is cancelled, a started process is killed. Errors: ``OSError`` when no
    supervisor is available.
    """
    packed = order.pack()
    for _ in range(_ATTEMPTS):
        channel = await _open(packed, descriptors, order.settings)
        if channel is not None:
            try:
                async with asyncio.timeout(_PATIENCE):
                    answer = await asyncio.shield(channel.started)
            except TimeoutError:
                # It may have started the program, which must not run twice.
                channel.give_up()
                ZYGOTES.drop()
                raise OSError("its supervisor does not answer") from None
            except BaseException:
                channel.close()
                raise
            ZYGOTES.prepare(order.settings)
            return channel, answer
    raise OSError(f"its supervisor ended {_ATTEMPTS} times in a row")


async def _open(order: bytes, descriptors: list[int], settings: bytes) -> Channel | None:
    """A channel whose keeper has the order; None when the keeper was lost before."""
    channel: Channel | None = None
    try:
        async with asyncio.timeout(_PATIENCE):
            channel = Channel(await _take(settings))
            await channel.open(order, descriptors)
            opened, channel = channel, None
            return opened
    except _Lost:
        return None
    except TimeoutError:
        if channel is not None:
            channel.give_up()
        ZYGOTES.drop()
        return None
    finally:
        if channel is not None:
            channel.close()


async def _take(settings: bytes) -> socket.socket:
    while True:
        try:
            return ZYGOTES.take(settings)
        except BlockingIOError:
            await asyncio.sleep(_QUEUE)
