"""Calls of a server that is lost and started again: repeated over the new connection, and not when the tool changed."""

import pathlib

import pytest

from ripieno.canisters.controls import Rules
from ripieno.ensembles import Surroundings
from ripieno.execution import Execution
from tests.support.scripted_models import fault_of, invoke
from tests.support.toml_ensembles import Alerts, make_ensemble, server

ALL = Rules(approve=("it.*",))


def dying(folder: pathlib.Path, effect: str, mode: str = "") -> str:
    text = server("dying.py", mode, more=f'FLAG = "{folder / "flag"}"')
    return f'{text}\n[defaults]\neffect = "{effect}"\n'


async def test_an_attempt_waits_for_the_new_connection_and_uses_it(
    tmp_path: pathlib.Path, surroundings: Surroundings, alerts: Alerts
) -> None:
    async with make_ensemble(dying(tmp_path, "read"), surroundings) as ensemble:
        result = await Execution().execute(invoke("answer"), ensembles=[ensemble])
        assert (result.text, result.report.retried) == ("alive", ("network/server_lost",))
    assert [one.message for one in alerts if "has reconnected" in one.message] == ["Ensemble 'it' has reconnected."]


async def test_a_call_that_may_not_be_repeated_is_not_and_the_next_one_waits(
    tmp_path: pathlib.Path, surroundings: Surroundings
) -> None:
    async with make_ensemble(dying(tmp_path, "write"), surroundings) as ensemble:
        execution = Execution(rules=ALL)
        first = await execution.execute(invoke("answer"), ensembles=[ensemble])
        assert fault_of(first).category == "outcome_unknown"
        second = await execution.execute(invoke("answer"), ensembles=[ensemble])
        # It is tried again, whatever it does, because nothing was sent.
        assert (second.text, set(second.report.retried)) == ("alive", {"network/not_sent"})


@pytest.mark.parametrize("effect", ["read", "write"])
async def test_a_tool_that_is_another_one_afterwards_is_not_called(
    tmp_path: pathlib.Path, surroundings: Surroundings, effect: str
) -> None:
    async with make_ensemble(dying(tmp_path, effect, "changed"), surroundings) as ensemble:
        execution = Execution(rules=ALL)
        result = await execution.execute(invoke("answer"), ensembles=[ensemble])
        if effect == "write":
            assert fault_of(result).category == "outcome_unknown"
            result = await execution.execute(invoke("answer"), ensembles=[ensemble])
        fault = fault_of(result)
        assert (fault.category, fault.code) == ("resource", "tool_changed")
        assert fault.suggestion == "Read its description again before you call it."
        # Of the tool as it is now, a call is made.
        assert (await execution.execute(invoke("answer"), ensembles=[ensemble])).text == "alive"
