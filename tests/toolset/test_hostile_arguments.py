"""No argument and no file makes a bundled tool raise anything but a fault, or wait without end."""

import os
import pathlib
import random
import shutil
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest

from ripieno.assembly import Assembly, assemble
from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.canisters.controls import Rules
from ripieno.ensembles import Invoker
from ripieno.ensembles.offers import Offer
from ripieno.execution import Circumstances, Execution
from ripieno.execution.call import settle
from ripieno.jsonvalues import freeze
from ripieno.storage.places import Places
from tests.counts import count
from tests.skips import needs
from tests.support.git_repositories import make_repository

#: The ensembles of the toolset; those whose tools start programs, and those that start a project's tools.
QUICK = ("file_read", "file_write", "file_manage", "directory", "search", "outputs", "control", "reasoning")
STARTING = ("git", "execution", "process", "network")
SLOW = ("testing", "validation")
#: Seconds of a call, far more than any needs.
SECONDS = 60.0
NAMES = (
    *("file", "folder", "fifo", "socket", "broken", "loop", "up", "device", "empty", "binary", "latin", "large"),
    *("repo", "repo/file.txt", "repo/.git", ".git/config", "ripieno.toml", "é" * 127, "x" * 255, "-dash", "a\nb"),
)
PATCH = "--- {}\n+++ {}\n@@ -1 +{} @@\n-x\n+y\n"
TEXTS = (
    *(
        "",
        " ",
        ".",
        "..",
        "/",
        "//",
        "~",
        "-",
        "--",
        "*",
        "[",
        "{",
        "(",
        "\\",
        "%",
        "\0",
        "a\0b",
        "\n",
        "\r",
        "\x1b[2J",
    ),
    *("\ud800", "a\udfffb", "\udcff", "\udc80/x", "\U0001f600", "\u202e", "\u200b", "ﬁ", "İ", "a\u0301", "\ufeff"),
    *("x" * 256, "x" * 5000, "x/" * 300, "../" * 300, "x/" * 3000, "é" * 200, "y" * 200_000),
    *("/dev/zero", "/dev/full", "/dev/stdin", "/dev/tty", "/proc/self/mem", "/proc/self/fd/0", "/etc/passwd", "CON"),
    *("HEAD", "HEAD~99999999999999999999", "@{-1}", "refs/heads/main", "a..b", ":/x", ":(top)", "--exec=x", "@{u}"),
    *("file:///x", "http://[::1", "https://\ud800.x/", "http://x\0y/", "http://127.0.0.1:99999/", "ext::x", "NUL"),
    *(
        "http://127.0.0.1:1/",
        "http://127.0.0.1:1/\ud800",
        "http://127.0.0.1:1/a b\r\nX: y",
        "http://127.0.0.1:1/?%00#\0",
    ),
    *("0", "-1", "999999999999", "777", "0o777", "8", "true", "null", "1e999", "p_", "o_", "@@ -1 +1 @@", "(?i)"),
    *(
        PATCH.format("a/file", "b/file", 1),
        PATCH.format("a/\ud800", "b/\0", 1),
        PATCH.format("/dev/null", "b/new", 10**20),
    ),
    *("@@" * 999, "(" * 500, "[" * 500, "{a," * 300, "a{99999}"),
)
NUMBERS = (0, 1, -1, 2, 7, 63, 64, 65, 1000, 2**31, 2**63 - 1, 2**63, -(2**63), 10**30, -(10**30), 0.5, 1e308)
#: Arguments that a program reads as code, which are texts in a harmless form.
CODE = {"command": ": {}", "code": "# {}"}


def furnish(root: pathlib.Path, *, repository: bool = True) -> None:
    """Special files, links of every kind, odd names and contents, deep folders, and a repository."""
    shutil.rmtree(root)
    (root / "folder" / "inner").mkdir(parents=True)
    (root / "folder" / "inner" / "file").write_text("x\n")
    for name, data in (("file", b"x\n"), ("empty", b""), ("binary", b"\0\xff"), ("latin", b"\xe9\n"), ("a\nb", b"x")):
        (root / name).write_bytes(data)
    for name in ("é" * 127, "x" * 255, "-dash", "x.py", "x.json", "x.toml", "x.xml", "x.sh"):
        (root / name).write_text("[" * 99)
    os.mkfifo(root / "fifo")
    os.close(os.open(os.fsencode(root) + b"/\xff\xfe", os.O_CREAT))
    with (root / "large").open("wb") as file:
        file.truncate(1 << 40)
    here = os.open(".", os.O_RDONLY)
    try:
        # The path of a socket is at most 108 bytes long.
        os.chdir(root)
        with socket.socket(socket.AF_UNIX) as one:
            one.bind("socket")
        for _ in range(70):
            os.mkdir("deep")
            os.chdir("deep")
    finally:
        os.chdir(here)
        os.close(here)
    links = {"broken": "nowhere", "loop": "loop", "up": "..", "device": "/dev/zero", "odd": "a\\b", "here": "."}
    for name, target in links.items():
        (root / name).symlink_to(target)
    if repository:
        make_repository(root / "repo")


