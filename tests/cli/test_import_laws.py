"""``ripieno import mcp``, laws: no secret is copied, and arguments reach the program as they are."""

import hashlib
import json
import pathlib
import subprocess
import tomllib
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ripieno.cli.common import exit_codes
from ripieno.cli.importing.secrets import Reference, find_references, holds_secret
from ripieno.jsonvalues import is_list, is_table
from tests.counts import ATTACK
from tests.support.users import Call

#: Each example runs several commands.
EXAMPLES = 1000 if ATTACK else 15
BLANKS = st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=("Cc", "Zs"))
#: Any text at all, which only its name makes a secret; the beginning makes sure that it is found by nothing else.
NAMED = st.tuples(st.sampled_from(["", "Bearer ", "basic "]), st.text(BLANKS, min_size=4, max_size=40)).map(
    lambda pair: (pair[0], f"qZ7{pair[1]}")
)
#: Values that show by themselves what they are.
SHAPED = st.tuples(
    st.sampled_from(["", "sk-", "ghp_", "Bearer ", "glpat-", "key="]),
    st.binary(min_size=8).map(lambda seed: hashlib.sha256(seed).hexdigest()),
)
SECRET_NAMES = st.sampled_from(["API_KEY", "token", "dbPassword", "X-Auth", "client_secret", "Cookie", "MY_CREDENTIAL"])
PLAIN_NAMES = st.sampled_from(["A", "MODE", "VALUE", "X-Mode", "thing"])


@st.composite
def servers(draw: st.DrawFn) -> tuple[dict[str, Any], list[str]]:
    """A server with secrets wherever people put them, and those secrets."""
    hidden: list[str] = []

    def put(name: str, pair: tuple[str, str]) -> tuple[str, str]:
        assume(not any(isinstance(part, Reference) for part in find_references("".join(pair))))
        hidden.append(pair[1])
        return name, "".join(pair)

    named = [put(draw(SECRET_NAMES), draw(NAMED)) for _ in range(draw(st.integers(0, 2)))]
    shaped = [put(draw(PLAIN_NAMES), draw(SHAPED)) for _ in range(draw(st.integers(0, 2)))]
    values = dict([*named, *shaped])
    unknown = {"oauth": dict([put("clientSecret", draw(NAMED))]), "note": put("", draw(SHAPED))[1]}
    if draw(st.booleans()):
        return {"type": "http", "url": "https://a.example/mcp", "headers": values, **unknown}, hidden
    arguments = [draw(st.sampled_from(["--verbose", "-y", "{x}", "it's $HOME", "a b"]))]
    for name, value in (put("", draw(NAMED)), put("", draw(SHAPED))):
        form = draw(st.sampled_from(["--api-key {}", "--token={}", "-e SHED_KEY={}", "--header X-Api-Key:{}"]))
        arguments += [one.replace("{}", name + value) for one in form.split(" ")]
    arguments.append(f"postgres://ada:{put('', ('', 'qZ7pw'))[1]}@localhost/house")
    environment = {**values, "LEVEL": f"${{LEVEL:-{put('', draw(SHAPED))[1]}}}"}
    return {"command": "server", "args": arguments, "env": environment, **unknown}, hidden


def strings(value: Any) -> list[str]:
    """Every text in a value, keys too."""
    if is_table(value):
        return strings([*value, *value.values()])
    if is_list(value):
        return [text for one in value for text in strings(one)]
    return [value] if isinstance(value, str) else []


@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given_servers=st.lists(servers(), min_size=1, max_size=3))
def test_no_secret_is_written_or_shown(
    bring: Call, call: Call, tmp_path: pathlib.Path, given_servers: list[tuple[dict[str, Any], list[str]]]
) -> None:
    table = {f"server {index}": server for index, (server, _) in enumerate(given_servers)}
    refused = 0
    said: list[str] = []
    for options in (("--dry-run",), ("--format", "json", "--force"), ("--force",)):
        done = bring(table, "--into", str(tmp_path / "into"), *options)
        said += [done.out, done.err]
        if "json" in options:
            outcome = json.loads(done.out)
            refused = len(outcome["refused"])
            said += strings(outcome)
        kept_out = refused or "Refused" in done.err or "Already exists" in done.err
        assert done.code == (exit_codes.INPUT if kept_out else 0)
    assert refused == 0
    for path in (tmp_path / "into").glob("*.toml"):
        said += [path.read_text(), *strings(tomllib.loads(path.read_text()))]
    assert [secret for _, hidden in given_servers for secret in hidden if any(secret in text for text in said)] == []
    for index, (server, _) in enumerate(given_servers):
        checked = call("check", "--no-import", str(tmp_path / "into" / f"server-{index}.toml"))
        assert checked.code == 0, (server, checked.out)


@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    words=st.lists(st.tuples(st.text(BLANKS | st.sampled_from(" '\"\n")), st.booleans()), min_size=1, max_size=5),
    value=st.text(BLANKS | st.sampled_from(" '\"\n"), max_size=20),
)
def test_arguments_reach_the_program_as_they_are(
    bring: Call, tmp_path: pathlib.Path, words: list[tuple[str, bool]], value: str
) -> None:
    assume(not any(holds_secret(word) or "$" in word or "=" in word or ":" in word for word, _ in words))
    arguments = [f"|{word}${{SHED}}" if filled else f"|{word}" for word, filled in words]
    done = bring({"one": {"command": "printf", "args": [r"%s\0", *arguments]}}, "--dry-run", "--format", "json")
    (ensemble,) = json.loads(done.out)["ensembles"]
    connection = tomllib.loads(ensemble["toml"])["connection"]
    environment = dict.fromkeys(connection.get("environment", ()), value)
    output = subprocess.run(connection["command"], env=environment, capture_output=True, check=True).stdout
    assert output.decode().split("\0")[:-1] == [f"|{word}{value if filled else ''}" for word, filled in words]
