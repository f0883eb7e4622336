"""One connection: a name is resolved once, its addresses are checked, and only one of them is connected to.

The HTTP client gets the address in place of the name, so that it resolves nothing; the name goes into the ``Host``
header and into TLS. Before anything is sent, the peer's address is compared with the checked one. Proxies of the
environment are not used: a proxy would resolve the name again.
"""

import asyncio
import contextlib
import dataclasses
import functools
import ipaddress
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from ripieno.ensembles.threads import run_in_thread
from ripieno.exceptions import NetworkFault, PermissionFault, TimeoutFault
from ripieno.origins.http.client.addresses import Address
from ripieno.origins.http.client.allowed_hosts import Limits, Reach
from ripieno.origins.http.client.headers import Headers
from ripieno.origins.http.client.urls import Url

#: The addresses of a host, as text, for a port. Errors: ``OSError``.
Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
#: Addresses tried for one name.
_TRIES = 4


async def resolve(host: str, port: int) -> Sequence[str]:
    """The system's addresses of a host."""
    query = functools.partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    found = await run_in_thread(query, name=f"resolution of {host}", patient=False)
    return [str(place[0]) for *_, place in found]


@dataclasses.dataclass(slots=True, kw_only=True)
class Attempt:
    """One request on one connection. ``sent``: any of it may have reached the server.

    ``checked``: the peer was compared with the allowed address.
    """

    method: str
    url: Url
    headers: Headers
    body: bytes | None
    sent: bool = False
    checked: bool = False


class Connector:
    """Opens connections within its reach."""

    def __init__(self, reach: Reach, limits: Limits, resolver: Resolver, context: ssl.SSLContext | None) -> None:
        self._reach = reach
        self._limits = limits
        self._resolver = resolver
        self._context = context

    @contextlib.asynccontextmanager
    async def open(self, attempt: Attempt) -> AsyncGenerator[Any, None]:
        """The head of the response, an ``httpx2.Response`` whose body is not read yet.

        Errors: ``PermissionFault``, ``NetworkFault``, ``TimeoutFault``.
        """
        import httpx2

        self._reach.check(attempt.url)
        context = await self._tls(attempt.url)
        async with contextlib.AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(self._limits.connect) as patience:
                    addresses = await self._addresses(attempt.url)
                    response = await self._first(attempt, addresses, context, patience, stack)
            except TimeoutError:
                key, seconds = (
                    ("first_byte", self._limits.first_byte) if attempt.sent else ("connect", self._limits.connect)
                )
                verb = "did not answer" if attempt.sent else "did not accept a connection"
                raise TimeoutFault(f"{attempt.url.host} {verb} within {seconds:g} s.", code=key) from None
            except httpx2.TransportError as error:
                raise explain(attempt.url, error) from None
            yield response

    async def _first(
        self,
        attempt: Attempt,
        addresses: Sequence[Address],
        context: ssl.SSLContext,
        patience: asyncio.Timeout,
        stack: contextlib.AsyncExitStack,
    ) -> Any:
        """The response from the first address that accepts a connection."""
        import httpx2

        last = len(addresses) - 1
        for number, address in enumerate(addresses):
            limits = httpx2.Limits(max_connections=1, max_keepalive_connections=0)
            transport = httpx2.AsyncHTTPTransport(verify=context, trust_env=False, limits=limits)
            try:
                response = await transport.handle_async_request(
                    self._request(attempt, address, patience, self._limits.connect / len(addresses))
                )
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                await transport.aclose()
                if number == last or attempt.sent:
                    raise
                continue
            except BaseException:
                await transport.aclose()
                raise
            stack.push_async_callback(transport.aclose)
            stack.push_async_callback(response.aclose)
            if not attempt.checked:
                raise NetworkFault("The HTTP client did not report its peer's address.", code="unchecked")
            return response
        raise NetworkFault(f"{attempt.url.host} has no address.", code="unresolved")

    async def _addresses(self, url: Url) -> Sequence[Address]:
        """The addresses of a URL's host. One refused address refuses the name."""
        if url.host.address is not None:
            self._reach.check_address(url, url.host.address)
            return (url.host.address,)
        try:
            found = await self._resolver(url.host.name, url.port)
            addresses = tuple(dict.fromkeys(ipaddress.ip_address(one) for one in found))
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "no usable answer"
            raise NetworkFault(
                f"The host {url.host} was not found: {why}.", code="unresolved", suggestion="Check its name."
            ) from None
        for address in addresses:
            self._reach.check_address(url, address)
        return addresses[:_TRIES]

    def _request(self, attempt: Attempt, address: Address, patience: asyncio.Timeout, connect: float) -> Any:
        import httpx2

        url = attempt.url
        limits = self._limits

        async def watch(event: str, details: dict[str, Any]) -> None:
            if event == "connection.connect_tcp.complete":
                await _check_peer(details["return_value"], url, address, self._reach)
                attempt.checked = True
            elif event == "http11.send_request_headers.started":
                attempt.sent = True
                patience.reschedule(asyncio.get_running_loop().time() + limits.first_byte)

        place = f"[{address}]" if address.version == 6 else str(address)
        # The callers time reading and writing: this client would restart the time at each piece of a head.
        timeouts = {"connect": connect, "read": None, "write": None, "pool": None}
        return httpx2.Request(
            attempt.method,
            f"{url.scheme}://{place}:{url.port}/",
            headers=[("Host", url.authority), *attempt.headers],
            content=attempt.body,
            # The target is passed separately, so that the checked form is not normalized.
            extensions={
                "sni_hostname": url.host.name,
                "target": url.target.encode("ascii"),
                "trace": watch,
                "timeout": timeouts,
            },
        )

    async def _tls(self, url: Url) -> ssl.SSLContext:
        if url.scheme == "http":
            return _NO_TLS
        if self._context is None:
            import httpx2

            # Reading the system's certificates takes about 30 ms.
            self._context = await run_in_thread(httpx2.create_ssl_context, name="certificates", patient=False)
        return self._context


#: For connections without TLS: the client requires one, and creating it reads no certificates.
_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


async def _check_peer(stream: Any, url: Url, address: Address, reach: Reach) -> None:
    """Errors: ``PermissionFault`` when the peer is not the checked address. Nothing has been sent then."""
    peer = stream.get_extra_info("server_addr")
    try:
        actual = ipaddress.ip_address(peer[0])
        reach.check_address(url, actual)
        if actual != address:
            raise PermissionFault(f"{url.host} led to {actual} and not to {address}.", code="address_not_allowed")
    except BaseException:
        await stream.aclose()
        raise


def explain(url: Url, error: Exception) -> NetworkFault | TimeoutFault:
    """The fault for an error of the HTTP client, which may hold the request and so is never its cause."""
    import httpx2

    what = " ".join(str(error).split())[:300] or type(error).__name__
    if isinstance(error, httpx2.TimeoutException):
        return TimeoutFault(f"{url.host} took too long.", code="connect")
    if isinstance(error, httpx2.ConnectError):
        return NetworkFault(f"{url.origin} cannot be connected to: {what}.", code="unreachable")
    if isinstance(error, httpx2.ProtocolError):
        return NetworkFault(f"{url.origin} violates HTTP: {what}.", code="protocol")
    return NetworkFault(f"The connection to {url.origin} was lost: {what}.", code="lost")
