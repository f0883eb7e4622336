"""``Chat``: the conversations of all owners over one assembly. The HTTP application and other interfaces use it."""

import contextlib
import math
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

from ripieno.approvals import Approve, Edit, Given
from ripieno.approvals.allowances import Allowance
from ripieno.approvals.grants import Binding
from ripieno.assembly import Assembly
from ripieno.canisters import Conversation, ResultCanister, UserCanister
from ripieno.canisters.contents import Content
from ripieno.ensembles import Definition, Ensemble
from ripieno.ensembles.threads import run_in_thread
from ripieno.exceptions import Conflict, InputError, NameAbsence, RequestInvalidity
from ripieno.jsonvalues import digest, thaw
from ripieno.servers.chat.contents import referenced
from ripieno.servers.chat.conversation_list import ConversationList
from ripieno.servers.chat.events import Said, Titled
from ripieno.servers.chat.held import EditedCall, HeldConversation
from ripieno.servers.chat.messages import ChatLimits, text_of
from ripieno.servers.chat.open_conversations import OpenConversations
from ripieno.servers.chat.parts import AllMessages, read_part
from ripieno.servers.chat.questions import (
    Question,
    also_approved,
    approval_question,
    binding_of,
    check_edit,
    questions_of,
    read_answer,
)
from ripieno.servers.chat.ring import Entry
from ripieno.servers.chat.runs import Runs, Workspaces, too_many
from ripieno.servers.chat.store import ConversationStore
from ripieno.servers.chat.uploads import Uploads
from ripieno.servers.http.limits import Refused
from ripieno.storage.dispatch.contract import CLIENT
from ripieno.storage.journal import Journal


