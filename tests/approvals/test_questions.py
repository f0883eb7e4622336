"""Questions of a tool: while somebody is asked, the time of its call stands still; that of its run does not."""

import asyncio
from collections.abc import Mapping
from typing import Any

from ripieno.approvals import Answer, Approve, ConfirmationRequest, DeferredConfirmer
from ripieno.approvals.questions import DEFERRED, NobodyAsked
from ripieno.canisters import InvocationCanister
from ripieno.ensembles import Context
from ripieno.exceptions import ValidationFault
from ripieno.execution import Circumstances, Execution
from ripieno.jsonvalues import freeze
from tests.support.scripted_models import ensemble, tool
from tests.support.virtual_time import in_virtual_time

_NAME = {"type": "object", "properties": {"name": {"type": "string", "default": "Ada"}}, "required": ["name"]}
_AFTERWARDS = {"type": "object", "properties": {"afterwards": {"type": "number"}}}


async def ask(context: Context, arguments: dict[str, Any]) -> str:
    """Asks, and works for a while before and after."""
    await asyncio.sleep(2)
    values = await context.inquire("Your name?", _NAME)
    await asyncio.sleep(arguments["afterwards"])
    return "nobody" if values is None else str(values["name"])


class Slow:
    """Approves after a minute."""

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        await asyncio.sleep(60)
        return Approve()


def outcome(afterwards: float = 0.0, work: Any = ask, **around: Any) -> str:
    """What becomes of a call that may take five seconds."""
    said: list[str] = []

    async def scene() -> None:
        house = ensemble(tool("ask", work, schema=_AFTERWARDS, effect="none", timeout=5))
        invocation = InvocationCanister(identifier="a", name="ask", arguments=freeze({"afterwards": afterwards}))
        execution = Execution(confirmer=Slow())
        result = await execution.execute(invocation, ensembles=[house], circumstances=Circumstances(**around))
        said.append(result.text if result.error is None else result.error.category)

    in_virtual_time(scene)()
    return said[0]


def test_a_call_has_its_time_beside_that_of_a_person() -> None:
    assert outcome(afterwards=2) == "Ada"
    assert outcome(afterwards=4) == "timeout"


def test_the_time_of_a_run_does_not_stand_still() -> None:
    assert outcome(afterwards=2, seconds=70) == "Ada"
    assert outcome(afterwards=2, seconds=30) == "timeout"


async def test_the_model_reads_why_there_is_no_answer_also_where_the_tool_fails() -> None:
    async def insist(context: Context, arguments: dict[str, Any]) -> str:
        """Fails without an answer."""
        if await context.inquire("Your name?", _NAME) is None:
            raise ValidationFault("The user declined.", suggestion="Give another name.")
        return "Good."

    house = ensemble(tool("ask", insist, effect="none"))
    execution = Execution(confirmer=DeferredConfirmer())
    result = await execution.execute(InvocationCanister(identifier="a", name="ask"), ensembles=[house])
    assert result.error is not None
    assert result.error.message == "The user declined."
    assert result.error.suggestion == f"Give another name. {DEFERRED}"


def test_whoever_made_the_call_is_asked_first_and_may_pass_it_on() -> None:
    async def answer(text: str, schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return {"name": "Grace"}

    async def decline(text: str, schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return None

    async def absent(text: str, schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
        raise NobodyAsked

    assert outcome(inquire=answer) == "Grace"
    assert outcome(inquire=decline) == "nobody"
    assert outcome(inquire=absent) == "Ada"


def test_questions_asked_together_stop_the_clock_together() -> None:
    async def both(context: Context, arguments: dict[str, Any]) -> str:
        """Asks twice at the same time."""
        answers = await asyncio.gather(context.inquire("One?", _NAME), context.inquire("Two?", _NAME))
        await asyncio.sleep(4)
        return str(len([one for one in answers if one is not None]))

    assert outcome(work=both) == "2"
