"""The examples in the reference of the bundled tools: each is called for real."""

import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from typing import Any

import pytest

from ripieno.approvals import Approve, ConfirmationRequest, Edit
from ripieno.assembly import Assembly, assemble
from ripieno.canisters import Canister, InvocationCanister, ResultCanister
from ripieno.descriptors import EnsembleDescriptor
from ripieno.descriptors.loading import Layer, load_ensembles
from ripieno.ensembles.requirements import SANDBOX, has_command, programs_of
from ripieno.execution import Circumstances
from ripieno.jsonvalues import freeze
from tests.support.command_line import User
from tests.support.git_repositories import CLEAN
from tests.support.raw_http_servers import Web, answer, web

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = ROOT / "documentation" / "examples" / "tools"
PAGES = ROOT / "documentation" / "reference" / "tools"
BUNDLED: Mapping[str, EnsembleDescriptor] = load_ensembles([Layer(name="package", folders=(ROOT / "data",))]).ensembles
TOOLS = [f"{ensemble.name}.{tool.name}" for ensemble in BUNDLED.values() for tool in ensemble.invokers]
#: The server and the workspace in the examples, and the form of handles of processes.
SERVER, WORKSPACE, HANDLE = "127.0.0.1:8080", "/workspace", re.compile("[op]_[0-9a-f]{32}")
#: A cluster on a port on which nothing listens: without one, kubectl asks port 8080.
KUBECTL = """
{apiVersion: v1, kind: Config, current-context: none, contexts: [{name: none, context: {cluster: none}}],
 clusters: [{name: none, cluster: {server: "http://127.0.0.1:1"}}]}
"""
#: Author and date of the commits in examples, so that they have the shown names.
AUTHOR = {
    f"GIT_{who}_{what}": text
    for who in ("AUTHOR", "COMMITTER")
    for what, text in (("NAME", "Ada"), ("EMAIL", "ada@example.org"), ("DATE", "2026-01-31T12:00:00+00:00"))
}


def tables(ensemble: str) -> Mapping[str, Any]:
    """The file of an ensemble's examples."""
    file = EXAMPLES / f"{ensemble}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def pattern_of(example: Mapping[str, Any]) -> str:
    """The pattern of the result that an example shows."""
    pattern: str = re.escape(example["result"].rstrip("\n"))
    for part, general in example.get("varies", {}).items():
        assert re.fullmatch(general, part), f"{part!r} does not fit its own pattern"
        assert re.escape(part) in pattern, f"the result has no {part!r}"
        pattern = pattern.replace(re.escape(part), f"(?:{general})")
    return pattern


def told(result: ResultCanister) -> str:
    """A result as a model reads it, with JSON broken into lines."""
    text = result.text.rstrip("\n")
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False) if text[:1] == "{" else text
    except ValueError:
        return text


class Person:
    """A confirmer that approves calls, and answers questions."""

    def __init__(self, values: Mapping[str, Any] | None) -> None:
        self._values = values

    async def confirm(self, request: ConfirmationRequest) -> Approve | Edit:
        if request.question is None:
            return Approve()
        assert self._values is not None, request.question
        return Edit(self._values)


class Conversation:
    """Calls one after the other, each with the earlier ones as its history."""

    def __init__(self, assembly: Assembly, server: Web, workspace: pathlib.Path) -> None:
        self._assembly = assembly
        self._here = f"127.0.0.1:{server.port}"
        self._workspace = os.path.realpath(workspace)
        self._history: list[Canister] = []
        self._namespaces: dict[str, dict[str, object]] = {}
        self._handle = "_"

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> ResultCanister:
        """The result of a call, with the current addresses and handles."""
        given: dict[str, Any] = json.loads(HANDLE.sub(self._handle, json.dumps(arguments)).replace(SERVER, self._here))
        invocation = InvocationCanister(identifier=f"call_{len(self._history)}", name=tool, arguments=freeze(given))
        around = Circumstances(conversation="one", namespaces=self._namespaces, history=tuple(self._history))
        execution = self._assembly.execution
        result = await execution.execute(invocation, ensembles=self._assembly.ensembles, circumstances=around)
        self._history += [invocation, result]
        self._handle = next(iter(HANDLE.findall(result.text)), self._handle)
        return result

    def plain(self, text: str) -> str:
        """A text with the address and the path that examples show."""
        return text.replace(self._here, SERVER).replace(self._workspace, WORKSPACE)


def prepare(workspace: pathlib.Path, *parts: Mapping[str, Any]) -> None:
    """Makes the workspace that an example presupposes."""
    for part in parts:
        for name, text in part.get("files", {}).items():
            (workspace / name).parent.mkdir(parents=True, exist_ok=True)
            (workspace / name).write_text(text)
        if "prepare" in part:
            subprocess.run(["/bin/sh", "-e", "-c", part["prepare"]], cwd=workspace, env={**CLEAN, **AUTHOR}, check=True)


