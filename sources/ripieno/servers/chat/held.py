"""``HeldConversation``: one conversation in memory, with its events, its readers, and its run, which belongs to it.

A run goes on when its readers leave. It ends by itself, by ``stop``, or with the server.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

from ripieno.approvals import Answer, ConfirmationRequest, Defer, Given
from ripieno.approvals.grants import Binding
from ripieno.canisters import InvocationCanister, ResultCanister, UserCanister
from ripieno.canisters.contents import Content
from ripieno.canisters.events import ConductEnded, Event, TurnBegan
from ripieno.conducting import Run
from ripieno.conducting.resume import Resumable
from ripieno.exceptions import Conflict
from ripieno.jsonvalues import thaw
from ripieno.servers.chat.events import ChatEvent, QuestionAnswered, QuestionsAsked, RunFailed
from ripieno.servers.chat.live_turn import LiveTurn
from ripieno.servers.chat.questions import Question, input_question, questions_of
from ripieno.servers.chat.ring import EventRing
from ripieno.servers.http.errors import refusal_of
from ripieno.storage.journal.summaries import Summary

_ASKING = (UserCanister, ResultCanister)


class HeldConversation:
    """A conversation that is open. It is also the confirmer of its runs: calls wait, and questions of tools are asked.

    ``conversation`` has whole turns; the one under way is beside it, also after a run that was stopped in its middle.
    """

    def __init__(self, owner: str, restored: Resumable, summary: Summary) -> None:
        self.owner = owner
        #: As the journal had it at the monotonic time ``checked``: minus infinity if it has changed since.
        self.summary = summary
        self.checked = 0.0
        self.conversation = restored.conversation
        self.answers: dict[str, Given] = dict(restored.answers)
        #: The bindings of edited calls that were shown, by their digests.
        self.revised: dict[str, Binding] = {}
        self.model = ""
        self.agent = ""
        #: Whether a run may be about to begin, while something is stored first.
        self.starting = False
        self.ring = EventRing()
        self._turn = LiveTurn(restored.cut)
        self._run: Run | None = None
        self._end: ConductEnded | None = None
        self._task: asyncio.Task[None] | None = None
        self._inputs: dict[str, tuple[Question, asyncio.Future[Answer]]] = {}

    @property
    def running(self) -> bool:
        """Whether a run is under way, or its end is being stored."""
        return self._task is not None

    @property
    def idle(self) -> bool:
        """Whether it has neither a run nor a reader."""
        return not self.running and not self.starting and not self.ring.readers

    @property
    def state(self) -> str:
        """``running``, ``waiting`` (for an answer or a result), ``interrupted`` (its process ended), or ``idle``."""
        if self.running:
            return "running"
        if not self.conversation.open:
            return "idle"
        # With all answers and no run, its process ended before it went on.
        return "waiting" if self.questions else "interrupted"

    @property
    def unanswered(self) -> bool:
        """Whether the conversation ends with what the model has not answered, and no run is under way."""
        last = self.conversation.canisters[-1] if self.conversation.canisters else None
        return not self.running and not self.conversation.open and isinstance(last, _ASKING)

    @property
    def cut(self) -> Sequence[Mapping[str, Any]]:
        """The texts of an answer that was cut off, at the end of a run."""
        return self._turn.texts()

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions that have no answer yet."""
        if self.running:
            return tuple(question for question, _ in self._inputs.values())
        return tuple(one for one in questions_of(self.conversation) if one["invocation"] not in self.answers)

    def question(self, invocation: str) -> Question:
        """The open question about a call. Errors: ``Conflict``."""
        for question in self.questions:
            if question["invocation"] == invocation:
                return question
        if self.running:
            raise Conflict("A run is under way. Its questions come when it ends.")
        raise Conflict(
            f"No question waits for an answer to {invocation!r}: it was answered, or the conversation went on."
        )

    def snapshot(self) -> dict[str, Any]:
        """All that a page shows beside the messages, and the position after which events follow."""
        return {
            "state": self.state,
            "turn": self._turn.mapping(),
            "finish": None if self.running else self.conversation.finish,
            "questions": [thaw(one) for one in self.questions],
            "position": self.ring.position,
        }

    def contents(self) -> Iterator[Content]:
        """All contents, also those of the turn under way."""
        for one in self.conversation.canisters:
            if not isinstance(one, InvocationCanister):
                yield from one.content
        yield from self._turn.contents()

    def publish(self, event: ChatEvent) -> None:
        """Passes an event to all readers."""
        self.ring.publish(event)

    def begin(self, run: Run, ended: Callable[[], Awaitable[None]]) -> None:
        """Starts a run, while none is under way. ``ended`` stores its end; only then the next one can begin."""
        self.conversation, self.answers = run.conversation, {}
        self._turn, self._run, self._end = LiveTurn(), run, None
        run.watch(self._take)
        self._task = asyncio.create_task(self._conduct(run, ended), name="ripieno chat run")

    def stop(self) -> None:
        """Cancels the run, if there is one. Each call that was started still gets its result."""
        if self._run is not None:
            self._run.cancel()

    async def stopped(self) -> None:
        """Waits until no run is under way."""
        if self._task is not None:
            await asyncio.wait((self._task,))

    def answer_input(self, invocation: str, answer: Answer) -> None:
        """Answers the question of a tool."""
        _, future = self._inputs[invocation]
        if not future.done():
            future.set_result(answer)

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        """As a confirmer: a call waits, durably; a question of a tool is asked now."""
        if request.question is None:
            return Defer(request.reason)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._inputs[request.invocation] = (input_question(request), future)
        self._ask()
        try:
            answer = await future
        finally:
            del self._inputs[request.invocation]
            self.publish(QuestionAnswered(invocation=request.invocation, answer=_kind(future)))
        return answer

    def _ask(self) -> None:
        self.publish(QuestionsAsked(questions=self.questions))

    def _take(self, event: Event) -> None:
        """Takes an event in the step in which it happens: the conversation then has exactly the turns before it."""
        assert self._run is not None
        if isinstance(event, TurnBegan | ConductEnded):
            before, self.conversation = self.conversation, self._run.conversation
            if len(self.conversation.canisters) > len(before.canisters):
                # The conversation has the whole turn now. One that was cut off is nowhere else.
                self._turn = LiveTurn()
        self._turn.take(event)
        if isinstance(event, ConductEnded):
            # Published when the next run may begin: a client may send its next message at once.
            self._end = event
        else:
            self.publish(event)

    async def _conduct(self, run: Run, ended: Callable[[], Awaitable[None]]) -> None:
        failures: list[Exception] = []
        try:
            await run
        except Exception as error:
            failures.append(error)
        finally:
            self.conversation, self._run = run.conversation, None
            try:
                await ended()
            except Exception as error:
                failures.append(error)
            finally:
                self._task = None
            for failure in failures:
                refusal = refusal_of(failure)
                self.publish(RunFailed(code=refusal.code or "failed", message=refusal.message))
            if self.questions:
                self._ask()
            if self._end is not None:
                self.publish(self._end)


def _kind(future: "asyncio.Future[Answer]") -> str:
    if not future.done() or future.cancelled():
        return "none"
    return type(future.result()).__name__.lower()
