"""A user for the command line: as real processes, and, where starting one is too slow, in this one."""

import dataclasses
import pathlib
from collections.abc import Callable

import pytest

from ripieno.cli import main
from tests.support.command_line import User


@dataclasses.dataclass(frozen=True, slots=True)
class Done:
    """What a command said, and its exit code."""

    code: int
    out: str
    err: str


@pytest.fixture
def user(tmp_path: pathlib.Path) -> User:
    return User.living(tmp_path)


@pytest.fixture
def call(user: User, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Calls the command line in this process, as that user."""
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
