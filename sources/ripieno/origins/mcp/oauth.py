"""The keys of ``[connection.oauth]``: how a token for a server behind a URL is had."""

import dataclasses
import urllib.parse
from collections.abc import Mapping
from typing import Any, Literal

from ripieno.descriptors.reader.keys import Key, Table, toml_line
from ripieno.descriptors.reader.kinds import Number, Text
from ripieno.descriptors.reader.problems import Problems
from ripieno.descriptors.templates import Template
from ripieno.origins.mcp.addresses import Url
from ripieno.origins.mcp.variables import Variable

Grant = Literal["client_credentials", "authorization_code"]
_AT = ("connection", "oauth")

OAUTH = Table(
    title="[connection.oauth]",
    documentation="How a token for the URL is had: for credentials of this program, or by a person who signs in.",
    keys=(
        Key(
            name="grant",
            kind=Text(choices=("client_credentials", "authorization_code")),
            documentation="client_credentials exchanges credentials of ours, and is meant where there is "
            "client_secret; authorization_code lets a person sign in with: ripieno login NAME.",
            example="authorization_code",
        ),
        Key(
            name="client_id",
            kind=Text(),
            documentation="Who we are there; to sign in, only where we are known already.",
            example="ripieno",
        ),
        Key(
            name="client_secret",
            kind=Variable(),
            documentation="What only we know.",
            example="{env:CLIENT_SECRET}",
        ),
        Key(
            name="issuer",
            kind=Url(),
            documentation="The authorization server that gave them, the only one that ever sees them.",
            example="https://login.example.org",
        ),
        Key(name="scope", kind=Text(), documentation="What to ask for, in words parted by spaces.", example="read"),
        Key(
            name="client_metadata_url",
            kind=Url(),
            documentation="The https URL of a document that describes us, for servers that take it as client_id.",
            example="https://example.org/oauth/client.json",
        ),
        Key(
            name="redirect_port",
            kind=Number(whole=True, minimum=1, maximum=65535),
            documentation="The port of this machine that a sign-in comes back to, where it was registered; any by "
            "default. The whole address is http://127.0.0.1:PORT/callback.",
            example=8765,
        ),
    ),
)
#: Keys that only a person's sign-in has; and what the exchange of credentials needs.
_OF_PERSONS = ("client_metadata_url", "redirect_port")
_OF_PROGRAMS = ("client_id", "client_secret", "issuer")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """How a token is had, and from whom. ``redirect_port`` 0 is any that is free."""

    grant: Grant = "client_credentials"
    client_id: str | None = None
    client_secret: Template | None = None
    issuer: str | None = None
    scope: str | None = None
    client_metadata_url: str | None = None
    redirect_port: int = 0

    @property
    def personal(self) -> bool:
        """Whether a person signs in."""
        return self.grant == "authorization_code"


def read_oauth(table: Mapping[str, Any], problems: Problems) -> Credentials:
    """The credentials of a table whose keys are right each by itself; adds what is wrong with them together."""
    given: dict[str, Any] = {
        "grant": "client_credentials" if "client_secret" in table else "authorization_code",
        **table,
    }
    credentials = Credentials(**given)
    if credentials.personal:
        _check_person(credentials, problems)
        return credentials
    for name in _OF_PERSONS:
        if name in table:
            message = f"{name} belongs to the grant authorization_code, and this one is client_credentials"
            problems.add((*_AT, name), message)
    for name in _OF_PROGRAMS:
        if name not in table:
            hint = f"For instance: {toml_line(name, OAUTH.known[name].example)}"
            problems.add(_AT, f"[connection.oauth] lacks {name}", hint)
    return credentials


def _check_person(credentials: Credentials, problems: Problems) -> None:
    if credentials.client_secret is not None:
        for name in ("client_id", "issuer"):
            if getattr(credentials, name) is None:
                what = f"{name} says {'whose it is' if name == 'client_id' else 'who alone may see it'}"
                hint = f"For instance: {toml_line(name, OAUTH.known[name].example)}"
                problems.add(_AT, f"client_secret needs {name}: {what}", hint)
    url = credentials.client_metadata_url
    if url is None:
        return
    at = (*_AT, "client_metadata_url")
    if credentials.client_id is not None:
        problems.add(at, "client_metadata_url is another way to say client_id: only one of them can be")
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "https" or parts.path in ("", "/"):
        problems.add(at, "client_metadata_url must begin with https://, and have a path")
