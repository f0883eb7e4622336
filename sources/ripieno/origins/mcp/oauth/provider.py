"""Tokens for a server behind a URL: of our credentials, or of a person's sign-in.

The latter are loaded, renewed silently, and requested anew only if a person is present.

The SDK discovers, registers, and exchanges. This module adds what it lacks (measured): it keeps no expiry and no
metadata over a restart, so that it would use an expired token and send a refresh token to the server instead of the
issuer; and it lets requests wait for each other. Imports the SDK.
"""

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any

import httpx2
from frozendict import frozendict
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError, OAuthTokenError
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.auth.utils import extract_field_from_www_auth, extract_scope_from_www_auth, issuers_match, union_scopes
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
    TokenEndpointAuthMethod,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from ripieno.origins.mcp.addresses import refuse_page
from ripieno.origins.mcp.oauth.person import Person, SignInNeeded, SignInUnwanted
from ripieno.origins.mcp.oauth.tokens import SignIn, TokenStore, resource_of
from ripieno.origins.mcp.settings import Credentials

Flow = AsyncGenerator[httpx2.Request, httpx2.Response]
#: The redirect address without a person; it is never sent.
_UNUSED_REDIRECT = "http://127.0.0.1/callback"
_VERSION_HEADER = "mcp-protocol-version"
_SPENT = "needs you to sign in again: the authorization server does not renew the sign-in"


