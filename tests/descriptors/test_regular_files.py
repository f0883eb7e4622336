"""A pipe in place of a file that a user names, or of the state: each command refuses it and waits for nothing."""

import os
import pathlib

import pytest

from ripieno.descriptors.reader.regular_files import read_regular
from tests.support.command_line import User
from tests.support.users import user as user  # noqa: PLC0414  a fixture


@pytest.mark.parametrize(
    ("place", "command"),
    [
        ("pipe", "import mcp {pipe}"),
        ("pipe", "journal verify --anchor {pipe}"),
        ("pipe", "ask Hello --replay {pipe}"),
        ("pipe", "ask Hello -m score:{pipe}"),
        ("pipe", "tools --config {pipe}"),
        ("pipe", "check {pipe}"),
        ("state/pins.toml", "lock --check"),
        ("state/trust.json", "tools"),
    ],
)
def test_a_pipe_is_refused(user: User, tmp_path: pathlib.Path, place: str, command: str) -> None:
    pipe = tmp_path / place
    pipe.parent.mkdir(exist_ok=True)
    os.mkfifo(pipe)
    (user.workspace / "ripieno.toml").write_text("[limits]\nturns = 3\n")
    done = user.call(*(word.format(pipe=pipe) for word in command.split()))
    assert done.returncode == 2
    assert str(pipe) in done.stderr + done.stdout
    assert "it is not a regular file" in done.stderr + done.stdout


def test_a_regular_file_is_read(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_bytes(b"1")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link") == b"1"
    for refused in (tmp_path, "/dev/null", "/dev/zero"):
        with pytest.raises(OSError, match="not a regular file"):
            read_regular(refused)
