"""Servers that ask back in the middle of a call: a person answers, through whoever confirms calls, or nobody does."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from ripieno.approvals import Answer, Approve, ConfirmationRequest, Confirmer, Deny, Edit
from ripieno.canisters import InvocationCanister
from ripieno.canisters.controls import Rules
from ripieno.canisters.events import ConfirmationRequested, Event
from ripieno.ensembles import Ensemble, Surroundings
from ripieno.execution import Circumstances, Execution
from ripieno.jsonvalues import freeze
from tests.origins.mcp.test_http import ERAS, Web, at
from tests.support.toml_ensembles import make_ensemble


class Answering:
    """A confirmer that approves calls, and answers questions as it was told to."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[ConfirmationRequest] = []

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        if request.question is None:
            return Approve()
        self.asked.append(request)
        return self.answers.pop(0)


async def ask(
    ensemble: Ensemble, confirmer: Confirmer, *, times: int = 1, events: list[Event] | None = None
) -> tuple[str, str | None]:
    """What the tool says that it was answered; and the code of the fault, if any."""
    execution = Execution(confirmer=confirmer, rules=Rules(approve=("it.*",)))
    (invoker,) = [one for one in ensemble.invokers.values() if one.name == "ask"]
    result = await execution.execute(
        InvocationCanister(identifier="c", name=invoker.exposed, arguments=freeze({"times": times})),
        ensembles=[ensemble],
        circumstances=Circumstances(notify=None if events is None else events.append),
    )
    return result.text, None if result.error is None else result.error.code


@pytest.fixture
async def ensemble(surroundings: Surroundings, shared_server: Callable[[str], Web]) -> AsyncIterator[Ensemble]:
    async with make_ensemble(at(shared_server("2026-07-28").url), surroundings) as one:
        yield one


@ERAS
async def test_what_a_person_says_reaches_the_tool(
    era: str, surroundings: Surroundings, shared_server: Callable[[str], Web]
) -> None:
    events: list[Event] = []
    async with make_ensemble(at(shared_server(era).url), surroundings) as ensemble:
        assert ensemble.connection.protocol == era
        confirmer = Answering(Edit({"region": "eu"}))
        assert await ask(ensemble, confirmer, events=events) == ('accept {"region": "eu", "sure": true}', None)
        # What does not fit is no answer.
        for answer in (Deny("no"), Approve(), Edit({"region": 1}), Edit({})):
            assert await ask(ensemble, Answering(answer)) == ("decline null", None), answer
        # Servers are told that only forms are answered.
        assert await ask(ensemble, Answering(), times=0) == ('{"elicitation": {"form": {}}}', None)
    (asked,) = confirmer.asked
    assert asked.question is not None
    assert asked.question.text.startswith("Region?")
    assert "\u202e" not in asked.question.text
    assert asked.arguments == {"sure": True}
    (asked,) = [event for event in events if isinstance(event, ConfirmationRequested)]
    assert asked.request["choices"] == ("approve", "edit", "deny")


async def test_it_may_ask_again_but_not_for_ever(ensemble: Ensemble) -> None:
    answers: Sequence[Answer] = [Edit({"region": str(number)}) for number in range(9)]
    confirmer = Answering(*answers)
    assert await ask(ensemble, confirmer, times=3) == ('accept {"region": "2", "sure": true}', None)
    assert [one.question.text for one in confirmer.asked if one.question] == [f"Region? {n}" for n in range(3)]
    endless = Answering(*answers)
    said = await ask(ensemble, endless, times=100)
    text = "Error: The tool asked for input more than 6 times.\nCheck the arguments, or try another way."
    assert said == (text, "input_required")
    assert len(endless.asked) == 5


async def test_a_cancelled_call_leaves_no_question(ensemble: Ensemble) -> None:
    waiting = asyncio.Event()

    class Thinking(Answering):
        async def confirm(self, request: ConfirmationRequest) -> Answer:
            if request.question is not None:
                waiting.set()
                await asyncio.Event().wait()
            return Approve()

    task = asyncio.create_task(ask(ensemble, Thinking()))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await ask(ensemble, Answering(Edit({"region": "eu"}))) == ('accept {"region": "eu", "sure": true}', None)
