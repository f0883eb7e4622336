"""The rows of responses and conversations, in both databases: owners, chains, limits, expiry, leases, and deletion."""

import concurrent.futures
import dataclasses
import json
import pathlib
import subprocess
import threading
from collections.abc import Generator, Sequence
from typing import Any

import pytest

from ripieno.exceptions import InputError
from ripieno.storage.databases.contract import Database
from ripieno.storage.databases.opening import database_at
from ripieno.storage.databases.sqlite import SqliteDatabase
from ripieno.storage.responses.caller_keys import KEYS_NAME, CallerKeys
from ripieno.storage.responses.conversations import ConversationStore
from ripieno.storage.responses.rows import (
    ChainBroken,
    ChainTooLong,
    ConversationLocked,
    StoredConversation,
    StoredResponse,
    StoreFull,
    StoreLimits,
)
from ripieno.storage.responses.store import LEASE, ResponseStore, callers_in, forget
from tests.support.postgresql import address_of_schema, program_of
from tests.support.stores import TABLES, Clock, files_of

SECRET = b"a secret of the tests"
WORDS = "the plaintext of a stored response"


@dataclasses.dataclass(frozen=True, slots=True)
class Stores:
    """Both stores over one database, and their clock."""

    responses: ResponseStore
    conversations: ConversationStore
    clock: Clock
    database: Database

    def save(self, identifier: str, parent: str | None = None, caller: str = "ada", **more: Any) -> StoredResponse:
        """Stores a response that continues another one."""
        _, links, chain = ((), 0, 0) if parent is None else self.responses.begin(caller, parent)
        row = StoredResponse(
            caller=caller,
            identifier=identifier,
            parent=parent,
            links=links + 1,
            chain=chain,
            **{"status": "completed", "body": {"input": [], "output": [], "response": {"text": WORDS}}, **more},
        )
        self.responses.save(row)
        return row


def stores_at(place: pathlib.Path | str, secret: bytes = SECRET, **limits: Any) -> Stores:
    database, clock = database_at(place), Clock()
    keys = CallerKeys.beside(database, secret)
    given = (database, keys, StoreLimits(**limits), clock)
    return Stores(ResponseStore(*given), ConversationStore(*given), clock, database)


@pytest.fixture
def stores(place: pathlib.Path | str) -> Generator[Stores, None, None]:
    made = stores_at(place)
    yield made
    made.responses.keys.database.close()
    made.database.close()


def test_a_response_is_what_was_stored(stores: Stores) -> None:
    row = stores.save("a", conversation="c", background=True)
    found = stores.responses.load("ada", "a")
    assert found is not None
    assert dataclasses.replace(found, chain=0) == row
    assert found.chain == len(json.dumps(row.body, separators=(",", ":")))


def test_foreign_is_unknown(stores: Stores) -> None:
    stores.save("a")
    stores.conversations.create(StoredConversation(caller="ada", identifier="c", body={}), [{"id": "i"}])
    for caller, identifier in (("eve", "a"), ("ada", "b"), ("", "a"), ("ada", "")):
        assert stores.responses.load(caller, identifier) is None
        assert not stores.responses.delete(caller, identifier)
        assert stores.responses.state(caller, identifier) is None
        with pytest.raises(ChainBroken):
            stores.responses.begin(caller, identifier)
    assert stores.conversations.load("eve", "c") is None
    assert stores.conversations.items("eve", "c") == ()
    assert not stores.conversations.remove("eve", "c", "i")
    assert not stores.conversations.delete("eve", "c")
    with pytest.raises(ConversationLocked):
        stores.conversations.lock("eve", "c", "h")
    assert stores.responses.load("ada", "a") is not None


