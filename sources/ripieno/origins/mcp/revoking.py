"""Takes tokens back at the authorization server that gave them (RFC 7009). Imports the SDK."""

import asyncio

import httpx2
from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthMetadata
from pydantic import AnyUrl, ValidationError

from ripieno.origins.mcp.addresses import refuse_address
from ripieno.origins.mcp.authorizing import Memory
from ripieno.origins.mcp.tokens import SignIn


async def revoke(record: SignIn, url: str, secret: str, patience: float) -> str | None:
    """Revokes what a sign-in at ``url`` gave. Why that could not be done, or None. ``patience`` is in seconds."""
    where = f"The tokens at {record.issuer} could not be revoked:"
    try:
        client = OAuthClientInformationFull.model_validate(record.client)
        metadata = None if record.metadata is None else OAuthMetadata.model_validate(record.metadata)
    except ValidationError:
        return f"{where} what is kept of the sign-in cannot be read."
    if metadata is None or metadata.revocation_endpoint is None:
        return f"{where} the authorization server has no place for that."
    endpoint = str(metadata.revocation_endpoint)
    why = None if _same_origin(endpoint, record.issuer) else refuse_address(endpoint, url)
    if why is not None:
        return f"{where} {endpoint} is not asked: {why}."
    if secret:
        client = client.model_copy(update={"client_secret": secret})
    context = OAuthContext(url, OAuthClientMetadata(redirect_uris=[AnyUrl(url)]), Memory(), None, None)
    context.client_info = client
    # With the refresh token, the authorization server takes back all that came from it.
    kind = "refresh_token" if record.renewable else "access_token"
    form = {"token": str(record.tokens[kind]), "token_type_hint": kind, "client_id": client.client_id}
    form, headers = context.prepare_token_auth(form, {})
    try:
        async with asyncio.timeout(patience), httpx2.AsyncClient(follow_redirects=False) as http:
            status = (
                await http.send(http.build_request("POST", endpoint, data=form, headers=headers), stream=True)
            ).status_code
    except TimeoutError:
        return f"{where} the authorization server did not answer within {patience:g} s."
    except httpx2.HTTPError as error:
        return f"{where} {type(error).__name__}."
    return None if status == 200 else f"{where} the authorization server answered {status}."


def _same_origin(one: str, other: str) -> bool:
    first, second = httpx2.URL(one), httpx2.URL(other)
    return (first.scheme, first.host, first.port) == (second.scheme, second.host, second.port)