@functools.cache
def sysroot() -> list[str]:
    """The folder of Rust's own programs, if there is one."""
    if shutil.which("rustc") is None:
        return []
    done = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=False)
    return done.stdout.split("\n")[: 1 if done.returncode == 0 else 0]


@pytest.fixture
def readable(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Further folders that programs may read: our own, which come first in PATH, and those of others in PATH."""
    folders = [sys.prefix, sys.base_prefix]
    folders += sysroot()
    monkeypatch.setenv("PATH", os.pathsep.join([*(f"{one}/bin" for one in folders), os.environ["PATH"]]))
    # What runs unconfined has no configuration there that leads to a real cluster, or to what else listens here.
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".kube").mkdir(exist_ok=True)
    (tmp_path / ".kube" / "config").write_text(KUBECTL)
    prefixes = {os.path.dirname(one) for one in os.environ["PATH"].split(os.pathsep) if os.path.isdir(one)} - {"", "/"}
    return [*folders, *sorted(prefixes), str(ROOT / "sources")]


def missing(assembly: Assembly, name: str, tool: str) -> str | None:
    """Why a tool is not offered, or None."""
    absent = [one.reason for one in assembly.absences if one.name == name]
    return absent[0] if absent else assembly.access_ensemble(name).left_out.get(tool)


@pytest.mark.parametrize("identity", TOOLS)
async def test_what_the_reference_shows(identity: str, user: User, readable: list[str]) -> None:
    name, _, tool = identity.partition(".")
    shared, example = tables(name).get("shared", {}), tables(name)["tools"][tool]
    example = {**shared, **example}
    prepare(user.workspace, shared, tables(name)["tools"][tool])
    before = example.get("before", ())
    async with web(lambda head, _: serve(example.get("serves", {}), head)) as server:
        settings = {
            "ensembles": {"enabled": sorted({name, *(call["tool"].partition(".")[0] for call in before)})},
            "sandbox": {"readable": readable},
            "configuration": {
                name: json.loads(
                    json.dumps(example.get("configuration", {})).replace(SERVER, f"127.0.0.1:{server.port}")
                )
            },
        }
        person = Person(example.get("answer"))
        async with assemble(settings, workspace=user.workspace, places=user.places, confirmer=person) as assembly:
            reason = missing(assembly, name, tool)
            if reason is not None:
                own = next(one.policy.requires for one in BUNDLED[name].invokers if one.name == tool)
                check_reason(reason, [*BUNDLED[name].requires, *own], assembly)
                return
            conversation = Conversation(assembly, server, user.workspace)
            for call in before:
                earlier = await conversation.call(call["tool"].partition(".")[2], call["arguments"])
                assert earlier.error is None, earlier.text
            result = await conversation.call(tool, example["arguments"])
            text = conversation.plain(told(result))
    otherwise = example.get("otherwise")
    if result.error is not None and otherwise is not None:
        assert re.search(otherwise, text), text
    else:
        assert result.error is None, text
        assert re.fullmatch(pattern_of(example), text), text


def serve(pages: Mapping[str, str], head: bytes) -> bytes:
    """The answer of an example's server."""
    method, target, _ = head.split(b"\r\n")[0].decode().split(" ")
    text = pages[target.partition("?")[0]].encode()
    return answer(b"" if method == "HEAD" else text, "Content-Type: text/plain; charset=utf-8")


def check_reason(reason: str, requires: list[str], assembly: Assembly) -> None:
    """Checks that a tool is left out for a requirement that is really missing."""
    sandbox = assembly.surroundings.sandbox
    lacking = [f"command:{one}" for one in programs_of(requires) if not has_command(one)]
    if SANDBOX in requires and sandbox is not None and sandbox.missing is not None:
        lacking.append(SANDBOX)
    assert any(f"it requires {one!r}" in reason for one in lacking), reason


def test_no_tool_is_without_an_example() -> None:
    shown = [f"{file.stem}.{tool}" for file in EXAMPLES.glob("*.toml") for tool in tables(file.stem)["tools"]]
    assert sorted(shown) == sorted(TOOLS)


def test_no_ensemble_is_without_a_page() -> None:
    pages = "\n".join(page.read_text() for page in PAGES.glob("*.rst"))
    assert sorted(re.findall(r"^\.\. tool-reference:: (\S+)$", pages, re.MULTILINE)) == sorted(BUNDLED)


def test_what_varies_is_all_that_may() -> None:
    example = {"result": "took 1.5 s (1+1)\n", "varies": {"1.5 s": r"\d\.\d s"}}
    assert re.fullmatch(pattern_of(example), "took 9.9 s (1+1)")
    assert not re.fullmatch(pattern_of(example), "took 9.9 s (11)")
