"""What is said of a ``[connection]`` to a server before anything starts."""

import pytest

from tests.support.toml_ensembles import check, server


@pytest.mark.parametrize(
    ("keys", "key", "message", "hint"),
    [
        ('comand = ["x"]', "connection.comand", "[connection] has no key comand", "'command'"),
        ("", "connection", "[connection] lacks command", "For instance"),
        ("command = []", "connection.command", "command must name a program", "For instance"),
        ('command = "x"', "connection.command", "command must be a list of strings", "Write a list"),
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
