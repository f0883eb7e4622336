"""Where a provider is, what it is told, and which of that nobody may read.

The headers of every request to an endpoint: its SDK's own, its credentials, and what its user adds.
"""

import base64
import dataclasses
import functools
import urllib.parse
from collections.abc import Mapping
from typing import Any

from ripieno.descriptors.timeouts import Timeouts
from ripieno.exceptions import ProviderFailure
from ripieno.jsonvalues import EMPTY
from ripieno.storage.redaction import Redactor


@dataclasses.dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where a provider is, and what it is told. ``key`` is None for a server that asks for none.

    ``cloud`` names who stands between us and the models: it decides about addresses and signatures, with ``region``,
    ``project`` and ``api_version`` where it has such. Then ``base_url`` may be left empty.
    """

    provider: str
    sdk: str
    base_url: str
    key: str | None = dataclasses.field(default=None, repr=False)
    headers: Mapping[str, str] = dataclasses.field(default=EMPTY, repr=False)
    timeouts: Timeouts = Timeouts()  # noqa: RUF009  frozen
    cloud: str | None = None
    region: str | None = None
    project: str | None = None
    api_version: str | None = None

    @property
    def shown(self) -> str:
        """The address, as errors may show it: without a password or a query."""
        if not self.base_url:
            return " ".join(filter(None, (self.cloud, self.region))) or "its endpoint"
        parts = self._parts
        return "its base_url" if parts is None else f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @property
    def place(self) -> str:
        """What tells it from other endpoints."""
        return self.base_url or f"{self.cloud} {self.region} {self.project}"

    @functools.cached_property
    def _parts(self) -> urllib.parse.SplitResult | None:
        try:
            return urllib.parse.urlsplit(self.base_url)
        except ValueError:
            return None

    @functools.cached_property
    def redactor(self) -> Redactor:
        """Replaces the key, the values of headers, and what is secret in the address."""
        found = [self.key or "", *self.headers.values()]
        parts = self._parts
        if parts is not None:
            user, _, password = parts.netloc.rpartition("@")[0].partition(":")
            found.append(password)
            if password:
                plain = f"{urllib.parse.unquote(user)}:{urllib.parse.unquote(password)}"
                found.append(base64.b64encode(plain.encode()).decode())
            found += (value for _, value in urllib.parse.parse_qsl(parts.query))
        # A header's secret may stand behind the name of its scheme.
        found += [value.partition(" ")[2] for value in found]
        return Redactor((*found, *map(urllib.parse.unquote, found)))


def headers_of(endpoint: Endpoint) -> dict[str, str]:
    """The headers of every request: the SDK's own, its credentials, and the provider's. Imports the SDK.

    The SDKs refuse to be made without a key, so a server that asks for none gets none by leaving the header out.
    Errors: ``ProviderFailure`` for a key or header that HTTP cannot carry.
    """
    key = key_of(endpoint)
    if endpoint.sdk == "google":
        # An address with a key in it would stand in every log on the way.
        return (
            ({} if key is None else {"x-goog-api-key": key})
            | {"content-type": "application/json"}
            | dict(endpoint.headers)
        )
    import httpx2

    settings: dict[str, Any] = {
        "api_key": key or "none",
        # It is asked for headers alone, and never posts.
        "base_url": "http://nowhere.invalid",
        "http_client": httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: httpx2.Response(204))),
        "max_retries": 0,
        "default_headers": dict(endpoint.headers),
    }
    made: Any
    if endpoint.sdk == "anthropic":
        import anthropic

        made = anthropic.AsyncAnthropic(**settings)
    else:
        import openai

        made = openai.AsyncOpenAI(**settings)
    headers = {
        name: value
        for name, value in made.default_headers.items()
        # What the SDKs tell of this machine, its user did not ask them to.
        if isinstance(value, str) and not name.lower().startswith(("authorization", "x-stainless-"))
    }
    given = {name: value for name, value in endpoint.headers.items() if name.lower() == "authorization"}
    if endpoint.cloud == "azure":
        # It knows an account by its key in a header of its own; a token of its directory comes as Authorization.
        return headers | (given or ({} if key is None else {"api-key": key}))
    return headers | (given or ({} if key is None else {"Authorization": f"Bearer {key}"}))


def key_of(endpoint: Endpoint) -> str | None:
    """The key without the space around it. Errors: ``ProviderFailure`` for a key or header that HTTP cannot carry."""
    key = None if endpoint.key is None else endpoint.key.strip()
    for name, value in {"api_key": key or "", **endpoint.headers}.items():
        if not value.isascii() or not value.isprintable():
            raise ProviderFailure(
                endpoint.provider,
                f"Its {name} has a character that no HTTP header can carry.",
                hint="Was it copied whole, on one line?",
                category="permission",
            )
    return key
