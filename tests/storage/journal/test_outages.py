"""A PostgreSQL server that is away for longer than a writer tries again: each result is recorded, and once."""

import asyncio
import collections
from collections.abc import Sequence
from typing import Any

import pytest

from ripieno.canisters import Conversation
from ripieno.canisters.controls import Rules
from ripieno.conducting import conduct
from ripieno.ensembles import Context
from ripieno.execution import Execution
from ripieno.storage.databases.contract import Disconnected
from ripieno.storage.journal import Journal, outage
from ripieno.storage.records import Record, Stage
from tests.support.interruptions import way_to
from tests.support.postgresql import address_of_schema, server_of
from tests.support.scripted_models import ensemble, invoke, invokes, says, scripted, tool

RESULTS = ("finished", "refused", "discarded")


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "PATIENCE", 0.1)


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A server of this test alone. It ends with the process."""
    return server_of(tmp_path_factory.mktemp("away"))


def results(kept: Journal) -> dict[str, int]:
    """How many results the journal has of each call."""
    lines = (line for line in kept.lines() if line.stage in RESULTS)
    return dict(collections.Counter(str(line.invocation) for line in lines))


@pytest.mark.parametrize("back", ["in the next answer", "in the last answer", "in the next run"])
async def test_each_call_has_its_result_once_after_an_outage(server: Any, back: str) -> None:
    ran: list[str] = []

    async def write(context: Context, arguments: dict[str, Any]) -> str:
        ran.append(context.invocation)
        if context.invocation == "a":
            await asyncio.to_thread(server.stop)
        return "written"

    def start(moment: str) -> Any:
        return (lambda: asyncio.to_thread(server.ensure_postgres_running)) if moment == back else lambda: None

    tools = [ensemble(tool("write", write, effect="write"), tool("look"))]
    answers = (
        invokes(invoke("write", "a"), invoke("look", "b")),
        invokes(start("in the next answer"), invoke("write", "c"), invoke("look", "d")),
        [*invokes(start("in the last answer"))[:-1], *says()[1:]],
    )
    conversation = Conversation(identifier="c").say("Go.")
    with Journal(address_of_schema(server.get_uri())) as kept:
        execution = Execution(recorder=kept, rules=Rules(approve=("mine.*",)))
        conversation = await conduct(scripted(*answers), conversation, ensembles=tools, execution=execution)
        if back == "in the next run":
            await asyncio.to_thread(server.ensure_postgres_running)
            conversation = conversation.say("Go on.")
            conversation = await conduct(scripted(says()), conversation, ensembles=tools, execution=execution)
        assert ran == (["a", "c"] if back == "in the next answer" else ["a"])
        assert results(kept) == dict.fromkeys("abcd", 1)
        restored = kept.restore("c")
        assert restored.conversation.canisters == conversation.canisters
        assert restored.ended
        assert kept.verify(kept.anchor()) is None


def record(number: int, stage: Stage = "started") -> Record:
    return Record(stage=stage, conversation="c", turn=number, tool="t", invocation=invoke("t", str(number)))


@pytest.mark.parametrize("many", [False, True])
def test_what_was_written_without_an_answer_is_not_written_again(postgresql_server: str, many: bool) -> None:
    def records(number: int) -> Sequence[Record]:
        # Those of several conversations are one transaction, if one is claimed; others are one statement.
        other = Record(stage="started", conversation="other", turn=number, tool="t")
        return (record(number), other) if many else (record(number),)

    with way_to(postgresql_server) as way, Journal(address_of_schema(way.address)) as kept:
        with kept.database.claimed("", "c") as claimed:
            assert claimed
            kept.record(records(1))
            second = records(2)
            way.cut()
            with pytest.raises(Disconnected):
                kept.record(second)
            way.restore()
            kept.record([*second, *records(3)])
            assert [line.turn for line in kept.lines("c")] == [1, 2, 3]
            assert len(list(kept.lines("other"))) == (3 if many else 0)
        assert kept.verify(kept.anchor()) is None
