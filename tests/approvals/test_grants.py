"""Grants: each is redeemed once, for the call that it was given for, and for no other."""

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import random
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ripieno.approvals import Grants
from ripieno.approvals.grant_stores import FileStore, GrantStore, MemoryStore
from ripieno.approvals.grants import LIFETIME, Binding, digest_definition, digest_rules
from ripieno.approvals.presentation import present
from ripieno.canisters.controls import Rules
from ripieno.exceptions import InputError, JsonInvalidity, PermissionFault
from tests.counts import count

DEFINITION = digest_definition(
    description="Writes.", schema={"type": "object"}, effect="write", origin="python", presets={}
)
RULES = Rules(ask=("io.*",))


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def binding(number: int = 0, **changes: object) -> Binding:
    made = Binding.of(
        conversation="one",
        invocation=f"call_{number}",
        tool="io.write_file",
        definition=DEFINITION,
        arguments={"path": f"docs/{number}", "content": "Hi."},
        rules=RULES,
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def refused(redeem: Callable[[], None]) -> str:
    """The reason for which redeeming is refused, or nothing if it was not."""
    try:
        redeem()
    except PermissionFault as fault:
        return fault.code if fault.suggestion else "no suggestion"
    return ""


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> GrantStore:
    return MemoryStore() if request.param == "memory" else FileStore(tmp_path)


def test_a_grant_is_good_once(store: GrantStore) -> None:
    grants = Grants(store)
    grant = grants.issue(binding())
    grants.redeem(grant.token, binding())
    assert refused(lambda: grants.redeem(grant.token, binding())) == "used_grant"


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("conversation", "two", "other_conversation"),
        ("invocation", "call_1", "other_invocation"),
        ("tool", "io.delete", "other_tool"),
        (
            "definition",
            digest_definition(description="Erases.", schema={}, effect="write", origin="python"),
            "other_definition",
        ),
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
    "other",
    [
        {"description": "Writes!", "schema": {"type": "object"}, "effect": "write", "origin": "python"},
        {"description": "Writes.", "schema": {"type": "string"}, "effect": "write", "origin": "python"},
        {"description": "Writes.", "schema": {"type": "object"}, "effect": "read", "origin": "python"},
        {"description": "Writes.", "schema": {"type": "object"}, "effect": "write", "origin": "mcp"},
        {
            "description": "Writes.",
            "schema": {"type": "object"},
            "effect": "write",
            "origin": "python",
            "presets": {"a": 1},
        },
    ],
)
def test_all_of_a_definition_is_in_its_digest(other: dict[str, object]) -> None:
    assert digest_definition(**other) != DEFINITION  # type: ignore[arg-type]


def test_the_arguments_that_are_shown_are_those_that_are_bound() -> None:
    arguments = {"b": 1, "a": "Hi. \u202e"}
    shown = present(tool="io.write_file", effect="write", reason="", arguments=arguments)
    bound = Binding.of(conversation="", invocation="", tool="", definition="", arguments=arguments, rules=RULES)
    assert bound.arguments == shown.digest
    with pytest.raises(JsonInvalidity):
        Binding.of(conversation="", invocation="", tool="", definition="", arguments={"a": "\ud800"}, rules=RULES)


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
    with pytest.raises(InputError, match="number of seconds above 0"):
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


def test_the_file_is_the_users_alone_and_has_no_token(tmp_path: pathlib.Path) -> None:
    store = FileStore(tmp_path)
    grants = Grants(store)
    assert not store.path.parent.exists()
    grant = grants.issue(binding())
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700
    assert grant.token.encode() not in store.path.read_bytes()
    assert grant.token not in repr(grant)


def test_a_file_that_others_may_write_or_that_lies_elsewhere_counts_for_nothing(tmp_path: pathlib.Path) -> None:
    store = FileStore(tmp_path)
    grants = Grants(store)
    grant = grants.issue(binding())
    store.path.chmod(0o620)
    assert refused(lambda: grants.redeem(grant.token, binding())) == "unreadable_grants"
    with pytest.raises(InputError, match="Others may read or write"):
        grants.issue(binding())
    store.path.chmod(0o600)
    elsewhere = tmp_path / "elsewhere"
    store.path.rename(elsewhere)
    store.path.symlink_to(elsewhere)
    assert refused(lambda: grants.redeem(grant.token, binding())) == "unreadable_grants"


