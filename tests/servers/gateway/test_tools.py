"""What of a request runs here: the operator's ensembles, and what hosted tools and labels are bound to."""

import asyncio
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import pytest

from ripieno.exceptions import InputError, NameAbsence, RequestInvalidity
from ripieno.models.protocol import HostedTool, Protocol
from ripieno.models.protocols.anthropic import PROTOCOL as ANTHROPIC
from ripieno.models.protocols.common.tools import hosted_word
from ripieno.models.protocols.gemini import PROTOCOL as GEMINI
from ripieno.models.protocols.openai_chat import PROTOCOL as CHAT
from ripieno.models.protocols.openai_responses import PROTOCOL as RESPONSES
from ripieno.testing import call, turn
from ripieno.testing.wires import model_of
from tests.support.hosted_runs import Played, asks, calls_in, end_of, results_in, sends, staged
from tests.support.scripted_models import ensemble, invoke, invokes, says, scripted, tool
from tests.support.toml_ensembles import SERVERS

CODE = HostedTool(kind="code_interpreter")


def names(played: Played, *hosted: HostedTool, tools: tuple[str, ...] = ()) -> list[str] | None:
    """The names of all that is offered; None when nothing runs here."""
    plan = played.stage.plan(asks(hosted=hosted, tools=tools), "")
    return None if plan is None else sorted(plan.offering.ours | plan.offering.theirs)


def served(label: str, *tools: str) -> HostedTool:
    return HostedTool(kind="mcp", label=label, names=tools or None)


async def test_nothing_runs_here_unless_the_operator_says_so(tmp_path: pathlib.Path) -> None:
    async with staged(tmp_path) as played:
        assert names(played) is None
        assert names(played, tools=("shell",)) is None
        assert names(played, CODE, served("io")) is None
        # What the assembly has beside is offered to nobody.
        assert [one.name for one in played.assembly.ensembles] == ["io"]


async def test_the_operators_ensembles_are_offered_beside_the_clients_tools(tmp_path: pathlib.Path) -> None:
    async with staged(tmp_path, ensemble(tool("look")), ensemble(name="empty")) as played:
        assert names(played) == ["look"]
        assert names(played, tools=("shell",)) == ["look", "shell"]


async def test_a_hosted_tool_is_what_it_is_bound_to_and_only_when_it_is_asked_for(tmp_path: pathlib.Path) -> None:
    bound = {"code_interpreter": "mine.run", "acme:x": "mine.find"}
    mine = ensemble(tool("run"), tool("find"), tool("look"))
    async with staged(tmp_path, mine, ensembles=(), hosted=bound) as played:
        assert names(played) is None
        assert names(played, CODE) == ["run"]
        assert names(played, CODE, HostedTool(kind="acme:x"), CODE) == ["find", "run"]
        # Whatever is not offered is not there for the model either.
        events = await played.answer(scripted(invokes(invoke("look")), says()), asks(hosted=[CODE]))
        assert results_in(events)[0][1].startswith("Error: There is no tool named 'look'")


async def test_what_is_bound_to_nothing_is_left_out_and_told_once(tmp_path: pathlib.Path) -> None:
    async with staged(tmp_path, ensemble(tool("look"))) as played:
        for _ in range(3):
            assert names(played, HostedTool(kind="web_search"), served("deepwiki")) == ["look"]
        search, server = played.warnings
        assert "a tool of the kind 'web_search'" in search
        assert "'web_search' = \"ensemble.tool\" under [gateway.hosted]" in search
        assert "an MCP server labelled 'deepwiki'" in server
        assert "under [gateway]." in server
        # Nobody fills a log, or the memory, with kinds that they make up.
        for number in range(1000):
            names(played, HostedTool(kind=f"{number}\u001b[2J" + 10_000 * "x"))
        assert len(played.warnings) == 256
        assert max(map(len, played.warnings)) < 400
        assert not any("\u001b" in warning for warning in played.warnings)


async def test_it_is_refused_by_name_where_that_is_strict(tmp_path: pathlib.Path) -> None:
    async with staged(tmp_path, ensemble(tool("look")), strict=True) as played:
        assert names(played) == ["look"]
        for hosted, word in ((HostedTool(kind="web_search"), "'web_search'"), (served("deepwiki"), "'deepwiki'")):
            with pytest.raises(RequestInvalidity, match=word) as raised:
                names(played, hosted)
            assert raised.value.parameter == "tools"
        assert played.warnings == []


