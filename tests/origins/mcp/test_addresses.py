"""Addresses that a sign-in leads to: which of them are asked, and which are shown to a person."""

import pytest

from ripieno.origins.mcp.addresses import refuse_address, refuse_page
from tests.support.toml_ensembles import check

PUBLIC, OURS, INNER = "https://tools.example.org/mcp", "http://127.0.0.1:8000/mcp", "http://10.1.2.3/mcp"


@pytest.mark.parametrize(
    ("url", "server", "refused"),
    [
        ("https://login.example.org/token", PUBLIC, False),
        ("https://tools.example.org/token", PUBLIC, False),
        ("http://login.example.org/token", PUBLIC, True),
        ("http://127.0.0.1:9000/token", PUBLIC, True),
        ("https://127.0.0.1/token", PUBLIC, True),
        ("https://169.254.169.254/latest", PUBLIC, True),
        ("https://10.0.0.1/token", PUBLIC, True),
        ("https://[::1]/token", PUBLIC, True),
        ("https://[fd00::1]/token", PUBLIC, True),
        ("https://a.localhost/token", PUBLIC, True),
        ("https://8.8.8.8/token", PUBLIC, False),
        ("http://127.0.0.1:9000/token", OURS, False),
        ("http://localhost:9000/token", OURS, False),
        ("http://login.example.org/token", OURS, True),
        ("https://10.0.0.1/token", OURS, False),
        ("http://10.1.2.3/token", INNER, False),
        ("http://10.1.2.4/token", INNER, True),
        ("https://10.1.2.4/token", INNER, False),
    ],
)
def test_what_is_asked(url: str, server: str, refused: bool) -> None:
    assert (refuse_address(url, server) is not None) is refused


@pytest.mark.parametrize(
    "url",
    [
        "http://login.example.org/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "ms-settings:x",
        "data:text/html,x",
        "HTTPS://user:word@login.example.org/",
        "https://login.example.org/a b",
        "https://login.example.org/\n",
        "https:///x",
        "https://[",
        "https://löwe.example/",
        "-x",
        "",
    ],
)
def test_what_no_browser_is_given(url: str) -> None:
    assert refuse_page(url)


@pytest.mark.parametrize("url", ["https://a.example/x?y=z", "http://127.0.0.1:1/x", "http://localhost/", "HTTPS://A/"])
def test_what_a_browser_is_given(url: str) -> None:
    assert refuse_page(url) is None


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ("", []),
        ('grant = "authorization_code"', []),
        ('grant = "authorization_code"\nclient_id = "a"\nscope = "read"\nredirect_port = 8765', []),
        ('client_metadata_url = "https://a.example/client.json"', []),
        ('client_id = "a"\nclient_secret = "b"\nissuer = "https://a.example"', []),
        ('client_secret = "b"', ["lacks client_id", "lacks issuer"]),
        ('grant = "client_credentials"', ["lacks client_id", "lacks client_secret", "lacks issuer"]),
        (
            'client_id = "a"\nclient_secret = "b"\nissuer = "https://a.example"\nredirect_port = 1',
            ["redirect_port belongs to the grant authorization_code"],
        ),
        (
            'grant = "authorization_code"\nclient_secret = "b"',
            [
                "client_secret needs client_id, the client that it",
                "client_secret needs issuer, the only server that may see it",
            ],
        ),
        ('client_metadata_url = "http://a.example/c"', ["must begin with https://"]),
        ('client_metadata_url = "https://a.example/"', ["must begin with https:// and have a path"]),
        ('client_id = "a"\nclient_metadata_url = "https://a.example/c"', ["replaces client_id"]),
        ('grant = "implicit"', ['must be one of "client_credentials", "authorization_code"']),
        ("redirect_port = 0", ["redirect_port"]),
        ("redirect_port = 65536", ["redirect_port"]),
    ],
)
def test_the_keys_of_a_grant(keys: str, says: list[str]) -> None:
    text = '[ensemble]\nname = "it"\n[connection]\norigin = "mcp"\nurl = "https://b.example"\n[connection.oauth]\n'
    problems = [str(problem) for problem in check(text + keys)]
    assert len(problems) == len(says), problems
    for problem, part in zip(problems, says, strict=True):
        assert part in problem
