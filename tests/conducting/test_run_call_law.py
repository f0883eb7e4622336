"""The call law, under every fault at every step: each call that runs here has exactly one result, in order.

A state machine drives conversations through runs. Answers of the model, deeds of tools, confirmations, limits and
cancellations are generated.
"""

import asyncio
import collections
import json
from typing import Any

import pytest
from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ripieno.approvals import Answer, Approve, ConfirmationRequest, Defer, Deny, Edit, Given
from ripieno.approvals.grants import Binding
from ripieno.canisters import Controls, Conversation, InvocationCanister, ResultCanister, TextualContent
from ripieno.canisters.controls import Limits, Rules
from ripieno.canisters.conversation import assistant_messages
from ripieno.canisters.events import (
    ConductEnded,
    Event,
    ExecutionBegan,
    InvocationSealed,
    ResultReady,
    TextDelta,
    TurnBegan,
    TurnEnded,
)
from ripieno.canisters.serialization import deserialize_conversation, serialize
from ripieno.conducting import Run, conduct
from ripieno.ensembles import Context, owner
from ripieno.exceptions import InputError, RipienoError, ToolExecutionFailure
from ripieno.execution import Execution
from tests.conducting.generated_runs import DEEDS, FAULTS, OURS, Ask, Manner, Said, answers, instants, limits, manners
from tests.support.runs import collected
from tests.support.scripted_models import Recording, Step, ensemble, invoke, scripted, settle_down, tool
from tests.support.virtual_time import VirtualLoop


class Tools:
    """One ensemble whose tools do what their arguments say, and a count of those that run."""

    def __init__(self) -> None:
        self.running = 0
        schema = {"properties": {"does": {"type": "string"}, "answer": {"type": "string"}}, "required": ["does"]}
        closed = {**schema, "additionalProperties": False}

        def made(name: str, **policy: Any) -> Any:
            return tool(name, self.perform, schema=closed, **policy)

        self.ensemble = ensemble(
            made("think", effect="none"),
            made("read", timeout=10),
            made("write", effect="write", timeout=10),
            made("erase", effect="destructive"),
            made("careful", confirm=True),
            made("report", on_error="report"),
            made("submit", effect="none", terminal=True),
            made("forbidden"),
            tool("ask", schema=schema, hosted="caller"),
        )

    async def perform(self, context: Context, arguments: dict[str, Any]) -> object:
        self.running += 1
        try:
            return await DEEDS[arguments["does"]](context)
        finally:
            self.running -= 1


class Person:
    """A confirmer whose answer is in the call's own arguments."""

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        answer = request.arguments.get("answer", "approve")
        if answer == "hang":
            await asyncio.Event().wait()
        if answer == "hesitate":
            await asyncio.sleep(60)
        if answer == "raise":
            raise ValueError("no")
        if answer == "cancel":
            raise asyncio.CancelledError
        nonsense: Any = None
        answers = {
            "deny": Deny("Rather not."),
            "edit": Edit({"does": "value"}),
            "edit badly": Edit({"does": 5}),
            "later": Defer("Not now."),
            "say nothing": nonsense,
        }
        return answers.get(str(answer), Approve())


class Breaking(Exception):
    """Raised in the body of a loop."""


