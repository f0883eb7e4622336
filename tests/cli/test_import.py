"""``ripieno import mcp``: what clients are configured with becomes ensembles that check, and no secret is copied."""

import hashlib
import json
import pathlib
import re
import stat
import sys
import textwrap
import tomllib
from typing import Any

import jsonschema
import pytest

from ripieno.cli.common import exit_codes
from ripieno.cli.importing.servers import parse
from ripieno.exceptions import InputError
from tests.support.command_line import ROOT, User
from tests.support.users import FORMS, Call

#: Every credential that stands in the forms.
INVENTED = "invented"


def read(user: User, name: str) -> dict[str, Any]:
    """An ensemble that was written."""
    return tomllib.loads((user.configuration / "ensembles" / f"{name}.toml").read_text())


# Each client's form


def test_claude_desktop(bring: Call, user: User, call: Call) -> None:
    done = bring("claude-desktop.json", "--keep", "LOG_LEVEL")
    assert (done.code, done.err) == (0, "")
    assert read(user, "filesystem")["connection"]["command"][-1] == "/srv/documents"
    github = read(user, "github")["connection"]
    assert github["environment"] == {
        "GITHUB_PERSONAL_ACCESS_TOKEN": "{env:GITHUB_PERSONAL_ACCESS_TOKEN}",
        "LOG_LEVEL": "debug",
    }
    brave = read(user, "brave-search")["connection"]
    assert brave["command"] == ["npx", "-y", "brave-search-server"]
    assert brave["environment"] == {"API_KEY": "{env:BRAVE_SEARCH_API_KEY}"}
    remote = read(user, "remote")["connection"]
    assert remote["environment"] == {"AUTH_HEADER": "Bearer {env:REMOTE_AUTH_HEADER}"}
    assert remote["command"][2].endswith(' --header Authorization:"${AUTH_HEADER}"')
    for line in ("export BRAVE_SEARCH_API_KEY=   # for brave-search", "cmd /c", "ripieno tools -e filesystem"):
        assert line in done.out
    assert call("check", "--no-import").code == 0


def test_claude_code(bring: Call, user: User) -> None:
    done = bring("claude-code.json")
    assert done.code == 0
    connection = {"origin": "mcp", "transport": "http", "url": "https://mcp.sentry.example/mcp"}
    assert read(user, "sentry")["connection"] == {**connection, "headers": {"X-Team": "{env:SENTRY_X_TEAM}"}}
    asana = read(user, "asana")["connection"]
    assert (asana["transport"], asana["headers"]) == ("sse", {"Authorization": "Bearer {env:ASANA_TOKEN}"})
    database = read(user, "database")
    assert database["ensemble"]["enabled"] is False
    assert database["connection"]["environment"] == {"CACHE": "{env:CACHE_DIR}", "DATABASE_URL": "{env:DATABASE_URL}"}
    assert read(user, "database-2")["connection"]["command"] == ["uvx", "garden-server"]
    for line in ("the default of CACHE_DIR", "projects./home/ada/garden.mcpServers: the same", "'database-2'"):
        assert line in done.out


def test_cursor(bring: Call, user: User) -> None:
    done = bring("cursor.json")
    notes = read(user, "notes")["connection"]
    assert notes["environment"] == {"NOTES_TOKEN": "{env:NOTES_TOKEN}", "NOTES_ROOT": "./notes"}
    assert notes["command"] == ["sh", "-c", 'exec python3 "${PWD}"/tools/notes.py --home="${HOME}"']
    assert read(user, "linear")["connection"]["transport"] == "http"
    assert "HOME=" not in done.out
    assert "linear: auth: " in done.out
    assert 'assumed: transport = "http"' in done.out


def test_vscode(bring: Call, user: User) -> None:
    done = bring("vscode.json")
    connection = read(user, "perplexity")["connection"]
    assert connection["directory"] == "server"
    assert connection["environment"] == {
        "PERPLEXITY_API_KEY": "{env:PERPLEXITY_KEY}",
        "URL": "{env:PERPLEXITY_URL}",
        "EDITOR_COLOR": "{env:EDITOR_COLOR}",
    }
    for line in ("${input:perplexity-key}: The key of Perplexity", "envFile: ", "dev: ", "${config:editor.color}"):
        assert line in done.out
    assert bring("vscode-settings.json").code == 0
    assert read(user, "time")["connection"]["command"][0] == "uvx"