def test_a_broken_file_grants_nothing(tmp_path: pathlib.Path) -> None:
    store = FileStore(tmp_path)
    grants = Grants(store)
    grant = grants.issue(binding())
    store.path.write_bytes(b"no database at all" * 100)
    assert refused(lambda: grants.redeem(grant.token, binding())) == "unreadable_grants"
    with pytest.raises(InputError, match="cannot be read or written"):
        grants.issue(binding())


def test_a_grant_is_durable_before_it_is_given(tmp_path: pathlib.Path) -> None:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, Grants(FileStore(tmp_path)).issue(binding()).token.encode())
        os.kill(os.getpid(), 9)
    os.close(write)
    with open(read, encoding="ascii") as pipe:
        token = pipe.read()
    os.waitpid(child, 0)
    Grants(FileStore(tmp_path)).redeem(token, binding())
    with sqlite3.connect(tmp_path / "approvals" / "grants.sqlite3") as connection:
        assert connection.execute("SELECT count(*) FROM grants WHERE used IS NOT NULL").fetchone() == (1,)
    connection.close()


# Under attack.

PROCESSES = 4


def attack(state: pathlib.Path, tokens: list[tuple[str, int, float]], now: float, seed: int) -> list[tuple[int, bool]]:
    """Tries each grant in many ways, in an order of its own: the numbers redeemed, and whether each was right."""
    chance = random.Random(seed)
    clock = Clock()
    clock.now = now
    grants = Grants(FileStore(state), clock=clock)
    wrong: tuple[Callable[[int], Binding], ...] = (
        lambda number: binding(number + 1),
        lambda number: binding(number, arguments=binding(number + 1).arguments),
        lambda number: binding(number, definition=digest_rules(RULES)),
        lambda number: binding(number, conversation="two"),
        lambda number: binding(number, invocation=f"call_{number + 1}"),
        lambda number: binding(number, rules=digest_rules(Rules(approve=("*",)))),
        lambda number: binding(number, tool="io.delete"),
    )
    chance.shuffle(tokens)
    redeemed: list[tuple[int, bool]] = []
    for token, number, expires in tokens:
        for made in chance.sample(wrong, 2):
            if not refused(lambda made=made, number=number, token=token: grants.redeem(token, made(number))):  # type: ignore[misc]
                redeemed.append((number, False))
        if not refused(lambda number=number, token=token: grants.redeem(token[:-1] + "~", binding(number))):  # type: ignore[misc]
            redeemed.append((number, False))
        for _ in range(2):
            if not refused(lambda number=number, token=token: grants.redeem(token, binding(number))):  # type: ignore[misc]
                redeemed.append((number, now < expires))
    return redeemed


ROOT = pathlib.Path(__file__).parents[2]
ATTACK = """
import json, pathlib, sys
from tests.approvals.test_grants import attack

folder, tokens, now, seed = json.load(sys.stdin)
print(json.dumps(attack(pathlib.Path(folder), [tuple(one) for one in tokens], now, seed)))
"""


def test_swaps_replays_stale_definitions_and_expired_ones_from_several_processes(tmp_path: pathlib.Path) -> None:
    clock = Clock()
    grants = Grants(FileStore(tmp_path), clock=clock)
    tokens = list[tuple[str, int, float]]()
    for number in range(count(1_000)):
        # Every fifth one has expired when it is tried.
        grant = grants.issue(binding(number), seconds=10 if number % 5 == 0 else LIFETIME)
        tokens.append((grant.token, number, grant.expires))
    now = clock.now + 60
    tries = [
        subprocess.Popen([sys.executable, "-c", ATTACK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
        for _ in range(PROCESSES)
    ]
    for seed, one in enumerate(tries):
        assert one.stdin is not None
        one.stdin.write(json.dumps([str(tmp_path), tokens, now, seed]).encode())
        one.stdin.close()
    redeemed: list[list[Any]] = []
    for one in tries:
        assert one.stdout is not None
        redeemed += json.loads(one.stdout.read())
        assert one.wait(540) == 0
        one.stdout.close()
    assert [one for one in redeemed if not one[1]] == []
    assert sorted(number for number, _ in redeemed) == [number for _, number, expires in tokens if expires > now]
