"""What is said of a ``[connection]`` before anything starts; and which addresses are shown in a sign-in."""

import pytest

from ripieno.origins.mcp.addresses import refuse_page
from tests.support.toml_ensembles import check, server


@pytest.mark.parametrize(
    "url",
    [
        *("http://login.example.org/", "file:///etc/passwd", "javascript:alert(1)", "ms-settings:x", "data:,x"),
        *("HTTPS://user:word@login.example.org/", "https://login.example.org/a b", "https://b.example/\n", ""),
        *("https:///x", "https://[", "https://löwe.example/", "-x"),
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
            ["client_secret needs client_id, the client", "client_secret needs issuer, the only server that may see"],
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
    for problem, part in zip(check(text + keys), says, strict=True):
        assert part in str(problem)


@pytest.mark.parametrize(
    ("keys", "key", "message", "hint"),
    [
        ('comand = ["x"]', "connection.comand", "[connection] has no key comand", "'command'"),
        ("", "connection", "[connection] lacks command", "For instance"),
        ("command = []", "connection.command", "command must name a program", "For instance"),
        ('command = "x"', "connection.command", "command must be a list of strings", 'Write: command = ["x"]'),
        ("command = \"x '/a b' c\"", "connection.command", "must be a list", 'Write: command = ["x", "/a b", "c"]'),
        ('command = ["x"]\nenv = {}', "connection.env", "[connection] has no key env", "Did you mean 'environment'?"),
        ('command = ["../x"]', "connection.command[0]", "../x is outside of this file's folder", "absolute path"),
        ('command = ["./x"]', "connection.command[0]", "./x needs a folder", "absolute path"),
        ('command = ["x", "\\u0000"]', "connection.command", "cannot contain NUL", ""),
        ('command = ["x"]\nenvironment = { A = 1 }', "connection.environment.A", "where a variable goes", ""),
        ('command = ["x"]\ntransport = "tcp"', "connection.transport", "transport must be one of", ""),
        ('transport = "http"', "connection", "[connection] lacks url", "url = "),
        ('url = "https://a/b"\ncommand = ["x"]', "connection.command", "belongs to the transport stdio", ""),
        ('url = "https://a/b"\ndirectory = "x"', "connection.directory", "belongs to the transport stdio", ""),
        ('command = ["x"]\nheaders = { A = "b" }', "connection.headers", "belongs to the transport http or sse", ""),
        ('url = "ftp://a/b"', "connection.url", "begins with http:// or https://", ""),
        ('url = "https://"', "connection.url", "begins with http:// or https://", ""),
        ('url = "https://a:b@c/d"', "connection.url", "a user or a password", "headers"),
        ('url = "https://a/b c"', "connection.url", "begins with http:// or https://", ""),
        ('url = "https://a/b"\nheaders = { "A:" = "b" }', 'connection.headers."A:"', "the name of a header", ""),
        ('command = ["x"]\ntimeout = 100', "connection.timeout", "at most 28, not", ""),
        ('command = ["x"]\nenvironment = { A = "{b}" }', "connection.environment.A", "{b} is an argument", "env:"),
        ('command = ["x"]\nenvironment = { A = "{env:B" }', "connection.environment.A", "never closed", ""),
        ('command = ["x"]\nenvironment = { "A=" = "" }', 'connection.environment."A="', "the name of a variable", ""),
    ],
)
def test_settings_that_are_wrong(keys: str, key: str, message: str, hint: str) -> None:
    problems = check(f'[ensemble]\nname = "it"\n[connection]\norigin = "mcp"\n{keys}')
    assert [problem.key for problem in problems] == [key]
    assert message in problems[0].message
    assert hint in (problems[0].hint or "") + problems[0].message


def test_an_invoker_cannot_be_declared_for_a_server() -> None:
    text = '[ensemble]\nname = "it"\n[[invokers]]\nname = "a"\ndescription = "A"\ninvocable = { origin = "mcp" }'
    (problem,) = check(text)
    assert (problem.key, "[overrides.NAME]" in str(problem.hint)) == ("invokers[0].invocable.origin", True)


def test_a_right_connection_has_no_problems() -> None:
    assert check(server("well_behaved.py", connection="timeout = 10", more='A = "env:TOKEN"')) == []
