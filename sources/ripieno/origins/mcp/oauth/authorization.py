"""Tokens for a server behind a URL: credentials of ours are exchanged, or a person has signed in. Imports the SDK.

The SDK discovers the authorization server, and sends credentials to the configured issuer only. Tokens that they are
exchanged for live as long as the connection.
"""

from collections.abc import Callable

import httpx2
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from ripieno.origins.mcp.oauth.person import Person
from ripieno.origins.mcp.oauth.provider import PersonalTokens
from ripieno.origins.mcp.oauth.tokens import TokenStore
from ripieno.origins.mcp.settings import Credentials


class Memory:
    """Keeps what the SDK wants kept, as long as it lives."""

    def __init__(self) -> None:
        self._tokens: OAuthToken | None = None
        self._client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        """The tokens, once there are any."""
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keeps tokens."""
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """What a registration gave; we are registered already."""
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keeps it."""
        self._client = client_info


def authorize(
    url: str,
    credentials: Credentials,
    secret: str,
    store: TokenStore,
    *,
    person: Person | None,
    conceal: Callable[..., None],
) -> httpx2.Auth:
    """What gives every request to ``url`` its token. ``conceal`` is told what must never be shown."""
    if credentials.personal:
        return PersonalTokens(url, credentials, secret, store, person=person, conceal=conceal)
    return ClientCredentialsOAuthProvider(
        server_url=url,
        storage=Memory(),
        client_id=credentials.client_id or "",
        client_secret=secret,
        issuer=credentials.issuer,
        scope=credentials.scope,
    )
