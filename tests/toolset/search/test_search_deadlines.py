"""A search that cannot be done in time says what it has found, and nothing holds it that is no file."""

import dataclasses
import os
import pathlib

import pytest

from tests.toolset.bundled_tools import code_of, text_of, tools_of
from tests.toolset.search.search_tools import RIPGREP, make, needs_ripgrep, places, searching

PATTERN = "(?:a ?){3}z|[^l]{7}q$|needle"


def ripgrep(folder: pathlib.Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real one behind a program of its name, which may do something before and after."""
    folder.mkdir()
    (folder / "rg").write_text(f"#!/bin/sh\nreal={RIPGREP}\n{script}\n")
    (folder / "rg").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@needs_ripgrep
@pytest.mark.parametrize("phase", ["--count", "--line-number"])
async def test_what_was_found_until_the_deadline_is_told(
    tmp_path: pathlib.Path, phase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "workspace", {"a": b"one\nneedle\n", "b/c": b"needle\n"})
    script = f'"$real" "$@"; code=$?; case " $* " in *" {phase} "*) sleep 600;; esac; exit $code'
    ripgrep(tmp_path / "programs", script, monkeypatch)
    async with tools_of("search", tmp_path / "workspace") as tools:
        result = await dataclasses.replace(tools, seconds=3.0)("search", pattern="needle", context_lines=0)
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
    script = 'case " $* " in *" --line-number "*) sleep 600;; esac; exec "$real" "$@"'
    ripgrep(tmp_path / "programs", script, monkeypatch)
    async with tools_of("search", tmp_path / "workspace") as tools:
        text = text_of(await dataclasses.replace(tools, seconds=3.0)("search", pattern="needle"))
    assert "At least 3 lines in 2 files with 'needle'\n[Not shown: a (1 line), b/c (2 lines)]" in text


async def test_without_a_program_too(tmp_path: pathlib.Path) -> None:
    root = tmp_path / "workspace"
    make(root, {"a": b"needle\n", "z/0": b"a line of text\n" * 200_000})
    for number in range(1, 400):
        os.link(root / "z/0", root / f"z/{number}")
    async with searching(root, "without ripgrep") as tools:
        hasty = dataclasses.replace(tools, seconds=2.0)
        result = await hasty("search", pattern=PATTERN, type="regex")
        found = await hasty("search", pattern=PATTERN, type="regex", path="a")
    assert code_of(result) == "timeout"
    assert "At least 1 line in 1 file" in text_of(result)
    assert "\na:1: needle\n" in text_of(result)
    assert places(text_of(found)) == [("a", 1)]


async def test_nothing_found_is_said_as_well(tmp_path: pathlib.Path) -> None:
    root = tmp_path / "workspace"
    make(root, {"z/0": b"a line of text\n" * 200_000})
    for number in range(1, 400):
        os.link(root / "z/0", root / f"z/{number}")
    async with searching(root, "without ripgrep") as tools:
        result = await dataclasses.replace(tools, seconds=1.0)("search", pattern=PATTERN, type="regex")
    assert code_of(result) == "timeout"
    assert "Nothing was found until then." in text_of(result)


@needs_ripgrep
@pytest.mark.parametrize("path", [".", "b", "b/[x] y.txt"])
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
        result = await dataclasses.replace(tools, seconds=20.0)("search", pattern="needle", path=path, context_lines=0)
    assert result.error is None
    text = text_of(result)
    assert "b/[x] y.txt: it was changed while it was searched" in text
    assert places(text) == ([] if path.startswith("b/") else [("b/z", 1)])
