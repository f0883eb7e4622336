"""Conversations of one name that several owners have: what commands say, and how one is chosen."""

import datetime
import json
import pathlib
import shlex
from typing import Any

import pytest

from ripieno.canisters import UserCanister
from ripieno.storage.journal import Journal
from ripieno.storage.records import Record
from tests.support.command_line import User
from tests.support.users import Call


@pytest.fixture
def file(user: User) -> pathlib.Path:
    """The user's own journal."""
    return user.state / "journal.sqlite3"


def test_one_name_of_two_owners_is_chosen_by_the_owner(file: pathlib.Path, call: Call) -> None:
    with Journal(file) as journal:
        for owner in ("", "ada", "eve's"):
            said = UserCanister.of(f"Words of {owner or 'no one'}.")
            fields: Any = {"conversation": "main", "turn": 0, "owner": owner}
            journal.record([Record(stage="began", **fields), Record(stage="said", canister=said, **fields)])
    refused = call("journal", "show", "main")
    assert refused.code == 2
    assert "main, main (of ada), main (of eve's). They differ in their owners." in refused.err
    command = shlex.split(refused.err.strip().rpartition("To see one: ")[2])
    for words, other in ((command[1:], "eve's"), (["journal", "show", "main", "--owner", ""], "no one")):
        shown = call(*words)
        assert (shown.code, shown.out.count("Words of")) == (0, 1)
        assert f"Words of {other}." in shown.out
    assert call("journal", "search", "Words", "--owner", "ada").out.count("Words of") == 1
    assert call("journal", "export", "main", "--owner", "ada").out.count("Words of") == 1
    assert call("stats", "--conversation", "main", "--owner", "ada").out.startswith("1 conversation,")
    assert call("journal", "fork", "main", "--owner", "ada").code == 0
    assert call("journal", "delete", "main", "--owner", "ada", "--yes").out == "Deleted: main, 2 lines.\n"
    assert "Words of eve's." in call("journal", "show", "main", "--owner", "eve's").out


def test_an_allowance_of_one_name_of_two_owners_is_taken_back_for_one(file: pathlib.Path, call: Call) -> None:
    now = datetime.datetime.now(datetime.UTC)
    details = {
        "allowance": "71c2",
        "allowed": now.isoformat(),
        "until": (now + datetime.timedelta(days=7)).isoformat(),
        "workspace": "/",
    }
    with Journal(file) as journal:
        for owner in ("ada", "eve"):
            fields: Any = {"conversation": "main", "turn": 1, "owner": owner, "tool": "io.write_file"}
            journal.record([Record(stage="answered", details=details, **fields)])
    assert "OWNER" in call("approvals", "allowed").out
    assert call("approvals", "allowed", "--owner", "ada").out.count("main") == 1
    refused = call("approvals", "allowed", "main", "--end", "71")
    assert refused.code == 2
    command = "ripieno approvals allowed main --owner ada --end 71c2"
    assert command in refused.err
    assert call(*command.split()[1:]).out.startswith("Taken back:")
    (left,) = json.loads(call("approvals", "allowed", "--format", "json").out)
    assert left["owner"] == "eve"