class Chat:
    """The conversations of all owners: begun, said to, followed, answered, stopped, renamed and deleted.

    Enter it with ``async with``, inside of the assembly, which must record in a ``Journal``. At the end, runs in this
    process are stopped. ``workspace`` gives each owner a folder of tools; without it, all share the assembly's.

    Every method takes the owner. What reaches the journal waits in a thread; changes of one conversation are made one
    after another, and are finished also if their request is cancelled. Unknown and foreign ones: ``NameAbsence``.

    ``at`` is the position of the snapshot on which a change is based: ``Conflict`` if it has had events since.
    ``tools`` are those that the client runs itself, as ``declared`` gives them. They hold for the run that begins.
    """

    def __init__(
        self, assembly: Assembly, *, workspace: Workspaces | None = None, limits: ChatLimits | None = None
    ) -> None:
        self.limits = limits or ChatLimits()
        self._assembly = assembly
        self._workspace = workspace
        self.uploads = Uploads(self.limits.waiting_bytes)

    async def __aenter__(self) -> "Chat":
        """Errors: ``InputError`` if the assembly has no journal."""
        journal = self._assembly.execution.reporter.recorder
        if not isinstance(journal, Journal):
            raise InputError(
                "A chat keeps its conversations in a journal, and this assembly has none. "
                "Set enabled = true under [journal], or assemble it with recorder=Journal(path)."
            )
        self.journal = journal
        submits, state = self._assembly.configuration.durable.servers, self._assembly.loaded.state
        queue = self._assembly.dispatcher if submits else None
        self._store = ConversationStore(journal, state=state, queue=queue)
        if submits:
            from ripieno.servers.chat.submitted_runs import SubmittedRuns

            self._runs: Runs = SubmittedRuns(self._assembly, journal, self._store, self.limits, self._workspace)
        else:
            self._runs = Runs(self._assembly, self._store, self.limits, self._workspace)
        self._open = OpenConversations(self._store, self._runs, most=self.limits.held)
        self._open.start()
        self._list = ConversationList(self._store, self._open, most=self.limits.listed)
        self.conversations, self.look = self._list.summaries, self._list.look
        return self

    async def __aexit__(self, *details: object) -> None:
        await self._open.close()

    async def create(self, owner: str, title: str = "") -> str:
        """Begins a conversation, and returns its identifier."""
        return await self._store.create(owner, title)

    async def named(self, owner: str, name: str, *, create: bool = False) -> str:
        """The identifier of a conversation for which a client has its own name, such as a front end's chat id.

        The name may also be an identifier. The same name of another owner is another conversation. ``create`` begins
        it, if the owner has none of this name.
        """
        derived = digest([owner, name])[:32]
        for identifier in (name, derived):
            if self._open.get(owner, identifier) is not None or await self._store.has(owner, identifier):
                return identifier
        if not create:
            raise NameAbsence("conversation", name)
        return await self._open.create(owner, derived)

    async def rename(self, owner: str, identifier: str, title: str) -> None:
        """Gives a conversation another title."""

        async def change(held: HeldConversation) -> None:
            await self._store.rename(owner, identifier, title)
            held.checked = -math.inf
            held.publish(Titled(title=title))

        await self._open.change(owner, identifier, change)

    async def delete(self, owner: str, identifier: str) -> None:
        """Stops the run of a conversation and deletes its content; readers look again. Errors: those of the store."""

        async def change(held: HeldConversation) -> None:
            await self._runs.end(held)
            await self._store.delete(owner, identifier)
            self._open.drop(owner, identifier)
            self.uploads.forget(owner, identifier)
            self._assembly.execution.allowances.forget(owner, identifier)
            held.ring.restart()

        await self._open.change(owner, identifier, change)

    async def snapshot(self, owner: str, identifier: str, *, limit: int | None = None) -> dict[str, Any]:
        """A conversation as it is now: messages, the turn under way, questions, and the position of its events.

        With a ``limit``, it has the newest messages, and ``place`` counts those before; ``messages`` gives these.
        """
        held = await self._open.find(owner, identifier, newest=limit)
        found, canisters = held.snapshot(), held.conversation.canisters
        return {**found, **await read_part(canisters, limit=limit, missing=held.missing, unfinished=held.unfinished)}

    async def follow(self, owner: str, identifier: str) -> Callable[[], dict[str, Any]]:
        """A function that gives the whole snapshot of each moment, for a reader of the events."""
        held, messages = await self._open.find(owner, identifier), AllMessages()
        await run_in_thread(messages.of, held.conversation.canisters, name="messages")
        return lambda: {**held.whole(), "messages": messages.of(held.conversation.canisters)}

    async def messages(self, owner: str, identifier: str, *, before: int, limit: int) -> dict[str, Any]:
        """The newest messages before a place, and the ``place`` of the first of them."""
        held = await self._open.find(owner, identifier)
        return await read_part(held.conversation.canisters, before=before, limit=limit, unfinished=held.unfinished)

    async def position(self, owner: str, identifier: str) -> str:
        """The position after the last event of a conversation."""
        return (await self._open.find(owner, identifier, newest=0)).ring.position

    async def read(
        self, owner: str, identifier: str, position: str | None, *, quiet: float | None = None
    ) -> AsyncGenerator[Sequence[Entry], None]:
        """The events of a conversation after a position, without end; none after each ``quiet`` seconds of silence.

        Without a position, from now on. Errors: ``Refused`` for too many readers; while reading, ``EventsLost``, if
        the reader needs a snapshot first.
        """
        held = await self._open.find(owner, identifier, newest=0)
        readers = sum(one.ring.readers for _, one in self._open.of(owner))
        if readers >= self.limits.readers:
            raise Refused(too_many(f"{readers} streams of events", self.limits.readers))
        return self._open.read(held, position or held.ring.position, quiet=quiet)

    async def require(self, owner: str, identifier: str) -> None:
        """Errors: ``NameAbsence`` if the owner has no such conversation."""
        await self._open.find(owner, identifier, newest=0)

    async def attach(self, owner: str, identifier: str, content: Content) -> str:
        """Keeps an upload for a message that is still to come, and returns its reference."""
        await self.require(owner, identifier)
        return self.uploads.add(owner, identifier, content)

    def detach(self, owner: str, identifier: str, reference: str) -> None:
        """Drops an upload. Errors: ``NameAbsence``, also for one that a message has named."""
        self.uploads.forget(owner, identifier, (self.uploads.find(owner, identifier, reference),))

    async def content(self, owner: str, identifier: str, reference: str) -> Content:
        """A content of a conversation, or an upload for it. Errors: ``NameAbsence``."""
        found = referenced((await self._open.find(owner, identifier)).contents(), reference)
        return self.uploads.find(owner, identifier, reference) if found is None else found

    def declared(self, tools: Sequence[Definition]) -> Ensemble | None:
        """The ensemble of the tools that a client declares and runs itself; None for none.

        Errors: ``RequestInvalidity`` for a name that one of the chat's own tools has.
        """
        own = {one.exposed for ensemble in self._assembly.ensembles for one in ensemble.invokers.values()}
        for tool in tools:
            if tool.name in own:
                raise RequestInvalidity(
                    f"The chat has a tool {tool.name!r}: give yours another name.", parameter="tools"
                )
        return Ensemble.of_request(tools, name=CLIENT) if tools else None

    async def say(
        self,
        owner: str,
        identifier: str,
        message: UserCanister,
        *,
        model: str | None = None,
        agent: str | None = None,
        tools: Ensemble | None = None,
        at: str | None = None,
    ) -> Conversation:
        """Continues a conversation with a message; returns the conversation with which the run begins.

        Calls that wait are denied, with the message as the reason. Errors: ``Conflict`` while a run is under way.
        """

        async def change(held: HeldConversation) -> Conversation:
            held.require_free(at)
            conversation = held.conversation
            if conversation.open:
                conversation = conversation.decline_open(text_of(message) or "The user sent something else instead.")
            conversation = conversation.say(message)
            async with self._runs.starting(held):
                await self._runs.begin(held, conversation, tools, said=(message,), **held.chosen(model, agent))
            # Before the run has begun: it takes its first step when this one waits.
            self.uploads.forget(owner, identifier, message.content)
            held.publish(Said(canister=message, place=len(conversation.canisters) - 1))
            return conversation

        return await self._open.change(owner, identifier, change)

    async def resume(
        self, owner: str, identifier: str, *, tools: Ensemble | None = None, at: str | None = None
    ) -> None:
        """Continues a conversation whose run was interrupted, or failed before it answered.

        Errors: ``Conflict`` if there is nothing to continue.
        """

        async def change(held: HeldConversation) -> None:
            held.require_free(at)
            if held.state != "interrupted" and not held.unanswered:
                raise Conflict(f"The conversation is {held.state}, not interrupted.")
            async with self._runs.starting(held):
                await self._runs.begin(held, held.conversation, tools, model=held.model, agent=held.agent)

        await self._open.change(owner, identifier, change)

    async def answer(
        self,
        owner: str,
        identifier: str,
        invocation: str,
        sent: Mapping[str, Any],
        *,
        tools: Ensemble | None = None,
        at: str | None = None,
        unseen: bool = True,
        alone: bool = False,
    ) -> int:
        """Answers a question, and returns the number of questions that are left.

        It is final, and the last one about a call continues the run. Unless ``unseen``, an edited call is asked about
        again. An *always* also approves the other waiting calls that it allows, but not where it is ``alone``.
        Errors: ``Conflict`` for a question that changed, was answered, or is unknown; ``RequestInvalidity``.
        """

        async def change(held: HeldConversation) -> int:
            held.require_at(at)
            question, asked, edited = held.question(invocation), held.edited.get(invocation), None
            answer = read_answer(question, sent)
            if question["kind"] == "input":
                held.answer_input(invocation, answer)
                return len(held.questions) - 1
            if asked is not None and (answer == Edit(asked.arguments) or isinstance(answer, Approve)):
                # A yes to the question in which exactly this edited call was shown.
                answer, edited = Edit(asked.arguments), asked.binding
            elif isinstance(answer, Edit) and not unseen and sent.get("shown") is None:
                return await self._ask_again(held, invocation, answer)
            elif isinstance(answer, Edit) and (shown := sent.get("shown")) is not None:
                if (edited := held.revised.get(str(shown))) is None:
                    raise Conflict("The call with these arguments was not shown. Load the question again.")
            elif isinstance(answer, Edit):
                check_edit(self._assembly, str(question["tool"]), answer)
            (waiting,) = (one for one in held.conversation.waiting if one.invocation == invocation)
            given = Given(answer=answer, binding=binding_of(waiting), edited=edited)
            async with self._runs.starting(held):
                also = also_approved(held.conversation, () if alone else held.questions, question, answer)
                for name, one in {invocation: given, **also}.items():
                    await self._runs.answer(held, name, one, str(sent["answer"]))
                return await self._runs.go_on(held, tools)

        return await self._open.change(owner, identifier, change)

    async def revise(self, owner: str, identifier: str, invocation: str, sent: Mapping[str, Any]) -> Question:
        """A question with other arguments, to show before an answer ``edit`` that has its digest as ``shown``.

        Nothing runs. Errors: ``Conflict`` for a question that has changed or is unknown; ``RequestInvalidity`` for
        arguments that the tool would refuse.
        """

        async def change(held: HeldConversation) -> Question:
            held.require_free()
            answer = read_answer(held.question(invocation), {**sent, "answer": "edit"})
            assert isinstance(answer, Edit)
            question, binding = await self._revised(held, invocation, answer)
            held.revised[str(question["digest"])] = binding
            return question

        return await self._open.change(owner, identifier, change)

    async def _ask_again(self, held: HeldConversation, invocation: str, edit: Edit) -> int:
        """Asks about an edited call in place of the model's; returns the number of open questions."""
        held.require_free()
        question, binding = await self._revised(held, invocation, edit)
        held.edited[invocation] = EditedCall(edit.arguments, question, binding)
        held.ask()
        return len(held.questions)

    async def _revised(self, held: HeldConversation, invocation: str, edit: Edit) -> tuple[Question, Binding]:
        """The question about an edited call, and its binding. Errors: ``RequestInvalidity``."""
        run = self._runs.make(held, held.conversation, None, model=held.model, agent=held.agent)
        try:
            waiting = await run.revise(invocation, edit.arguments)
        except InputError as error:
            raise RequestInvalidity(str(error), parameter="arguments") from None
        return approval_question(waiting), binding_of(waiting)

    async def deliver(
        self,
        owner: str,
        identifier: str,
        result: ResultCanister,
        *,
        tools: Ensemble | None = None,
        at: str | None = None,
    ) -> int:
        """Takes the result of a call that the client runs, and returns the number of questions that are left.

        Questions about calls come first. Errors: ``Conflict``.
        """

        async def change(held: HeldConversation) -> int:
            held.require_free(at)
            question = held.question(result.invocation_id)
            if question["kind"] != "client":
                raise RequestInvalidity("This call runs here: it waits for an answer.", parameter="invocation")
            if any(one["kind"] == "approval" for one in held.questions):
                raise Conflict("Answer the questions about calls first, then send results.")
            async with self._runs.starting(held):
                await self._runs.give(held, result)
                return await self._runs.go_on(held, tools)

        return await self._open.change(owner, identifier, change)

    async def running(self, owner: str, identifier: str) -> bool:
        """Whether a run of a conversation is under way."""
        return (await self._open.find(owner, identifier, newest=0)).running

    async def stop(self, owner: str, identifier: str) -> None:
        """Stops the run of a conversation, if there is one."""
        held = self._open.get(owner, identifier)
        if held is not None and held.running:
            return held.stop()
        # A run may be about to begin.
        return await self._open.change(owner, identifier, self._runs.stop)

    async def questions(self, owner: str) -> dict[str, list[dict[str, Any]]]:
        """The open questions of all conversations of an owner, by the identifiers of the conversations."""
        found: dict[str, list[dict[str, Any]]] = {}
        for paused in await self._store.waiting(owner):
            submitted = paused.submission is not None
            elsewhere = self._runs.elsewhere(owner, paused.identifier, paused.workspace, is_submitted=submitted)
            asked = questions_of(paused.conversation, elsewhere)
            found[paused.identifier] = [thaw(one) for one in asked if one["invocation"] not in paused.answers]
        for name, held in list(self._open.of(owner)):
            # Another process may have asked, answered or deleted them.
            if (held.questions or name in found) and not held.running:
                with contextlib.suppress(NameAbsence):
                    await self._open.find(owner, name, newest=0)
        found |= {name: [thaw(one) for one in held.questions] for name, held in self._open.of(owner)}
        return {identifier: asked for identifier, asked in found.items() if asked}

    async def allowances(self, owner: str) -> Mapping[str, Sequence[Allowance]]:
        """The owner's permissions by *always*, by conversations."""
        return await self._runs.allowances(owner)

    async def take_back(self, owner: str, identifier: str, allowance: str) -> None:
        """Ends what *always* has allowed, and then records that. Errors: ``NameAbsence`` if there is none."""
        if (taken := await self._runs.take_back(owner, identifier, allowance)) is None:
            raise NameAbsence("allowance", allowance)
        await self._store.record(taken.revocation(owner, identifier))

    async def usage(self, owner: str, since: str = "") -> dict[str, Any]:
        """The owner's tokens and calls since a time (ISO 8601, UTC), in total and by day and model."""
        found = await self._store.usage(owner, since)
        return {name: found[name] for name in ("total", "days", "models")}