def test_a_chain_branches_and_breaks_where_one_is_deleted(stores: Stores) -> None:
    for name, parent in (("a", None), ("b", "a"), ("c", "b"), ("d", "a")):
        stores.save(name, parent)

    def chain(last: str) -> Sequence[str]:
        return [one.identifier for one in stores.responses.begin("ada", last)[0]]

    assert (chain("c"), chain("d")) == (["a", "b", "c"], ["a", "d"])
    assert stores.responses.delete("ada", "b")
    assert not stores.responses.delete("ada", "b")
    with pytest.raises(ChainBroken):
        chain("c")
    assert chain("d") == ["a", "d"]


def test_a_chain_has_limits(place: pathlib.Path | str) -> None:
    stores = stores_at(place, links=3)
    last: str | None = None
    for name in ("a", "b", "c"):
        stores.save(name, last)
        last = name
    with pytest.raises(ChainTooLong, match="continues 3 others"):
        stores.responses.begin("ada", "c")
    with pytest.raises(ChainTooLong, match="continues 3 others"):
        stores.responses.chain_size("ada", "c")
    assert stores.responses.chain_size("ada", "d") is None
    short = stores_at(place, chain=100)
    with pytest.raises(ChainTooLong):
        short.responses.begin("ada", "b")
    for one in (stores, short):
        one.database.close()


def test_a_caller_has_limits_of_rows_and_bytes(place: pathlib.Path | str) -> None:
    stores = stores_at(place, rows=2, size=10_000)

    def check(caller: str, more: int = 0) -> None:
        with stores.database.using("read") as connection:
            stores.responses.check_room(connection, caller, more)

    check("ada", 10_000)
    with pytest.raises(StoreFull):
        check("ada", 10_001)
    stores.save("a")
    stores.conversations.create(StoredConversation(caller="ada", identifier="c", body={}), [])
    with pytest.raises(StoreFull, match=r"2 responses and items .* are stored for this caller"):
        check("ada")
    with pytest.raises(StoreFull):
        stores.conversations.append("ada", "c", [{"id": "i"}])
    check("eve")
    stores.responses.delete("ada", "a")
    check("ada")
    stores.database.close()


def test_another_body_of_a_conversation_needs_room(place: pathlib.Path | str) -> None:
    stores = stores_at(place, size=100)

    def write(text: str) -> None:
        stores.conversations.replace(StoredConversation(caller="ada", identifier="c", body={"text": text}))

    stores.conversations.create(StoredConversation(caller="ada", identifier="c", body={}), [])
    # {"text":""} has eleven bytes.
    write("a" * 89)
    with pytest.raises(StoreFull):
        write("a" * 90)
    found = stores.conversations.load("ada", "c")
    assert found is not None
    assert found.body == {"text": "a" * 89}
    write("b" * 89)
    # A caller with as many rows as allowed may still shorten one.
    full = stores_at(place, rows=1)
    full.conversations.replace(StoredConversation(caller="ada", identifier="c", body={"text": "b"}))
    for one in (stores, full):
        one.database.close()


def test_what_has_expired_is_not_there_and_is_deleted(stores: Stores) -> None:
    stores.save("a")
    stores.clock.now += 10
    stores.save("b", "a", holder="h", status="in_progress")
    with stores.database.using("written") as connection:
        stores.responses.append(connection, "ada", "b", 0, [b"one\n\n", b"two\n\n"])
    stores.conversations.create(StoredConversation(caller="ada", identifier="c", body={}), [{"id": "i"}])
    assert [data for _, data in stores.responses.events("ada", "b", -1)] == [b"one\n\ntwo\n\n"]
    row = stores.responses.load("ada", "b")
    assert row is not None
    assert stores.responses.end(dataclasses.replace(row, status="completed"), "h")
    stores.clock.now += stores.responses.limits.event_seconds
    assert stores.responses.events("ada", "b", -1) == ()
    assert stores.responses.sweep() == 1
    stores.clock.now = 1_000_000.0 + stores.responses.limits.seconds
    assert stores.responses.load("ada", "a") is None
    with pytest.raises(ChainBroken):
        # An ancestor has expired.
        stores.responses.begin("ada", "b")
    assert stores.responses.sweep() == 1
    stores.clock.now += 10
    assert stores.conversations.load("ada", "c") is None
    # The other response, the conversation, and its item.
    assert stores.responses.sweep() == 3
    with stores.database.using("read") as connection:
        for table in TABLES[:-1]:
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] == 0


