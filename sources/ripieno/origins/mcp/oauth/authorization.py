"""Authorization at a server behind a URL: with our credentials, or with a person's sign-in. Imports the SDK.

The SDK discovers the authorization server, and sends credentials to the configured issuer only. Their tokens live as
long as the connection.
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
    """The SDK's token storage, in memory."""

    def __init__(self) -> None:
        self._tokens: OAuthToken | None = None
        self._client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        """The tokens, if any."""
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keeps tokens."""
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """The client of a registration, if any."""
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keeps a registration."""
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
    """The authorization of every request to ``url``. ``conceal`` receives the values that must never be shown."""
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