def text(chance: random.Random, names: Sequence[str]) -> str:
    kind = chance.random()
    if kind < 0.4:
        return chance.choice(names)
    if kind < 0.8:
        return chance.choice(TEXTS)
    between = chance.choice(("/", "", "/../", "\0", "/."))
    return chance.choice(names) + between + chance.choice((*names, *TEXTS))


def value(schema: Mapping[str, Any], name: str, chance: random.Random) -> Any:
    """A hostile value that has mostly the type of its schema."""
    if chance.random() < 0.03:
        return chance.choice((None, [], {}, "", 0, [[]], True))
    if "enum" in schema and chance.random() < 0.9:
        return chance.choice(schema["enum"])
    made: Any
    match schema.get("type"):
        case "integer" | "number":
            made = chance.choice((schema.get("minimum", 0), schema.get("maximum", 1000), chance.choice(NUMBERS)))
        case "boolean":
            made = chance.random() < 0.5
        case "array":
            made = [value(schema.get("items", {}), name, chance) for _ in range(chance.choice((0, 1, 1, 2, 3)))]
        case "object":
            inner = schema.get("properties") or {text(chance, NAMES): schema.get("additionalProperties") or {}}
            made = {key: value(one if isinstance(one, Mapping) else {}, key, chance) for key, one in inner.items()}
        case _:
            made = text(chance, NAMES)
            if name in CODE:
                made = CODE[name].format(made.replace("\n", " ").replace("\r", " "))
    return made


def arguments(invoker: Invoker, chance: random.Random) -> dict[str, Any]:
    schema: Any = invoker.schema.mapping
    required = schema.get("required", ())
    chosen = {
        name: value(one, name, chance)
        for name, one in schema.get("properties", {}).items()
        if name in required or chance.random() < 0.5
    }
    if invoker.ensemble.name in SLOW or invoker.name == "wait":
        # What a project's own tool does with such a project is its own affair.
        return chosen | {"timeout_seconds": 1}
    return {name: one for name, one in chosen.items() if name != "timeout_seconds"}


async def attack(folder: pathlib.Path, ensemble: str, times: int) -> None:
    """Calls each tool of an ensemble, and collects what is neither a result nor a fault of the tool."""
    (folder / "workspace").mkdir()
    places = Places(configuration=folder / "configuration", state=folder / "state")
    settings = {
        "ensembles": {"enabled": [ensemble]},
        "sandbox": {"level": "off"},
        # Nothing listens there.
        "configuration": {"network": {"hosts": ["127.0.0.1:1"], "local": True}},
    }
    async with assemble(settings, workspace=folder / "workspace", places=places) as assembly:
        found = [one async for one in breaks(assembly, ensemble, times)]
    print(f"{ensemble}: {times} calls of each tool, {len(found)} breaks", *found, sep="\n")
    assert found == []


async def breaks(assembly: Assembly, ensemble: str, times: int) -> AsyncIterator[str]:
    root = assembly.surroundings.workspace
    invokers = assembly.access_ensemble(ensemble).invokers
    execution = Execution(rules=Rules(approve=tuple(one.identity for one in invokers.values())))
    offer, around = Offer.of(assembly.ensembles), Circumstances(conversation="one", seconds=SECONDS)
    for name, invoker in invokers.items():
        chance = random.Random(f"{ensemble}.{name}")
        for number in range(times):
            if number % 100 == 0:
                furnish(root)
            chosen = arguments(invoker, chance)
            invocation = InvocationCanister(identifier="call", name=invoker.exposed, arguments=freeze(chosen))
            prepared = execution.prepare(invocation, offer, around)
            if isinstance(prepared, ResultCanister):
                continue
            call = execution.launch(prepared, around, seconds=SECONDS)
            if isinstance(call, ResultCanister):
                continue
            await settle((call,))
            error = call.result.result().error
            late = error is not None and error.category == "timeout" and ensemble not in SLOW
            if call.bug is not None or late:
                yield f"{name}({ascii(chosen)[:300]}): {call.bug!r:.300} {error and error.message[:200]}"


@pytest.mark.parametrize("ensemble", QUICK)
async def test_no_argument_is_a_bug(tmp_path: pathlib.Path, ensemble: str) -> None:
    await attack(tmp_path, ensemble, count(2000))


@needs("git")
@pytest.mark.parametrize("ensemble", STARTING)
async def test_no_argument_of_a_program_is_a_bug(tmp_path: pathlib.Path, ensemble: str) -> None:
    await attack(tmp_path, ensemble, count(2000, 100))


@needs("git")
@pytest.mark.parametrize("ensemble", SLOW)
async def test_no_argument_of_a_projects_tool_is_a_bug(tmp_path: pathlib.Path, ensemble: str) -> None:
    await attack(tmp_path, ensemble, count(500, 100))
