"""Assemblies: all ensembles are connected, or none; and why a start fails."""

import asyncio
import contextlib
import os
import pathlib
import sys
import traceback
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from frozendict import frozendict

from ripieno.assembly import assemble
from ripieno.assembly.configuration import load_configuration
from ripieno.assembly.shortcuts import connected, prepare_ensembles
from ripieno.canisters import InvocationCanister, ResultCanister, SupervisorCanister
from ripieno.ensembles import Ensemble, Opened
from ripieno.exceptions import (
    AssemblyFailure,
    ConfigurationInvalidity,
    ConnectionFailure,
    InputError,
    NameAbsence,
    UsageError,
)
from ripieno.testing import call, turn
from ripieno.testing.wires import model_of
from tests.support.command_line import User

FACTORY = """
import contextlib

events = []

@contextlib.asynccontextmanager
async def open(*_):
    events.append("opened")
    try:
        yield {"rows": 3}
    finally:
        events.append("closed")

@contextlib.asynccontextmanager
async def fail(*_):
    raise OSError("the database is on holiday")
    yield

async def count_rows(context, arguments):
    return str(context.connection["rows"])
"""


def database(factory: str, name: str = "database", required: bool = True) -> dict[str, object]:
    """An inline ensemble with a connection of its own."""
    return {
        "ensemble": {"name": name, "module": "database_for_tests", "required": required},
        "connection": {"origin": "python", "factory": f"database_for_tests:{factory}"},
        "invokers": [
            {
                "name": f"count_{name}",
                "description": "Counts.",
                "effect": "read",
                "invocable": {"origin": "python", "function": "database_for_tests:count_rows"},
            }
        ],
    }


@pytest.fixture
def events(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "database_for_tests.py").write_text(FACTORY)
    monkeypatch.syspath_prepend(str(folder))
    sys.modules.pop("database_for_tests", None)
    import database_for_tests  # type: ignore[import-not-found]

    return database_for_tests.events  # type: ignore[no-any-return]


async def test_connects_and_disconnects(user: User, events: list[str]) -> None:
    async with assemble({"ensembles": [database("open")]}, places=user.places, workspace=user.workspace) as assembly:
        assert events == ["opened"]
        invocation = InvocationCanister(identifier="1", name="count_database", arguments=frozendict())
        result = await assembly.execution.execute(invocation, ensembles=assembly.ensembles)
        assert (result.text, result.error) == ("3", None)
    assert events == ["opened", "closed"]


async def test_one_that_fails_disconnects_the_others_and_every_failure_is_named(user: User, events: list[str]) -> None:
    inline = [database("open"), database("fail", "second"), database("fail", "third")]
    with pytest.raises(AssemblyFailure) as caught:
        async with assemble({"ensembles": inline}, places=user.places):
            pytest.fail("It must not start.")
    assert {failure.ensemble for failure in caught.value.exceptions if isinstance(failure, ConnectionFailure)} == {
        "second",
        "third",
    }
    assert caught.value.text.count("the database is on holiday") == 2
    assert events == ["opened", "closed"]


async def test_prepare_ensembles_both_ways(user: User, events: list[str]) -> None:
    ensembles = await prepare_ensembles({"ensembles": [database("open")]}, places=user.places)
    assert [one.name for one in ensembles] == ["database"]
    for ensemble in ensembles:
        await ensemble.disconnect()
    async with prepare_ensembles({"ensembles": [database("open")]}, places=user.places) as again:
        assert len(again) == 1
    assert events == ["opened", "closed"] * 2


@pytest.mark.parametrize(
    ("ensembles", "names"),
    [
        ([], []),
        (["file_read", "directory"], ["file_read", "directory"]),
        ([{"name": "mine", "invokers": []}, "io"], ["mine", "io"]),
        ([{"name": "mine", "enabled": False}, "io"], ["io"]),
        ([{"ensemble": {"name": "mine", "enabled": False}}], []),
    ],
)
async def test_a_list_of_ensembles_is_exact(user: User, ensembles: list[Any], names: list[str]) -> None:
    """A disabled ensemble may lack its invokers. What the user adds does not count."""
    user.configure('[ensembles]\ninclude = ["python"]\n')
    async with prepare_ensembles({"ensembles": ensembles}, places=user.places) as prepared:
        assert [one.name for one in prepared] == names


async def test_a_named_ensemble_that_its_own_file_disables(user: User) -> None:
    """What is disabled where it is selected, or is not named, is no surprise."""
    file = user.ensemble("off", 'invokers = []\n[ensemble]\nname = "off"\nenabled = false\n')
    why = f"enabled = false in {file}."
    for selection in ('enabled = ["io", "off"]', 'include = ["off"]'):
        user.configure(f"[ensembles]\n{selection}\n")
        async with assemble(places=user.places) as assembly:
            assert [(one.name, one.reason) for one in assembly.absences] == [("off", why)]
            assert f"Ensemble 'off' is left out: {why}" in [alert.message for alert in assembly.alerts]
            with pytest.raises(NameAbsence, match=f"'off' is not available: {why}"):
                assembly.access_ensemble("off")
    user.configure("")
    for given in (None, {"ensembles": [{"name": "mine", "enabled": False}]}):
        async with assemble(given, places=user.places) as assembly:
            assert assembly.absences == ()


