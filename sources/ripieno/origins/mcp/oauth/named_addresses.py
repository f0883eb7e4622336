"""Requests to addresses that a server names for a sign-in: resolved once, checked, and only then connected to."""

import ipaddress

from ripieno.exceptions import InputError, PermissionFault
from ripieno.origins.http.client import Fetched, Fetcher, HostPattern, Limits, Reach, Request, Resolver, Url, parse_url
from ripieno.origins.http.client.addresses import is_local
from ripieno.origins.http.client.connection import resolve
from ripieno.origins.http.client.headers import Headers
from ripieno.origins.mcp.addresses import is_loopback

#: Every host and port: what limits them is the address that they lead to.
_ANYWHERE = (HostPattern(host=None, port=0),)
#: Bytes of the largest answer.
_LARGEST = 1024 * 1024


async def fetch_named(
    method: str, url: str, headers: Headers, body: bytes, *, server: str, seconds: float, resolver: Resolver = resolve
) -> Fetched:
    """The answer from an address that a server names for a sign-in. Redirects are not followed.

    Allowed is https; also http if both are on this machine, or on one host that is asked over http anyway. An
    address leads to this machine or a private network only if the server is there itself, whatever the spelling of
    the host and whatever its name resolves to; the checked address is the one that is connected to. Errors:
    ``ToolFault``.
    """
    try:
        there, home = parse_url(url), parse_url(server)
    except InputError as error:
        raise PermissionFault(f"{error}.", code="url_not_allowed") from None
    plain = there.host.name == home.host.name and home.scheme == "http"
    if there.scheme != "https" and not (plain or (is_loopback(there.host.name) and is_loopback(home.host.name))):
        raise PermissionFault("it is not https.", code="url_not_allowed")
    limits = Limits(first_byte=seconds, whole=seconds, size=_LARGEST)
    reach = Reach(hosts=_ANYWHERE, local=await _is_local(home, resolver))
    request = Request(method=method, url=there, headers=headers, body=body or None, follow=False)
    return await Fetcher(reach, limits=limits, resolver=resolver).fetch(request)


async def _is_local(url: Url, resolver: Resolver) -> bool:
    """Whether a server is on this machine or a private network, by all of its addresses."""
    if url.host.address is not None:
        return is_local(url.host.address)
    try:
        found = await resolver(url.host.name, url.port)
        return bool(found) and all(is_local(ipaddress.ip_address(one)) for one in found)
    except (OSError, ValueError):
        return False
