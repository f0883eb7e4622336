"""Listening sockets: on loopback, or elsewhere with a key."""

import contextlib
import errno
import ipaddress
import socket

from ripieno.exceptions import InputError

#: The names of this machine for local clients.
LOOPBACK = ("127.0.0.1", "localhost", "::1")
#: Connections that the system keeps until they are accepted.
BACKLOG = 2048
_KEY = "Set one, such as export SERVE_KEY=$(openssl rand -hex 32), and name it: --key-variable SERVE_KEY."


def is_loopback(host: str) -> bool:
    """Whether the address is reachable from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_exposure(host: str, *, keyed: bool) -> None:
    """Errors: ``InputError`` for an address beyond loopback without a key."""
    if not keyed and not is_loopback(host):
        raise InputError(f"{host} can be reached from other machines, which requires a key. {_KEY}")


class Listener(socket.socket):
    """A socket with a long queue, even if a loop accepts few at once: asyncio has one number for both."""

    def listen(self, backlog: int = BACKLOG, /) -> None:
        """Starts to listen. Errors: ``OSError`` if another process has used the port since it was bound."""
        super().listen(max(backlog, BACKLOG))


def bind(host: str, port: int) -> Listener:
    """A listener that several processes can serve; it does not listen yet. Errors: ``InputError``."""
    if not 0 <= port <= 65535:
        raise InputError(f"There is no port {port}. Choose one from 1 to 65535, or 0 for a free one.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with contextlib.ExitStack() as stack:
            # TCP is named, because only then asyncio disables Nagle's algorithm, which delays small events (measured:
            # 50 events take 44 ms with it, 5 ms without).
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
    """The error for an address or a port that cannot be used."""
    number, why = getattr(error, "errno", None), getattr(error, "strerror", None) or error
    # https://man7.org/linux/man-pages/man2/bind.2.html: the address is not one of this machine's.
    if isinstance(error, socket.gaierror) or number == errno.EADDRNOTAVAIL:
        return InputError(f"{host} is no address of this machine: {why}. Use 127.0.0.1, or one that it has.")
    if number == errno.EADDRINUSE:
        why = "the port is in use"
    return InputError(
        f"Cannot listen on {host}, port {port}: {why}. Choose another: --port N, or --port 0 for a free one."
    )


def url_of(listener: socket.socket, host: str) -> str:
    """The URL of a listener that was opened for this host."""
    number = listener.getsockname()[1]
    return f"http://[{host}]:{number}" if ":" in host else f"http://{host}:{number}"