class CallLaw(RuleBasedStateMachine):
    """Conversations under attack."""

    @initialize()
    def begin(self) -> None:
        self.loop = VirtualLoop()
        self.tools = Tools()
        self.conversation = Conversation.of("Go.")
        self.number = 0
        #: Calls that were open at the end of a run.
        self.waited: set[str] = set()
        self.unhandled: list[Any] = []
        self.loop.set_exception_handler(self.note)

    def note(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Notes what went unhandled. A confirmer that raises is reported so, and its call is denied."""
        if not (context["message"].startswith("The confirmer ") and str(context["exception"]) == "no"):
            self.unhandled.append(context)

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.loop.close()

    # What is done.

    @rule(
        said=st.lists(answers, min_size=1, max_size=4),
        limits=limits,
        manner=manners,
        instant=instants,
        after=st.integers(1, 12),
        speaks=st.booleans(),
        controls=st.sampled_from(
            [
                *[Controls()] * 6,
                Controls(tool_choice="required"),
                Controls(tool_choice="none"),
                Controls(allowed_tools=()),
                Controls(allowed_tools=("read", "submit", "ask")),
            ]
        ),
        unrecorded=st.sampled_from([*[None] * 6, "started", "finished", "refused", "discarded"]),
        decided=st.lists(st.sampled_from(["approve", "approve", "deny", "edit", "nothing"]), min_size=6, max_size=6),
    )
    def run(
        self,
        *,
        said: list[Said],
        limits: Limits,
        manner: Manner,
        instant: tuple[float, int],
        after: int,
        speaks: bool,
        controls: Controls,
        unrecorded: str | None,
        decided: list[str],
    ) -> None:
        if self.of_caller:
            self.check_that_open_calls_are_waited_for()
            self.answer(reverse=speaks, number=len(self.conversation.open))
        given = self.decide(decided)
        # What waits for a person is gone on with first.
        speaks = speaks and not self.conversation.open
        recording = Recording(lambda record: record.stage == unrecorded)
        before = self.conversation.say("On.") if speaks else self.conversation
        run = conduct(
            scripted(*(self.steps(one) for one in said), [TurnBegan(), TextDelta("."), TurnEnded(finish="stop")]),
            before,
            ensembles=[self.tools.ensemble],
            execution=Execution(
                rules=Rules(approve=("mine.write",), deny=("mine.forbidden",)), confirmer=Person(), recorder=recording
            ),
            limits=limits,
            controls=controls,
            answers=given,
        )
        events: list[Event] = []
        self.loop.run_until_complete(self.perform(run, manner, instant, after, events))
        event(f"{manner}: {run.conversation.finish}")
        event(f"answered later: {len(given)}, waits: {len(run.conversation.waiting)}")
        self.conversation = run.conversation
        self.waited |= {one.identifier for one in self.conversation.open}
        assert self.conversation.canisters[: len(before.canisters)] == before.canisters
        if unrecorded is None:
            self.check_records(recording, limits)
        self.check_events(events, complete=manner in ("iterate", "cancel run"))

    @rule(reverse=st.booleans(), number=st.integers(1, 5))
    def answer(self, *, reverse: bool, number: int) -> None:
        """The caller gives some of the results that are waited for."""
        waiting = self.of_caller[::-1] if reverse else self.of_caller
        self.conversation = self.conversation.say(
            [
                ResultCanister(invocation_id=one.identifier, content=(TextualContent(text="answered"),))
                for one in waiting[:number]
            ]
        )

    @rule()
    def reload(self) -> None:
        loaded = deserialize_conversation(json.loads(json.dumps(serialize(self.conversation))))
        assert loaded == self.conversation
        self.conversation = loaded

    @property
    def of_caller(self) -> list[InvocationCanister]:
        """The open calls that the caller runs."""
        return [one for one in self.conversation.open if one.name == "ask"]

    # How it is done.

    def decide(self, decided: list[str]) -> dict[str, Answer | Given]:
        """The later answers of a person to the calls that wait for them."""
        possible: dict[str, Answer] = {"approve": Approve(), "deny": Deny("No."), "edit": Edit({"does": "value"})}
        given: dict[str, Answer | Given] = {}
        for one, answer in zip(self.conversation.waiting, decided, strict=False):
            if one.why == "approval" and answer in possible:
                binding = Binding(**{name: str(part) for name, part in one.binding.items()})
                given[one.invocation] = Given(answer=possible[answer], binding=binding)
        return given

    def steps(self, said: Said) -> list[Step]:
        steps: list[Step] = [TurnBegan()]
        for index, one in enumerate(said.steps):
            if isinstance(one, Ask):
                self.number += 1
                invocation = invoke(one.tool, f"call {self.number}", **one.arguments)
                steps.append(InvocationSealed(index=index, invocation=invocation))
            else:
                steps.append(lambda seconds=one: asyncio.sleep(seconds))
        steps.append(TurnEnded(finish=said.finish))
        if said.fault == "no end":
            return steps[:-1]
        if said.fault is not None:
            steps.insert(min(said.at, len(steps) - 1), FAULTS[said.fault]())
        return steps

    async def perform(
        self, run: Run, manner: Manner, instant: tuple[float, int], after: int, events: list[Event]
    ) -> None:
        consumer = asyncio.ensure_future(self.consume(run, manner, instant, after, events))
        if manner.startswith("cancel"):
            await pass_time(instant)
            for _ in range(3 if manner == "cancel often" else 1):
                began = self.loop.time()
                if manner == "cancel run":
                    run.cancel()
                else:
                    consumer.cancel()
                await asyncio.sleep(0)
            await asyncio.wait((consumer,))
            assert self.loop.time() - began <= owner.GRACE + 0.5, "a cancelled run ends within the grace"
        await asyncio.wait((consumer,))
        outcome = None if consumer.cancelled() else consumer.exception()
        assert outcome is None or isinstance(outcome, Breaking), outcome
        await self.standing(run)
        await settle_down()
        assert asyncio.all_tasks() == {asyncio.current_task()}, "nothing keeps running"

    async def consume(
        self, run: Run, manner: Manner, instant: tuple[float, int], after: int, events: list[Event]
    ) -> None:
        """Uses a run as an application does. Its errors are checked later."""
        try:
            if manner in ("await", "cancel consumer", "cancel often"):
                await run
            elif manner in ("iterate", "cancel run"):
                async for one in run:
                    events.append(one)
            elif manner == "enter":
                async with run:
                    await run
            elif manner == "leave":
                async with run:
                    await pass_time(instant)
            else:
                async for one in run:
                    events.append(one)
                    if len(events) == after:
                        if manner == "raise":
                            raise Breaking
                        break
        except (RipienoError, KeyError, TimeoutError):
            pass

    async def standing(self, run: Run) -> None:
        """Checks that the run has ended, with the finish of its outcome."""
        try:
            conversation = await run
        except ToolExecutionFailure:
            assert run.conversation.finish == "aborted"
        except (RipienoError, KeyError, TimeoutError):
            assert run.conversation.finish == "error"
        else:
            assert conversation is run.conversation
            assert conversation.finish not in (None, "error", "aborted", "invocations")
        assert bool(run.conversation.open) or run.conversation.finish != "open"

    # What must hold.

    @invariant()
    def every_call_of_ours_has_one_result_in_order(self) -> None:
        if not hasattr(self, "conversation"):
            return
        canisters = self.conversation.canisters
        results = collections.Counter(one.invocation_id for one in canisters if isinstance(one, ResultCanister))
        places = {one.invocation_id: at for at, one in enumerate(canisters) if isinstance(one, ResultCanister)}
        known: set[str] = set()
        for message in assistant_messages(canisters):
            invocations = [one for one in message if isinstance(one, InvocationCanister)]
            known.update(one.identifier for one in invocations)
            ours = [one.identifier for one in invocations if one.name in OURS and one not in self.conversation.open]
            assert [results[identifier] for identifier in ours] == [1] * len(ours)
            # Those that waited for a person come behind those that did not.
            found = [places[identifier] for identifier in ours if identifier not in self.waited]
            assert found == sorted(found)
        unanswered = [one for one in canisters if isinstance(one, InvocationCanister) and not results[one.identifier]]
        assert tuple(unanswered) == self.conversation.open
        assert [one.invocation for one in self.conversation.waiting] == [one.identifier for one in unanswered]
        why = {one.invocation: one.why for one in self.conversation.waiting}
        assert all((one.name == "ask") == (why[one.identifier] == "caller") for one in unanswered)
        assert set(results) <= known
        assert set(results.values()) <= {1}

    @invariant()
    def nothing_runs_and_nothing_went_unhandled(self) -> None:
        if hasattr(self, "tools"):
            assert self.tools.running == 0
            assert self.unhandled == []

    def check_that_open_calls_are_waited_for(self) -> None:
        before = self.conversation.canisters
        run = conduct(scripted([]), self.conversation, ensembles=[self.tools.ensemble])
        with pytest.raises(InputError):
            self.loop.run_until_complete(collected(run))
        assert run.conversation.canisters == before

    def check_records(self, recording: Recording, limits: Limits) -> None:
        stages: dict[str, list[str]] = {}
        for record in recording.records:
            if record.invocation is None or record.stage in ("asked", "answered"):
                continue
            stages.setdefault(record.invocation.identifier, []).append(record.stage)
        assert all(
            one in (["started", "finished"], ["refused"], ["started", "finished", "discarded"])
            for one in stages.values()
        ), stages
        assert sum(one[0] == "started" for one in stages.values()) <= limits.calls

    def check_events(self, events: list[Event], *, complete: bool) -> None:
        begun = [one.invocation.identifier for one in events if isinstance(one, ExecutionBegan)]
        ready = [one.invocation.identifier for one in events if isinstance(one, ResultReady)]
        assert len(set(ready)) == len(ready)
        assert len(set(begun)) == len(begun)
        ends = [at for at, one in enumerate(events) if isinstance(one, ConductEnded)]
        if complete and events:
            assert ends == [len(events) - 1]
            assert set(begun) <= set(ready)
            assert isinstance(events[-1], ConductEnded)
            assert events[-1].finish == self.conversation.finish
        assert ends in ([], [len(events) - 1])


async def pass_time(instant: tuple[float, int]) -> None:
    """Seconds, then rounds of the loop."""
    seconds, rounds = instant
    await asyncio.sleep(seconds)
    await settle_down(rounds)


CallLaw.TestCase.settings = settings(stateful_step_count=8)  # some four runs an example
TestCallLaw = CallLaw.TestCase
