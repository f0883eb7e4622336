"""URLs in descriptors, and the pages that a browser may open."""

import ipaddress
import urllib.parse
from typing import Any

from ripieno.descriptors.reader.kinds import INVALID, refuse
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems


class Url:
    """An HTTP URL with a host and without a password, which belongs in a header."""

    expected = "a URL that begins with http:// or https://"

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if not isinstance(value, str):
            return refuse(self, value, path, problems)
        try:
            parts = urllib.parse.urlsplit(value)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            return refuse(self, value, path, problems)
        if not usable or not value.isascii() or not value.isprintable() or " " in value:
            return refuse(self, value, path, problems)
        if "@" in parts.netloc:
            hint = 'Send it in a header: headers = { Authorization = "Bearer {env:NAME}" }.'
            problems.add(path, "a URL cannot contain a user or a password here", hint)
            return INVALID
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "format": "uri", "pattern": "^https?://"}


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its name."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def refuse_page(url: str) -> str | None:
    """The reason why an address is not opened in a browser, or None. Allowed is https, and http at this machine."""
    try:
        parts = urllib.parse.urlsplit(url)
        host = parts.hostname
    except ValueError:
        return "it is not a URL"
    if not host or not url.isascii() or not url.isprintable() or " " in url:
        return "it is not a URL"
    if "@" in parts.netloc:
        return "it contains a user"
    if parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)):
        return None
    return f"it begins with {parts.scheme[:20]}: instead of https:"
