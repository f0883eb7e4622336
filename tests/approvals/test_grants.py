"""Grants: each is redeemed once, for the call that it was given for, and for no other."""

import concurrent.futures
import contextlib
import dataclasses
import os
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ripieno.approvals import Grants
from ripieno.approvals.grant_stores import DatabaseStore, GrantStore, MemoryStore
from ripieno.approvals.grants import LIFETIME, Binding, digest_definition, digest_rules
from ripieno.approvals.presentation import present
from ripieno.canisters.controls import Rules
from ripieno.exceptions import InputError, JsonInvalidity, PermissionFault
from ripieno.jsonvalues import digest
from ripieno.storage.databases.opening import database_at
from ripieno.storage.journal import NAME
from tests.counts import count
from tests.support.databases import grants_in
from tests.support.postgresql import address_of_schema

WRITING = {"description": "Writes.", "schema": {"type": "object"}, "effect": "write", "origin": "python"}
DEFINITION = digest_definition(**WRITING, presets={})  # type: ignore[arg-type]
ERASING = digest_definition(description="Erases.", schema={}, effect="write", origin="python")
RULES = Rules(ask=("io.*",))


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def binding(number: int = 0, **changes: object) -> Binding:
    made = Binding(
        conversation="one",
        invocation=f"call_{number}",
        tool="io.write_file",
        definition=DEFINITION,
        arguments=digest({"path": f"docs/{number}", "content": "Hi."}),
        rules=digest_rules(RULES),
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def refused(redeem: Callable[[], None]) -> str:
    """The reason for which redeeming is refused, or nothing if it was not."""
    try:
        redeem()
    except PermissionFault as fault:
        return fault.code if fault.suggestion else "no suggestion"
    return ""


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GrantStore]:
    if request.param == "memory":
        yield MemoryStore()
        return
    place = (
        tmp_path / NAME
        if request.param == "sqlite"
        else address_of_schema(request.getfixturevalue("postgresql_server"))
    )
    with contextlib.closing(database_at(place)) as database:
        yield DatabaseStore(database)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("conversation", "two", "other_conversation"),
        ("invocation", "call_1", "other_invocation"),
        ("tool", "io.delete", "other_tool"),
        ("definition", ERASING, "other_definition"),
        ("arguments", binding(1).arguments, "other_arguments"),
        ("rules", digest_rules(Rules()), "other_rules"),
    ],
)
def test_every_part_counts_and_has_a_reason_of_its_own(store: GrantStore, field: str, value: str, reason: str) -> None:
    grants = Grants(store)
    grant = grants.issue(binding())
    assert refused(lambda: grants.redeem(grant.token, dataclasses.replace(binding(), **{field: value}))) == reason
    assert refused(lambda: grants.redeem(grant.token, binding())) == ""


@pytest.mark.parametrize(
    "change",
    [
        *({"description": "Writes!"}, {"schema": {"type": "string"}}, {"effect": "read"}, {"origin": "mcp"}),
        {"presets": {"a": 1}},
    ],
)
def test_all_of_a_definition_is_in_its_digest(change: dict[str, object]) -> None:
    assert digest_definition(**WRITING | change) != DEFINITION  # type: ignore[arg-type]


def test_the_arguments_that_are_shown_are_those_that_are_bound() -> None:
    arguments = {"b": 1, "a": "Hi. \u202e"}
    shown = present(tool="io.write_file", effect="write", reason="", arguments=arguments)
    assert digest(arguments) == shown.digest
    with pytest.raises(JsonInvalidity):
        digest({"a": "\ud800"})


def test_a_grant_expires_after_ten_minutes_or_when_it_is_said(store: GrantStore) -> None:
    clock = Clock()
    grants = Grants(store, clock=clock)
    usual, short, later = grants.issue(binding()), grants.issue(binding(1), seconds=1), grants.issue(binding(2))
    assert usual.expires == clock.now + LIFETIME == clock.now + 600
    clock.now += 1
    assert refused(lambda: grants.redeem(short.token, binding(1))) == "expired_grant"
    clock.now += 598.5
    assert refused(lambda: grants.redeem(usual.token, binding())) == ""
    clock.now += 0.5
    assert refused(lambda: grants.redeem(later.token, binding(2))) == "expired_grant"


def test_a_clock_that_is_set_back_makes_no_grant_live_longer(store: GrantStore) -> None:
    clock = Clock()
    grants = Grants(store, clock=clock)
    grant = grants.issue(binding())
    clock.now -= 60
    assert refused(lambda: grants.redeem(grant.token, binding())) == "expired_grant"


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_a_lifetime_is_a_number_of_seconds(seconds: float) -> None:
    with pytest.raises(InputError, match="must be above 0 seconds"):
        Grants().issue(binding(), seconds=seconds)


