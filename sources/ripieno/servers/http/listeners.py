"""Opens listeners: on loopback for anybody, beyond it only where clients need a key."""

import contextlib
import ipaddress
import socket

from ripieno.exceptions import InputError

#: Names under which clients of this machine reach it.
LOOPBACK = ("127.0.0.1", "localhost", "::1")
#: Connections that the system keeps until they are taken.
BACKLOG = 2048
_KEY = "Name one with --key-variable NAME; `ripieno serve key` makes one."


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches that address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_exposure(host: str, *, keyed: bool) -> None:
    """Errors: ``InputError`` for an address beyond loopback without a key."""
    if not keyed and not is_loopback(host):
        raise InputError(f"{host} can be reached from other machines: that needs a key, which clients send. {_KEY}")


class Listener(socket.socket):
    """Keeps connections waiting, however few of them a loop takes at once: asyncio has one number for both."""

    def listen(self, backlog: int = BACKLOG, /) -> None:
        """Lets clients connect. Errors: ``OSError``, where somebody else has the port since it was bound."""
        super().listen(max(backlog, BACKLOG))


def bind(host: str, port: int) -> Listener:
    """What several processes can serve. Nobody can connect to it before one does. Errors: ``InputError``."""
    if not 0 <= port <= 65535:
        raise InputError(f"There is no port {port}. Choose one from 1 to 65535, or 0 for a free one.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with contextlib.ExitStack() as stack:
            # Named as TCP, because asyncio switches Nagle's algorithm off only where it is: a stream of small events
            # would wait for acknowledgements (measured: 50 events take 44 ms with it, 5 ms without).
            listener = stack.enter_context(Listener(family, socket.SOCK_STREAM, socket.IPPROTO_TCP))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind((host, port))
            if host == "localhost" and not is_loopback(listener.getsockname()[0]):
                raise InputError(f"On this machine, localhost is {listener.getsockname()[0]}. Try: 127.0.0.1")
            stack.pop_all()
            return listener
    except (OSError, UnicodeError) as error:
        raise taken(host, port, error) from error


def taken(host: str, port: int, error: Exception) -> InputError:
    """What is said of a port that cannot be had."""
    return InputError(f"Cannot listen at {host}, port {port}: {error}. Choose another, or 0 for a free one.")


def url_of(listener: socket.socket, host: str) -> str:
    """Where clients reach a listener that was opened for that host."""
    number = listener.getsockname()[1]
    return f"http://[{host}]:{number}" if ":" in host else f"http://{host}:{number}"