async def test_a_label_names_an_ensemble_that_the_operator_allows(tmp_path: pathlib.Path) -> None:
    git = ensemble(tool("log"), tool("show"), tool("a*"), tool("ab"), name="git")
    async with staged(tmp_path, git, ensembles=(), mcp=("git",)) as played:
        assert names(played) is None
        assert names(played, served("git")) == sorted(one.exposed for one in git.invokers.values())
        assert names(played, served("git", "log")) == ["log"]
        assert names(played, served("git", "log"), served("git", "show", "log")) == ["log", "show"]
        # An ensemble that plays and is not allowed, and one that nobody knows.
        assert names(played, served("io"), served("nobody")) is None
        with pytest.raises(NameAbsence, match=r"tool of 'git' named 'lgo'\. Did you mean 'log'"):
            names(played, served("git", "log", "lgo"))
        # Names are names, whoever made them up.
        with pytest.raises(NameAbsence):
            names(played, served("git", "*"))
        model = scripted(invokes(invoke("ab")), says())
        events = await played.answer(model, asks(hosted=[served("git", "a*")]))
        assert "There is no tool named 'ab'" in results_in(events)[0][1]


async def test_a_label_narrows_what_is_offered_anyway(tmp_path: pathlib.Path) -> None:
    mine, other = ensemble(tool("look"), tool("find")), ensemble(tool("run"), name="other")
    async with staged(tmp_path, mine, other, hosted={"code_interpreter": "mine.find"}) as played:
        assert names(played) == ["find", "look", "run"]
        assert names(played, served("mine", "look")) == ["look", "run"]
        assert names(played, served("mine", "look"), CODE) == ["find", "look", "run"]


async def test_an_address_that_a_client_sends_is_never_dialled(tmp_path: pathlib.Path) -> None:
    dialled = 0

    def dial(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal dialled
        dialled += 1
        writer.close()

    server = await asyncio.start_server(dial, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    address = f"http://127.0.0.1:{port}/mcp"
    async with server, staged(tmp_path, ensemble(tool("look"), name="git"), ensembles=(), mcp=("git",)) as played:
        for label in ("git", "elsewhere"):
            declared = [{"type": "mcp", "server_label": label, "server_url": address, "headers": {"X-Key": "1"}}]
            asked = sends([], tools=declared)
            assert address not in repr(asked.hosted)
            plan = played.stage.plan(asked, "")
            assert (plan is None) == (label == "elsewhere")
            if plan is not None:
                events = await played.answer(model_of([turn("", calls=[call("look", "a")]), turn("{a}")]), asked)
                assert [text for _, text in results_in(events)] == ["look"]
        assert dialled == 0
        # The server is there for whoever dials.
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        await writer.wait_closed()
        await asyncio.sleep(0)
        assert dialled == 1


async def test_one_name_for_a_tool_of_the_client_and_one_of_ours_is_refused(tmp_path: pathlib.Path) -> None:
    async with staged(tmp_path, ensemble(tool("look"))) as played:
        with pytest.raises(RequestInvalidity, match=r"'look'.*\(mine\.look\).*Rename it, or leave it out"):
            names(played, tools=("look",))


async def test_a_choice_of_a_hosted_tool_is_one_of_what_stands_for_it(tmp_path: pathlib.Path) -> None:
    git = ensemble(tool("log"), tool("show"), name="git")
    mine = ensemble(tool("run"), tool("look"))
    settings: dict[str, Any] = {"ensembles": (), "mcp": ("git",), "hosted": {"code_interpreter": "mine.run"}}
    async with staged(tmp_path, git, mine, **settings) as played:
        hosted = [CODE, served("git")]

        def settled(**controls: Any) -> Any:
            plan = played.stage.plan(asks(hosted=hosted, tools=["shell"], **controls), "")
            assert plan is not None
            return plan.offering.controls

        assert settled(tool_choice=hosted_word(CODE)).tool_choice == "run"
        assert settled(tool_choice=hosted_word(served("git"), "log")).tool_choice == "log"
        assert settled(tool_choice=hosted_word(served("git"))).tool_choice == "required"
        assert settled(tool_choice="shell").tool_choice == "shell"
        assert settled(tool_choice="none").tool_choice == "none"
        allowed = (hosted_word(served("git")), "shell", hosted_word(CODE), hosted_word(HostedTool(kind="web_search")))
        assert settled(allowed_tools=allowed).allowed_tools == ("log", "show", "shell", "run")
        assert settled(allowed_tools=("shell",)).allowed_tools == ("shell",)
        with pytest.raises(RequestInvalidity, match="does not run here"):
            settled(tool_choice=hosted_word(HostedTool(kind="web_search")))
        with pytest.raises(NameAbsence, match=r"'shel'\. Did you mean 'shell'"):
            settled(tool_choice="shel")


def function(name: str) -> dict[str, Any]:
    return {"type": "function", "name": name}


CHOOSING: list[tuple[Protocol, dict[str, Any], Callable[[str], dict[str, Any]]]] = [
    (RESPONSES, {"input": "Go."}, lambda name: {"tool_choice": function(name)}),
    (
        RESPONSES,
        {"input": "Go."},
        lambda name: {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [function(name)]}},
    ),
    (CHAT, {"messages": []}, lambda name: {"tool_choice": {"type": "function", "function": {"name": name}}}),
    (ANTHROPIC, {"messages": []}, lambda name: {"tool_choice": {"type": "tool", "name": name}}),
    (
        GEMINI,
        {"contents": []},
        lambda name: {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [name]}}},
    ),
]


