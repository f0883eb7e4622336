"""``ripieno responses``: the callers of a gateway, and the erasure of one."""

import json
from typing import Any

import pytest

import ripieno.cli.responses
from ripieno.assembly.deletion import delete_conversation
from ripieno.canisters import Conversation, UserCanister
from ripieno.conducting.paused import Paused, PausedStore
from ripieno.exceptions import InputError
from ripieno.storage.databases.opening import database_at
from ripieno.storage.journal import NAME, Journal
from ripieno.storage.records import Record
from ripieno.storage.responses.caller_keys import KEYS_NAME, CallerKeys, drop_key
from ripieno.storage.responses.rows import StoredResponse, StoreLimits
from ripieno.storage.responses.store import ResponseStore
from tests.support.users import User


@pytest.fixture
def stored(user: User) -> User:
    """A user whose gateway has stored responses of two callers."""
    database = database_at(user.state / NAME)
    store = ResponseStore(database, CallerKeys.beside(database, b"a secret of the tests"), StoreLimits())
    for caller, identifier in (("ada", "a"), ("ada", "b"), ("", "c")):
        body: dict[str, Any] = {"input": [], "output": [], "response": {}}
        store.save(StoredResponse(caller=caller, identifier=identifier, body=body, status="completed"))
    store.keys.database.close()
    database.close()
    return user


def listed(user: User) -> list[tuple[str, int]]:
    done = user.call("responses", "list", "--format", "json")
    return [(one["caller"], one["responses"]) for one in json.loads(done.stdout)]


def test_what_is_stored_is_not_erased_without_a_question(stored: User) -> None:
    done = stored.call("responses", "forget", "")
    assert (done.returncode, "To erase, add: --yes" in done.stderr) == (2, True)
    assert listed(stored) == [("", 1), ("ada", 2)]


def test_callers_are_listed_and_erased(stored: User) -> None:
    assert listed(stored) == [("", 1), ("ada", 2)]
    assert "(without a key)" in stored.call("responses", "list").stdout
    assert stored.call("responses", "forget", "ada", "--yes").stdout == "Erased all that was stored for ada.\n"
    assert listed(stored) == [("", 1)]
    done = stored.call("responses", "forget", "", "--yes")
    assert done.stdout == "Erased all that was stored for callers without a key.\n"
    assert listed(stored) == []


def test_callers_whose_keys_are_lost_are_named_with_what_to_do(stored: User) -> None:
    assert stored.call("responses", "list").stderr == ""
    keys = stored.state / KEYS_NAME
    drop_key(database_at(keys), "ada")
    lost = stored.call("responses", "list")
    assert "because their keys are not there: ada. " in lost.stderr
    assert "restore it from its own backup." in lost.stderr
    assert lost.stderr.endswith("erase what is left: ripieno responses forget ada\n")
    for file in stored.state.glob(f"{KEYS_NAME}*"):
        file.unlink()
    assert "are not there: (without a key), ada. " in stored.call("responses", "list").stderr
    assert not keys.exists()


def test_the_journal_forgets_an_erased_caller_and_no_other(stored: User) -> None:
    with Journal(stored.state / NAME) as journal:
        for name, owner in (("one", "ada"), ("two", "")):
            canister = UserCanister.of(f"A zebra for {name}.")
            journal.record([Record(stage="said", conversation=name, turn=0, owner=owner, canister=canister)])
        assert stored.call("responses", "forget", "ada", "--yes").returncode == 0
        assert [one.identifier for one in journal.page().summaries] == ["two"]
        assert not [line for line in journal.lines("one") if line.body is not None and "zebra" in line.body]
        assert journal.verify() is None
    # What is erased is unknown.
    assert stored.run("responses", "forget", "ada", "--yes").returncode == 2


def test_what_is_under_way_is_not_erased(stored: User) -> None:
    with Journal(stored.state / NAME) as journal:
        canister = UserCanister.of("A zebra.")
        journal.record([Record(stage="said", conversation="one", turn=0, owner="ada", canister=canister)])
        with PausedStore(journal.database).claimed("one", owner="ada"):
            done = stored.call("responses", "forget", "ada", "--yes")
            assert (done.returncode, "Another process conducts the conversation one." in done.stderr) == (2, True)
        store = ResponseStore(
            journal.database, CallerKeys.beside(journal.database, b"a secret of the tests"), StoreLimits()
        )
        one = StoredResponse(caller="ada", identifier="d", body={"output": []}, status="in_progress", holder="gateway")
        store.save(one)
        done = stored.call("responses", "forget", "ada", "--yes")
        assert (done.returncode, "answers 1 request of this caller now" in done.stderr) == (2, True)
        assert listed(stored) == [("", 1), ("ada", 3)]
        assert [one.identifier for one in journal.page().summaries] == ["one"]
        # It died: its lease has ended.
        with journal.database.using("written") as connection:
            connection.execute("UPDATE responses SET until = 0 WHERE holder = 'gateway'")
        assert stored.call("responses", "forget", "ada", "--yes").returncode == 0
        store.keys.database.close()
    assert listed(stored) == [("", 1)]


def test_what_an_erasure_that_fails_has_erased_leaves_the_file(stored: User, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_for_two(journal: Journal, name: str, **given: Any) -> int:
        if name == "two":
            raise InputError("The disk is full.")
        return delete_conversation(journal, name, **given)

    monkeypatch.setattr(ripieno.cli.responses, "delete_conversation", fail_for_two)
    with Journal(stored.state / NAME) as journal:
        for name in ("one", "two"):
            canister = UserCanister.of(f"A zebra for {name}.")
            journal.record([Record(stage="said", conversation=name, turn=0, owner="ada", canister=canister)])
        failed = stored.call("responses", "forget", "ada", "--yes")
        assert (failed.returncode, "The disk is full." in failed.stderr) == (2, True)
        kept = b"".join(one.read_bytes() for one in stored.state.glob(f"{NAME}*") if one.is_file())
    assert (b"zebra for one" in kept, b"zebra for two" in kept) == (False, True)


def test_of_callers_without_a_key_the_journal_forgets_responses_and_not_the_users_own(stored: User) -> None:
    response, own = f"resp_{'7' * 32}", "0123456789abcdef0123456789abcdef"
    conversations = [
        Conversation(identifier=name, canisters=(UserCanister.of("A zebra."),)) for name in (response, own)
    ]
    with Journal(stored.state / NAME) as journal:
        for one in conversations:
            journal.record([Record(stage="said", conversation=one.identifier, turn=0, canister=one.canisters[0])])
            PausedStore(journal.database).save(Paused(conversation=one, workspace="/", model="house/small"))
        assert stored.call("responses", "forget", "(without a key)", "--yes").returncode == 0
        assert [one.identifier for one in journal.page().summaries] == [own]
        assert [one.identifier for one in PausedStore(journal.database).all()] == [own]
        assert not [line for line in journal.lines(response) if line.body is not None and "zebra" in line.body]
    done = stored.run("responses", "forget", "", "--yes")
    assert (done.returncode, "Known: ada." in done.stderr) == (2, True)


def test_an_unknown_caller_is_named_with_those_that_are_known(stored: User) -> None:
    done = stored.run("responses", "forget", "ad", "--yes")
    assert done.returncode == 2
    assert "'ad'" in done.stderr
    assert "ada" in done.stderr
    assert listed(stored) == [("", 1), ("ada", 2)]
