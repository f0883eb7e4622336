"""``HeldConversation``: one conversation in memory, with its events, its readers, and its run, which belongs to it.

A run goes on when its readers leave. It ends by itself, by ``stop``, or with the server, unless a worker conducts it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, Protocol

from ripieno.approvals import Answer, ConfirmationRequest, Defer, Given
from ripieno.approvals.grants import Binding
from ripieno.canisters import (
    AssistantCanister,
    Canister,
    Conversation,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from ripieno.canisters.contents import Content, text_of
from ripieno.canisters.events import ConductEnded, TurnBegan
from ripieno.exceptions import Conflict
from ripieno.jsonvalues import thaw
from ripieno.servers.chat.events import ChatEvent, QuestionsAsked, Said
from ripieno.servers.chat.live_turn import LiveTurn
from ripieno.servers.chat.questions import Question, input_question, questions_of
from ripieno.servers.chat.ring import EventRing
from ripieno.servers.chat.store import Stored
from ripieno.servers.http.errors import refusal_of
from ripieno.storage.dispatch.events import Logged, QuestionAnswered, RunFailed, StretchBegan
from ripieno.storage.journal.restoration import SHORT, Unfinished
from ripieno.storage.journal.summaries import Summary, first_words
from ripieno.values import Value

_ASKING = (UserCanister, ResultCanister)


class EditedCall(Value):
    """A call with other arguments, and the question in which it was shown."""

    arguments: Mapping[str, Any]
    question: Question
    binding: Binding


#: The state of an open call that another process conducts, by what is recorded last.
_CALLS = {"asked": "asked", "started": "running"}
#: The error for a request about an earlier state.
GONE_ON = "The conversation has gone on meanwhile. Load it again."
#: The error for what must wait for the end of a run of another process.
UNDER_WAY_ELSEWHERE = "Another process conducts this conversation. Wait until it ends, or stop it there."
#: The error for what must wait for the end of a run.
UNDER_WAY = "A run of this conversation is under way. Stop it, or wait for its end."


class ConversationRun(Protocol):
    """The run of a conversation, as far as the conversation needs it. Awaiting it returns its end.

    ``conversation`` has whole turns. It is up to date in the step in which an event comes.
    """

    @property
    def conversation(self) -> Conversation: ...
    def watch(self, watcher: Callable[[Any], None]) -> None: ...
    def cancel(self) -> None: ...
    def __await__(self) -> Generator[Any, None, Conversation]: ...


class HeldConversation:
    """A conversation that is open. It is also the confirmer of its runs: calls wait, and questions of tools are asked.

    ``conversation`` has whole turns; the one under way is beside it, also after a run that was stopped in its middle.
    ``missing`` counts its first canisters that were not read; with a run, all are.
    """

    def __init__(
        self, owner: str, stored: Stored, elsewhere: Callable[..., str], model_of: Callable[[str], str]
    ) -> None:
        """``elsewhere`` is that of ``Runs``, and ``model_of`` that of the configuration."""
        self.owner = owner
        self._model_of = model_of
        self._elsewhere = elsewhere
        #: ``summary`` is as the journal had it at the monotonic time ``checked``: minus infinity if it has changed.
        self.checked = 0.0
        self.adopt(stored)
        #: The number of the last event in the log of submitted runs that is known here.
        self.seen = 0
        #: The bindings of edited calls that were shown, by their digests.
        self.revised: dict[str, Binding] = {}
        #: Edited calls that are asked about in place of the model's, by their invocations.
        self.edited: dict[str, EditedCall] = {}
        #: Whether a run may be about to begin, while something is stored first.
        self.starting = False
        self.ring = EventRing()
        self._run: ConversationRun | None = None
        self._end: ConductEnded | None = None
        self._failures: list[RunFailed] = []
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
        """``running``, ``waiting`` (for an answer or a result), ``interrupted`` (its process ended), or ``idle``.

        It is also ``running`` where another process conducts it.
        """
        if self.running or self.under_way_elsewhere:
            return "running"
        if not self.conversation.open:
            return "interrupted" if self._interrupted and self.unanswered else "idle"
        # With all answers and no run, its process ended before it went on.
        return "waiting" if self.questions else "interrupted"

    @property
    def unanswered(self) -> bool:
        """Whether the conversation ends with what the model has not answered, and no run is under way."""
        last = self.conversation.canisters[-1] if self.conversation.canisters else None
        # A terminal tool needs no answer.
        asking = isinstance(last, _ASKING) and self.conversation.finish != "terminal"
        return asking and not (self.running or self.under_way_elsewhere or self.conversation.open)

    @property
    def cut(self) -> Sequence[Mapping[str, Any]]:
        """The texts of an answer that was cut off, at the end of a run."""
        return self._turn.texts()

    @property
    def elsewhere(self) -> str:
        """Why and how it is to be continued elsewhere; empty if it can be continued here."""
        identifier = self.conversation.identifier
        return self._elsewhere(self.owner, identifier, self.workspace, is_submitted=self.is_submitted)

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions that have no answer yet."""
        if self.running:
            return tuple(question for question, _ in self._inputs.values())
        if self.under_way_elsewhere:
            return ()
        asked = {str(one["invocation"]): one for one in questions_of(self.conversation, self.elsewhere)}
        asked |= {name: one.question for name, one in self.edited.items() if name in asked}
        return tuple(one for name, one in asked.items() if name not in self.answers)

    def question(self, invocation: str) -> Question:
        """The open question about a call. Errors: ``Conflict``."""
        for question in self.questions:
            if question["invocation"] == invocation:
                return question
        if self.state == "running":
            raise Conflict("A run is under way. Its questions come when it ends.")
        raise Conflict(
            f"No question waits for an answer to {invocation!r}: it was answered, or the conversation went on."
        )

    def require_at(self, at: str | None) -> None:
        """Errors: ``Conflict`` if the conversation has had events since the position ``at``."""
        if at not in (None, self.ring.position):
            raise Conflict(GONE_ON)

    def require_free(self, at: str | None = None) -> None:
        """Errors: ``Conflict`` for a conversation with a run, here or elsewhere, or with events since ``at``."""
        if self.running:
            raise Conflict(UNDER_WAY)
        if self.under_way_elsewhere:
            raise Conflict(UNDER_WAY_ELSEWHERE)
        self.require_at(at)

    def snapshot(self) -> dict[str, Any]:
        """All that a page shows beside the messages, and the position after which events follow."""
        usage = self.conversation.usage
        return {
            "identifier": self.conversation.identifier,
            "title": self.summary.title or self.summary.words or self._first_words(),
            # The one that answers next, if no model was named.
            "model": self.model or self._model_of(self.agent) or self.summary.model,
            "agent": self.agent,
            "tokens": {"input": usage.input_tokens, "output": usage.output_tokens},
            "state": self.state,
            "elsewhere": self.under_way_elsewhere,
            "calls": self._calls(),
            "turn": self._turn.mapping(),
            "finish": None if self.state == "running" else self.conversation.finish,
            "questions": [thaw(one) for one in self.questions],
            "answered": {name: type(given.answer).__name__.lower() for name, given in self.answers.items()},
            "position": self.ring.position,
        }

    def _first_words(self) -> str:
        """The user's first message, of which the journal's summary may not know yet."""
        said = (one for one in self.conversation.canisters if isinstance(one, UserCanister))
        return first_words(next((text_of(one.content) for one in said), ""))

    def _calls(self) -> dict[str, str]:
        """The states of the open calls that another process conducts."""
        stages = self._stages.items() if self.under_way_elsewhere else ()
        return {name: _CALLS[stage] for name, stage in stages if stage in _CALLS}

    def whole(self) -> dict[str, Any]:
        """``snapshot`` with all answers that were cut off."""
        return {**self.snapshot(), "unfinished": [one.mapping() for one in self.unfinished]}

    def contents(self) -> Iterator[Content]:
        """All contents, also those of the turn under way."""
        for one in self.conversation.canisters:
            if not isinstance(one, InvocationCanister):
                yield from one.content
        yield from self._turn.contents()

    def chosen(self, model: str | None, agent: str | None) -> dict[str, str]:
        """The model and the agent of the next run, if these are named. An empty agent is none."""
        # Another agent has its own model.
        kept = self.model if agent in (None, self.agent) else ""
        return {"model": model or kept, "agent": self.agent if agent is None else agent}

    def publish(self, event: ChatEvent) -> None:
        """Passes an event to all readers."""
        self.ring.publish(event)

    def adopt(self, stored: Stored) -> None:
        """Takes the conversation as it is stored, while no run is under way, or at its end."""
        resumable, paused = stored.resumable, stored.paused
        #: Whether another process conducted it when it was last looked at.
        self.summary, self.under_way_elsewhere = stored.summary, stored.under_way
        self.conversation, self.missing = resumable.conversation, resumable.missing
        self.answers: Mapping[str, Given] = resumable.answers
        self.unfinished, self._turn = resumable.unfinished, LiveTurn(resumable.cut)
        self._interrupted, self._stages = resumable.interrupted, resumable.stages
        #: The folder of its tools, empty if it is new; its model and agent; and whether a worker conducts it.
        self.workspace, self.model, self.agent = resumable.workspace, resumable.model, resumable.agent
        self.is_submitted = paused is not None and paused.submission is not None

    def begin(self, run: ConversationRun, ended: Callable[[], Awaitable[None]]) -> None:
        """Starts a run, while none is under way. ``ended`` stores its end; only then the next one can begin."""
        if self.cut:
            place, texts = len(self.conversation.canisters), tuple(self.cut)
            finish = self.conversation.finish
            self.unfinished = (*self.unfinished, Unfinished(place=place, texts=texts, finish=finish))
        self.conversation, self.answers, self.edited = run.conversation, {}, {}
        self._turn, self._run, self._end = LiveTurn(), run, None
        self._interrupted = self.under_way_elsewhere = False
        self._failures.clear()
        run.watch(self._take)
        self._task = asyncio.create_task(self._conduct(run, ended), name="ripieno chat run")

    def stop(self) -> None:
        """Cancels the run, if there is one. Each call that was started still gets its result."""
        if self._run is not None:
            self._run.cancel()

    def leave(self) -> None:
        """Ends the waiting for the run, which goes on if it is elsewhere."""
        if self._task is not None:
            self._task.cancel()

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
        self.ask()
        try:
            answer = await future
        finally:
            del self._inputs[request.invocation]
            self.publish(QuestionAnswered(invocation=request.invocation, answer=_kind(future)))
        return answer

    def ask(self) -> None:
        """Passes the open questions to all readers."""
        self.publish(QuestionsAsked(questions=self.questions))

    def _take(self, event: Logged) -> None:
        """Takes an event in the step in which it happens: the conversation then has exactly the turns before it."""
        assert self._run is not None
        if isinstance(event, StretchBegan):
            before, self.conversation = self.conversation, self._run.conversation
            self._show_beginning(before)
            return
        if isinstance(event, RunFailed):
            self._failures.append(event)
            return
        if isinstance(event, TurnBegan | ConductEnded):
            before, self.conversation = self.conversation, self._run.conversation
            if len(self.conversation.canisters) > len(before.canisters):
                # The conversation has the whole turn now. One that was cut off is nowhere else.
                self._turn = LiveTurn()
        if not isinstance(event, QuestionAnswered):
            self._turn.take(event)
        if isinstance(event, ConductEnded):
            # Published when the next run may begin: a client may send its next message at once.
            self._end = event
        else:
            self.publish(event)

    def _show_beginning(self, before: Conversation) -> None:
        """Shows what a worker continues, if it is not what was known here."""
        known, now = _spoken(before), _spoken(self.conversation)
        added = now[len(known) :]
        said = [one for one in added if isinstance(one, UserCanister)]
        if len(now) < len(known) or any(isinstance(one, AssistantCanister | InvocationCanister) for one in added):
            # Another worker has recorded more than it has shown.
            said = []
        elif not added:
            return
        if not said:
            self._turn = LiveTurn()
            self.ring.restart()
        for one in said:
            self.publish(Said(canister=one, place=self.conversation.canisters.index(one)))

    async def _conduct(self, run: ConversationRun, ended: Callable[[], Awaitable[None]]) -> None:
        try:
            await run
        except Exception as error:
            self._failures.append(_failure(error))
        finally:
            self.conversation, self._run = run.conversation, None
            if self.conversation.finish in SHORT:
                place, finish = len(self.conversation.canisters), self.conversation.finish
                self.unfinished = (*self.unfinished, Unfinished(place=place, texts=(), finish=finish))
            try:
                await ended()
            except Exception as error:
                self._failures.append(_failure(error))
            finally:
                self._task = None
            for failure in self._failures:
                self.publish(failure)
            if self.questions:
                self.ask()
            if self._end is not None:
                self.publish(self._end)


def progress_of(summary: Summary) -> tuple[object, ...]:
    """The parts of a summary that a run of any process changes."""
    return summary.turns, summary.calls, summary.finish


def _failure(error: Exception) -> RunFailed:
    refusal = refusal_of(error)
    return RunFailed(code=refusal.code or "failed", message=refusal.message)


def _spoken(conversation: Conversation) -> Sequence[Canister]:
    """The canisters but for instructions, which a worker may put before all others."""
    return [one for one in conversation.canisters if not isinstance(one, SupervisorCanister)]


def _kind(future: "asyncio.Future[Answer]") -> str:
    if not future.done() or future.cancelled():
        return "none"
    return type(future.result()).__name__.lower()
