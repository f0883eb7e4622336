"""Fixtures: a user, who runs commands as processes or in this one, and an ensemble."""

import dataclasses
import json
import pathlib
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from ripieno.cli import main
from tests.support.command_line import ROOT, User

#: What clients of MCP servers are configured with.
FORMS = ROOT / "tests" / "data" / "mcpservers"


@dataclasses.dataclass(frozen=True, slots=True)
class Done:
    """The exit code of a command, and what it wrote."""

    code: int
    out: str
    err: str


Call: TypeAlias = Callable[..., Done]


@pytest.fixture
def user(tmp_path: pathlib.Path) -> User:
    return User.living(tmp_path)


@pytest.fixture
def call(user: User, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Calls the command line in this process, as the user."""
    for name, value in user.environment().items():
        if name.startswith("RIPIENO_"):
            monkeypatch.setenv(name, value)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(user.workspace)

    def run(*arguments: str) -> Done:
        code = main(arguments)
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return run


#: Programs that the tools of all profiles and tasks ask for.
PROGRAMS = """
    black cargo cargo-clippy docker eslint git gnuplot go jest jupyter kubectl mypy node npm pip playwright-mcp prettier
    pytest python3 rustfmt
"""


@pytest.fixture
def equipped(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The only folder of PATH, which has every program, as far as looking goes."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in PROGRAMS.split():
        (folder / name).write_text("#!/bin/sh\nexit 3\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def greeting() -> str:
    """An ensemble with one command tool."""
    return """
[ensemble]
name = "greeting"
[[invokers]]
name = "say_hello"
description = "Says hello."
effect = "read"
[invokers.invocable]
origin = "command"
argv = ["echo", "hello", "--", "{name}"]
[invokers.arguments]
type = "object"
required = ["name"]
[invokers.arguments.properties.name]
type = "string"
description = "Whom to greet."
"""


@pytest.fixture
def bring(call: Call, tmp_path: pathlib.Path) -> Call:
    """Imports servers that are given as mappings, as text, or as a file's name among the forms."""

    def run(given: Any, *options: str) -> Done:
        if isinstance(given, str) and given.endswith(".json"):
            return call("import", "mcp", str(FORMS / given), *options)
        file = tmp_path / "client.json"
        file.write_text(given if isinstance(given, str) else json.dumps({"mcpServers": given}), encoding="utf-8")
        return call("import", "mcp", str(file), *options)

    return run
