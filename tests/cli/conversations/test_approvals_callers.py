"""``ripieno approvals`` and ``ripieno resume`` for conversations of a server's clients, and where several wait."""

import dataclasses
import io
import pathlib
import shlex
import tomllib
from collections.abc import Iterator

import pytest

from ripieno.cli.common import exit_codes
from ripieno.conducting.paused import Paused, PausedStore
from ripieno.models.protocols.openai_chat import PROTOCOL
from ripieno.testing.scores import Score
from tests.cli.conversations.test_ask import serving
from tests.support.command_line import User
from tests.support.databases import paused_in
from tests.support.users import Call

SCORE = """
[score]
name = "note"
prompt = "Note who asks."
[[turns]]
calls = [{ label = "noted", tool = "note" }]
[[turns]]
text = "{noted}"
"""
ENSEMBLE = """
[ensemble]
name = "notes"
[[invokers]]
name = "note"
description = "Notes who asks."
effect = "write"
invocable = { origin = "python", function = "./notes.py:note" }
"""
FUNCTION = """
def note(context, arguments):
    return f"It is {context.auxdata!r} who asks."
"""


@pytest.fixture
def store(user: User) -> Iterator[PausedStore]:
    """Where a user's conversations wait, whose model notes who asks."""
    file = user.ensemble("notes", ENSEMBLE)
    (file.parent / "notes.py").write_text(FUNCTION)
    with serving(Score.of(tomllib.loads(SCORE)), PROTOCOL) as url:
        user.configure(
            '[model]\ndefault = "house/small"\n[ensembles]\nenabled = ["notes"]\n'
            f'[providers.house]\nprotocol = "openai-chat"\nbase_url = "{url}"\n'
        )
        yield paused_in(user.state)


def begin(call: Call, store: PausedStore, caller: str = "") -> Paused:
    """A conversation that waits, kept as a server keeps those of its callers."""
    known = {one.identifier for one in store.all()}
    begun = call("ask", "--defer", "Note who asks.")
    assert begun.code == exit_codes.WAITING, begun.err
    (paused,) = [one for one in store.all() if one.identifier not in known]
    store.forget(paused.identifier)
    store.save(dataclasses.replace(paused, owner=caller))
    return store.find(paused.identifier)


@pytest.mark.parametrize(("caller", "noted"), [("laptop", "It is 'laptop' who asks."), ("", "It is None who asks.")])
def test_an_approved_call_knows_its_caller(call: Call, store: PausedStore, caller: str, noted: str) -> None:
    begin(call, store, caller)
    assert call("approvals", "approve").code == exit_codes.GOOD
    resumed = call("resume")
    assert resumed.code == exit_codes.GOOD, resumed.err
    assert noted in resumed.out


def test_chat_goes_on_for_the_caller(call: Call, store: PausedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(call, store, "laptop")
    call("approvals", "approve")
    monkeypatch.setattr("sys.stdin", io.StringIO("/exit\n"))
    assert "It is 'laptop' who asks." in call("chat", "--resume", "").out


def test_an_approval_elsewhere_names_the_folder(
    call: Call, store: PausedStore, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "some folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    paused = begin(call, store, "laptop")
    monkeypatch.chdir(tmp_path)
    done = call("approvals", "approve", paused.short)
    assert "asks again" not in done.out
    (command,) = done.out.splitlines()[1:]
    assert command == f"Continue with: ripieno resume {paused.short} --workspace '{folder}'"
    resumed = call(*shlex.split(command.partition("ripieno ")[2]))
    assert resumed.code == exit_codes.GOOD, resumed.err
    assert "'laptop'" in resumed.out


@pytest.mark.parametrize("command", ["approve", "deny", "show"])
def test_where_several_wait_they_are_named_as_they_are_listed(call: Call, store: PausedStore, command: str) -> None:
    ones = [begin(call, store) for _ in range(3)]
    done = call("approvals", command)
    assert done.code == exit_codes.INPUT
    listed = call("approvals", "list").out
    for one in ones:
        assert one.short in done.err
        assert one.short in listed
        assert one.identifier not in done.err
    assert "ripieno approvals list" in done.err


def test_those_that_begin_alike_are_named_whole(call: Call, store: PausedStore) -> None:
    paused = begin(call, store)
    for name in ("conversation-1", "conversation-2"):
        store.save(dataclasses.replace(paused, conversation=dataclasses.replace(paused.conversation, identifier=name)))
    done = call("approvals", "deny", "conv")
    assert "conversation-1" in done.err
    assert "conversation-2" in done.err


def test_what_is_shown_begins_with_whose_it_is(call: Call, store: PausedStore) -> None:
    paused = begin(call, store, "laptop")
    since = f"{paused.at:%Y-%m-%d %H:%M}"
    first, second, *_ = call("approvals", "show").out.splitlines()
    assert first == f"{paused.short} of laptop has waited since {since}. It began with: Note who asks."
    assert second.endswith(": waits for you")
    call("approvals", "deny")
    call("resume")
    paused = begin(call, store)
    assert call("approvals", "show").out.startswith(f"{paused.short} has waited since ")
