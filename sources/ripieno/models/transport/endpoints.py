"""Endpoints: their address, credentials and headers, and the redaction of their secrets."""

import base64
import functools
import urllib.parse
from collections.abc import Mapping

from ripieno.descriptors.timeouts import Timeouts
from ripieno.exceptions import ProviderFailure
from ripieno.jsonvalues import EMPTY
from ripieno.storage.redaction import Redactor
from ripieno.values import Value, unprinted

#: The version of the Messages API that its protocol reads and writes: that of the installed SDK (a test compares them).
MESSAGES_VERSION = "2026-10-21"


@unprinted("key", "headers")
class Endpoint(Value, kw_only=True, dict=True):
    """The address and credentials of a provider. ``key`` is None for a server that needs none.

    ``cloud`` names a cloud platform (``clouds.py``), which determines addresses and signatures from ``region``,
    ``project`` and ``api_version``. ``base_url`` may then be empty.
    """

    provider: str
    sdk: str
    base_url: str
    key: str | None = None
    headers: Mapping[str, str] = EMPTY
    timeouts: Timeouts = Timeouts()
    cloud: str | None = None
    region: str | None = None
    project: str | None = None
    api_version: str | None = None

    @property
    def shown(self) -> str:
        """The address for error messages, without a password or a query."""
        if not self.base_url:
            return " ".join(filter(None, (self.cloud, self.region))) or "its endpoint"
        parts = self._parts
        return "its base_url" if parts is None else f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @property
    def place(self) -> str:
        """The identity of the endpoint among all endpoints."""
        return self.base_url or f"{self.cloud} {self.region} {self.project}"

    @functools.cached_property
    def _parts(self) -> urllib.parse.SplitResult | None:
        try:
            return urllib.parse.urlsplit(self.base_url)
        except ValueError:
            return None

    @functools.cached_property
    def redactor(self) -> Redactor:
        """Replaces the key, the values of headers, and secrets in the address."""
        found = [self.key or "", *self.headers.values()]
        parts = self._parts
        if parts is not None:
            user, _, password = parts.netloc.rpartition("@")[0].partition(":")
            found.append(password)
            if password:
                plain = f"{urllib.parse.unquote(user)}:{urllib.parse.unquote(password)}"
                found.append(base64.b64encode(plain.encode()).decode())
            found += (value for _, value in urllib.parse.parse_qsl(parts.query))
        # The secret may follow an authentication scheme.
        found += [value.partition(" ")[2] for value in found]
        return Redactor((*found, *map(urllib.parse.unquote, found)))


def headers_of(endpoint: Endpoint) -> dict[str, str]:
    """The headers of every request; those that the provider's descriptor gives replace ours.

    No SDK is imported for them: that costs more than half a second (measured).
    Errors: ``ProviderFailure`` for a key or header that HTTP cannot carry.
    """
    key = key_of(endpoint)
    headers = {"Accept": "application/json", "Content-Type": "application/json", "User-Agent": "ripieno"}
    if endpoint.sdk == "anthropic":
        headers["anthropic-version"] = MESSAGES_VERSION
    given = {name.lower() for name in endpoint.headers}
    if key is not None and "authorization" not in given:
        headers |= _credentials(endpoint, key)
    return {name: value for name, value in headers.items() if name.lower() not in given} | dict(endpoint.headers)


def _credentials(endpoint: Endpoint, key: str) -> dict[str, str]:
    if endpoint.sdk == "google":
        # A key in the address would be in every log on the way.
        return {"x-goog-api-key": key}
    # Azure takes an account's key in a header of its own; a directory token arrives as Authorization.
    return {"api-key": key} if endpoint.cloud == "azure" else {"Authorization": f"Bearer {key}"}


def key_of(endpoint: Endpoint) -> str | None:
    """The key, stripped. Errors: ``ProviderFailure`` for a key or header that HTTP cannot carry."""
    key = None if endpoint.key is None else endpoint.key.strip()
    for name, value in {"api_key": key or "", **endpoint.headers}.items():
        if not value.isascii() or not value.isprintable():
            raise ProviderFailure(
                endpoint.provider,
                f"Its {name} has a character that is invalid in an HTTP header.",
                hint="Check that it was copied completely, on one line.",
                category="permission",
            )
    return key
