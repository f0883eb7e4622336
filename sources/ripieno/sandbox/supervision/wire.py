"""The messages between the application and a keeper: framed requests one way, lines of text the other.

Imports are few, because every zygote waits for them: ``_socket`` is the base of ``socket``.
"""

import _socket
import os
import sys
from _socket import CMSG_SPACE, MSG_DONTWAIT, MSG_PEEK, SCM_RIGHTS, SOL_SOCKET, socket

#: A request begins with its length, in this many bytes.
_HEADER = 4
_PIECE = 64 * 1024
#: Descriptors that come with a request: directory, standard output and error, and perhaps standard input.
MOST_DESCRIPTORS = 4
#: The byte that accompanies a new channel: whether the program will be confined.
BARE, CONFINED = b"\0", b"\1"

#: macOS lacks it; there the flag is set afterwards.
_CLOSE_ON_EXEC: int = getattr(_socket, "MSG_CMSG_CLOEXEC", 0)
#: Linux only.
_CREDENTIALS: int = getattr(_socket, "SCM_CREDENTIALS", -1)
_PASS_CREDENTIALS: int | None = getattr(_socket, "SO_PASSCRED", None)


class Order:
    """A program to start. ``programs`` are the paths to try, ``directory`` is a path without links.

    ``settings`` is the mapping of a confinement as JSON, without its ``writable`` paths, which are a list as JSON; both
    are empty for no confinement. No text has NUL, and no name has "=". The
    descriptors that come with an order are those of the directory, standard output, standard error, and, if there is
    one, standard input.
    """

    def __init__(
        self,
        programs: list[bytes],
        argv: list[bytes],
        environment: dict[bytes, bytes],
        directory: bytes,
        settings: bytes = b"",
        *,
        writable: bytes = b"",
    ) -> None:
        self.programs = programs
        self.argv = argv
        self.environment = environment
        self.directory = directory
        self.settings = settings
        self.writable = writable

    def pack(self) -> bytes:
        """The form on the wire."""
        counts = b"order %d %d" % (len(self.programs), len(self.argv))
        variables = [b"%s=%s" % pair for pair in self.environment.items()]
        places = (self.directory, self.settings, self.writable)
        return _frame(counts, *places, *self.programs, *self.argv, *variables)

    @classmethod
    def unpack(cls, counts: bytes, places: list[bytes], words: list[bytes]) -> "Order":
        """The order from its form on the wire."""
        first, second = map(int, counts.split())
        directory, settings, writable = places
        variables = [word.partition(b"=") for word in words[first + second :]]
        environment = {name: value for name, _, value in variables}
        return cls(words[:first], words[first : first + second], environment, directory, settings, writable=writable)


class Prepare:
    """Lets a keeper enter the namespaces of a confinement before an order with the same ``settings``."""

    def __init__(self, settings: bytes) -> None:
        self.settings = settings

    def pack(self) -> bytes:
        return _frame(b"prepare", self.settings)


class Terminate:
    """Asks the process to end, and kills it with all its descendants after ``grace`` seconds."""

    def __init__(self, grace: float) -> None:
        self.grace = grace

    def pack(self) -> bytes:
        return _frame(b"terminate %r" % float(self.grace))


class Signal:
    """Sends a signal to the process and its group."""

    def __init__(self, number: int) -> None:
        self.number = number

    def pack(self) -> bytes:
        return _frame(b"signal %d" % self.number)


Request = Prepare | Order | Terminate | Signal


def _frame(*words: bytes) -> bytes:
    data = b"\0".join(words)
    return len(data).to_bytes(_HEADER, "big") + data


def _unpack(data: bytes) -> Request:
    request, *words = data.split(b"\0")
    name, _, value = request.partition(b" ")
    if name == b"order":
        return Order.unpack(value, words[:3], words[3:])
    if name == b"prepare":
        return Prepare(words[0])
    return Terminate(float(value)) if name == b"terminate" else Signal(int(value))


