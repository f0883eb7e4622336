"""Signing in at a server behind a URL, and out again: for the command line, and for applications that ask themselves.

Starting an ensemble never asks anybody; this does. A listener on this machine waits for the browser to come back, and
what the sign-in gave is kept for every later start.

Takes tokens back at the authorization server that gave them (RFC 7009). Imports the SDK.
"""

import asyncio
import contextlib
import dataclasses
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
from ripieno.exceptions import ConfigurationInvalidity, ConnectionFailure, InputError
from ripieno.jsonvalues import is_list
from ripieno.origins.mcp import ORIGIN, connect
from ripieno.origins.mcp.addresses import refuse_address
from ripieno.origins.mcp.oauth.authorization import Memory
from ripieno.origins.mcp.oauth.callback import Loopback, listening_back
from ripieno.origins.mcp.oauth.person import SignInRefused
from ripieno.origins.mcp.oauth.tokens import SignIn, TokenStore, resource_of
from ripieno.origins.mcp.sdk import import_rooms
from ripieno.origins.mcp.settings import ServerSettings, read_connection


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


#: Seconds in which a person has to have signed in.
PATIENCE = 300.0
#: Seconds for an authorization server to take tokens back.
_REVOCATION = 10.0

Show = Callable[[str], Awaitable[None]]


class SignInFailure(ConnectionFailure):
    """Nobody signed in: they, or the authorization server, said no, or it took too long."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SignedIn:
    """How a sign-in went. ``tools`` are the names of what the server offers to whoever signed in."""

    sign_in: SignIn
    tools: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SignedOut:
    """What was forgotten: the ``issuers``, and of ``files`` how many. ``problems`` say what could not be revoked."""

    issuers: tuple[str, ...]
    files: int
    revoked: int
    problems: tuple[str, ...]


class _Visitor:
    """Somebody at a browser."""

    def __init__(self, loopback: Loopback, show: Show) -> None:
        self._loopback = loopback
        self._show = show
        self.refusal: SignInRefused | None = None
        #: Set while the person is waited for.
        self.away = False

    @property
    def redirect_uri(self) -> str:
        return self._loopback.redirect_uri

    @property
    def strangers(self) -> int:
        """Requests that were not of this sign-in."""
        return self._loopback.strangers

    async def visit(self, url: str) -> None:
        self._loopback.expect(url)
        self.away = True
        await self._show(url)

    async def answer(self) -> dict[str, str]:
        try:
            given = await self._loopback.answer()
        except SignInRefused as refusal:
            self.refusal = refusal
            raise
        self.away = False
        return given


def signs_in(descriptor: EnsembleDescriptor) -> ServerSettings | None:
    """The settings of an ensemble at which a person can sign in; None for any other, and for one that is broken."""
    if descriptor.connection is None or descriptor.connection.origin != ORIGIN.name:
        return None
    settings = read_connection(descriptor, Problems(Source()))
    return settings if settings is not None and settings.oauth is not None and settings.oauth.personal else None


def find_sign_in(descriptor: EnsembleDescriptor, surroundings: Surroundings) -> SignIn | None:
    """Where somebody is signed in for an ensemble, or None."""
    settings = signs_in(descriptor)
    return None if settings is None else _find(settings, TokenStore.of(surroundings))


async def sign_in(
    descriptor: EnsembleDescriptor, surroundings: Surroundings, show: Show, *, patience: float = PATIENCE
) -> SignedIn:
    """Lets a person sign in for an ensemble, whether somebody is signed in or not, and connects to see that it works.

    ``show(url)`` brings the person to a page, and returns. Errors: ``InputError`` where nobody can sign in;
    ``SignInFailure`` when nobody did within ``patience`` seconds; ``ConnectionFailure``.
    """
    settings, name = _settings(descriptor), descriptor.name
    store = TokenStore.of(surroundings)
    if store.folder is None:
        raise InputError(f"The sign-in for {name!r} has no place where it could be kept.")
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
        raise ConnectionFailure(name, "the sign-in could not be kept.")
    return SignedIn(sign_in=record, tools=tools)


async def sign_out(descriptor: EnsembleDescriptor, surroundings: Surroundings) -> SignedOut:
    """Takes tokens back, where the authorization server has a place for that, and forgets them in any case.

    Errors: ``InputError`` where nobody can sign in.
    """
    settings = _settings(descriptor)
    store, resource = TokenStore.of(surroundings), resource_of(settings.url or "")
    issuer = None if settings.oauth is None else settings.oauth.issuer
    records = store.every(resource, issuer)
    problems: list[str] = []
    revoked = 0
    try:
        if records:
            await import_rooms()

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
    """Errors: ``InputError`` that says how an ensemble could be signed in at."""
    problems = check_origin(ORIGIN, descriptor)
    if problems:
        raise ConfigurationInvalidity(problems)
    settings = signs_in(descriptor)
    if settings is None:
        raise InputError(
            f"Ensemble {descriptor.name!r} is nothing that somebody could sign in at: that is a server behind a URL, "
            'with oauth = { grant = "authorization_code" } under [connection].'
        )
    return settings


def _find(settings: ServerSettings, store: TokenStore) -> SignIn | None:
    issuer = None if settings.oauth is None else settings.oauth.issuer
    return store.find(resource_of(settings.url or ""), issuer)


@contextlib.asynccontextmanager
async def _listening(ensemble: str, port: int, before: SignIn | None) -> AsyncGenerator[Loopback, None]:
    """Where the browser comes back to: the same place as before where that is free, since it is registered."""
    async with contextlib.AsyncExitStack() as stack:
        try:
            loopback = await stack.enter_async_context(listening_back(port, _port(before)))
        except OSError as error:
            reason = f"port {port} of this machine cannot be listened on: {error.strerror or error}."
            raise ConnectionFailure(
                ensemble, reason, hint="Another program has it, or redirect_port is wrong."
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
    strangers = visitor.strangers
    known = f" Answers that were not of this sign-in: {strangers}." if strangers else ""
    again = "If the page knows no such client: ripieno logout, and then again."
    return f"nobody signed in within {patience:g} s.{known} {again}"