def test_windsurf(bring: Call, user: User) -> None:
    done = bring("windsurf.json", "--keep", "Accept-Language")
    finder = read(user, "finder")
    assert finder["connection"]["headers"] == {"X-Api-Key": "{env:FINDER_X_API_KEY}", "Accept-Language": "it"}
    assert finder["overrides"] == {"drop_index": {"enabled": False}}
    assert read(user, "events")["connection"]["transport"] == "sse"
    assert read(user, "old")["ensemble"]["enabled"] is False
    assert '[confirmation]\n  approve = ["finder.find_page"]\n' in done.out


def test_gemini_cli(bring: Call, user: User) -> None:
    done = bring("gemini-cli.json")
    tools = read(user, "tools")
    assert tools["connection"]["environment"] == {
        "DATABASE_URL": "{env:DB_CONNECTION_STRING}",
        "API_KEY": "{env:EXTERNAL_API_KEY}",
        "MODE": "{env:TOOLS_MODE}",
    }
    assert (tools["connection"]["directory"], tools["connection"]["timeout"]) == ("servers/tools", 15)
    assert (tools["defaults"], tools["overrides"]) == ({"timeout": 15}, {"delete_page": {"enabled": False}})
    # A call may take long; a start has a limit of its own.
    stream = read(user, "stream")
    assert (stream["defaults"]["timeout"], stream["connection"]["timeout"]) == (600, 28)
    assert [read(user, name)["connection"]["transport"] for name in ("stream", "events")] == ["http", "sse"]
    assert read(user, "legacy")["ensemble"]["enabled"] is False
    assert "(read_page, find_page)" in done.out
    assert 'approve = ["tools"]' in done.out


@pytest.mark.parametrize("form", sorted(path.name for path in FORMS.iterdir()))
def test_no_form_gives_a_secret_away(bring: Call, user: User, form: str) -> None:
    for options in (("--dry-run",), ("--dry-run", "--format", "json"), ()):
        done = bring(form, *options)
        assert done.code == 0
        assert INVENTED not in done.out + done.err
    folder = user.configuration / "ensembles"
    schema = jsonschema.Draft202012Validator(json.loads((folder / "ensemble.schema.json").read_text()))
    for path in folder.glob("*.toml"):
        text = path.read_text()
        schema.validate(tomllib.loads(text))
        assert text.startswith(f"#:schema ./ensemble.schema.json\n\n# Imported from {form}\n")
        assert INVENTED not in text
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_tutorial_shows_what_is_written(bring: Call, user: User) -> None:
    text = (ROOT / "documentation" / "tutorials" / "import-mcp.rst").read_text(encoding="utf-8")
    blocks = re.findall(r"\.\. code-block:: (?:json|toml)\n\n((?:    .*\n|\n)+)", text)
    given, written = (textwrap.dedent(block).strip() + "\n" for block in blocks)
    done = bring(given, "--keep", "LOG_LEVEL")
    assert (user.configuration / "ensembles" / "github.toml").read_text() == written
    printed = text[text.index("    Set these variables") :].partition("\n\n")[0].replace("\n    ", "\n").strip()
    assert f"\n{printed}\n" in done.out
    assert "ripieno tools -e github\n" in done.out


# The command


def test_dry_run_prints_toml_and_writes_nothing(bring: Call, user: User) -> None:
    done = bring({"one": {"command": "one-server", "args": ["x"]}}, "--dry-run")
    assert tomllib.loads(done.out)["connection"]["command"] == ["one-server", "x"]
    assert not any(user.configuration.iterdir())


