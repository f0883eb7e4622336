"""``ripieno.run`` in scripts, with a model over real HTTP."""

import asyncio
import contextlib
import sys
import textwrap
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

import pytest
import tomli_w
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import Response

import ripieno
from ripieno.approvals import Approve
from ripieno.canisters import Controls, SupervisorCanister
from ripieno.descriptors import Policy
from ripieno.ensembles import Context, Definition, Ensemble, Opened
from ripieno.exceptions import (
    AssemblyFailure,
    ConnectionFailure,
    InputError,
    NameAbsence,
    ProviderRefusal,
    ToolExecutionFailure,
    UsageError,
)
from ripieno.models.protocols.openai_chat import PROTOCOL
from ripieno.schemas import Schema
from ripieno.servers.http.server import serve
from ripieno.testing import call, turn
from ripieno.testing.rehearsal.server import base_url, create_application
from ripieno.testing.scores import Score
from tests.assembly.test_assembly import watched
from tests.support.command_line import PATIENCE, User
from tests.support.scripted_models import Person

SCORE = Score.of_turns([turn("I ask.", calls=[call("tell", "told", what="it")]), turn("It says: {told}")])
#: What was opened and closed in the test that runs.
EVENTS: list[str] = []


@contextlib.asynccontextmanager
async def kept(*_: object) -> AsyncGenerator[str, None]:
    """What a configured ensemble connects to."""
    EVENTS.append("configured opens")
    try:
        yield "connection"
    finally:
        EVENTS.append("configured closes")


CONFIGURED = {
    "ensemble": {"name": "configured"},
    "connection": {"origin": "python", "factory": f"{__name__}:kept"},
    "invokers": [
        {"name": "nothing", "description": "Nothing.", "invocable": {"origin": "python", "function": "builtins:print"}}
    ],
}


class Instrument:
    """An ensemble that notes its connection; its one tool ``tell`` notes its calls."""

    def __init__(self, name: str = "own", *, effect: Any = "read", fault: BaseException | None = None) -> None:
        self.fault = fault
        self.contexts: list[Context] = []
        schema = Schema.of({"type": "object", "properties": {"what": {"type": "string"}}})
        self.definition = Definition(
            name="tell", description="Tells.", schema=schema, invocable=self.tell, policy=Policy(effect=effect)
        )
        self.ensemble = Ensemble(name, opener=self.open)

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncGenerator[Opened, None]:
        name = self.ensemble.name
        EVENTS.append(f"{name} opens")
        try:
            yield Opened(connection=name, definitions=(self.definition,))
        finally:
            EVENTS.append(f"{name} closes")

    async def tell(self, context: Context, arguments: dict[str, Any]) -> str:
        EVENTS.append(f"{context.connection} tells")
        self.contexts.append(context)
        if self.fault is not None:
            raise self.fault
        return f"{arguments['what']}, told"