async def test_every_problem_of_a_start_comes_together(user: User, greeting: str) -> None:
    user.ensemble("wrong", greeting.replace("greeting", "wrong").replace('"{name}"', '"{nam}"'))
    user.ensemble("missing", greeting.replace("greeting", "missing").replace('"command"', '"comand"'))
    with pytest.raises(AssemblyFailure) as caught:
        async with assemble(places=user.places):
            pytest.fail("It must not start.")
    text = caught.value.text
    assert all(part in text for part in ("'command'", "name"))


async def test_a_plugin_that_is_not_installed_is_an_alert(user: User) -> None:
    user.configure('[plugins]\nallow = ["not-installed"]\n')
    async with assemble(places=user.places) as assembly:
        (alert,) = assembly.alerts
    file = user.configuration / "config.toml"
    assert alert.message.startswith(f"{file}:2: the plugin 'not-installed' is not installed. Install it")


async def test_names_that_fit_nothing(user: User) -> None:
    async with assemble(places=user.places) as assembly:
        with pytest.raises(InputError, match=r"provider/model"):
            assembly.access_model("no-slash")
        with pytest.raises(InputError, match=r"\[model\]"):
            assembly.access_model()
        with pytest.raises(NameAbsence, match="openai"):
            assembly.access_model("opnai/gpt")
        with pytest.raises(NameAbsence, match="read_file"):
            assembly.access_invoker("io.reed_file")
        with pytest.raises(InputError, match=r"ensemble\.tool"):
            assembly.access_invoker("io")
        with pytest.raises(NameAbsence, match="agent"):
            assembly.access_agent("nobody")
        with pytest.raises(NameAbsence, match=r"io\.reed_\*"):
            assembly.conduct("Hi", model=model_of([turn("Hi")]), tools=["io.reed_*"])


async def test_a_missing_key_says_which_variable(user: User) -> None:
    async with assemble(places=user.places, secrets={}) as assembly:
        with pytest.raises(ConfigurationInvalidity, match="ANTHROPIC_API_KEY"):
            assembly.access_model("anthropic/claude")
    async with assemble(places=user.places, secrets={"ANTHROPIC_API_KEY": "k"}) as assembly:
        assert assembly.access_model("anthropic/claude").identity == "anthropic/claude"


