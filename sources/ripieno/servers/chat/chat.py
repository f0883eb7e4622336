"""``Chat``: the conversations of all owners over one assembly. The HTTP application and other interfaces use it."""

import asyncio
import contextlib
import math
import os
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

from ripieno.approvals import Edit, Given
from ripieno.assembly import Assembly
from ripieno.canisters import Conversation, ResultCanister, UserCanister
from ripieno.canisters.contents import Content
from ripieno.conducting import Run
from ripieno.conducting.paused import Paused
from ripieno.ensembles import Definition, Ensemble
from ripieno.exceptions import Conflict, InputError, NameAbsence, RequestInvalidity
from ripieno.jsonvalues import digest, thaw
from ripieno.models.protocol import Refusal
from ripieno.servers.chat.contents import referenced
from ripieno.servers.chat.events import QuestionAnswered, Said, Titled
from ripieno.servers.chat.held import HeldConversation
from ripieno.servers.chat.messages import ChatLimits, text_of
from ripieno.servers.chat.questions import (
    Question,
    approval_question,
    binding_of,
    check_edit,
    questions_of,
    read_answer,
)
from ripieno.servers.chat.ring import Entry
from ripieno.servers.chat.store import ConversationStore
from ripieno.servers.chat.uploads import Uploads
from ripieno.servers.http.limits import Refused
from ripieno.storage.journal import Journal
from ripieno.storage.journal.summaries import Summary

#: The error for what must wait for the end of a run.
UNDER_WAY = "A run of this conversation is under way. Stop it, or wait for its end."
#: Seconds for which a summary is used again.
_CHECKED = 1.0
#: The ensemble of the tools that a client declares.
CLIENT = "client"
#: The folder of an owner's tools.
Workspaces = Callable[[str], str | os.PathLike[str]]


