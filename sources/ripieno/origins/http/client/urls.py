"""The one URL parser. Its result is checked, connected to, and sent to the server.

It is strict: a text that two parsers could read differently is refused. Hosts are names of letters, digits and hyphens,
IPv4 as four decimal numbers, or IPv6 in brackets; other alphabets are written as ``xn--…`` (RFC 3490).
"""

import dataclasses
import ipaddress
import re
import urllib.parse

from ripieno.exceptions import InputError
from ripieno.origins.http.client.addresses import Address
from ripieno.values import Value

#: Characters of the longest URL.
LONGEST = 8192
PORTS = {"http": 80, "https": 443}
# RFC 3986: a scheme, an authority, a path, a query, a fragment; the fragment is never sent.
_URL = re.compile(r"(https?)://([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#.*)?", re.IGNORECASE | re.DOTALL)
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]*\]|[^:\[\]]*)(?::([0-9]*))?")
_CHARACTERS = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/{more}-]|%[0-9A-Fa-f]{{2}})*"
_PATH = re.compile(_CHARACTERS.format(more=""))
_QUERY = re.compile(_CHARACTERS.format(more="?"))
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
#: A label that a system resolver might read as a numeric address: decimal, octal or hexadecimal.
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}")


class Host(Value, kw_only=True):
    """A host: a lower-case name, or an address, which is then its ``name`` too, without brackets."""

    name: str
    address: Address | None = None

    def __str__(self) -> str:
        return f"[{self.name}]" if ":" in self.name else self.name


class Url(Value, kw_only=True):
    """A URL without a fragment. ``target`` is its path with its query, as sent."""

    scheme: str
    host: Host
    port: int
    target: str

    @property
    def authority(self) -> str:
        """The value of the ``Host`` header."""
        return str(self.host) if self.port == PORTS[self.scheme] else f"{self.host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme, host and port, the scope of credentials (RFC 6454)."""
        return f"{self.scheme}://{self.authority}"

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    def __str__(self) -> str:
        return f"{self.origin}{self.target}"

    def join(self, location: str) -> "Url":
        """The destination of a redirect. Errors: ``InputError``."""
        try:
            joined = urllib.parse.urljoin(str(self), location)
        except ValueError:
            joined = location
        return parse_url(joined)

    def with_query(self, more: str) -> "Url":
        """The URL with further parameters, which are already encoded."""
        if not more:
            return self
        return dataclasses.replace(self, target=f"{self.target}{'&' if '?' in self.target else '?'}{more}")


def parse_url(text: str) -> Url:
    """The parsed URL. Errors: ``InputError`` with the defect and the correct form."""
    if len(text) > LONGEST:
        raise InputError(f"the URL has {len(text)} characters; the limit is {LONGEST}")
    match = _URL.fullmatch(text)
    if match is None:
        raise InputError(f"{text[:80]!r} is not a URL that begins with http:// or https://")
    scheme, authority, path, query = match[1].lower(), match[2], match[3], match[4]
    if "@" in authority:
        raise InputError("the URL contains a user or a password: send it in a header instead")
    place = _AUTHORITY.fullmatch(authority)
    if place is None:
        raise InputError(f"{authority[:80]!r} is not a host, or host and port")
    host, port = parse_host(place[1]), PORTS[scheme] if place[2] is None else parse_port(place[2])
    for name, part, pattern in (("path", path, _PATH), ("query", query or "", _QUERY)):
        if pattern.fullmatch(part) is None:
            raise InputError(
                f"the {name} of the URL has characters that must be percent-encoded, such as %20 for a space"
            )
    return Url(scheme=scheme, host=host, port=port, target=(path or "/") + ("" if query is None else f"?{query}"))


def parse_host(text: str) -> Host:
    """A host as in a URL. Errors: ``InputError``."""
    if text.startswith("[") and text.endswith("]"):
        try:
            address = ipaddress.IPv6Address(text[1:-1])
        except ValueError:
            raise InputError(f"{text[:80]!r} is not an IPv6 address") from None
        if address.scope_id is not None:
            raise InputError(f"{text[:80]!r} is valid on one network interface only")
        return Host(name=address.compressed, address=address)
    if _IPV4.fullmatch(text):
        return Host(name=text, address=ipaddress.IPv4Address(text))
    labels = text.split(".")
    if not text:
        raise InputError("the URL has no host")
    if not text.isascii():
        raise InputError(f"the host {text[:80]!r} must be written in ASCII: xn--… for other alphabets")
    if len(text) > 253 or any(_LABEL.fullmatch(label) is None for label in labels):
        raise InputError(
            f"{text[:80]!r} is not a host name: letters, digits and hyphens between single dots, and no dot at its end"
        )
    if _NUMBER.fullmatch(labels[-1]):
        raise InputError(f"{text[:80]!r} looks like an address; write it as four decimal numbers, such as 192.0.2.1")
    return Host(name=text.lower())


def parse_port(text: str) -> int:
    """Errors: ``InputError``."""
    if not re.fullmatch(r"[1-9][0-9]{0,4}", text) or int(text) > 65535:
        raise InputError(f"{text[:20]!r} is not a port from 1 to 65535")
    return int(text)