def test_json_says_everything(bring: Call, user: User) -> None:
    servers = {"one": {"command": "one", "env": {"TOKEN": "x"}, "autoApprove": ["a"]}, "two": {}}
    done = bring(servers, "--format", "json")
    assert done.code == exit_codes.INPUT
    assert json.loads(done.out) == {
        "written": True,
        "ensembles": [
            {
                "server": "one",
                "ensemble": "one",
                "transport": "stdio",
                "file": str(user.configuration / "ensembles" / "one.toml"),
                "variables": {"ONE_TOKEN": "TOKEN"},
                "left_out": ["approval without asking: see below"],
                "approve": ["one.a"],
            }
        ],
        "refused": [{"server": "two", "reason": "it has neither command nor url (nor httpUrl, nor serverUrl)."}],
        "there": [],
    }


def test_into_and_only(bring: Call, tmp_path: pathlib.Path) -> None:
    servers = {"one": {"command": "one"}, "two": {"command": "two"}}
    done = bring(servers, "--into", str(tmp_path / "mine"), "--only", "two")
    assert [path.name for path in (tmp_path / "mine").glob("*.toml")] == ["two.toml"]
    assert f'paths = ["{tmp_path / "mine"}"]' in done.out
    absent = bring(servers, "--only", "tow")
    assert (absent.code, "Did you mean 'two'" in absent.err) == (exit_codes.INPUT, True)


def test_what_is_there_stays_unless_forced(bring: Call, user: User) -> None:
    assert bring({"one": {"command": "first"}}).code == 0
    again = bring({"one": {"command": "second"}, "two": {"command": "two"}})
    assert again.code == exit_codes.INPUT
    assert "--force" in again.err
    assert read(user, "one")["connection"]["command"] == ["first"]
    assert read(user, "two")["connection"]["command"] == ["two"]
    assert again.err == "Already exists: one. To replace, use --force.\n"
    third = bring({"one": {"command": "x"}, "two": {"command": "x"}, "bad": {}}, "--format", "json")
    assert [line.partition(":")[0] for line in third.err.splitlines()] == ["Refused 'bad'", "Already exists"]
    assert (json.loads(third.out)["there"], third.code) == (["one", "two"], exit_codes.INPUT)
    reference = (ROOT / "documentation" / "reference" / "commands.rst").read_text(encoding="utf-8")
    chapter = reference.partition("Importing MCP servers")[2].partition("Pinning third-party tools")[0]
    assert [key for key in json.loads(third.out) if f"``{key}``" not in chapter] == []
    assert "its ensemble exists" in chapter
    assert bring({"one": {"command": "third"}}, "--force").code == 0
    assert read(user, "one")["connection"]["command"] == ["third"]


def test_an_ensemble_of_another_file_is_not_doubled(bring: Call, user: User) -> None:
    user.ensemble("other", 'invokers = []\n[ensemble]\nname = "one"\n')
    done = bring({"one": {"command": "first"}}, "--force")
    assert done.code == exit_codes.INPUT
    assert "other.toml" in done.err


def test_names(bring: Call, user: User) -> None:
    servers = {name: {"command": f"server-{index}"} for index, name in enumerate(("io", "A b!", "a-b", "7z", "日本"))}
    done = bring(servers)
    assert done.code == 0
    names = sorted(path.stem for path in (user.configuration / "ensembles").glob("*.toml"))
    assert names == ["a-b", "a-b-2", "mcp-7z", "my-io", "server"]
    assert "it belongs to a bundled ensemble" in done.out
    assert read(user, "my-io")["ensemble"]["description"] == "Tools of the MCP server io"


def test_a_configuration_that_names_what_plays_is_told_of(bring: Call, user: User) -> None:
    user.configure('[ensembles]\nenabled = ["io"]\n[environment]\nallow = ["ONE_HOUSE_*"]\n')
    done = bring({"one": {"command": "one", "env": {"HOUSE_KEY": "x", "SHED_KEY": "y"}}})
    assert f'To add it: include = ["one"] under [ensembles], in {user.configuration / "config.toml"}.' in done.out
    assert "Add these to allow under [environment], which your configuration sets: ONE_SHED_KEY\n" in done.out


