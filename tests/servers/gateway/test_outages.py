"""A PostgreSQL server that is away while tools run at the gateway: requests are answered, and no call runs."""

import asyncio
import functools
import pathlib
from typing import Any

import pytest

from ripieno.approvals import DeferredConfirmer
from ripieno.canisters import Conversation
from ripieno.servers.gateway.paused_store import Deferral
from ripieno.servers.http.errors import refusal_of
from ripieno.storage.databases.contract import Disconnected
from ripieno.storage.journal import outage
from tests.support.hosted_runs import Counted, asks, end_of, results_in, staged
from tests.support.postgresql import address_of_schema, server_of
from tests.support.scripted_models import ensemble, invoke, invokes, says, scripted, tool

#: Seconds after which a test counts as hung.
HANG = 60


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "PATIENCE", 0.1)


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A server of this test alone. It ends with the process."""
    return server_of(tmp_path_factory.mktemp("away"))


def configuration(server: Any) -> dict[str, Any]:
    journal = {"enabled": True, "url": address_of_schema(server.get_uri())}
    return {"journal": journal, "confirmation": {"approve": ["mine.write"]}}


async def test_calls_are_refused_and_the_request_is_answered(tmp_path: pathlib.Path, server: Any) -> None:
    write = Counted()
    tools = ensemble(tool("write", write, effect="write"), tool("look", write))

    def answers() -> Any:
        return scripted(invokes(invoke("write", "a"), invoke("write", "b"), invoke("look", "c")), says("It is away."))

    async with asyncio.timeout(HANG), staged(tmp_path, tools, configuration=configuration(server)) as played:
        await asyncio.to_thread(server.stop)
        for _ in range(2):
            events = await played.answer(answers(), asks())
            assert end_of(events).finish == "stop"
            assert [identifier for identifier, _ in results_in(events)] == ["a", "b", "c"]
            assert all("it could not be recorded" in text for _, text in results_in(events))
        assert write.runs == []
        await asyncio.to_thread(server.ensure_postgres_running)
        events = await played.answer(answers(), asks())
        assert len(write.runs) == len(results_in(events)) == 3


async def test_what_cannot_be_kept_may_be_asked_again_later(
    tmp_path: pathlib.Path, server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings: dict[str, Any] = {"configuration": configuration(server), "confirmer": DeferredConfirmer()}
    conversation = Conversation().say("Go.")
    async with asyncio.timeout(HANG), staged(tmp_path, **settings) as played:
        deferral = Deferral(played.assembly)
        keep = functools.partial(deferral.keep, by_client=True)
        await deferral.run(keep, conversation, "m", (), "ada")
        await asyncio.to_thread(server.stop)
        with pytest.raises(Disconnected) as caught:
            await deferral.run(keep, conversation, "m", (), "ada")
        refusal = refusal_of(caught.value)
        assert (refusal.status, refusal.code, refusal.seconds) == (503, "database_unreachable", 5.0)
        assert "postgresql:" not in refusal.message
        assert "postgresql:" in caplog.text
        await asyncio.to_thread(server.ensure_postgres_running)  # It is stopped at the end of the process.
