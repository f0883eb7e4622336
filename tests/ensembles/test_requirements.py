"""What must be there before an ensemble or a tool is offered, and why it is left out where that is not there."""

import asyncio
import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from frozendict import frozendict
from hypothesis import given
from hypothesis import strategies as st

from ripieno.descriptors import EnsembleDescriptor, InvocableDescriptor, InvokerDescriptor, Policy
from ripieno.descriptors.loading import Layer, load_ensembles, locate
from ripieno.descriptors.sandbox import SandboxDescriptor
from ripieno.ensembles import Surroundings
from ripieno.ensembles.requirements import find_absent, find_unmet, find_unmet_of, programs_of
from ripieno.exceptions import ResourceFault
from ripieno.sandbox import Sandbox
from ripieno.sandbox.process_limits import ProcessLimits
from ripieno.sandbox.processes import LocalSpawner, collect

WRITE = '"command:NAME", "ensemble:NAME", "sandbox" or "network"'


def around(network: bool | None = None) -> Surroundings:
    """Surroundings in which nothing is tried."""
    folder = Path("/")
    return Surroundings(
        workspace=folder,
        spawner=LocalSpawner(),
        secrets={},
        alert=lambda _: None,
        sandbox=Sandbox(folder, SandboxDescriptor(level="off", network=network)),
    )


def ensemble(
    name: str = "mine",
    requires: Sequence[str] = ("network",),
    *,
    origin: str | None = "python",
    configuration: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    own: Sequence[str] = (),
) -> EnsembleDescriptor:
    """An ensemble with one tool, or with a server where there is no ``origin``."""
    grants: frozendict[str, Any] = frozendict(configuration or {})
    tool = InvokerDescriptor(
        name="tool",
        description="It does.",
        policy=Policy(requires=tuple(own)),
        configuration=grants,
        invocable=InvocableDescriptor(origin=origin or "", settings=frozendict[str, Any](settings or {})),
    )
    return EnsembleDescriptor(
        name=name, requires=tuple(requires), configuration=grants, invokers=() if origin is None else (tool,)
    )


HOSTS = 'set hosts = ["api.example.org"] under [configuration.mine] of your own configuration'
DENIED = "network is false under [sandbox]"


@pytest.mark.parametrize(
    ("asking", "decided", "reason"),
    [
        (ensemble(), None, HOSTS),
        (ensemble(configuration={"hosts": ()}), None, HOSTS),
        # What is granted to programs is none of theirs.
        (ensemble(), True, HOSTS),
        (ensemble(configuration={"hosts": ("a.example",)}), None, None),
        (ensemble(configuration={"hosts": ("a.example",)}), False, None),
        (ensemble(origin="http"), None, None),
        (ensemble(origin="command"), None, "set network = true at its [invocable], or under [sandbox]"),
        (ensemble(origin="command", settings={"network": False}), None, "at its [invocable]"),
        (ensemble(origin="command", settings={"network": True}), None, None),
        (ensemble(origin="command"), True, None),
        (ensemble(origin="command", settings={"network": True}), False, DENIED),
        (ensemble(configuration={"network": False}), None, "set network = true under [configuration.mine], or under"),
        (ensemble(configuration={"network": True}), None, None),
        (ensemble(configuration={"network": True}), False, DENIED),
        (ensemble(configuration={"network": False}), True, None),
        (ensemble(origin=None), None, None),
        (ensemble(origin="mcp"), None, None),
        (ensemble(origin="mcp"), False, DENIED),
        (ensemble(origin=None), False, DENIED),
    ],
)
def test_the_network_is_there_as_far_as_the_operator_grants_it(
    asking: EnsembleDescriptor, decided: bool | None, reason: str | None
) -> None:
    unmet = find_unmet(asking, around(decided))
    if reason is None:
        assert unmet is None
    else:
        assert unmet is not None
        assert unmet.startswith("it requires 'network', and the network is not granted: ")
        assert reason in unmet


def test_a_tool_may_require_it_alone() -> None:
    one = ensemble(requires=(), own=("network",))
    assert find_unmet(one, around()) is None
    assert HOSTS in (find_unmet_of(one.invokers[0], one, around()) or "")
    granted = one.configured({"hosts": ["a.example"]})
    assert find_unmet_of(granted.invokers[0], granted, around()) is None


def test_an_ensemble_that_another_needs() -> None:
    git = ensemble("git", ("command:no-such-program",))
    review = ensemble("review", ("ensemble:git",))
    absent = find_absent([review, git], ["review", "git"], around())
    assert absent["git"] == (
        "it requires 'command:no-such-program', and there is no program 'no-such-program' in any folder of PATH"
    )
    assert absent["review"] == f"it requires 'ensemble:git', and the ensemble 'git' is not available: {absent['git']}"
    absent = find_absent([review], ["review", "git"], around())
    assert (absent["review"] or "").endswith(
        'is not available: it is not enabled; to enable it, set include = ["git"] under [ensembles]'
    )
    absent = find_absent([review], ["review"], around())
    assert (absent["review"] or "").endswith("the ensemble 'git' is not available: no ensemble has this name")
    assert find_absent([review, ensemble("git", ())], [], around()) == {"review": None, "git": None}


