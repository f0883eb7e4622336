"""Host and Origin of requests: which names a server has, and which pages may use it."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from starlette.types import Scope

from ripieno.jsonvalues import listed
from ripieno.servers.http.listeners import LOOPBACK

HOST, ORIGIN = b"host", b"origin"
#: A host and its port in a Host header.
_AUTHORITY = re.compile(rb"(\[[0-9a-f:.]{2,45}\]|[0-9a-z_](?:[0-9a-z_.-]*[0-9a-z_])?)(?::([0-9]{1,5}))?")
_SCHEMES = {b"http": b"80", b"https": b"443"}


class Hosts:
    """The names of a server: loopback's, ``host``, the operator's ``names``, and the address of each connection.

    Names and ports are compared whole. A page may use the server if it has the same host and port as the request, or
    one of ``names``, whatever the port: behind a load balancer, Host is another name.
    """

    def __init__(self, names: Iterable[str] = (), *, host: str = "localhost") -> None:
        self._own = frozenset(map(_spelled, listed(names)))
        self._names = self._own | frozenset(map(_spelled, (*LOOPBACK, host)))

    def judge(self, scope: Scope) -> Literal["host", "origin"] | None:
        """The header of a request that is wrong, if any. A request has one Host, and at most one Origin."""
        headers = [header for header in scope["headers"] if header[0] in (HOST, ORIGIN)]
        return self.judge_values(
            [value for name, value in headers if name == HOST],
            [value for name, value in headers if name == ORIGIN],
            scope,
        )

    def judge_values(
        self, hosts: Sequence[bytes], origins: Sequence[bytes], scope: Scope
    ) -> Literal["host", "origin"] | None:
        """The same, where the values of the headers are known."""
        authority = _read(hosts[0]) if len(hosts) == 1 else None
        if authority is None or not self._is_known(authority[0], scope):
            return "host"
        return "origin" if origins and not (len(origins) == 1 and self._is_own(origins[0], hosts[0])) else None

    def _is_known(self, name: bytes, scope: Scope) -> bool:
        if name in self._names:
            return True
        # The address of the connection. A page cannot make a browser send it as Host.
        server: Any = scope.get("server")
        return server is not None and name == _spelled(server[0])

    def _is_own(self, origin: bytes, host: bytes) -> bool:
        scheme, separator, rest = origin.lower().partition(b"://")
        usual = _SCHEMES.get(scheme)
        theirs, ours = _read(rest), _read(host)
        if usual is None or not separator or theirs is None or ours is None:
            return False
        same = theirs[0] == ours[0] and (theirs[1] or usual) == (ours[1] or usual)
        return same or theirs[0] in self._own


def _spelled(name: str) -> bytes:
    """A name or an address as written in a Host header."""
    lower = name.lower()
    return f"[{lower}]".encode() if ":" in lower else lower.encode()


def _read(authority: bytes) -> tuple[bytes, bytes] | None:
    """The host in lower case and the port, empty if missing; None for an invalid value."""
    match = _AUTHORITY.fullmatch(authority.lower())
    return None if match is None else (match[1], match[2] or b"")