def test_a_run_that_is_not_renewed_is_lost_and_changes_nothing_more(stores: Stores) -> None:
    row = stores.save("a", holder="h", status="in_progress")
    stores.clock.now += LEASE - 1
    assert stores.responses.renew("h", ["a"], []) == {"a": False}
    stores.clock.now += LEASE - 1
    found = stores.responses.load("ada", "a")
    assert (found is not None and found.open, found is not None and found.lost) == (True, False)
    stores.clock.now += 1
    found = stores.responses.load("ada", "a")
    assert found is not None
    assert found.lost
    assert stores.responses.state("ada", "a") == ("in_progress", True)
    # Unless it is renewed before a reader ends it.
    with stores.database.writing("written") as connection:
        assert stores.responses.has_lost(connection, "ada", "a", "h")
    stores.responses.renew("h", ["a"], [])
    with stores.database.writing("written") as connection:
        assert not stores.responses.has_lost(connection, "ada", "a", "h")
    assert stores.responses.end(dataclasses.replace(found, status="failed"), "h")
    assert not stores.responses.end(dataclasses.replace(row, status="completed"), "h")
    found = stores.responses.load("ada", "a")
    assert found is not None
    assert (found.status, found.lost, found.open) == ("failed", False, False)


def test_a_process_is_asked_to_end_what_it_holds(stores: Stores) -> None:
    stores.save("a", holder="h", status="in_progress")
    stores.save("b", holder="other", status="in_progress")
    stores.responses.cancel("eve", "a")
    assert stores.responses.renew("h", ["a"], []) == {"a": False}
    stores.responses.cancel("ada", "a")
    assert stores.responses.renew("h", ["a", "b"], []) == {"a": True}
    assert stores.responses.renew("other", ["b"], []) == {"b": False}


def test_only_what_a_process_names_and_holds_is_renewed(stores: Stores) -> None:
    for name in ("a", "b"):
        stores.save(name, holder="h", status="in_progress")
    for name in ("c", "d"):
        stores.conversations.create(StoredConversation(caller="ada", identifier=name, body={}), [])
        stores.conversations.lock("ada", name, f"response of {name}")
        # As after an acknowledgement that was lost.
        stores.conversations.lock("ada", name, f"response of {name}")
    stores.clock.now += LEASE - 1
    stores.responses.renew("h", ["a"], ["response of c"])
    stores.responses.renew("other", ["b"], ["c", "d", "h"])
    stores.clock.now += 1
    assert [stores.responses.state("ada", name) for name in ("a", "b")] == [
        ("in_progress", False),
        ("in_progress", True),
    ]
    with pytest.raises(ConversationLocked):
        stores.conversations.lock("ada", "c", "other")
    stores.conversations.lock("ada", "d", "other")
    # A response that is queued holds it longer, also if it is renewed as it is queued.
    with stores.database.writing("written") as connection:
        assert stores.conversations.hold(connection, "ada", "c", "response of c", 4 * LEASE)
        assert not stores.conversations.hold(connection, "ada", "c", "another", 4 * LEASE)
    stores.responses.renew("h", [], ["response of c"])
    stores.clock.now += 3 * LEASE
    with pytest.raises(ConversationLocked):
        stores.conversations.lock("ada", "c", "other")


def test_events_are_written_again_with_those_that_have_come_since(stores: Stores) -> None:
    stores.save("a", holder="h", status="in_progress")
    for pieces in ([b"one\n\n"], [b"one\n\n"], [b"one\n\n", b"two\n\n"]):
        with stores.database.writing("written") as connection:
            assert stores.responses.holds(connection, "ada", "a", "h")
            assert not stores.responses.holds(connection, "ada", "a", "other")
            stores.responses.append(connection, "ada", "a", 0, pieces)
    assert list(stores.responses.events("ada", "a", -1)) == [(0, b"one\n\ntwo\n\n")]
    # Who has read the first one reads the other.
    assert list(stores.responses.events("ada", "a", 0)) == [(0, b"one\n\ntwo\n\n")]
    with stores.database.using("read") as connection:
        assert stores.responses.next_event(connection, "ada", "a") == 2