async def test_the_environment_is_an_allow_list(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    async with assemble({"environment": {"allow": ["OTHER"]}}, places=user.places) as assembly:
        with pytest.raises(ConfigurationInvalidity, match="ANTHROPIC_API_KEY"):
            assembly.access_model("anthropic/claude")


async def test_an_agents_pattern_without_a_tool_ends_the_start(user: User) -> None:
    user.configure(
        '[agents.good]\ntools = ["io.read_*", "own.*", "git.nope"]\n[agents.bad]\ntools = ["io.*", "io.nope"]\n'
    )
    with pytest.raises(AssemblyFailure) as caught:
        await assemble(places=user.places).__aenter__()
    (invalidity,) = caught.value.exceptions
    assert isinstance(invalidity, ConfigurationInvalidity)
    (problem,) = invalidity.problems
    assert (problem.file, problem.line, problem.key) == (str(user.places.file), 4, "agents.bad.tools[1]")
    assert problem.message == "agents.bad.tools[1] is the pattern 'io.nope', which matches no tool"


async def test_an_agents_pattern_is_judged_once_its_ensemble_is_connected(user: User, events: list[str]) -> None:
    tables = {"ensembles": [database("open")], "agents": {"one": {"tools": ["database.count_*"]}}}
    async with assemble(tables, places=user.places) as assembly:
        assert assembly.access_agent("one").tools == ("database.count_*",)
    with pytest.raises(AssemblyFailure) as caught:
        await assemble({**tables, "agents": {"one": {"tools": ["database.nope"]}}}, places=user.places).__aenter__()
    assert "'database.nope', which matches no tool" in caught.value.text
    assert events == ["opened", "closed"] * 2


async def test_an_agent_sees_exactly_its_tools(user: User) -> None:
    agents = {"agents": {"reader": {"instructions": "Read.", "tools": ["io.read_file"], "limits": {"turns": 1}}}}
    (user.workspace / "a.txt").write_text("content of a\n")
    reading = model_of([turn(calls=[call("read_file", path="a.txt")]), turn("More.")])
    writing = model_of([turn(calls=[call("write_file", path="b", content="b")]), turn("Written.")])
    async with assemble(agents, places=user.places, workspace=user.workspace) as assembly:
        conversation = await assembly.conduct("Go.", model=reading, agent="reader")
        refused = await assembly.conduct("Go.", model=writing, agent="reader")
    assert conversation.finish == "limit"
    supervisor, _, _, _, result = conversation.canisters
    assert supervisor == SupervisorCanister.of("Read.")
    assert isinstance(result, ResultCanister)
    assert "content of a" in result.text
    assert "write_file" in refused.text
    assert not (user.workspace / "b").exists()


def watched(name: str, events: list[str], fault: BaseException | None = None) -> Ensemble:
    """An ensemble of the program's own that notes its connection, or fails to connect."""

    @contextlib.asynccontextmanager
    async def opener() -> AsyncGenerator[Opened, None]:
        if fault is not None:
            raise fault
        events.append(f"{name} opened")
        try:
            yield Opened(connection=None, definitions=())
        finally:
            events.append(f"{name} closed")

    return Ensemble(name, opener=opener)


async def test_who_forgets_to_enter_an_assembly_is_told() -> None:
    model = model_of([turn("Done.")])
    assembly = assemble({"ensembles": {"enabled": ["io"]}})
    with pytest.raises(UsageError, match=r"was not entered.*async with ripieno\.assemble"):
        assembly.conduct("Read it.", model=model)
    async with assembly:
        assert (await assembly.conduct("Read it.", model=model)).text == "Done."
        function: Any = len
        with pytest.raises(UsageError, match=r'"provider/model", or is a Model, not builtin_function_or_method'):
            assembly.conduct("Read it.", model=function)


async def test_what_the_program_raises_among_its_own_ensembles_comes_as_it_is() -> None:
    events: list[str] = []
    ensemble = watched("first", events)
    with pytest.raises(KeyError, match="mine"):
        async with connected(ensemble):
            raise KeyError("mine")
    assert (events, ensemble.state) == (["first opened", "first closed"], "disconnected")


async def test_what_is_no_failure_of_an_ensemble_is_not_gathered() -> None:
    class Torn(BaseException):
        """Such as a test framework's own end of a test."""

    events: list[str] = []
    with pytest.raises(Torn):
        async with connected(watched("first", events), watched("second", events, Torn())):
            pytest.fail("They must not start.")
    assert events == ["first opened", "first closed"]


async def test_own_ensembles_whose_start_is_cancelled_are_closed() -> None:
    events: list[str] = []
    waiting = asyncio.Event()

    @contextlib.asynccontextmanager
    async def never() -> AsyncGenerator[Opened, None]:
        waiting.set()
        await asyncio.Event().wait()
        yield Opened(connection=None, definitions=())

    async def start() -> None:
        async with connected(watched("first", events), Ensemble("second", opener=never)):
            pytest.fail("They must not start.")

    task = asyncio.create_task(start())
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert events == ["first opened", "first closed"]


def test_workspace_is_absolute(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(user.workspace)
    assert assemble(places=user.places).surroundings.workspace == pathlib.Path(os.getcwd())
    assert assemble(places=user.places, workspace="x").surroundings.workspace == user.workspace / "x"


# What a failed start reports.


async def test_a_failure_has_each_reason_once_and_its_parts_are_failures(user: User) -> None:
    settings = {"ensembles": {"enabled": ["nowhere", "io", "nothing"]}, "model": {"default": "unknown-one/x"}}
    with pytest.raises(AssemblyFailure) as caught:
        async with assemble(settings, places=user.places):
            pytest.fail("It must not start.")
    shown = "".join(traceback.format_exception(caught.value))
    for reason in ("'nowhere'", "'nothing'", "'unknown-one'"):
        assert shown.count(reason) == 1
        assert caught.value.text.count(reason) == 1
    names, others = caught.value.split(NameAbsence)
    assert isinstance(names, AssemblyFailure)
    assert isinstance(others, AssemblyFailure)
    assert "'nowhere'" in names.text
    assert "'unknown-one'" not in names.text


def test_the_profile_that_names_an_unknown_ensemble_is_named(user: User) -> None:
    profiles = user.configuration / "profiles"
    profiles.mkdir(parents=True)
    (profiles / "odd.toml").write_text('[profile]\nname = "odd"\nensembles = ["oi"]\n')
    (failure,) = load_configuration({"ensembles": {"profile": "odd"}}, places=user.places).failures
    assert "by the profile 'odd'" in str(failure)


def test_a_configuration_that_is_not_there_says_how_to_make_one(user: User, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "ripieno.toml"
    (failure,) = load_configuration(file, places=user.places).failures
    assert str(file) in str(failure)
    assert "[ensembles]" in str(failure)
    assert "ripieno schema config" in str(failure)
    # An empty one will do, as it says; a broken one is told what is broken.
    file.write_text("")
    assert load_configuration(file, places=user.places).failures == ()
    file.write_text("[")
    (failure,) = load_configuration(file, places=user.places).failures
    assert "ripieno schema config" not in str(failure)
