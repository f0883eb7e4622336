"""``ripieno doctor`` and ``check`` look at the journal: reachable, of which version, and never changed by looking."""

import json
import os
import pathlib
import socket
import sqlite3
from typing import Any

import pytest

from ripieno.storage.databases.opening import database_at
from ripieno.storage.databases.tables import VERSION
from tests.support.command_line import User
from tests.support.postgresql import address_of_schema
from tests.support.users import Call

URL = '[model]\ndefault = "openai/gpt"\n\n[journal]\nurl = "{env:JOURNAL_URL}"\n'


def facts(call: Call) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(call("doctor", "--no-connect", "--format", "json").out)["journal"]
    return found


def test_a_server_is_only_looked_at(
    user: User, call: Call, monkeypatch: pytest.MonkeyPatch, postgresql_server: str
) -> None:
    url = address_of_schema(postgresql_server)
    monkeypatch.setenv("JOURNAL_URL", url)
    user.configure(URL)
    for _ in range(2):
        shown = call("doctor", "--no-connect")
        assert (shown.code, "the first run creates it" in shown.out) == (0, True), shown.out
    found = facts(call)
    assert found["server"].startswith("PostgreSQL ")
    assert (found["version"], found["problem"]) == (None, "")
    assert abs(found["clock"]) < 5
    database = database_at(url)
    with database.using("opened"):
        pass
    database.close()
    assert facts(call)["version"] == VERSION
    with database.using("written") as connection:
        connection.execute("UPDATE versions SET version = 1000")
    database.close()
    newer = call("doctor", "--no-connect")
    assert (newer.code, "Use a newer program." in newer.out) == (2, True)


def test_a_server_that_is_down_prevents_a_start(user: User, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("JOURNAL_URL", f"postgresql://ada:pass@127.0.0.1:{taken.getsockname()[1]}/house")
        user.configure(URL)
        shown = call("doctor", "--no-connect")
    assert shown.code == 2
    assert "Everything can start" not in shown.out
    assert "Check that the server runs and can be reached." in shown.out
    assert "ada:pass" not in shown.out


def test_a_missing_variable_is_named_with_its_line(user: User, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JOURNAL_URL", raising=False)
    user.configure(URL)
    place = f"{user.configuration / 'config.toml'}:5"
    for command, code in ((("doctor", "--no-connect"), 2), (("check",), 0)):
        done = call(*command)
        assert done.code == code
        assert f"{place}: warning: the variable JOURNAL_URL is not set" in done.out + done.err
    user.configure(URL + "enabled = false\n")
    disabled = call("doctor", "--no-connect")
    assert (disabled.code, "disabled" in disabled.out) == (0, True)


def test_a_state_folder_that_cannot_be_written_is_found_before_a_worker_finds_it(user: User, call: Call) -> None:
    user.state.write_text("A file, which root cannot write in either.")
    checked = call("check")
    assert (checked.code, f"warning: the state folder {user.state} cannot be written" in checked.out) == (0, True)
    shown = call("doctor", "--no-connect")
    assert (shown.code, f"{user.state} is not a folder" in shown.out) == (2, True), shown.out
    assert "Everything can start" not in shown.out
    user.state.unlink()
    home = user.state.parent
    home.chmod(0o500)
    denied = call("doctor", "--no-connect")
    home.chmod(0o700)
    assert (f"this user may not write in {home}" in denied.out) == (os.geteuid() != 0), denied.out


def test_a_file_is_only_looked_at(user: User, call: Call) -> None:
    assert facts(call)["version"] is None
    assert not user.state.exists()
    path = user.state / "journal.sqlite3"
    database = database_at(path)
    with database.using("opened"):
        pass
    database.close()
    before = sorted(path.parent.iterdir())
    found = facts(call)
    assert (found["version"], found["mode"], found["size"] > 0) == (VERSION, "0600", True)
    assert sorted(path.parent.iterdir()) == before
    set_version(path, 1)
    old = call("doctor", "--no-connect")
    assert (old.code, "Move it away" in old.out) == (2, True)
    set_version(path, VERSION + 1)
    newer = call("doctor", "--no-connect")
    assert (newer.code, "Use a newer program." in newer.out, "Move it away" in newer.out) == (2, True, False)
    set_version(path, VERSION - 1)
    assert f"which the next run brings to {VERSION}" in call("doctor", "--no-connect").out
    path.chmod(0o666)
    assert "other users own or may write it" in call("doctor", "--no-connect").out


def set_version(path: pathlib.Path, number: int) -> None:
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {number}")
    connection.close()
