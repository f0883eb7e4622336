"""A journal whose files are deleted, moved or replaced while it is open: nothing else counts as recorded."""

import contextlib
import itertools
import pathlib
import random
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from ripieno.conducting import conduct
from ripieno.ensembles import Context
from ripieno.exceptions import InputError
from ripieno.execution import Execution
from ripieno.storage.journal import Journal
from tests.counts import count
from tests.storage.journal.test_journal import call
from tests.support.scripted_models import Listening, ensemble, fates, invoke, invokes, says, scripted, tool

SUFFIXES = ("", "-wal", "-shm")


def beside(path: pathlib.Path, suffix: str) -> pathlib.Path:
    return path.with_name(path.name + suffix)


def delete(file: pathlib.Path) -> None:
    file.unlink()


def rename(file: pathlib.Path) -> None:
    file.rename(file.with_name(f"{file.name}.old"))


def copy_over(file: pathlib.Path) -> None:
    shutil.copy(file, file.with_name("copy"))
    file.with_name("copy").replace(file)


def empty(file: pathlib.Path) -> None:
    rename(file)
    file.touch(0o600)


def link_to_copy(file: pathlib.Path) -> None:
    rename(file)
    shutil.copy(file.with_name(f"{file.name}.old"), file.with_name("copy"))
    file.symlink_to("copy")


def link_to_nothing(file: pathlib.Path) -> None:
    rename(file)
    file.symlink_to("missing")


def make_folder(file: pathlib.Path) -> None:
    rename(file)
    file.mkdir()


def create_anew(file: pathlib.Path) -> None:
    rename(file)
    with contextlib.suppress(InputError):
        Journal(file).close()


def delete_folder(file: pathlib.Path) -> None:
    shutil.rmtree(file.parent)


def move_folder(file: pathlib.Path) -> None:
    file.parent.rename(file.parent.with_name("moved"))


def copy_folder(file: pathlib.Path) -> None:
    move_folder(file)
    shutil.copytree(file.parent.with_name("moved"), file.parent)


def link_folder(file: pathlib.Path) -> None:
    copy_folder(file)
    file.parent.rename(file.parent.with_name("copied"))
    file.parent.symlink_to("copied")


WAYS: tuple[Callable[[pathlib.Path], None], ...] = (
    *(delete, rename, copy_over, empty, link_to_copy, link_to_nothing, make_folder, create_anew),
    *(delete_folder, move_folder, copy_folder, link_folder),
)


def numbers(path: pathlib.Path) -> set[str]:
    """The calls that another program reads."""
    if not path.is_file():
        return set()
    with contextlib.suppress(InputError), Journal(path) as reader:
        return {line.invocation or "" for line in reader.lines()}
    return set()


def records(journal: Journal, name: str) -> bool:
    """Whether the journal counts a call as recorded."""
    with contextlib.suppress(InputError):
        journal.record([call(identifier=name)])
        return True
    return False


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_nothing_is_recorded_in_a_file_that_is_gone(
    tmp_path: pathlib.Path, way: Callable[[pathlib.Path], None], suffix: str
) -> None:
    chance = random.Random(f"{way.__name__}{suffix}")
    broken: list[int] = []
    for trial in range(trials := count(60)):
        path = tmp_path / str(trial) / "state" / "journal.sqlite3"
        names = map(str, itertools.count())
        with contextlib.suppress(InputError), Journal(path) as journal:
            for _ in range(chance.randrange(4)):
                journal.record([call(identifier=next(names)) for _ in range(chance.choice((1, 2, 40)))])
            if chance.random() < 0.3:
                list(journal.lines())
            way(beside(path, suffix))
            for _ in range(chance.randrange(1, 4)):
                name = next(names)
                if records(journal, name) and name not in numbers(path):
                    broken.append(trial)
    assert not broken, f"{len(broken)} records of {trials} journals are in no file"


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_no_call_runs_after_the_journal_is_gone(
    tmp_path: pathlib.Path, way: Callable[[pathlib.Path], None]
) -> None:
    path, ran = tmp_path / "state" / "journal.sqlite3", list[str]()

    async def act(context: Context, arguments: dict[str, Any]) -> str:
        ran.append(arguments["word"])
        if len(ran) == 2:
            way(path)
        return "done"

    listening = Listening()
    model = scripted(*(invokes(invoke("act", f"a{number}", word=str(number))) for number in range(4)), says("Done."))
    with Journal(path) as journal:
        execution = Execution(recorder=journal, surroundings=listening.surroundings)
        conversation = await conduct(model, "Go.", ensembles=[ensemble(tool("act", act))], execution=execution)
    assert ran == ["0", "1"]
    assert [fate for _, fate in fates(conversation.canisters)] == ["done", "done", "!resource", "!resource"]
    assert all("was deleted, moved or replaced" in one for one in listening.messages if str(path) in one)
    assert any(str(path) in one for one in listening.messages)


def test_a_journal_that_is_closed_opens_what_is_there(tmp_path: pathlib.Path) -> None:
    with Journal(path := tmp_path / "journal.sqlite3") as journal:
        journal.record([call(identifier="a")])
        journal.close()
        rename(path)
        journal.record([call(identifier="b")])
        assert numbers(path) == {"b"}
        assert numbers(path.with_name(f"{path.name}.old")) == {"a"}
