"""No pattern, path, glob, link or file makes a search run, read or wait for what it must not."""

import asyncio
import contextlib
import os
import pathlib
import random
from typing import Any

import pytest

from ripieno.exceptions import ValidationFault
from ripieno.toolset.arguments import matcher
from ripieno.toolset.search.expressions import Expression
from ripieno.toolset.search.gitignore import Rules
from tests.counts import count
from tests.toolset.bundled_tools import code_of, text_of
from tests.toolset.files.test_file_tools_attacks import shape_links
from tests.toolset.furnished_workspace import CANARY, look
from tests.toolset.search.search_tools import ENGINES, make, places, searching
from tests.toolset.workspace.test_operations_races import fill, set_trap, swapped

WORD = "canary"
INJECTIONS = [
    "--pre=touch marker", "--pre", "-e", "-f/etc/passwd", "--file=/etc/passwd", "--hostname-bin=./evil", "-", "--",
    "-z",
    "$(touch marker)", "`touch marker`", "; touch marker", "| touch marker", "&& touch marker", "> marker",
    "--no-ignore",
    "../outside", "/etc/passwd", "--ignore-file=/etc/passwd", "--follow", "-L", "--search-zip", "--debug", "-uuu", "\\",
    "'\"", "%s%n", "${HOME}", "~", "*", "!*", "@/etc/passwd", "--type-add=x:*", "--replace=$0", "-r", "--generate=man",
]  # fmt: skip
TOOLS = {
    "search": ("pattern", "path", "include_pattern", "exclude_pattern"),
    "grep": ("pattern", "path", "include_pattern", "exclude_pattern"),
    "ripgrep": ("pattern", "path", "include_pattern", "exclude_pattern"),
    "find": ("pattern", "path"),
    "find_files": ("pattern", "path"),
    "glob": ("pattern", "path"),
}


def arguments(tool: str, **more: Any) -> dict[str, Any]:
    return ({} if tool == "find" else {"pattern": "*" if tool in ("find_files", "glob") else WORD}) | more


@pytest.mark.parametrize("engine", ENGINES)
async def test_no_argument_is_an_option_or_a_command(
    root: pathlib.Path, outside: pathlib.Path, engine: str, tmp_path: pathlib.Path
) -> None:
    for name in ("evil", "touch"):
        (root / name).write_text("#!/bin/sh\ntouch marker\n")
        (root / name).chmod(0o755)
    before, here = look(outside), look(root)
    chance = random.Random(7)
    calls = [(tool, name, text) for tool, names in TOOLS.items() for name in names for text in INJECTIONS]
    chosen = chance.sample(calls, count(len(calls)))
    async with searching(root, engine) as tools:
        for tool, name, text in chosen:
            said = text_of(await tools(tool, **arguments(tool, **{name: text})))
            assert CANARY.decode() not in said
            assert "root:x:0" not in said
            assert "unrecognized" not in said
    assert (look(outside), look(root)) == (before, here)


@pytest.mark.parametrize("engine", ENGINES)
async def test_no_shape_of_a_link_is_a_door(root: pathlib.Path, outside: pathlib.Path, engine: str) -> None:
    shapes = shape_links(root, outside)
    assert len(shapes) == 40
    async with searching(root, engine) as tools:
        for tool in TOOLS:
            whole = text_of(await tools(tool, **arguments(tool)))
            assert CANARY.decode() not in whole
            assert "outside/a/b" not in whole
        for shape in shapes if engine != "ripgrep" else shapes[:: 20 // count(20)]:
            result = await tools("search", **arguments("search", path=shape))
            assert result.error is not None
            assert CANARY.decode() not in text_of(result)


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_outside_is_shown_while_names_are_exchanged(tmp_path: pathlib.Path, engine: str) -> None:
    """What is found may be outside for a moment; what is shown is read by descriptors."""
    root, outside = set_trap(tmp_path)
    # Of a hard link's content nobody can tell where it is at home.
    (root / "hard").write_bytes(b"inside")
    if engine == "ripgrep":
        # A pipe that takes a file's place just then would hold it until the call's deadline.
        (root / "fifo").write_bytes(b"inside")
    else:
        os.mkfifo(root / "fifo")
    fill(root, outside)
    before = look(outside)
    times = count(20_000, 200) if engine != "ripgrep" else count(1_000, 100)
    escapes = found = 0
    chance = random.Random(42)
    (root / "steady").write_bytes(b"inside")

    async def attack() -> None:
        nonlocal escapes, found
        async with searching(root, engine) as tools:
            number = -1
            while (number := number + 1) < times or not found:
                path = chance.choice((".", "swapped", "file", "swapped/secret", "swapped/a"))
                tool = "search" if number % 10 else "glob"
                pattern = chance.choice(("inside", WORD)) if tool == "search" else "**"
                said = text_of(await tools(tool, pattern=pattern, path=path))
                escapes += CANARY.decode() in said or "outside/" in said
                found += ": inside" in said

    with swapped(root):
        asyncio.run(attack())
    print(f"{engine}: {times} searches, {found} found something, {escapes} escapes")
    assert escapes == 0
    assert look(outside) == before


@pytest.mark.parametrize("engine", ENGINES)
async def test_what_is_no_text_is_left_out(tmp_path: pathlib.Path, engine: str) -> None:
    root = tmp_path / "workspace"
    make(
        root,
        {
            "binary": b"needle\n\0",
            "text": b"needle\n",
            "huge": b"needle" * 2_000_000,
            "bytes": bytes(range(1, 256)) * 10 + b"needle\n",
        },
    )
    os.mkfifo(root / "fifo")
    with (root / "sparse").open("wb") as sparse:
        sparse.write(b"needle\n")
        sparse.truncate(1 << 40)
    deep = root
    for number in range(80):
        deep = deep / "d"
        deep.mkdir()
        (deep / "x").write_bytes(b"needle %d\n" % number)
    async with searching(root, engine) as tools:
        text = text_of(await tools("search", pattern="needle", context_lines=0, max_results=1000))
        found = places(text)
        assert [path for path, _ in found if not path.startswith("d/")] == ["bytes", "huge", "text"]
        assert len([path for path, _ in found if path.startswith("d/")]) == 63
        assert "[1 binary file left out]" in text
        assert len(text) < 60_000
        assert code_of(await tools("search", pattern="needle", path="fifo")) == "special_file"
        assert code_of(await tools("search", pattern="needle", path="sparse")) == "binary_file"


#: Expressions that hang engines that backtrack, or are as bad as the linear one lets them be.
HANGING = [
    *(r"^(a+)+$", r"(a|a)*$", r"(a|aa)+$", r"(.*a){20}", r"(?:a?){100}b", r"(\w{5}){4}[^a]$", r"(?:[a-z]*){9}!"),
    r".*.*.*.*=.*",
]


@pytest.mark.parametrize("pattern", HANGING)
def test_no_expression_hangs(pattern: str) -> None:
    with contextlib.suppress(ValidationFault):  # Too large to be looked for.
        list(
            Expression(pattern, literal=False, case_sensitive=False).spots(b"a" * 60_000 + b"!\n" + b"a" * 200 + b"\n")
        )


def test_no_glob_hangs() -> None:
    for glob in ("*a" * 200 + "b", "**/" * 100 + "x", "{a,b}" * 50, "[a-z]*" * 100, "?" * 300, "*" * 900):
        with contextlib.suppress(ValidationFault):
            assert matcher(glob, names=True)("a" * 1000) in (True, False)
    rules = Rules(["*a" * 100 + "b"] * 100 + ["{" * 50, "[", "\\"])
    assert rules.verdict("a" * 4000, is_directory=False) is None
