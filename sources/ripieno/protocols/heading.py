"""The headers of every request to an endpoint: its SDK's own, its credentials, and what its user adds."""

from typing import Any

from ripieno.exceptions import ProviderFailure
from ripieno.protocols.endpoints import Endpoint


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