def test_what_is_long_expired_is_forgotten(store: GrantStore) -> None:
    clock = Clock()
    grants = Grants(store, clock=clock)
    grant = grants.issue(binding())
    clock.now += 2 * 86_400
    assert refused(lambda: grants.redeem(grant.token, binding())) == "expired_grant"
    grants.issue(binding(1))
    assert refused(lambda: grants.redeem(grant.token, binding())) == "unknown_grant"


@pytest.mark.parametrize("token", ["", "x", "é", "\ud800", "a" * 100_000])
def test_what_nobody_issued_is_unknown(store: GrantStore, token: str) -> None:
    grants = Grants(store)
    assert refused(lambda: grants.redeem(token, binding())) == "unknown_grant"
    grants.issue(binding())
    assert refused(lambda: grants.redeem(token, binding())) == "unknown_grant"


def test_identifiers_may_be_any_text(store: GrantStore) -> None:
    odd = binding(conversation="half \ud800 \0", invocation="'; DROP TABLE grants; --")
    grants = Grants(store)
    grant = grants.issue(odd)
    grants.redeem(grant.token, odd)


def test_threads_share_one_grant(store: GrantStore) -> None:
    grants = Grants(store)
    grant = grants.issue(binding())
    gate = threading.Barrier(8)

    def try_it(_: int) -> str:
        gate.wait(60)
        return refused(lambda: grants.redeem(grant.token, binding()))

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(try_it, range(8))) == ["", *["used_grant"] * 7]


def test_a_fork_knows_no_grant_in_memory() -> None:
    store = MemoryStore()
    grants = Grants(store)
    grant = grants.issue(binding())
    child = os.fork()
    if child == 0:
        found = refused(lambda: grants.redeem(grant.token, binding())) == "unknown_grant"
        os._exit(0 if found and not store.use("", 0) else 1)
    assert os.waitpid(child, 0)[1] == 0
    grants.redeem(grant.token, binding())


# The file.


def test_the_file_is_the_users_alone_and_has_no_token(tmp_path: Path) -> None:
    path = tmp_path / "state" / NAME
    grant = Grants(grants_in(path.parent)).issue(binding())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not any(grant.token.encode() in one.read_bytes() for one in path.parent.iterdir())
    assert grant.token not in repr(grant)


def test_a_file_that_others_may_write_or_that_lies_elsewhere_counts_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / NAME
    with contextlib.closing(database_at(path)) as database:
        grant = Grants(DatabaseStore(database)).issue(binding())

    def check() -> None:
        grants = Grants(grants_in(tmp_path))
        assert refused(lambda: grants.redeem(grant.token, binding())) == "unreadable_grants"
        with pytest.raises(InputError, match="or other users own or may write it"):
            grants.issue(binding())

    path.chmod(0o620)
    check()
    path.chmod(0o600)
    elsewhere = tmp_path / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    check()


def test_a_broken_file_grants_nothing(tmp_path: Path) -> None:
    path = tmp_path / NAME
    with contextlib.closing(database_at(path)) as database:
        grant = Grants(DatabaseStore(database)).issue(binding())
    path.write_bytes(b"no database at all" * 100)
    grants = Grants(grants_in(tmp_path))
    assert refused(lambda: grants.redeem(grant.token, binding())) == "unreadable_grants"
    with pytest.raises(InputError, match="cannot be opened: file is not a database"):
        grants.issue(binding())


def test_a_grant_is_durable_before_it_is_given(tmp_path: Path) -> None:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, Grants(grants_in(tmp_path)).issue(binding()).token.encode())
        os.kill(os.getpid(), 9)
    os.close(write)
    with open(read, encoding="ascii") as pipe:
        token = pipe.read()
    os.waitpid(child, 0)
    Grants(grants_in(tmp_path)).redeem(token, binding())
    with sqlite3.connect(tmp_path / NAME) as connection:
        assert connection.execute("SELECT count(*) FROM grants WHERE used IS NOT NULL").fetchone() == (1,)
    connection.close()


def test_one_of_several_processes_redeems_a_grant(tmp_path: Path) -> None:
    tokens = [Grants(grants_in(tmp_path)).issue(binding(number)).token for number in range(count(1_000, 100))]

    def redeem_all() -> int:
        """The grants that a process redeems that other processes try, too, each as another call at first."""
        grants = Grants(grants_in(tmp_path))
        for number, token in enumerate(tokens):
            assert refused(lambda number=number, token=token: grants.redeem(token, binding(number + 1)))  # type: ignore[misc]
        return sum(
            not refused(lambda n=n, token=token: grants.redeem(token, binding(n))) for n, token in enumerate(tokens)
        )  # type: ignore[misc]

    reader, writer = os.pipe()
    children = []
    for _ in range(4):
        children.append(os.fork())
        if children[-1] == 0:
            os.write(writer, b"%d\n" % redeem_all())
            os._exit(0)
    os.close(writer)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    with open(reader, encoding="ascii") as pipe:
        assert sum(map(int, pipe)) == len(tokens)
