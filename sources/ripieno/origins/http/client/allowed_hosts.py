"""Who may be reached: hosts that an operator listed, and how much of them at most."""

import dataclasses

from ripieno.exceptions import InputError, PermissionFault
from ripieno.origins.http.client.addresses import Address, is_local, refuse_address
from ripieno.origins.http.client.urls import PORTS, Host, Url, parse_host, parse_port


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostPattern:
    """A host, ``*.`` before a host for all beneath it, or ``*``; with a port, ``:*`` for all ports, or the usual ones.

    ``host`` None is every host. ``port`` None are the ports of http and https, 0 are all.
    """

    host: Host | None
    beneath: bool = False
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> "HostPattern":
        """Errors: ``InputError``."""
        name, colon, port = text.rpartition(":")
        if not colon or text.endswith("]"):
            name, port = text, ""
        elif not port:
            raise InputError(f"{text[:80]!r} has no port after its colon")
        number = None if not port else 0 if port == "*" else parse_port(port)
        if name == "*":
            return cls(host=None, port=number)
        beneath = name.startswith("*.")
        host = parse_host(name.removeprefix("*."))
        if beneath and host.address is not None:
            raise InputError(f"{text[:80]!r}: nothing is beneath an address")
        return cls(host=host, beneath=beneath, port=number)

    def fits(self, url: Url) -> bool:
        """Whether it has the host and the port of a URL."""
        if self.port != 0 and url.port != (PORTS[url.scheme] if self.port is None else self.port):
            return False
        if self.host is None:
            return True
        if self.beneath:
            return url.host.address is None and url.host.name.endswith(f".{self.host.name}")
        return url.host == self.host


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What requests may reach. ``local`` admits this machine and private networks.

    ``advice`` says where hosts are listed, ``local_advice`` where ``local`` is set.
    """

    hosts: tuple[HostPattern, ...] = ()
    local: bool = False
    advice: str = ""
    local_advice: str = ""

    def check(self, url: Url) -> None:
        """Errors: ``PermissionFault`` for a host that nobody listed."""
        if not any(pattern.fits(url) for pattern in self.hosts):
            place = url.host if url.port in PORTS.values() else f"{url.host}:{url.port}"
            raise PermissionFault(
                f"{place} is not among the hosts that may be reached" + ("." if self.hosts else "; none is listed."),
                code="host_not_allowed",
                suggestion=self.advice or None,
            )

    def check_address(self, url: Url, address: Address) -> None:
        """Errors: ``PermissionFault`` for an address that no request goes to."""
        reason = refuse_address(address, local=self.local)
        if reason is not None:
            what = url.host if url.host.address is not None else f"{url.host} is at {address}, which"
            raise PermissionFault(
                f"{what} is {reason}, and is not reached.",
                code="address_not_allowed",
                suggestion=(self.local_advice or None) if is_local(address) else None,
            )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one request. Times are in seconds, ``size`` in bytes of the decoded body."""

    #: Until a connection stands, TLS and the name's resolution included.
    connect: float = 10.0
    #: From then until the head of the answer is complete.
    first_byte: float = 60.0
    #: Between two pieces of its body.
    between: float = 20.0
    #: For everything, with all redirects.
    whole: float = 600.0
    size: int = 10 * 1024 * 1024
    redirects: int = 5