@pytest.fixture(autouse=True)
def surroundings(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folders of that user, for what runs in this process."""
    EVENTS.clear()
    monkeypatch.setenv("RIPIENO_CONFIG_HOME", str(user.configuration))
    monkeypatch.setenv("RIPIENO_STATE_HOME", str(user.state))
    monkeypatch.chdir(user.workspace)


@pytest.fixture
def asked() -> list[Any]:
    """The bodies of the requests to the model."""
    return []


@pytest.fixture
async def tables(asked: list[Any]) -> AsyncIterator[Mapping[str, Any]]:
    """A configuration whose model ``house/small-1`` answers."""

    async def note(request: Request, answer: RequestResponseEndpoint) -> Response:
        asked.append(await request.json())
        return await answer(request)

    application = create_application(SCORE, [PROTOCOL])
    application.add_middleware(BaseHTTPMiddleware, dispatch=note)
    async with serve(application) as url:
        yield {
            "model": {"default": "house/small-1"},
            "providers": {"house": {"protocol": "openai-chat", "base_url": base_url(url, PROTOCOL)}},
        }


async def run(*arguments: Any, **settings: Any) -> ripieno.Conversation:
    """``ripieno.run`` where no event loop runs, while the server does in this one."""
    return await asyncio.to_thread(ripieno.run, *arguments, **settings)


SCRIPT = """
    import sys
    import ripieno

    def add(first: int, second: int) -> int:
        '''Adds two numbers.'''
        return first + second

    sums = ripieno.Ensemble.of_functions("sums", [add])
    configuration = {
        "providers": {"house": {"protocol": "openai-chat", "base_url": sys.argv[1]}},
        "confirmation": {"approve": ["sums.add"]},
    }
    settings = {"model": "house/small-1", "configuration": configuration, "ensembles": [sums]}
    conversation = ripieno.run("Add.", **settings)
    print(conversation.text)
    again = ripieno.run(conversation.say("Again."), **settings)
    print(again.text)
    print(again.canisters[: len(conversation.canisters)] == conversation.canisters, sums.state)
"""


async def test_a_script_runs_to_its_end(user: User) -> None:
    (user.workspace / "notes.txt").write_text("a note")
    script = user.workspace / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    score = Score.of_turns(
        [
            turn(calls=[call("add", "sum", first=20, second=22), call("read_file", "note", path="notes.txt")]),
            turn("{sum}, says {note}"),
        ]
    )
    async with serve(create_application(score, [PROTOCOL])) as url:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "error", str(script), base_url(url, PROTOCOL)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=user.workspace,
            env=user.environment(),
        )
        async with asyncio.timeout(PATIENCE):
            out, err = await process.communicate()
    assert (process.returncode, err.decode()) == (0, "")
    assert out.decode().splitlines() == ["42, says a note", "42, says a note", "True disconnected"]


# What plays is connected, and disconnected whatever happens.


async def test_all_play_and_are_disconnected(tables: Mapping[str, Any]) -> None:
    own, other = Instrument(), Ensemble.of("other", [])
    configuration = {**tables, "ensembles": [CONFIGURED]}
    conversation = await run("Go.", configuration=configuration, ensembles=[own.ensemble, other])
    assert conversation.text == "It says: it, told"
    assert EVENTS == ["configured opens", "own opens", "own tells", "own closes", "configured closes"]
    assert (own.ensemble.state, other.state) == ("disconnected", "disconnected")


@pytest.mark.parametrize(
    ("fault", "settings", "raised"),
    [
        (KeyError("a bug"), {}, ToolExecutionFailure),
        (None, {"model": "house/"}, InputError),
        (None, {"model": "nobody/small-1"}, NameAbsence),
        (None, {"agent": "nobody"}, NameAbsence),
        (None, {"model": "gone/small-1"}, ProviderRefusal),
    ],
    ids=["a tool has a bug", "half a model", "no such provider", "no such agent", "a refusal"],
)
async def test_all_are_disconnected_when_conducting_fails(
    tables: Mapping[str, Any], fault: BaseException | None, settings: dict[str, Any], raised: type[Exception]
) -> None:
    own, house = Instrument(fault=fault), tables["providers"]["house"]
    gone = {**house, "base_url": f"{house['base_url']}/nowhere"}
    configuration = {**tables, "providers": {"house": house, "gone": gone}, "ensembles": [CONFIGURED]}
    with pytest.raises(raised):
        await run("Go.", configuration=configuration, ensembles=[own.ensemble], **settings)
    assert [event for event in EVENTS if "tells" not in event] == [
        *("configured opens", "own opens", "own closes", "configured closes")
    ]


async def test_one_that_cannot_connect_leaves_nothing_connected(tables: Mapping[str, Any], asked: list[Any]) -> None:
    own = Instrument()
    reasons = {"second": "it is on holiday", "third": "it is ill"}
    ensembles = [own.ensemble, *(watched(name, EVENTS, OSError(reason)) for name, reason in reasons.items())]
    with pytest.raises(AssemblyFailure) as caught:
        await run("Go.", configuration={**tables, "ensembles": [CONFIGURED]}, ensembles=ensembles)
    assert [type(one) for one in caught.value.exceptions] == [ConnectionFailure, ConnectionFailure]
    assert [str(one) for one in caught.value.exceptions] == [
        f"Ensemble {name!r}: it could not connect: OSError: {reason}" for name, reason in reasons.items()
    ]
    assert EVENTS == ["configured opens", "own opens", "own closes", "configured closes"]
    assert [one.state for one in ensembles] == ["disconnected", "failed", "failed"]
    assert asked == []


# What is handed on.


async def test_without_a_configuration_it_is_the_users_own(tables: Mapping[str, Any], user: User) -> None:
    user.configure(tomli_w.dumps(tables))
    assert (await run("Go.", ensembles=[Instrument().ensemble])).text == "It says: it, told"


async def test_what_the_caller_names_is_handed_on(tables: Mapping[str, Any], asked: list[Any]) -> None:
    confirmer = Person(Approve())
    own = Instrument(effect="write")
    token = object()
    conversation = await run(
        "Go.",
        model="house/large-1",
        configuration=tables,
        ensembles=[own.ensemble],
        supervisor="Be brief.",
        controls=Controls(stream=False, temperature=0.25),
        confirmer=confirmer,
        auxdata=token,
    )
    assert conversation.canisters[0] == SupervisorCanister.of("Be brief.")
    assert [request.tool for request in confirmer.requests] == ["own.tell"]
    assert [context.auxdata for context in own.contexts] == [token]
    assert [(one["model"], one["temperature"]) for one in asked] == [("large-1", 0.25)] * 2
    assert not any(one.get("stream") for one in asked)


async def test_an_agent_brings_its_own(tables: Mapping[str, Any], asked: list[Any]) -> None:
    agents = {"teller": {"instructions": "Tell.", "tools": ["own.*"], "model": "house/tiny-1"}}
    own = Instrument()
    conversation = await run(
        "Go.", configuration={**tables, "agents": agents}, ensembles=[own.ensemble], agent="teller"
    )
    assert conversation.canisters[0] == SupervisorCanister.of("Tell.")
    assert {one["model"] for one in asked} == {"tiny-1"}
    assert {tool["function"]["name"] for one in asked for tool in one["tools"]} == {"tell"}


async def test_inside_a_running_loop_it_says_what_to_do() -> None:
    own = Instrument()
    with pytest.raises(UsageError, match=r"async with ripieno\.assemble\(\)"):
        ripieno.run("Go.", model="house/small-1", ensembles=[own.ensemble])
    assert (EVENTS, own.ensemble.state) == ([], "new")
