"""Servers that want tokens: our credentials are exchanged with the issuer that gave them, and with no other."""

import base64
import pathlib
from collections.abc import Generator

import pytest

from ripieno.canisters import TextualContent
from ripieno.ensembles import Surroundings
from ripieno.exceptions import ConnectionFailure
from tests.support.authorization_server import Place, place
from tests.support.toml_ensembles import Alerts, call, make_ensemble, surround


@pytest.fixture(scope="module")
def there() -> Generator[Place, None, None]:
    with place() as one:
        one.authority.credentials = "Basic " + base64.b64encode(b"ripieno:a-secret-token").decode()
        yield one


def text(there: Place, issuer: str | None = None) -> str:
    return f"""
        [ensemble]
        name = "it"
        [connection]
        origin = "mcp"
        url = "{there.resource.url}"
        [connection.oauth]
        client_id = "ripieno"
        client_secret = "{{env:TOKEN}}"
        issuer = "{issuer or there.authority.url}"
        scope = "read"
    """


def surroundings(folder: pathlib.Path, secret: str = "a-secret-token") -> Surroundings:
    return surround(folder, Alerts(), secrets={"TOKEN": secret})


async def test_a_token_is_had_for_our_credentials(tmp_path: pathlib.Path, there: Place) -> None:
    async with make_ensemble(text(there), surroundings(tmp_path)) as ensemble:
        assert await call(ensemble, "who") == [TextualContent(text="alice")]
    assert there.authority.last("/token")["resource"] == there.resource.url


@pytest.mark.parametrize(
    ("secret", "issuer", "says"),
    [("not-the-secret", None, "invalid_client"), ("a-secret-token", "https://b.example", "https://b.example")],
)
async def test_what_is_refused_is_said_without_the_secret(
    secret: str, issuer: str | None, says: str, tmp_path: pathlib.Path, there: Place
) -> None:
    ensemble = make_ensemble(text(there, issuer), surroundings(tmp_path, secret))
    with pytest.raises(ConnectionFailure) as raised:
        await ensemble.connect()
    assert says in str(raised.value)
    assert secret not in str(raised.value)
