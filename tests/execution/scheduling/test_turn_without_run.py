"""Calls that come together and belong to no run: scheduled as those of one turn are."""

import asyncio

import pytest

from ripieno.canisters.controls import Limits, Rules
from ripieno.exceptions import InputError
from ripieno.execution import Execution
from ripieno.models.protocols.openai_chat import PROTOCOL as OPENAI_CHAT
from tests.execution.scheduling.test_turn import fate, noting
from tests.support.scripted_models import Blocking, ensemble, invoke, settle_down, tool


async def test_readers_run_together_and_a_write_runs_alone_between_them() -> None:
    log: list[str] = []
    playing = ensemble(noting(log, "look"), noting(log, "change", effect="write"))
    calls = [invoke("look", "a"), invoke("look", "b"), invoke("change", "w"), invoke("look", "c")]

    execution = Execution(rules=Rules(approve=("mine.*",)))
    results = await OPENAI_CHAT.invocations.execute_invocations(calls, [playing], execution)

    assert [one.text for one in results] == ["a", "b", "w", "c"]
    assert log == ["a>", "b>", "<a", "<b", "w>", "<w", "c>", "<c"]


async def test_one_that_is_hosted_elsewhere_is_refused_before_anything_runs() -> None:
    log: list[str] = []
    away = tool("away", hosted="caller")
    with pytest.raises(InputError, match=r"mine\.away is run by the caller"):
        await OPENAI_CHAT.invocations.execute_invocations(
            [invoke("look", "a"), invoke("away", "b")], [ensemble(noting(log, "look"), away)]
        )
    await settle_down()
    assert log == []


async def test_each_has_its_result_whatever_the_others_come_to() -> None:
    results = await OPENAI_CHAT.invocations.execute_invocations(
        [invoke("look", "a"), invoke("nowhere", "b"), invoke("change", "c"), invoke("look", "d")],
        [ensemble(tool("look"), tool("change", effect="write"))],
        Execution(limits=Limits(calls=1)),
    )
    assert [one.invocation_id for one in results] == ["a", "b", "c", "d"]
    assert [fate(one) for one in results][1:] == ["!unknown_tool", "!limit", "!limit"]


async def test_cancelling_cancels_them() -> None:
    blocking = Blocking()
    playing = ensemble(tool("wait", blocking))
    waiting = asyncio.create_task(
        OPENAI_CHAT.invocations.execute_invocations([invoke("wait", "a"), invoke("wait", "b")], [playing])
    )
    await settle_down()
    assert blocking.running == 2
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert blocking.running == 0
