"""Signing in and out at a server behind a URL, for the command line and for applications. Imports the SDK.

Starting an ensemble never asks a person; this does. A listener on this machine waits for the browser to return, and the
tokens are stored for later starts. Signing out revokes them at their authorization server (RFC 7009).
"""

import asyncio
import contextlib
import urllib.parse
from collections.abc import AsyncGenerator, Awaitable, Callable

import httpx2
from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthMetadata
from pydantic import AnyUrl, ValidationError

from ripieno.descriptors import EnsembleDescriptor
from ripieno.descriptors.reader.problems import Problems, Source
from ripieno.ensembles import Surroundings
from ripieno.ensembles.origin import check_origin
from ripieno.exceptions import ConfigurationInvalidity, ConnectionFailure, InputError, PermissionFault, ToolFault
from ripieno.jsonvalues import is_list
from ripieno.origins.mcp import ORIGIN, connect
from ripieno.origins.mcp.oauth.callback import Loopback, listening_back
from ripieno.origins.mcp.oauth.named_addresses import fetch_named
from ripieno.origins.mcp.oauth.person import SignInRefused
from ripieno.origins.mcp.oauth.provider import Memory
from ripieno.origins.mcp.oauth.tokens import SignIn, TokenStore, resource_of
from ripieno.origins.mcp.sdk import import_sdk
from ripieno.origins.mcp.settings import ServerSettings, read_connection
from ripieno.values import Value


async def revoke(record: SignIn, url: str, secret: str, patience: float) -> str | None:
    """Revokes the tokens of a sign-in at ``url``. Returns the reason of a failure, or None. ``patience``: seconds."""
    where = f"The tokens at {record.issuer} could not be revoked:"
    try:
        client = OAuthClientInformationFull.model_validate(record.client)
        metadata = None if record.metadata is None else OAuthMetadata.model_validate(record.metadata)
    except ValidationError:
        return f"{where} the stored sign-in cannot be read."
    if metadata is None or metadata.revocation_endpoint is None:
        return f"{where} the authorization server does not support it."
    endpoint = str(metadata.revocation_endpoint)
    if secret:
        client = client.model_copy(update={"client_secret": secret})
    context = OAuthContext(url, OAuthClientMetadata(redirect_uris=[AnyUrl(url)]), Memory(lambda *_: None), None, None)
    context.client_info = client
    # Revoking the refresh token also revokes the tokens that came from it.
    kind = "refresh_token" if record.renewable else "access_token"
    form = {"token": str(record.tokens[kind]), "token_type_hint": kind, "client_id": client.client_id}
    form, headers = context.prepare_token_auth(form, {})
    try:
        # The issuer may be where the operator said, the server's own addresses only where it may lead.
        server = record.issuer if _same_origin(endpoint, record.issuer) else url
        sent = (*headers.items(), ("Content-Type", "application/x-www-form-urlencoded"))
        body = urllib.parse.urlencode(form).encode()
        fetched = await fetch_named("POST", endpoint, sent, body, server=server, seconds=patience)
    except PermissionFault as fault:
        return f"{where} {endpoint} was not contacted: {fault.message}"
    except ToolFault as fault:
        return f"{where} {fault.message}"
    return None if fetched.status == 200 else f"{where} the authorization server answered {fetched.status}."


def _same_origin(one: str, other: str) -> bool:
    first, second = httpx2.URL(one), httpx2.URL(other)
    return (first.scheme, first.host, first.port) == (second.scheme, second.host, second.port)


#: Seconds in which a person must sign in.
PATIENCE = 300.0
#: Seconds for an authorization server to revoke tokens.
_REVOCATION = 10.0

Show = Callable[[str], Awaitable[None]]


class SignInFailure(ConnectionFailure):
    """No sign-in: refused by the person or the authorization server, or timed out."""


class SignedIn(Value, kw_only=True):
    """A successful sign-in. ``tools`` are the names that the server offers after it."""

    sign_in: SignIn
    tools: tuple[str, ...]


class SignedOut(Value, kw_only=True):
    """The deleted sign-ins: their ``issuers`` and number of ``files``. ``problems`` are failures to revoke."""

    issuers: tuple[str, ...]
    files: int
    revoked: int
    problems: tuple[str, ...]


class _Visitor:
    def __init__(self, loopback: Loopback, show: Show) -> None:
        self.loopback = loopback
        self._show = show
        self.refusal: SignInRefused | None = None
        #: Set while the person is waited for.
        self.away = False

    @property
    def redirect_uri(self) -> str:
        return self.loopback.redirect_uri

    async def visit(self, url: str) -> None:
        self.loopback.expect(url)
        self.away = True
        await self._show(url)

    async def answer(self) -> dict[str, str]:
        try:
            given = await self.loopback.answer()
        except SignInRefused as refusal:
            self.refusal = refusal
            raise
        self.away = False
        return given


def signs_in(descriptor: EnsembleDescriptor) -> ServerSettings | None:
    """The settings of a valid ensemble at which a person can sign in; None for any other."""
    if descriptor.connection is None or descriptor.connection.origin != ORIGIN.name:
        return None
    settings = read_connection(descriptor, Problems(Source()))
    return settings if settings is not None and settings.oauth is not None and settings.oauth.personal else None