def test_a_conversation_is_held_by_one(stores: Stores) -> None:
    store = stores.conversations
    store.create(StoredConversation(caller="ada", identifier="c", body={"n": 1}), [{"id": "i", "n": 1}])
    store.lock("ada", "c", "h")
    with pytest.raises(ConversationLocked):
        store.lock("ada", "c", "other")
    stores.clock.now += LEASE
    store.lock("ada", "c", "other")
    with stores.database.writing("written") as connection:
        # It came too late.
        store.finish(connection, "ada", "c", "h", [{"id": "late"}])
        store.finish(connection, "ada", "c", "other", [{"id": "j"}, {"id": "i", "n": 2}])
    assert [(one["id"], one.get("n")) for one in store.items("ada", "c")] == [("i", 1), ("j", None)]
    assert store.remove("ada", "c", "i")
    assert [one["id"] for one in store.items("ada", "c")] == ["j"]
    store.lock("ada", "c", "h")
    store.unlock("ada", "c", "h")
    store.lock("ada", "c", "h")


def test_items_that_are_added_at_once_are_all_there(place: pathlib.Path | str) -> None:
    stores = stores_at(place)
    # Each has a connection, as processes have.
    others = [stores_at(place) for _ in range(4)]
    stores.conversations.create(StoredConversation(caller="ada", identifier="c", body={}), [])
    stores.conversations.lock("ada", "c", "h")
    begin = threading.Barrier(len(others) + 1)

    def add(one: Stores, name: str) -> None:
        begin.wait()
        for number in range(10):
            assert one.conversations.append("ada", "c", [{"id": f"{name}{number}"}])

    with concurrent.futures.ThreadPoolExecutor(len(others)) as pool:
        adding = [pool.submit(add, one, name) for one, name in zip(others, "abcd", strict=True)]
        begin.wait()
        with stores.database.writing("written") as connection:
            stores.conversations.finish(connection, "ada", "c", "h", [{"id": "answer"}])
        for one in adding:
            one.result()
    names = [one["id"] for one in stores.conversations.items("ada", "c")]
    assert sorted(names) == sorted(["answer", *(f"{name}{number}" for name in "abcd" for number in range(10))])
    for name in "abcd":
        assert [one for one in names if one[0] == name and one != "answer"] == [f"{name}{n}" for n in range(10)]
    for one in (stores, *others):
        one.database.close()
        one.responses.keys.database.close()


def test_a_deleted_conversation_gains_nothing(stores: Stores) -> None:
    store, one = stores.conversations, StoredConversation(caller="ada", identifier="c", body={})
    store.create(one, [])
    store.delete("ada", "c")
    assert not store.append("ada", "c", [{"id": "i"}])
    assert not store.replace(one)
    assert store.items("ada", "c") == ()


def test_a_conversation_that_is_used_does_not_expire(stores: Stores) -> None:
    store, one = stores.conversations, StoredConversation(caller="ada", identifier="c", body={})
    days = stores.responses.limits.seconds

    def end() -> None:
        with stores.database.writing("written") as connection:
            assert store.finish(connection, "ada", "c", "h", [])

    store.create(one, [])
    for use in (
        lambda: store.append("ada", "c", [{"id": "i"}]),
        lambda: store.replace(one),
        lambda: store.lock("ada", "c", "h"),
        end,
    ):
        stores.clock.now += days - 3
        use()
        stores.clock.now += 2
        assert stores.responses.sweep() == 0
        assert store.load("ada", "c") is not None
    store.lock("ada", "c", "h")
    # As long as it is held.
    for _ in range(2):
        stores.clock.now += days - 1
        stores.responses.renew("h", [], ["h"])
        assert stores.responses.sweep() == 0
    end()
    assert len(store.items("ada", "c")) == 1
    stores.clock.now += days
    assert not store.append("ada", "c", [{"id": "j"}])
    assert not store.replace(one)
    with pytest.raises(ConversationLocked):
        store.lock("ada", "c", "h")
    assert stores.responses.sweep() == 2