def test_two_values_never_share_a_variable(bring: Call, user: User) -> None:
    servers = {
        "one": {"command": "one", "env": {"SHED_KEY": "first", "ONE_MODE": "fast", "X": "${ONE_SHED_KEY}"}},
        "two": {"command": "two", "env": {"SHED_KEY": "second"}, "args": ["--shed-key", "second", "--key=third"]},
        "two key": {"command": "three", "env": {"VALUE": "a"}, "args": ["--key=b", "--key", "c"]},
    }
    bring(servers)
    one, two, three = (read(user, name)["connection"] for name in ("one", "two", "two-key"))
    assert one["environment"] == {
        "SHED_KEY": "{env:ONE_SHED_KEY_2}",
        "ONE_MODE": "{env:ONE_MODE}",
        "X": "{env:ONE_SHED_KEY}",
    }
    assert two["environment"] == {
        "SHED_KEY": "{env:TWO_SHED_KEY}",
        "TWO_SHED_KEY": "{env:TWO_SHED_KEY}",
        "TWO_KEY": "{env:TWO_KEY}",
    }
    assert sorted(three["environment"]) == ["TWO_KEY_KEY", "TWO_KEY_KEY_2", "VALUE"]


def test_an_imported_server_plays(bring: Call, user: User, call: Call) -> None:
    clock = {"command": sys.executable, "args": ["-P", "-m", "ripieno.testing.rehearsal.clock", "${NOTHING_HERE}"]}
    path = str(pathlib.Path(ROOT) / "sources")
    assert bring({"clock": {**clock, "env": {"PYTHONPATH": path}}}, "--keep", "PYTHONPATH").code == 0
    # It is no reason not to start when a variable is missing.
    assert call("tools").code == 0
    done = user.call("tools", "-e", "clock", "--format", "json", NOTHING_HERE="")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)


def test_a_value_stays_where_it_is_told_to(bring: Call, user: User, call: Call) -> None:
    url = "https://a.example/0d9a2b64-8f4e-4c7c-9d0e-0a6d5c3b2f1a"
    token = hashlib.sha256(b"").hexdigest()
    servers = {
        "one": {"command": "one", "args": ["--max-tokens=5", token], "env": {"MODE": "${A}{fast}", "LEVEL": "hush"}},
        "two": {"url": url, "headers": {"X-Mode": "Bearer fast"}},
    }
    names = ("max-tokens", "ONE_ARGUMENT", "MODE", "url", "X-Mode")
    done = bring(servers, *(word for name in names for word in ("--keep", name)))
    assert done.code == 0
    one, two = (read(user, name)["connection"] for name in ("one", "two"))
    assert one["command"] == ["one", "--max-tokens=5", token]
    assert one["environment"] == {"MODE": "{env:A}{{fast}}", "LEVEL": "{env:ONE_LEVEL}"}
    assert (two["url"], two["headers"]) == (url, {"X-Mode": "Bearer fast"})
    assert "  export ONE_LEVEL=   # for one (LEVEL)\n" in done.out
    assert "hush" not in done.out
    assert "--keep NAME" in done.out
    assert call("check", "--no-import").code == 0


def test_a_name_to_keep_that_there_is_not_stops_it(bring: Call, user: User) -> None:
    done = bring({"one": {"command": "one", "env": {"LOG_LEVEL": "debug"}}}, "--keep", "LOG_LEVLE")
    assert (done.code, "Did you mean 'LOG_LEVEL'" in done.err) == (exit_codes.INPUT, True)
    assert not any(user.configuration.iterdir())


# What is wrong


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"mcpServers": {\n  "a": {"env": {"TOKEN": "hush" "x"}}}}', ["line 2, column 33", "client.json"]),
        ("[1]", ["not an object", "mcpServers"]),
        ("{}", ["no servers", "mcp.servers", "projects"]),
        ('{"mcpServers": {}}', ["mcpServers is empty"]),
        ('{"mcpServers": [1]}', ["mcpServers must be an object"]),
        ("[" * 100_000, ["nested too deeply"]),
        ('{"mcpServers": {"a": ' + "1" * 5000 + "}}", ["too long"]),
        ('{"mcpServers": {"a": {}} /* never closed', ["line 1, column 26"]),
    ],
)
def test_files_that_hold_no_servers(bring: Call, text: str, words: list[str]) -> None:
    done = bring(text)
    assert (done.code, done.out) == (exit_codes.INPUT, "")
    assert [word for word in words if word not in done.err] == []
    assert "hush" not in done.err