def find_sign_in(descriptor: EnsembleDescriptor, surroundings: Surroundings) -> SignIn | None:
    """The stored sign-in for an ensemble, or None."""
    settings = signs_in(descriptor)
    return None if settings is None else _find(settings, TokenStore.of(surroundings))


async def sign_in(
    descriptor: EnsembleDescriptor, surroundings: Surroundings, show: Show, *, patience: float = PATIENCE
) -> SignedIn:
    """Lets a person sign in for an ensemble, even if signed in already, and connects to verify it.

    ``show(url)`` shows a page to the person and returns. Errors: ``InputError`` where no sign-in is possible;
    ``SignInFailure`` when it fails or takes more than ``patience`` seconds; ``ConnectionFailure``.
    """
    settings, name = _settings(descriptor), descriptor.name
    store = TokenStore.of(surroundings)
    if store.folder is None:
        raise InputError(f"There is no folder for the sign-in of {name!r}.")
    port = 0 if settings.oauth is None else settings.oauth.redirect_port
    visitor: _Visitor | None = None
    try:
        async with asyncio.timeout(patience), _listening(name, port, _find(settings, store)) as loopback:
            visitor = _Visitor(loopback, show)
            async with connect(settings, descriptor, surroundings, visitor) as connected:
                tools = tuple(sorted(one.name for one in connected.definitions))
    except TimeoutError as error:
        raise SignInFailure(name, _late(visitor, patience)) from error
    except ConnectionFailure as error:
        if visitor is not None and visitor.refusal is not None:
            raise SignInFailure(name, str(visitor.refusal)) from error
        raise
    record = _find(settings, store)
    if record is None:
        raise ConnectionFailure(name, "the sign-in could not be stored.")
    return SignedIn(sign_in=record, tools=tools)


async def sign_out(descriptor: EnsembleDescriptor, surroundings: Surroundings) -> SignedOut:
    """Revokes tokens, if the authorization server supports it, and deletes them in any case.

    Errors: ``InputError`` where no sign-in is possible.
    """
    settings = _settings(descriptor)
    store, resource = TokenStore.of(surroundings), resource_of(settings.url or "")
    issuer = None if settings.oauth is None else settings.oauth.issuer
    records = store.every(resource, issuer)
    problems: list[str] = []
    revoked = 0
    try:
        if records:
            await import_sdk()
            template = None if settings.oauth is None else settings.oauth.client_secret
            for record in records:
                secret = "" if template is None else template.text({}, surroundings.secrets)
                problem = await revoke(record, settings.url or "", secret, _REVOCATION)
                revoked += problem is None
                problems += [] if problem is None else [problem]
    finally:
        files = store.forget(resource, issuer)
    return SignedOut(
        issuers=tuple(one.issuer for one in records), files=files, revoked=revoked, problems=tuple(problems)
    )


def _settings(descriptor: EnsembleDescriptor) -> ServerSettings:
    """Errors: ``InputError`` with the settings that a sign-in needs."""
    problems = check_origin(ORIGIN, descriptor)
    if problems:
        raise ConfigurationInvalidity(problems)
    settings = signs_in(descriptor)
    if settings is None:
        raise InputError(
            f"Ensemble {descriptor.name!r} has no sign-in: that needs a server behind a URL, with "
            'oauth = { grant = "authorization_code" } under [connection].'
        )
    return settings


def _find(settings: ServerSettings, store: TokenStore) -> SignIn | None:
    issuer = None if settings.oauth is None else settings.oauth.issuer
    return store.find(resource_of(settings.url or ""), issuer)


@contextlib.asynccontextmanager
async def _listening(ensemble: str, port: int, before: SignIn | None) -> AsyncGenerator[Loopback, None]:
    """Listens for the browser, at the earlier address if it is free, since that is registered."""
    async with contextlib.AsyncExitStack() as stack:
        try:
            loopback = await stack.enter_async_context(listening_back(port, _port(before)))
        except OSError as error:
            reason = f"port {port} of this machine cannot be listened on: {error.strerror or error}."
            raise ConnectionFailure(
                ensemble, reason, hint="Another program uses it, or redirect_port is wrong."
            ) from error
        yield loopback


def _port(before: SignIn | None) -> int:
    redirects = () if before is None else before.client.get("redirect_uris")
    first = redirects[0] if is_list(redirects) and redirects else ""
    try:
        return urllib.parse.urlsplit(first).port or 0
    except (AttributeError, ValueError):
        return 0


def _late(visitor: _Visitor | None, patience: float) -> str:
    if visitor is None or not visitor.away:
        return f"the server, or its authorization server, did not answer within {patience:g} s."
    strangers = visitor.loopback.strangers
    known = f" Answers of other sign-ins: {strangers}." if strangers else ""
    again = "If the page does not know this client, run ripieno logout and sign in again."
    return f"no sign-in was completed within {patience:g} s.{known} {again}"
