"""A search that cannot be done in time says what it has found, and nothing holds it that is no file."""

import asyncio
import dataclasses
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from ripieno.canisters import ResultCanister
from ripieno.toolset.search import python as engine
from tests.support.live_processes import Outputs
from tests.support.virtual_time import MovableClock
from tests.toolset.bundled_tools import code_of, text_of, tools_of, write_program
from tests.toolset.search.search_tools import RIPGREP, make, needs_ripgrep, places, searching

#: Seconds of a call; files are counted until 2 s before its end, their lines are looked for until 1 s before it.
SECONDS = 30.0
COUNTED, LOCATED = SECONDS - 1.5, SECONDS - 0.5


def ripgrep(folder: pathlib.Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real one behind a program of its name, which may do something before and after."""
    write_program(folder / "rg", f"#!/bin/sh\nreal={RIPGREP}\n{script}\n")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


async def search_until(workspace: pathlib.Path, outputs: Outputs, seconds: float, **arguments: Any) -> ResultCanister:
    """The result of a search whose clock is moved when its program has written ``reached``."""
    async with tools_of("search", workspace) as tools:
        clock = MovableClock()
        searching = asyncio.create_task(dataclasses.replace(tools, seconds=SECONDS)("search", **arguments))
        await outputs.have(b"reached")
        await clock.move(seconds)
        return await searching


@needs_ripgrep
@pytest.mark.parametrize(("phase", "seconds"), [("--count", COUNTED), ("--line-number", LOCATED)])
async def test_what_was_found_until_the_deadline_is_told(
    tmp_path: pathlib.Path, phase: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "workspace", {"a": b"one\nneedle\n", "b/c": b"needle\n"})
    script = f'"$real" "$@"; code=$?; case " $* " in *" {phase} "*) echo reached; sleep 600;; esac; exit $code'
    ripgrep(tmp_path / "programs", script, monkeypatch)
    result = await search_until(
        tmp_path / "workspace", Outputs(monkeypatch), seconds, pattern="needle", context_lines=0
    )
    assert code_of(result) == "timeout"
    assert result.error is not None
    text = text_of(result)
    assert "until then:\nAt least 2 lines in 2 files with 'needle'\na:2: needle\nb/c:1: needle\n" in text
    assert "Search a smaller path" in text
    assert "a:2: needle" in str(result.error.details["partial_output"])
    assert result.response_mapping()["error"]["code"] == "TIMEOUT"  # type: ignore[index]


@needs_ripgrep
async def test_files_are_named_when_their_lines_are_not_known(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "workspace", {"a": b"one\nneedle\n", "b/c": b"needle\nneedle\n"})
    script = 'case " $* " in *" --line-number "*) echo reached; sleep 600;; esac; exec "$real" "$@"'
    ripgrep(tmp_path / "programs", script, monkeypatch)
    text = text_of(await search_until(tmp_path / "workspace", Outputs(monkeypatch), LOCATED, pattern="needle"))
    assert "At least 3 lines in 2 files with 'needle'\n[Not shown: a (1 line), b/c (2 lines)]" in text


@pytest.mark.parametrize("files", [0, 1])
async def test_without_a_program_what_was_found_is_told_too(
    tmp_path: pathlib.Path, files: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is up before the first file is looked through, or after it."""
    root = tmp_path / "workspace"
    make(root, {"a": b"needle\n", "b": b"needle\n"})
    loop, walk = asyncio.get_running_loop(), engine._files

    def interrupted(*arguments: Any) -> Iterator[Any]:
        for number, one in enumerate(walk(*arguments)):
            if number == files:
                asyncio.run_coroutine_threadsafe(clock.move(COUNTED), loop).result()
            yield one

    async with searching(root, "without ripgrep") as tools:
        hasty = dataclasses.replace(tools, seconds=SECONDS)
        assert places(text_of(await hasty("search", pattern="needle", path="a"))) == [("a", 1)]
        clock = MovableClock()
        monkeypatch.setattr(engine, "_files", interrupted)
        result = await hasty("search", pattern="needle")
    assert code_of(result) == "timeout"
    text = text_of(result)
    if files:
        assert "At least 1 line in 1 file" in text
        assert "\na:1: needle\n" in text
    else:
        assert "Nothing was found until then." in text


@needs_ripgrep
@pytest.mark.parametrize("path", ["b", "b/[x] y.txt"])
async def test_a_pipe_that_takes_the_place_of_a_file_holds_nothing(
    tmp_path: pathlib.Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the two runs of ripgrep, where it would be named to the second one."""
    root = tmp_path / "workspace"
    make(root, {"b/[x] y.txt": b"needle\n", "b/z": b"needle\n"})
    target = root / "b" / "[x] y.txt"
    script = f'case " $* " in *" --line-number "*) rm -f "{target}"; mkfifo "{target}";; esac; exec "$real" "$@"'
    ripgrep(tmp_path / "programs", script, monkeypatch)
    async with tools_of("search", root) as tools:
        result = await tools("search", pattern="needle", path=path, context_lines=0)
    assert result.error is None
    text = text_of(result)
    assert "b/[x] y.txt: it was changed during the search" in text
    assert places(text) == ([] if path.startswith("b/") else [("b/z", 1)])