@pytest.mark.parametrize(("wire", "body", "choosing"), CHOOSING)
async def test_a_choice_may_name_a_tool_of_the_operator(
    tmp_path: pathlib.Path, wire: Protocol, body: dict[str, Any], choosing: Callable[[str], dict[str, Any]]
) -> None:
    async with staged(tmp_path, ensemble(tool("look"))) as played:
        plan = played.stage.plan(wire.parse({"model": "m", **body, **choosing("look")}), "")
        assert plan is not None
        assert plan.offering.controls.callable_names() == ("look",)
        with pytest.raises(RequestInvalidity, match="names 'run', which is not among the tools of the request"):
            played.stage.plan(wire.parse({"model": "m", **body, **choosing("run")}), "")
    async with staged(tmp_path) as played:
        with pytest.raises(RequestInvalidity, match="names 'look', which is not among the tools of the request"):
            played.stage.plan(wire.parse({"model": "m", **body, **choosing("look")}), "")


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"ensembles": ("gti",)}, "'gti'"),
        ({"mcp": ("nobody",)}, "'nobody'"),
        ({"hosted": {"code_interpreter": "io.run"}}, "'io.run'"),
        ({"absent": "defer"}, 'absent = "deny"'),
    ],
)
async def test_what_cannot_be_had_is_refused_at_the_start(
    tmp_path: pathlib.Path, settings: dict[str, Any], word: str
) -> None:
    with pytest.raises(InputError, match=word):
        async with staged(tmp_path, **settings):
            pytest.fail("It must not start.")


async def test_a_hosted_tool_that_its_server_takes_back_is_left_out(tmp_path: pathlib.Path) -> None:
    mine = ensemble(tool("run"))
    async with staged(tmp_path, mine, ensembles=(), hosted={"code_interpreter": "mine.run"}) as played:
        assert names(played, CODE) == ["run"]
        mine._change([tool("other")])  # pyright: ignore[reportPrivateUsage]
        assert names(played, CODE) is None
        assert len(played.warnings) == 1


async def test_a_real_server_under_a_label(tmp_path: pathlib.Path) -> None:
    """A request's ``mcp`` tool, a process that speaks the protocol, and a tool of the client beside it."""
    declared = {
        "ensemble": {"name": "kind"},
        "connection": {"origin": "mcp", "command": [sys.executable, str(SERVERS / "well_behaved.py")]},
        "overrides": {"add": {"effect": "read"}},
    }
    async with staged(tmp_path, configuration={"ensembles": [declared]}, mcp=("kind",)) as played:
        mcp = {"type": "mcp", "server_label": "kind", "server_url": "http://192.0.2.1/", "allowed_tools": ["add"]}
        asked = sends([], tools=[mcp, "shell"])
        model = scripted(invokes(invoke("kind__add", a=2, b=3), invoke("kind__greet")), invokes(invoke("shell")))
        events = await played.answer(model, asked)
        added, greeted = results_in(events)
        assert "5" in added[1]
        assert "There is no tool named 'kind__greet'" in greeted[1]
        assert [one.name for one in calls_in(events)] == ["kind__add", "kind__greet", "shell"]
        assert end_of(events).finish == "open"