class Failure(Exception):
    """The reason why a program did not start.

    ``what`` is one word: program, directory, confinement, sandbox (bubblewrap could not start it) or process.
    """

    def __init__(self, what: str, number: int, text: str) -> None:
        super().__init__(text)
        self.what = what
        self.number = number
        self.text = text

    @classmethod
    def of(cls, what: str, error: BaseException) -> "Failure":
        """The failure for an error. Its text is one line."""
        number = error.errno or 0 if isinstance(error, OSError) else 0
        return cls(what, number, " ".join(str(error).split()))

    def pack(self) -> str:
        return f"{self.what} {self.number} {self.text}"

    @classmethod
    def unpack(cls, line: str) -> "Failure":
        what, number, text = line.split(" ", 2)
        return cls(what, int(number), text)


def send_with(channel: socket, data: bytes, descriptors: list[int], flags: int = 0) -> None:
    """Sends descriptors along with a few bytes."""
    rights = b"".join(number.to_bytes(4, sys.byteorder) for number in descriptors)
    channel.sendmsg([data], [(SOL_SOCKET, SCM_RIGHTS, rights)], flags)


def receive_with(channel: socket, size: int) -> tuple[bytes, list[int]]:
    """At most ``size`` bytes, and the descriptors that came with them, not inheritable."""
    data, ancillary, _, _ = channel.recvmsg(size, CMSG_SPACE(4 * MOST_DESCRIPTORS), _CLOSE_ON_EXEC)
    descriptors: list[int] = []
    for level, kind, rights in ancillary:
        if (level, kind) == (SOL_SOCKET, SCM_RIGHTS):
            descriptors += [int.from_bytes(rights[at : at + 4], sys.byteorder) for at in range(0, len(rights) - 3, 4)]
    for number in descriptors:
        os.set_inheritable(number, False)
    return data, descriptors


def send_number(channel: socket, data: bytes, pid: int) -> None:
    """Sends a process number of this namespace, which the kernel converts to the receiver's (``receive_number``).

    Where that is refused, the number is this process's own. Linux only. Errors: ``OSError``.
    """
    parts = (pid, os.getuid(), os.getgid())
    credentials = b"".join(number.to_bytes(4, sys.byteorder) for number in parts)
    try:
        channel.sendmsg([data], [(SOL_SOCKET, _CREDENTIALS, credentials)])
    except OSError:
        channel.sendall(data)


def expect_numbers(channel: socket) -> None:
    """Lets the kernel state the sender's number with each message, where it can."""
    if _PASS_CREDENTIALS is not None:
        channel.setsockopt(SOL_SOCKET, _PASS_CREDENTIALS, 1)


def receive_number(channel: socket, size: int) -> tuple[bytes, int]:
    """At most ``size`` bytes, and the process number that came with them, or 0."""
    data, ancillary, _, _ = channel.recvmsg(size, CMSG_SPACE(12))
    for level, kind, credentials in ancillary:
        if (level, kind) == (SOL_SOCKET, _CREDENTIALS):
            return data, int.from_bytes(credentials[:4], sys.byteorder)
    return data, 0


class Inbox:
    """The requests from a channel, and the descriptors that came with them."""

    def __init__(self, channel: socket) -> None:
        self._channel = channel
        self._pieces = bytearray()
        self.descriptors: list[int] = []

    @property
    def ended(self) -> bool:
        """Whether the channel has ended."""
        try:
            return self._channel.recv(1, MSG_PEEK | MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def receive(self) -> list[Request] | None:
        """Waits for data; the requests that are complete now. None at the end of the channel."""
        try:
            data, descriptors = receive_with(self._channel, _PIECE)
        except BlockingIOError:
            return []
        except OSError:
            return None
        self.descriptors += descriptors
        if not data:
            return None
        self._pieces += data
        requests: list[Request] = []
        while len(self._pieces) >= _HEADER:
            end = _HEADER + int.from_bytes(self._pieces[:_HEADER], "big")
            if len(self._pieces) < end:
                break
            requests.append(_unpack(bytes(self._pieces[_HEADER:end])))
            del self._pieces[:end]
        return requests
