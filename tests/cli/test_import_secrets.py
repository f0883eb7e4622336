"""What counts as a secret in a client's configuration, what does not, and what refers to a variable."""

import hashlib

import pytest

from ripieno.cli.importing.secrets import (
    Part,
    Reference,
    Secret,
    find_references,
    holds_secret,
    read_arguments,
    read_value,
)

PLAIN = [
    "/home/ada/.cache/server",
    "claude-sonnet-4-5-20250929",
    "@modelcontextprotocol/server-sequential-thinking",
    "git+ssh://git@github.com/house/server",
    "https://a.example:8080/mcp?mode=fast&page=2",
    "--mode=fast",
]
SECRET = [
    "postgres://ada:pw@localhost/house",
    "https://token@a.example/",
    "Server=db;User=ada;Password=pw;",
    '{"Authorization": "Bearer x", "Version": "1"}',
    "https://a.example/?token=x",
    "0d9a2b64-8f4e-4c7c-9d0e-0a6d5c3b2f1a",
    hashlib.sha256(b"").hexdigest(),
]


@pytest.mark.parametrize("text", [*PLAIN, *SECRET])
def test_texts_that_hold_a_secret(text: str) -> None:
    assert holds_secret(text) is (text in SECRET)


@pytest.mark.parametrize(
    ("name", "value", "parts"),
    [
        ("LOG_LEVEL", "debug", (Secret("debug"),)),
        ("A", "", ()),
        ("Authorization", "Bearer x", ("Bearer ", Secret("x"))),
        ("Authorization", "Bearer ${A}", ("Bearer ", Reference("A", "${A}"))),
        ("ROOT", "${A}/notes", (Reference("A", "${A}"), "/notes")),
        ("TOKEN", "pre${A}fix", (Secret("pre${A}fix"),)),
        ("URL", "https://ada:pw@${HOST}/", (Secret("https://ada:pw@${HOST}/"),)),
    ],
)
def test_values(name: str, value: str, parts: tuple[Part, ...]) -> None:
    assert read_value(name, value) == parts
    assert "debug" not in repr(Secret("debug"))


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
