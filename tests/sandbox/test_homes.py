"""Homes: as many as are in use or remembered, and none of those in use is removed."""

import contextlib
import os
import pathlib
import random
import threading
from collections.abc import Iterator

import pytest

from ripieno.sandbox import homes
from ripieno.sandbox.homes import Home, Homes
from ripieno.sandbox.private_folder import PrivateFolder
from tests.counts import count

MOST = 4


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[PrivateFolder]:
    monkeypatch.setattr(homes, "MOST_HOMES", MOST)
    with PrivateFolder() as one:
        yield one


def test_law_the_least_recently_used_are_removed_and_never_one_in_use(folder: PrivateFolder) -> None:
    chance = random.Random(22)
    furnished: list[Home] = []
    one = Homes(folder, furnished.append)
    used: list[tuple[str, Home, contextlib.ExitStack]] = []
    recent: list[str] = []
    for _ in range(count(4000)):
        match chance.randrange(4):
            case 0 | 1:
                name = f"{chance.randrange(12)}"
                stack = contextlib.ExitStack()
                home = stack.enter_context(one.use(("ada", name)))
                used.append((name, home, stack))
                recent = [*(other for other in recent if other != name), name]
                assert os.stat(home.home).st_mode & 0o777 == 0o700
            case 2 if used:
                used.pop(chance.randrange(len(used)))[2].close()
            case _:
                assert one.has_excess() == (len(recent) > MOST and len({name for name, *_ in used}) < len(recent))
                one.reduce()
                busy = {name for name, *_ in used}
                while len(recent) > MOST and (idle := [name for name in recent if name not in busy]):
                    recent.remove(idle[0])
                assert not one.has_excess()
        for name, home, _ in used:
            assert os.path.isdir(home.home)
            assert os.path.isdir(home.temporary)
            assert one.access(("ada", name)) is home
            recent = [*(other for other in recent if other != name), name]
        assert len([name for name in os.listdir(folder.path) if name != "lock"]) == len(recent)
    assert len(furnished) > MOST


def test_a_user_has_homes_of_their_own(folder: PrivateFolder) -> None:
    one = Homes(folder, lambda _: None)
    names = [("ada", "1"), ("ada", "2"), ("bo", "1"), ("", ""), ("../..", "/etc")]
    found = [one.access(name).home for name in names]
    assert len(set(found)) == len(names)
    assert all(pathlib.Path(home).parent.parent == pathlib.Path(folder.path) for home in found)


def test_a_removal_in_a_thread_ends_before_the_application(folder: PrivateFolder) -> None:
    one = Homes(folder, lambda _: None)
    for number in range(3 * MOST):
        home = one.access(("ada", f"{number}"))
        for name in range(100):
            pathlib.Path(f"{home.home}/{name}").touch()
    removal = threading.Thread(target=one.reduce)
    removal.start()
    folder.close()
    removal.join()
    assert not os.path.exists(folder.path)