class Chat:
    """The conversations of all owners: begun, said to, followed, answered, stopped, renamed and deleted.

    Enter it with ``async with``, inside of the assembly, which must record in a ``Journal``. At the end, its runs are
    stopped. ``workspace`` gives each owner a folder of tools; without it, all owners share the assembly's.

    Every method takes the owner. Errors of all: ``NameAbsence`` for a conversation that the owner does not have.
    """

    def __init__(
        self, assembly: Assembly, *, workspace: Workspaces | None = None, limits: ChatLimits | None = None
    ) -> None:
        self.limits = limits or ChatLimits()
        self._assembly = assembly
        self._workspace = workspace
        #: What owners have allowed with *always*.
        self.allowances = assembly.execution.allowances
        self.uploads = Uploads(self.limits.waiting_bytes)
        #: The open conversations, by owner and identifier; those first that were used first.
        self._held: dict[tuple[str, str], HeldConversation] = {}

    async def __aenter__(self) -> "Chat":
        """Errors: ``InputError`` if the assembly has no journal."""
        journal = self._assembly.execution.reporter.recorder
        if not isinstance(journal, Journal):
            raise InputError(
                "A chat keeps its conversations in a journal, and this assembly has none. "
                "Set enabled = true under [journal], or assemble it with recorder=Journal(path)."
            )
        self.journal = journal
        self._store = ConversationStore(journal)
        return self

    async def __aexit__(self, *details: object) -> None:
        running = [one for one in self._held.values() if one.running]
        for one in running:
            one.stop()
        await asyncio.gather(*(one.stopped() for one in running))

    def conversations(self, owner: str) -> Sequence[Summary]:
        """The owner's conversations, those first that were written last."""
        return self._store.summaries(owner, limit=self.limits.listed)

    def create(self, owner: str, title: str = "") -> str:
        """Begins a conversation, and returns its identifier."""
        return self._store.create(owner, title)

    def named(self, owner: str, name: str, *, create: bool = False) -> str:
        """The identifier of a conversation for which a client has its own name, such as a front end's chat id.

        The name may also be an identifier. The same name of another owner is another conversation. ``create`` begins
        it, if the owner has none of this name.
        """
        derived = digest([owner, name])[:32]
        for identifier in (name, derived):
            if (owner, identifier) in self._held:
                return identifier
        for identifier in (name, derived):
            with contextlib.suppress(NameAbsence):
                return self._store.summary(owner, identifier).identifier
        if not create:
            raise NameAbsence("conversation", name)
        return self._store.create(owner, "", derived)

    def rename(self, owner: str, identifier: str, title: str) -> None:
        """Gives a conversation another title."""
        held = self._hold(owner, identifier)
        self._store.rename(owner, identifier, title)
        held.checked = -math.inf
        held.publish(Titled(title=title))

    async def delete(self, owner: str, identifier: str) -> None:
        """Stops the run of a conversation and deletes its content."""
        held = self._hold(owner, identifier)
        held.stop()
        await held.stopped()
        self._held.pop((owner, identifier), None)
        self.uploads.forget(owner, identifier)
        self.allowances.forget(owner, identifier)
        self._store.delete(owner, identifier)

    def snapshot(self, owner: str, identifier: str) -> dict[str, Any]:
        """A conversation as it is now: messages, the turn under way, questions, and the position of its events."""
        held = self._hold(owner, identifier)
        usage = held.conversation.usage
        return {
            "identifier": identifier,
            "title": held.summary.title or held.summary.words,
            "model": held.model or held.summary.model,
            "agent": held.agent,
            "tokens": {"input": usage.input_tokens, "output": usage.output_tokens},
            **held.snapshot(),
        }

    def read(
        self, owner: str, identifier: str, position: str | None, *, quiet: float | None = None
    ) -> AsyncGenerator[Sequence[Entry], None]:
        """The events of a conversation after a position, without end; none after each ``quiet`` seconds of silence.

        Without a position, from now on. Errors: ``Refused`` for too many readers; while reading, ``EventsLost``, if
        the reader needs a snapshot first.
        """
        held = self._hold(owner, identifier)
        readers = sum(one.ring.readers for (name, _), one in self._held.items() if name == owner)
        if readers >= self.limits.readers:
            raise Refused(_too_many(f"{readers} streams of events", self.limits.readers))
        return held.ring.read(position or held.ring.position, quiet=quiet)

    def require(self, owner: str, identifier: str) -> None:
        """Errors: ``NameAbsence`` if the owner has no such conversation."""
        self._hold(owner, identifier)

    def attach(self, owner: str, identifier: str, content: Content) -> str:
        """Keeps an upload for a message that is still to come, and returns its reference."""
        self.require(owner, identifier)
        return self.uploads.add(owner, identifier, content)

    def detach(self, owner: str, identifier: str, reference: str) -> None:
        """Drops an upload. Errors: ``NameAbsence``, also for one that a message has named."""
        self.uploads.forget(owner, identifier, (self.uploads.find(owner, identifier, reference),))

    def content(self, owner: str, identifier: str, reference: str) -> Content:
        """A content of a conversation, or an upload for it. Errors: ``NameAbsence``."""
        found = referenced(self._hold(owner, identifier).contents(), reference)
        return self.uploads.find(owner, identifier, reference) if found is None else found

    def declare(self, owner: str, identifier: str, tools: Sequence[Definition]) -> None:
        """Sets the tools that the client runs itself, for the next run only; it must declare them for each.

        Errors: ``RequestInvalidity`` for a name that one of the chat's own tools has.
        """
        held = self._hold(owner, identifier)
        own = {one.exposed for ensemble in self._assembly.ensembles for one in ensemble.invokers.values()}
        for tool in tools:
            if tool.name in own:
                raise RequestInvalidity(
                    f"The chat has a tool {tool.name!r}: give yours another name.", parameter="tools"
                )
        held.client_tools = Ensemble.of_request(tools, name=CLIENT) if tools else None

    def say(
        self, owner: str, identifier: str, message: UserCanister, *, model: str | None = None, agent: str | None = None
    ) -> None:
        """Continues a conversation with a message.

        Calls that wait are denied, with the message as the reason. Errors: ``Conflict`` while a run is under way.
        """
        held = self._free(owner, identifier)
        conversation = held.conversation
        if conversation.open:
            conversation = conversation.decline_open(text_of(message) or "The user sent something else instead.")
        conversation = conversation.say(message)
        self._begin(held, conversation, model=model or held.model, agent=agent or held.agent)
        self.uploads.forget(owner, identifier, message.content)
        held.publish(Said(canister=message, place=len(conversation.canisters) - 1))

    def resume(self, owner: str, identifier: str) -> None:
        """Continues a conversation whose run was interrupted, or failed before it answered.

        Errors: ``Conflict`` if there is nothing to continue.
        """
        held = self._free(owner, identifier)
        if held.state != "interrupted" and not held.unanswered:
            raise Conflict(f"The conversation is {held.state}, not interrupted.")
        self._begin(held, held.conversation, model=held.model, agent=held.agent)

    def answer(self, owner: str, identifier: str, invocation: str, sent: Mapping[str, Any]) -> int:
        """Answers a question, and returns the number of questions that are left.

        The run goes on with the last answer about a call. An answer is final. Errors: ``Conflict`` for a question that
        has changed, was answered, or is unknown; ``RequestInvalidity``.
        """
        held = self._hold(owner, identifier)
        question = held.question(invocation)
        answer = read_answer(question, sent)
        if question["kind"] == "input":
            held.answer_input(invocation, answer)
            return len(held.questions) - 1
        edited = None
        if isinstance(answer, Edit) and (shown := sent.get("shown")) is not None:
            if (edited := held.revised.get(str(shown))) is None:
                raise Conflict("The call with these arguments was not shown. Load the question again.")
        elif isinstance(answer, Edit):
            check_edit(self._assembly, str(question["tool"]), answer)
        self._check_runs(owner)
        (waiting,) = (one for one in held.conversation.waiting if one.invocation == invocation)
        held.answers[invocation] = Given(answer=answer, binding=binding_of(waiting), edited=edited)
        self._keep(held)
        held.publish(QuestionAnswered(invocation=invocation, answer=str(sent["answer"])))
        return self._go_on(held)

    async def revise(self, owner: str, identifier: str, invocation: str, sent: Mapping[str, Any]) -> Question:
        """A question with other arguments, to show before an answer ``edit`` that has its digest as ``shown``.

        Nothing runs. Errors: ``Conflict`` for a question that has changed or is unknown; ``RequestInvalidity`` for
        arguments that the tool would refuse.
        """
        held = self._free(owner, identifier)
        answer = read_answer(held.question(invocation), {**sent, "answer": "edit"})
        assert isinstance(answer, Edit)
        run = self._make_run(held, held.conversation, model=held.model, agent=held.agent)
        try:
            waiting = await run.revise(invocation, answer.arguments)
        except InputError as error:
            raise RequestInvalidity(str(error), parameter="arguments") from None
        question = approval_question(waiting)
        held.revised[str(question["digest"])] = binding_of(waiting)
        return question

    def deliver(self, owner: str, identifier: str, result: ResultCanister) -> int:
        """Takes the result of a call that the client runs, and returns the number of questions that are left.

        Questions about calls come first. Errors: ``Conflict``.
        """
        held = self._free(owner, identifier)
        question = held.question(result.invocation_id)
        if question["kind"] != "client":
            raise RequestInvalidity("This call runs here: it waits for an answer.", parameter="invocation")
        if any(one["kind"] == "approval" for one in held.questions):
            raise Conflict("Answer the questions about calls first, then send results.")
        self._check_runs(owner)
        held.conversation = held.conversation.say(result)
        held.publish(QuestionAnswered(invocation=result.invocation_id, answer="result"))
        self._keep(held)
        return self._go_on(held)

    def running(self, owner: str, identifier: str) -> bool:
        """Whether a run of a conversation is under way."""
        return self._hold(owner, identifier).running

    def stop(self, owner: str, identifier: str) -> None:
        """Stops the run of a conversation, if there is one."""
        self._hold(owner, identifier).stop()

    def questions(self, owner: str) -> dict[str, list[dict[str, Any]]]:
        """The open questions of all conversations of an owner, by the identifiers of the conversations."""
        found: dict[str, list[dict[str, Any]]] = {}
        for paused in self._store.waiting(owner):
            asked = [one for one in questions_of(paused.conversation) if one["invocation"] not in paused.answers]
            found[paused.identifier] = [thaw(one) for one in asked]
        for (name, identifier), held in self._held.items():
            if name == owner:
                found[identifier] = [thaw(one) for one in held.questions]
        return {identifier: asked for identifier, asked in found.items() if asked}

    def usage(self, owner: str, since: str = "") -> dict[str, Any]:
        """The owner's tokens and calls since a time (ISO 8601, UTC), in total and by day and model."""
        found = self.journal.statistics(since=since, owner=owner).mapping()
        return {name: found[name] for name in ("total", "days", "models")}

    def _free(self, owner: str, identifier: str) -> HeldConversation:
        """The conversation, without a run. Errors: ``Conflict``."""
        held = self._hold(owner, identifier)
        if held.running:
            raise Conflict(UNDER_WAY)
        return held

    def _hold(self, owner: str, identifier: str) -> HeldConversation:
        """The conversation in memory; if it is not there, from the store.

        Its summary takes a time proportional to its lines (measured: 12 ms for 20,000): one is enough for a request.
        """
        held, now = self._held.get((owner, identifier)), time.monotonic()
        if held is None:
            summary, resumable, paused = self._store.load(owner, identifier)
            held = HeldConversation(owner, resumable, summary)
            held.checked = now
            if paused is not None:
                held.model, held.agent = paused.model, paused.agent
        elif now - held.checked > _CHECKED:
            # Another process may have deleted or renamed it.
            held.summary, held.checked = self._store.summary(owner, identifier), now
        self._held.pop((owner, identifier), None)
        self._held[owner, identifier] = held
        self._forget()
        return held

    def _forget(self) -> None:
        """Drops the idle conversations that were used longest ago, if there are too many."""
        idle = [key for key, held in self._held.items() if held.idle]
        for key in idle[: max(len(idle) - self.limits.held, 0)]:
            del self._held[key]

    def _begin(self, held: HeldConversation, conversation: Conversation, *, model: str, agent: str) -> None:
        self._check_runs(held.owner)
        run = self._make_run(held, conversation, model=model, agent=agent)
        held.client_tools = None
        held.revised.clear()
        lock = self._store.claim(held.owner, conversation.identifier)
        held.begin(run, lock, lambda: self._ended(held))
        held.model, held.agent = model or run.model.identity, agent

    def _make_run(self, held: HeldConversation, conversation: Conversation, *, model: str, agent: str) -> Run:
        """A run of a conversation, which has not begun."""
        owner, client = held.owner, held.client_tools
        patterns = self._assembly.access_agent(agent).tools if agent else None
        return self._assembly.conduct(
            conversation,
            model=model or None,
            agent=agent or None,
            ensembles=None if client is None else (*self._assembly.ensembles, client),
            tools=None if client is None or patterns is None else (*patterns, f"{CLIENT}.*"),
            owner=owner,
            confirmer=held,
            auxdata=owner or None,
            answers=dict(held.answers),
            workspace=None if self._workspace is None else self._workspace(owner),
        )

    def _check_runs(self, owner: str) -> None:
        """Errors: ``Refused`` if the owner has as many runs as are allowed."""
        running = sum(one.running for (name, _), one in self._held.items() if name == owner)
        if running >= self.limits.runs:
            raise Refused(_too_many(f"{running} runs", self.limits.runs))

    def _go_on(self, held: HeldConversation) -> int:
        """Begins a run when no question about a call is left."""
        left = len(held.questions)
        if not left:
            self._begin(held, held.conversation, model=held.model, agent=held.agent)
        return left

    def _ended(self, held: HeldConversation) -> None:
        if held.cut:
            self._store.record_cut(held.owner, held.conversation.identifier, held.cut)
        self._keep(held)

    def _keep(self, held: HeldConversation) -> None:
        """Stores that a conversation waits, with its answers; or that it does not."""
        held.checked = -math.inf
        if not held.conversation.open:
            self._store.resume(held.owner, held.conversation.identifier)
            return
        self._store.pause(
            Paused(
                conversation=held.conversation,
                workspace=str(self._assembly.surroundings.workspace),
                model=held.model,
                agent=held.agent,
                answers=held.answers,
                owner=held.owner,
            )
        )


def _too_many(what: str, most: int) -> Refusal:
    return Refusal(
        status=429, code="too_many", message=f"You have {what} already; at most {most} at once.", seconds=1.0
    )
