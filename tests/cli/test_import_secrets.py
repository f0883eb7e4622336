"""What counts as a secret in a client's configuration, what does not, and what refers to a variable."""

import hashlib

import pytest

from ripieno.cli.importing.secrets import Reference, Secret, find_references, read_arguments, read_value

PLAIN = {
    "LOG_LEVEL": "debug",
    "ROOT": "/home/ada/.cache/0123456789abcdef0123456789abcdef",
    "MODEL": "claude-sonnet-4-5-20250929",
    "AUTH_ENABLED": "true",
    "MAX_TOKENS": "4096",
    "GOOGLE_APPLICATION_CREDENTIALS": "/home/ada/key.json",
    "SSH_AUTH_SOCK": "/run/agent.sock",
    "OPTIONS": '{"authEnabled": true, "maxTokens": 4096}',
    "AUTHOR_NAME": "Ada Lovelace",
    "PACKAGE": "@modelcontextprotocol/server-sequential-thinking",
    "REPOSITORY": "git+ssh://git@github.com/house/server",
    "URL": "https://a.example:8080/mcp?mode=fast&page=2",
}
SECRET = {
    "api-key": "x",
    "dbPassword": "",
    "DATABASE_URL": "postgres://ada:pw@localhost/house",
    "DSN": "whatever",
    "A": "github_pat_x",
    "B": "Server=db;User=ada;Password=pw;",
    "C": '{"Authorization": "Bearer x", "Version": "1"}',
    "D": "https://a.example/?token=x",
    "G": '{"version": "1", "apiKey": "x"}',
    "H": "--option=token=x",
    "E": "0d9a2b64-8f4e-4c7c-9d0e-0a6d5c3b2f1a",
    "F": hashlib.sha256(b"").hexdigest(),
    "TOKEN": "pre${SHED}fix",
}


@pytest.mark.parametrize(("name", "value"), PLAIN.items())
def test_plain_settings_stay(name: str, value: str) -> None:
    assert read_value(name, value) == (value,)


@pytest.mark.parametrize(("name", "value"), SECRET.items())
def test_secrets_are_hidden(name: str, value: str) -> None:
    assert read_value(name, value) == (Secret(value),)
    assert value not in repr(Secret(value)) or not value


@pytest.mark.parametrize(
    ("arguments", "literals"),
    [
        (["--token=hush="], ["--token="]),
        (["-e", "API_KEY=hush=="], ["-e", "API_KEY="]),
        (["--header=Authorization: Bearer hush"], ["--header=Authorization: ", "Bearer "]),
        (["Zm9vYmFyMTIzNDU2Nzg5MGh1c2g=="], []),
        (["--mode=Zm9vYmFyMTIzNDU2Nzg5MGh1c2g=="], ["--mode="]),
        (["--api-key", "hush", "--verbose"], ["--api-key", "--verbose"]),
        (["--no-auth", "--mode", "fast"], ["--no-auth", "--mode", "fast"]),
    ],
)
def test_secrets_of_arguments_are_hidden(arguments: list[str], literals: list[str]) -> None:
    parts = [part for _, parts in read_arguments(arguments) for part in parts]
    assert [part for part in parts if isinstance(part, str)] == literals
    assert len(parts) == len(literals) + ("fast" not in arguments)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("${env:A}/${B}", ["A", "B"]),
        ("$A", ["A"]),
        ("Bearer $A", ["A"]),
        ("pa$A", []),
        ("$small", []),
        ("${A:-b}", ["A"]),
        ("${A:-${B}}", ["A"]),
        ("${input:my key.x}", ["MY_KEY_X"]),
        ("${config:7}", ["VALUE_7"]),
        ("${}", []),
        ("env:A", ["A"]),
        ("${/}", []),
    ],
)
def test_references(text: str, names: list[str]) -> None:
    assert [part.name for part in find_references(text) if isinstance(part, Reference)] == names
