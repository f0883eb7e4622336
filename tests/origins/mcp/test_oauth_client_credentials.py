"""Servers that want tokens: our credentials are exchanged with the issuer that gave them, and with nobody else."""

import contextlib
import pathlib
import socket
import subprocess
import sys
from collections.abc import Generator

import pytest

from ripieno.canisters import TextualContent
from ripieno.ensembles import Surroundings
from ripieno.exceptions import ConnectionFailure
from tests.support.toml_ensembles import SERVERS, Alerts, call, make_ensemble, surround


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@contextlib.contextmanager
def guarded() -> Generator[tuple[str, str], None, None]:
    """The URLs of an issuer and of a server that takes its tokens."""
    issuer, resource = free_port(), free_port()
    command = [sys.executable, str(SERVERS / "oauth_protected.py"), str(issuer), str(resource)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().split() == [str(issuer), str(resource)]
        try:
            yield f"http://127.0.0.1:{issuer}", f"http://127.0.0.1:{resource}/mcp"
        finally:
            process.kill()


def text(url: str, issuer: str) -> str:
    return f"""
        [ensemble]
        name = "it"
        [connection]
        origin = "mcp"
        url = "{url}"
        [connection.oauth]
        client_id = "ripieno"
        client_secret = "{{env:TOKEN}}"
        issuer = "{issuer}"
        scope = "read"
    """


def surroundings(folder: pathlib.Path, secret: str = "a-secret-token") -> Surroundings:
    return surround(folder, Alerts(), secrets={"TOKEN": secret})


async def test_a_token_is_had_for_our_credentials(tmp_path: pathlib.Path) -> None:
    with guarded() as (issuer, url):
        async with make_ensemble(text(url, issuer), surroundings(tmp_path)) as ensemble:
            assert await call(ensemble, "who") == [TextualContent(text="alice")]


@pytest.mark.parametrize(
    ("secret", "other", "says"),
    [("not-the-secret", False, "invalid_client"), ("a-secret-token", True, "https://elsewhere.example")],
    ids=["secret", "issuer"],
)
async def test_what_is_refused_is_said_without_the_secret(
    secret: str, other: bool, says: str, tmp_path: pathlib.Path
) -> None:
    with guarded() as (issuer, url):
        given = "https://elsewhere.example" if other else issuer
        ensemble = make_ensemble(text(url, given), surroundings(tmp_path, secret))
        with pytest.raises(ConnectionFailure) as raised:
            await ensemble.connect()
    assert says in str(raised.value)
    assert secret not in str(raised.value)


async def test_without_credentials_it_is_closed(tmp_path: pathlib.Path) -> None:
    with guarded() as (_, url):
        bare = f'[ensemble]\nname = "it"\n[connection]\norigin = "mcp"\nurl = "{url}"\n'
        with pytest.raises(ConnectionFailure, match="answered 401"):
            await make_ensemble(bare, surroundings(tmp_path)).connect()