def test_a_row_is_bound_to_its_place(stores: Stores) -> None:
    stores.save("a")
    stores.save("b")
    stores.save("a", caller="eve")
    with stores.database.using("written") as connection:
        for change in (
            "UPDATE responses SET body = (SELECT body FROM responses WHERE identifier = 'b')",
            "UPDATE responses SET body = (SELECT body FROM responses WHERE caller = '\"eve\"')",
        ):
            connection.execute(f"{change} WHERE caller = '\"ada\"' AND identifier = 'a'")
            with pytest.raises(InputError, match="was changed in the database"):
                stores.responses.load("ada", "a")


def test_another_secret_opens_nothing(place: pathlib.Path | str, stores: Stores) -> None:
    stores.save("a")
    other = stores_at(place, b"another secret of the tests")
    with pytest.raises(InputError, match=r"another secret of .gateway.*ripieno responses forget ada"):
        other.responses.load("ada", "a")
    other.database.close()
    other.responses.keys.database.close()


# Deletion.


def dump(uri: str, schema: str, *options: str) -> bytes:
    """A dump of a schema, as an operator makes it."""
    command = [str(program_of("pg_dump")), uri, "--schema", schema, *options]
    return subprocess.run(command, check=True, capture_output=True).stdout


def test_forgotten_responses_are_in_no_file_and_no_copy_can_be_read(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "journal.sqlite3"
    stores = stores_at(path)
    stores.save("a")
    with stores.database.using("read") as connection:
        (sealed,) = connection.execute("SELECT body FROM responses").fetchone()
    everything = files_of(tmp_path)
    assert sealed in everything
    assert WORDS.encode() not in everything
    kept = tmp_path / "copies"
    kept.mkdir()
    stores.database.clean()
    copy = kept / "copy.sqlite3"
    copy.write_bytes(path.read_bytes())
    assert forget(stores.database, "ada")
    assert not forget(stores.database, "ada")
    everything = files_of(tmp_path)
    assert sealed not in everything
    assert b"ada" not in everything
    stores.save("b")
    # The copy, with the keys that there are now.
    database = database_at(copy)
    assert [(caller, rows) for caller, rows, _ in callers_in(database)] == [("ada", 1)]
    keys = CallerKeys(SqliteDatabase(tmp_path / KEYS_NAME), SECRET)
    old = ResponseStore(database, keys, StoreLimits(), stores.clock)
    with pytest.raises(InputError, match="was changed in the database"):
        old.load("ada", "a")
    assert forget(stores.database, "ada")
    assert old.load("ada", "a") is None
    for one in (database, keys.database, stores.database, stores.responses.keys.database):
        one.close()


def test_a_dump_without_the_keys_cannot_be_read(postgresql_server: str) -> None:
    place = address_of_schema(postgresql_server)
    stores = stores_at(place)
    stores.save("a")
    schema = place.partition("%3D")[2]
    whole = dump(postgresql_server, schema)
    with stores.database.using("read") as connection:
        (wrapped,) = connection.execute("SELECT wrapped FROM caller_keys").fetchone()
        (sealed,) = connection.execute("SELECT body FROM responses").fetchone()
    parted = dump(postgresql_server, schema, "--exclude-table-data", f"{schema}.caller_keys")
    assert bytes(sealed).hex().encode() in parted
    assert bytes(wrapped).hex().encode() in whole
    assert bytes(wrapped).hex().encode() not in parted
    assert WORDS.encode() not in whole
    assert forget(stores.database, "ada")
    after = dump(postgresql_server, schema)
    assert bytes(sealed).hex().encode() not in after
    assert bytes(wrapped).hex().encode() not in after
    stores.database.close()