def test_bytes_that_are_no_text(call: Call, tmp_path: pathlib.Path) -> None:
    (tmp_path / "client.json").write_bytes(b'{"\xff": 1}')
    done = call("import", "mcp", str(tmp_path / "client.json"))
    assert (done.code, "UTF-8" in done.err) == (exit_codes.INPUT, True)


@pytest.mark.parametrize(
    ("server", "words"),
    [
        ("npx", "must be an object"),
        ({"command": ["npx"]}, "command must be a text"),
        ({"command": "npx", "args": "hush"}, "args must be a list"),
        ({"command": "npx", "args": [["hush"]]}, "args must contain only texts"),
        ({"command": "npx", "args": ["hush\0"]}, "cannot be passed to a process"),
        ({"command": "npx", "env": ["hush"]}, "env must be an object"),
        ({"command": "npx", "env": {"A": {"hush": 1}}}, "env must contain only texts"),
        ({"command": "npx", "url": "https://a.example"}, "both command and url"),
        ({"command": "cmd", "args": ["/c"]}, "shell of Windows"),
        ({"command": "./server"}, "relative path"),
        ({"command": "${workspaceFolder}/server"}, "write the full path"),
        ({"command": "npx", "cwd": "/srv/${SHED}"}, "cwd contains a variable"),
        ({"type": "http", "command": "npx"}, "it has no url"),
        ({"type": "carrier pigeon", "url": "https://a.example"}, "its type must be"),
        ({"url": "https://a.example/mcp?api_key=hush"}, "may contain a secret"),
        ({"url": "https://ada:hush@a.example/mcp"}, "may contain a secret"),
        ({"url": "https://${SHED}/mcp"}, "url contains a variable"),
        ({"url": "ftp://a.example"}, "begins with http://"),
        ({"url": "https://"}, "begins with http:// or https://"),
        ({"url": "https://a.example", "headers": {"A b": "hu"}}, "the name of a header"),
        ({"url": "https://a.example", "headers": {"A": "hush\r\n${B}"}}, "not allowed in headers"),
    ],
)
def test_servers_that_are_refused_do_not_keep_others_out(bring: Call, user: User, server: Any, words: str) -> None:
    done = bring({"wrong": server, "right": {"command": "right"}})
    assert done.code == exit_codes.INPUT
    assert done.err.startswith("Refused 'wrong': ")
    assert words in done.err
    assert "hush" not in done.out + done.err
    assert read(user, "right")["connection"]["command"] == ["right"]


def test_small_things_are_mended_and_said(bring: Call, user: User) -> None:
    server = {
        "command": "npx -y server",
        "env": {"PORT": 80, "DEBUG": True, "GONE": None, "A-B": "x", "BRACES": "{x}"},
        "timeout": "long",
        "trust": "maybe",
        "disabledTools": "all",
        "oauth": {"clientSecret": "hush"},
        "description": "Reads\nthings",
    }
    done = bring({"one": server}, "--keep", "PORT", "--keep", "BRACES")
    assert done.code == 0
    written = read(user, "one")
    assert written["ensemble"]["description"] == "Reads things"
    assert written["connection"]["command"] == ["npx", "-y", "server"]
    assert written["connection"]["environment"] == {"PORT": "80", "DEBUG": "{env:ONE_DEBUG}", "BRACES": "{{x}}"}
    for words in ("split", "env.GONE", "env.A-B", "timeout: ", "trust: ", "disabledTools: ", "oauth: "):
        assert f"one: {words}" in done.out.replace("command: one text, ", "")
    assert "hush" not in done.out


def test_comments_and_commas() -> None:
    text = '{"a": "// no /* comment */ ,}", // one\n "b": [1, 2, /* two\n */ ], "c": "\\"//", }'
    assert parse("\ufeff" + text) == {"a": "// no /* comment */ ,}", "b": [1, 2], "c": '"//'}
    with pytest.raises(InputError, match="line 3, column 2"):
        parse('{ // one\n /* two */ "a": 1\n "b": 2}')