class PersonalTokens(OAuthClientProvider):
    """Adds the token to every request. With a ``person``, the first request makes that person sign in.

    Errors, for a request: ``SignInNeeded``; ``OAuthFlowError`` for an authorization server that violates OAuth.
    """

    def __init__(
        self,
        url: str,
        credentials: Credentials,
        secret: str,
        store: TokenStore,
        *,
        person: Person | None = None,
        conceal: Callable[..., None],
    ) -> None:
        self._credentials = credentials
        self._secret = secret
        self._store = store
        self._person = person
        self._conceal = conceal
        self._resource = resource_of(url)
        self.record: SignIn | None = None
        self._more_scope: str | None = None
        #: The refresh token that was refused last; it is not used again.
        self._spent: str | None = None
        self._failure: Exception | None = None
        self._signing = asyncio.Lock()
        metadata = OAuthClientMetadata(
            client_name="ripieno",
            redirect_uris=[AnyUrl(_UNUSED_REDIRECT if person is None else person.redirect_uri)],
            scope=credentials.scope,
        )
        super().__init__(url, metadata, self, self._visit, self._answered, credentials.client_metadata_url)

    async def get_tokens(self) -> OAuthToken | None:
        return self.context.current_tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.context.client_info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Does not store it: it is stored together with the tokens, without which it is useless."""
        self._conceal(client_info.client_secret or "")

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Stores tokens, with everything that their renewal needs."""
        context = self.context
        client = context.client_info
        if client is None:
            raise OAuthTokenError("There are tokens, but no client.")
        if self._credentials.client_secret is not None:
            client = client.model_copy(update={"client_secret": None})  # Only the operator stores it.
        record = SignIn(
            issuer=self._expected_issuer(),
            resource=self._resource,
            tokens=_dump(tokens),
            client=_dump(client),
            expires_at=context.token_expiry_time,
            metadata=_dump_some(context.oauth_metadata),
            protected=_dump_some(context.protected_resource_metadata),
        )
        self._conceal(*record.secrets)
        # A renewal already holds the lock of the store.
        async with contextlib.nullcontext() if self.record is not None else self._store.alone(self._resource):
            if self.record in (None, self._stored()):
                self._store.keep(record)  # Otherwise a new sign-in has replaced it meanwhile.
        self.record = record

    def _stored(self) -> SignIn | None:
        return self._store.find(self._resource, self._credentials.issuer)

    def load(self) -> SignIn | None:
        """Loads the stored sign-in, which another program may have renewed or replaced."""
        record = self._stored()
        if record is not None and record == self.record:
            return record
        context = self.context
        context.clear_tokens()
        context.client_info = context.oauth_metadata = context.protected_resource_metadata = None
        self.record = None
        with contextlib.suppress(ValidationError):
            # It belongs to the client that is configured now.
            if record is not None and self._credentials.client_id in (None, record.client.get("client_id")):
                tokens = OAuthToken.model_validate(record.tokens)
                client = OAuthClientInformationFull.model_validate(record.client)
                metadata = None if record.metadata is None else OAuthMetadata.model_validate(record.metadata)
                if record.protected is not None:
                    context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(record.protected)
                if self._credentials.client_secret is not None:
                    client = client.model_copy(update={"client_secret": self._secret})
                self._conceal(*record.secrets)
                context.auth_server_url = record.issuer
                context.current_tokens, context.token_expiry_time = tokens, record.expires_at
                context.client_info, context.oauth_metadata = client, metadata
                self.record = record
        return self.record

    def _auth_flow(self, request: httpx2.Request) -> Flow:
        if self._person is not None and self.record is None:
            return self._with_person(request)
        return self._with_token(request)

    async def _with_token(self, request: httpx2.Request) -> Flow:
        """Sends a request with the stored token; renews an expired or refused one, without a person.

        Requests do not wait for each other, only for a renewal.
        """
        self.context.protocol_version = request.headers.get(_VERSION_HEADER)
        sent: str | None = None
        for refused in (False, True):
            self.load()
            if self._is_over(sent):
                async with self.context.lock, self._store.alone(self._resource):
                    self.load()
                    if self._is_over(sent):
                        if not self.context.can_refresh_token():
                            raise SignInNeeded("needs you to sign in again: the sign-in has expired")
                        if self._renewal == self._spent:
                            raise SignInNeeded(_SPENT)
                        await self._take_renewal((yield await self._refresh_token()))
            self._add_auth_header(request)
            sent = self._token
            response = yield request
            if response.status_code == 403 and extract_field_from_www_auth(response, "error") == "insufficient_scope":
                raise await self._narrow(extract_scope_from_www_auth(response))
            if response.status_code != 401:
                return
            if sent is None or refused:
                break
        again = "" if sent is None else " again: it no longer accepts the token"
        raise SignInNeeded(f"needs you to sign in{again}")

    @property
    def _token(self) -> str | None:
        tokens = self.context.current_tokens
        return None if tokens is None else tokens.access_token

    @property
    def _renewal(self) -> str | None:
        tokens = self.context.current_tokens
        return None if tokens is None else tokens.refresh_token

    def _is_over(self, sent: str | None) -> bool:
        """Whether the token needs renewal: it has expired, or it is the refused one."""
        return self._token is not None and (self._token == sent or not self.context.is_token_valid())

    async def _take_renewal(self, response: httpx2.Response) -> None:
        status = response.status_code
        if status >= 500 or status == 429:
            raise OAuthFlowError(f"The sign-in could not be renewed: the authorization server answered {status}.")
        renewal = self._renewal
        if not await self._handle_refresh_response(response):
            self.record, self._spent = None, renewal
            raise SignInNeeded(_SPENT)

    async def _narrow(self, wanted: str | None) -> SignInNeeded:
        """The exception for a call that needs more than was granted; the next sign-in requests it."""
        if self.record is not None and wanted is not None:
            async with self.context.lock, self._store.alone(self._resource):
                record = self.load()
                if record is not None:
                    self.record = dataclasses.replace(record, wanted=union_scopes(record.wanted, wanted))
                    self._store.keep(self.record)
        return SignInNeeded(f"needs you to sign in for more{'' if wanted is None else f' (scope: {wanted})'}")

    async def _with_person(self, request: httpx2.Request) -> Flow:
        """Sends a request after a sign-in, even if the server would accept it without."""
        async with self._signing:
            if self._failure is not None:
                raise self._failure  # The person signs in once only.
            welcome = False
            try:
                async with contextlib.aclosing(super()._auth_flow(request)) as flow:
                    response = yield await anext(flow)
                    if response.status_code < 400 and request.method == "POST":
                        welcome = True
                        response = httpx2.Response(401, request=request)
                    with contextlib.suppress(StopAsyncIteration):
                        while True:
                            outgoing = await flow.asend(response)
                            if outgoing is not request and outgoing.method == "POST":
                                self._require_description()
                            response = yield outgoing
            except Exception as error:
                context = self.context
                described = context.protected_resource_metadata is not None or context.oauth_metadata is not None
                if welcome and not described:
                    self._failure = SignInUnwanted()
                    raise self._failure from error
                self._failure = error
                raise

    async def _initialize(self) -> None:
        """Loads the client of the earlier sign-in, if it is still valid, without its tokens."""
        before = self._stored()
        self.context.clear_tokens()
        self.context.client_info = self._client(before)
        # A missing scope is requested in addition to the granted one.
        self._more_scope = (
            None if before is None or before.wanted is None else union_scopes(before.scope, before.wanted)
        )
        self._initialized = True

    def _client(self, before: SignIn | None) -> OAuthClientInformationFull | None:
        """The configured client, or one registered for the same redirect. None registers a new one."""
        credentials = self._credentials
        redirects = self.context.client_metadata.redirect_uris
        if credentials.client_id is not None:
            return OAuthClientInformationFull(
                client_id=credentials.client_id,
                client_secret=self._secret or None,
                redirect_uris=redirects,
                issuer=credentials.issuer,
            )
        if before is None or credentials.client_metadata_url not in (None, before.client["client_id"]):
            return None
        try:
            client = OAuthClientInformationFull.model_validate(before.client)
        except ValidationError:
            return None
        expired = bool(client.client_secret_expires_at) and (client.client_secret_expires_at or 0) < time.time()
        return client if client.redirect_uris == redirects and not expired else None

    def _select_authorization_server(self, advertised: list[str]) -> str:
        issuer = self._credentials.issuer
        chosen = next((one for one in advertised if issuer is not None and issuers_match(one, issuer)), advertised[0])
        self._require(chosen)
        return chosen

    def _expected_issuer(self) -> str:
        expected = super()._expected_issuer()
        self._require(expected)
        return expected

    def _require(self, found: str | None) -> None:
        """Errors: ``OAuthFlowError`` for an issuer other than the configured one."""
        issuer = self._credentials.issuer
        if issuer is not None and (found is None or not issuers_match(found, issuer)):
            actual = "describes no authorization server" if found is None else f"names the issuer {found}"
            raise OAuthFlowError(f"The server {actual}, but the configured issuer is {issuer}.")

    def _require_description(self) -> None:
        """Errors: ``OAuthFlowError``, where the SDK would use the server itself instead."""
        named = self.context.auth_server_url
        if named is not None and self.context.oauth_metadata is None:
            raise OAuthFlowError(f"The authorization server {named} does not publish the required metadata.")

    async def _perform_authorization(self) -> httpx2.Request:
        self._require_description()
        context, metadata = self.context, self.context.oauth_metadata
        self._require(None if metadata is None else str(metadata.issuer))
        methods = None if metadata is None else metadata.code_challenge_methods_supported
        if methods is not None and "S256" not in methods:
            raise OAuthFlowError("The authorization server does not support PKCE with S256.")
        chosen = self._credentials.scope or context.client_metadata.scope
        context.client_metadata.scope = union_scopes(chosen, self._more_scope)
        client = context.client_info
        if client is not None and client.token_endpoint_auth_method is None:
            # The SDK sends no default; it is in RFC 7591, section 2.
            context.client_info = client.model_copy(update={"token_endpoint_auth_method": _method(client, metadata)})
        return await super()._perform_authorization()

    async def _visit(self, url: str) -> None:
        metadata = self.context.oauth_metadata
        page = "" if metadata is None else str(metadata.authorization_endpoint)
        if "?" in page and url.startswith(f"{page}?"):
            # The query of the address stays (RFC 6749, section 3.1); the SDK begins a second one.
            url = f"{page}&{url.removeprefix(f'{page}?')}"
        why = refuse_page(url)
        if why is not None:
            raise OAuthFlowError(f"The page of the authorization server was not opened: {why}.")
        if self._person is None:
            raise SignInNeeded("needs you to sign in")
        await self._person.visit(url)

    async def _answered(self) -> AuthorizationCodeResult:
        if self._person is None:
            raise SignInNeeded("needs you to sign in")
        given = await self._person.answer()
        return AuthorizationCodeResult(code=given.get("code", ""), state=given.get("state"), iss=given.get("iss"))


def _method(client: OAuthClientInformationFull, metadata: OAuthMetadata | None) -> TokenEndpointAuthMethod:
    """A client's authentication method, if none is configured."""
    if client.client_secret is None:
        return "none"
    known = None if metadata is None else metadata.token_endpoint_auth_methods_supported
    return "client_secret_post" if known is not None and "client_secret_basic" not in known else "client_secret_basic"


def _dump(model: BaseModel) -> frozendict[str, Any]:
    return frozendict(model.model_dump(mode="json", exclude_none=True))


def _dump_some(model: BaseModel | None) -> frozendict[str, Any] | None:
    return None if model is None else _dump(model)


class Memory:
    """The SDK's token storage, in memory. ``conceal`` receives the tokens."""

    def __init__(self, conceal: Callable[..., None]) -> None:
        self._conceal = conceal
        self._tokens: OAuthToken | None = None
        self._client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._conceal(tokens.access_token, tokens.refresh_token or "")
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
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
        storage=Memory(conceal),
        client_id=credentials.client_id or "",
        client_secret=secret,
        issuer=credentials.issuer,
        scope=credentials.scope,
    )
