"""Whatever stands in an argument of a tool, no shell reads it: only ``bash`` has one, for its command."""

import asyncio
import itertools
import pathlib
import random
import sys
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.counts import ATTACK, count
from tests.support.git_repositories import make_repository
from tests.toolset.bundled_tools import Tools, tools_of, write_program

DATA = pathlib.Path(__file__).parents[3] / "data" / "ensembles"
ENSEMBLES = ("execution", "process", "git", "testing", "validation")
#: Arguments that are programs by their nature: what they hold is run, in the sandbox.
PROGRAMS = {("bash", "command"), ("python_exec", "code"), ("node_exec", "code")}
#: What a tool cannot do without, beside the argument that is attacked.
NEEDED: Mapping[str, dict[str, Any]] = {
    "bash": {"command": "true"},
    "run_command": {"argv": ["true"]},
    "python_exec": {"code": "1"},
    "node_exec": {"code": "1"},
    "spawn": {"argv": ["true"]},
    "spawn_process": {"argv": ["true"]},
    "background": {"argv": ["true"]},
    "wait": {"handle": "p_1"},
    "kill": {"handle": "p_1"},
    "kill_process": {"handle": "p_1"},
    "signal": {"handle": "p_1", "signal": "INT"},
    "git_commit": {"message": "it"},
    "git_clone": {"source": "it", "directory": "copy"},
    "syntax_check": {"paths": ["a.py"]},
    "check_syntax": {"paths": ["a.py"]},
}

#: What leads an argument of git to git.
ALSO: Mapping[tuple[str, str], dict[str, Any]] = {
    ("git_checkout", "start_point"): {"target": "new", "create": True},
    ("git_merge", "message"): {"revision": "side"},
}


def strings(marker: str) -> list[str]:
    """2,000 strings that make the marker where any shell reads them."""
    do = f"touch {marker}"
    commands = (do, f"/bin/{do}", f"eval '{do}'", f"sh -c '{do}'", f"touch${{IFS}}{marker}", f"t''ouch {marker}")
    around = (
        *(("; ", ""), ("| ", ""), ("|| ", ""), ("& ", " &"), ("&& ", ""), ("\n", "\n"), ("\r\n", ""), ("$(", ")")),
        *(("`", "`"), ("<(", ")"), (">(", ")"), ("${x:-$(", ")}"), ("$((a[$(", ")]))"), ("{ ", "; }"), ("(", ")")),
        *(
            ("'; ", "; '"),
            ('"; ', '; "'),
            ("\\'; ", " #"),
            ("'$(", ")'"),
            ('"$(', ')"'),
            ("\\`", "\\`"),
            ("\x00; ", ""),
        ),
        *(("%0a", ""), ("! ", ""), ("coproc ", ""), ("x=y ", ""), ("if ", "; then :; fi"), ("<<E\n$(", ")\nE")),
    )
    befores = (
        *("", "x", "-", "--", "--x=", ".", "./", "a.py", "it", "HEAD", "~", "*", "test_it.py::", "\t", "\u2028", "é"),
    )
    found = [
        f"{before}{left}{command}{right}"
        for before, command, (left, right) in itertools.product(befores, commands, around)
    ]
    return random.Random(2000).sample(found, 2000)


def places(ensemble: str) -> Iterator[tuple[str, str, str]]:
    """Every argument that has a string in it: tool, name, and what kind it is."""
    for path in sorted((DATA / ensemble / "invokers").glob("*.toml")):
        for name, one in tomllib.loads(path.read_text())["arguments"].get("properties", {}).items():
            if one["type"] in ("string", "array", "object") and "enum" not in one and (path.stem, name) not in PROGRAMS:
                yield path.stem, name, one["type"]


def furnish(workspace: pathlib.Path) -> None:
    """A project whose programs do nothing, quickly, with whatever they are given."""
    make_repository(workspace / "it")
    (workspace / "a.py").write_text("")
    (workspace / "pyproject.toml").write_text("")
    for folder, name in (
        *(("node_modules/.bin", name) for name in ("jest", "eslint", "tsc", "prettier", "cargo", "go")),
        *((".venv/bin", name) for name in ("pytest", "ruff", "mypy", "pyright", "black", "flake8")),
    ):
        write_program(workspace / folder / name, "#!/bin/sh\nexit 0\n")
    (workspace / ".venv" / "bin" / "python3").symlink_to(sys.executable)


async def attack(tools: Tools, tool: str, name: str, kind: str, text: str) -> None:
    value: Any = {"array": [text], "object": {"CI": text, text: "x"}}.get(kind, text)
    if name == "argv":
        value = ["printf", "%s", text]
    arguments = {**NEEDED.get(tool, {}), name: value}
    if tool == "git_branch" and name != "directory":
        arguments = {"name": "x", **arguments, "action": "rename" if name == "new_name" else "create"}
    arguments |= ALSO.get((tool, name), {})
    if tool.startswith("git_") and name != "directory":
        arguments.setdefault("directory", "it")
    await tools(tool, **arguments)


@pytest.mark.parametrize("ensemble", ENSEMBLES)
async def test_no_argument_reaches_a_shell(ensemble: str, tmp_path: pathlib.Path) -> None:
    workspace = tmp_path / "workspace"
    furnish(workspace)
    marker = tmp_path / "marker"
    chosen = strings(str(marker))[: count(2000, 60)]
    configuration = {"environment": ["CI"]} if ensemble in ("execution", "process") else None
    turn = asyncio.Semaphore(4)

    async with tools_of(ensemble, workspace, configuration) as tools:
        every = [place for place in places(ensemble) if place[0] in tools.ensemble.invokers]
        assert len(every) > 3
        turns = itertools.cycle(every)

        async def one(place: tuple[str, str, str], text: str) -> None:
            async with turn:
                await attack(tools.elsewhere(), *place, text)

        calls = [(place, text) for text in chosen for place in (every if ATTACK else [next(turns)])]
        await asyncio.gather(*(one(place, text) for place, text in calls))
    assert not marker.exists()


async def test_the_strings_do_make_the_marker_where_a_shell_reads_them(workspace: pathlib.Path) -> None:
    marker = workspace.parent / "marker"
    made = 0
    async with tools_of("execution", workspace) as tools:
        for text in strings(str(marker))[:20]:
            await tools("bash", command=f"echo {text}")
            made += marker.exists()
            marker.unlink(missing_ok=True)
    assert made >= 5
