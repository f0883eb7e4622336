"""The hosts that requests may reach, and the limits of requests."""

from ripieno.exceptions import InputError, PermissionFault
from ripieno.origins.http.client.addresses import Address, is_local, refuse_address
from ripieno.origins.http.client.urls import PORTS, Host, Url, parse_host, parse_port
from ripieno.values import Value


class HostPattern(Value, kw_only=True):
    """A host, ``*.`` and a host for its subdomains, or ``*``; with a port, ``:*`` for all, or the default ports.

    ``host`` None is every host. ``port`` None means the ports of http and https, 0 means all.
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
            raise InputError(f"{text[:80]!r}: an address has no subdomains")
        return cls(host=host, beneath=beneath, port=number)

    def fits(self, url: Url) -> bool:
        """Whether a URL has a matching host and port."""
        if self.port != 0 and url.port != (PORTS[url.scheme] if self.port is None else self.port):
            return False
        if self.host is None:
            return True
        if self.beneath:
            return url.host.address is None and url.host.name.endswith(f".{self.host.name}")
        return url.host == self.host


class Reach(Value, kw_only=True):
    """The allowed hosts. ``local`` also allows this machine and private networks.

    ``advice`` says where hosts are listed, ``local_advice`` where ``local`` is set.
    """

    hosts: tuple[HostPattern, ...] = ()
    local: bool = False
    advice: str = ""
    local_advice: str = ""

    def check(self, url: Url) -> None:
        """Errors: ``PermissionFault`` for an unlisted host."""
        if not any(pattern.fits(url) for pattern in self.hosts):
            place = url.host if url.port in PORTS.values() else f"{url.host}:{url.port}"
            raise PermissionFault(
                f"{place} is not among the allowed hosts" + ("." if self.hosts else "; none is listed."),
                code="host_not_allowed",
                suggestion=self.advice or None,
            )

    def check_address(self, url: Url, address: Address) -> None:
        """Errors: ``PermissionFault`` for a refused address."""
        reason = refuse_address(address, local=self.local)
        if reason is not None:
            place = url.host if url.host.address is not None else f"{url.host} is at {address}, which"
            raise PermissionFault(
                f"{place} is {reason}; it is not contacted.",
                code="address_not_allowed",
                suggestion=(self.local_advice or None) if is_local(address) else None,
            )


class Limits(Value, kw_only=True):
    """Bounds of one request. Times are in seconds, ``size`` in bytes of the decoded body.

    ``connect`` includes TLS and name resolution; ``first_byte`` is from then to the end of the response head;
    ``between`` is between two pieces of the body; ``whole`` includes all redirects.
    """

    connect: float = 10.0
    first_byte: float = 60.0
    between: float = 20.0
    whole: float = 600.0
    size: int = 10 * 1024 * 1024
    redirects: int = 5