def test_a_program_of_the_project_counts_for_tools_that_run_it_confined(tmp_path: Path) -> None:
    here = dataclasses.replace(around(), workspace=tmp_path)
    own: dict[str, Any] = {"project": True, "confined": True}
    requires = ("command:no-such-program",)
    assert "neither in .venv/bin" in (
        find_unmet(ensemble(requires=requires, origin="command", settings=own), here) or ""
    )
    path = tmp_path / "part" / "venv" / "bin" / "no-such-program"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    within = {**own, "directory": "part"}
    fitting = ensemble(requires=requires, own=requires, origin="command", settings=within)
    assert find_unmet(fitting, here) is not None, "it may not be executed"
    path.chmod(0o755)
    assert find_unmet(fitting, here) is None
    assert find_unmet_of(fitting.invokers[0], fitting, here) is None
    for settings in (own, {**within, "confined": False}, {**within, "project": False}, {"directory": "part"}):
        assert find_unmet(ensemble(requires=requires, origin="command", settings=settings), here) is not None
    # A server is started as its connection says. A Python function declares that it runs the project's own.
    assert find_unmet(ensemble(requires=requires, origin=None), here) is not None
    function = ensemble(requires=requires, settings={"project": True})
    assert find_unmet(function, here) is not None
    path.parents[1].rename(tmp_path / "venv")
    assert find_unmet(function, here) is None
    assert find_unmet(ensemble(requires=requires), here) is not None


@given(st.lists(st.lists(st.sampled_from("abcdef"), max_size=3), max_size=6), st.sets(st.sampled_from("abcdef")))
def test_what_plays_has_what_it_requires(needs: list[list[str]], broken: set[str]) -> None:
    """What plays is closed: each needs nothing that does not play; and nobody else could join."""
    names = "abcdef"[: len(needs)]
    selected = [
        ensemble(name, [*(f"ensemble:{one}" for one in need), *(["nothing:x"] if name in broken else [])])
        for name, need in zip(names, needs, strict=True)
    ]
    absent = find_absent(selected, "abcdef", around())
    playing = {name for name in names if absent[name] is None}
    for name, need in zip(names, needs, strict=True):
        if name in playing:
            assert name not in broken
            assert set(need) <= playing
    # The largest such set: whoever is left out is broken, or needs somebody who is left out.
    for name, need in zip(names, needs, strict=True):
        assert name in playing or name in broken or not set(need) <= playing
    # The order in which they are written is no matter.
    assert find_absent(selected[::-1], "abcdef", around()).keys() == absent.keys()
    again = find_absent(selected[::-1], "abcdef", around())
    assert {name for name in names if again[name] is None} == playing


def test_words_are_programs_but_for_two() -> None:
    requires = ["git", "command:node", "sandbox", "network", "ensemble:io", "command:network"]
    assert list(programs_of(requires)) == ["git", "node", "network"]


@pytest.mark.parametrize(
    ("table", "requirement"),
    [
        *(
            ("ensemble", one)
            for one in ("comand:git", "ensembles:io", "sandbox:1", "command:", "ensemble:", ":git", "a b")
        ),
        *((table, "network:on") for table in ("ensemble", "defaults", "invokers")),
    ],
)
def test_an_unknown_kind_is_a_problem_with_its_line(tmp_path: Path, requirement: str, table: str) -> None:
    line = f'requires = ["git", "{requirement}"]\n'
    text = (
        f'[ensemble]\nname = "mine"\n{line if table == "ensemble" else ""}'
        f"[defaults]\n{line if table == 'defaults' else ''}"
        f'[[invokers]]\nname = "one"\ndescription = "One."\n{line if table == "invokers" else ""}'
        'invocable = { origin = "command", argv = ["true"] }\n'
    )
    file = tmp_path / "mine.toml"
    file.write_text(text)
    (problem,) = locate(load_ensembles([Layer(name="caller", paths=(file,))]).problems)
    assert problem.line == text.splitlines().index(line.strip()) + 1
    assert WRITE in str(problem)
    assert requirement in str(problem)


@pytest.mark.parametrize("origin", ["command", "python"])
@pytest.mark.parametrize("readable", [False, True])
def test_a_program_that_the_sandbox_hides_does_not_count(
    origin: str, readable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is that of the program itself, started in the sandbox."""
    workspace, home = tmp_path / "workspace", tmp_path / "home"
    tools = home / "bin"
    for folder in (workspace, tools):
        folder.mkdir(parents=True)
    (tools / "hidden-tool").write_text("#!/bin/sh\necho here\n")
    (tools / "hidden-tool").chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    sandbox = Sandbox(workspace, SandboxDescriptor(level="auto", readable=(str(tools),) if readable else ()))
    assert sandbox.tier in (1, 2)
    surroundings = dataclasses.replace(around(), workspace=workspace, sandbox=sandbox)
    one = ensemble(requires=["command:hidden-tool"], origin=origin)
    confined = dataclasses.replace(one, layer="package" if origin == "python" else "project")
    try:
        reason = find_unmet(confined, surroundings)
        assert runs(sandbox, "hidden-tool") is readable is (reason is None)
        if reason is not None:
            assert f'the sandbox hides {tools}/hidden-tool: set readable = ["{tools}"] under [sandbox]' in reason
            assert "as rustup does in .rustup, need these folders, too" in reason
        # The user's own programs and functions are not confined.
        assert find_unmet(dataclasses.replace(one, layer="user"), surroundings) is None
        assert find_unmet(dataclasses.replace(confined, requires=("command:sh",)), surroundings) is None
    finally:
        sandbox.close()


def runs(sandbox: Sandbox, name: str) -> bool:
    """Whether a program of this name can be started in the sandbox."""

    async def start() -> bool:
        try:
            process = await LocalSpawner().start(
                [name],
                sandbox.environment(),
                sandbox.workspace,
                ProcessLimits(),
                confinement=sandbox.confinement(writable=[sandbox.workspace]),
            )
        except ResourceFault:
            return False
        async with process:
            return (await collect(process)).exit_code == 0

    return asyncio.run(start())
