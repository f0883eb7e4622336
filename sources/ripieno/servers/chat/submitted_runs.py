"""``SubmittedRuns``: the runs of a chat that workers conduct, and what other servers and programs do meanwhile."""

import asyncio
import contextlib
import dataclasses
import functools
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from ripieno.approvals import Given
from ripieno.approvals.allowances import Allowance
from ripieno.approvals.recorded_allowances import recorded_allowances
from ripieno.assembly import Assembly
from ripieno.assembly.continuations import cancel_submission
from ripieno.assembly.journal import open_database
from ripieno.assembly.submissions import SubmittedRun, make_submission
from ripieno.canisters import Canister, Conversation, ResultCanister
from ripieno.canisters.events import ConductEnded
from ripieno.ensembles import Ensemble
from ripieno.ensembles.threads import run_in_thread
from ripieno.exceptions import InputError, NameAbsence
from ripieno.servers.chat.followed_run import FollowedRun
from ripieno.servers.chat.held import HeldConversation
from ripieno.servers.chat.messages import ChatLimits
from ripieno.servers.chat.runs import Runs, Workspaces
from ripieno.servers.chat.store import ConversationStore
from ripieno.storage.dispatch.contract import ClientTool, State, Submission
from ripieno.storage.dispatch.events import EventLog, QuestionAnswered, StretchBegan, topic_of
from ripieno.storage.journal import Journal

#: Runs of one owner that are looked at.
_MOST = 1_000
#: Seconds after which a database that is away is asked again.
_PATIENCE = 1.0
#: Seconds that a worker has to stop a run whose conversation is deleted.
_STOPPING = 10.0
_Key = tuple[str, str]
#: Looks at a conversation again, one after another with its changes.
Refresh = Callable[[str, str], Awaitable[None]]


class SubmittedRuns(Runs):
    """Submits runs to workers, and follows those of conversations in memory, also those that others have submitted.

    Nothing of a run is in this process alone: another server shows it, and this one again after a restart.
    """

    def __init__(
        self,
        assembly: Assembly,
        journal: Journal,
        store: ConversationStore,
        limits: ChatLimits,
        workspace: Workspaces | None,
    ) -> None:
        """Errors: ``InputError`` if the engine is not installed, or workers have another journal."""
        super().__init__(assembly, store, limits, workspace)
        of_workers = open_database(assembly.loaded, assembly.surroundings.secrets).name
        if journal.database.name != of_workers:
            raise InputError(
                f"Workers have the journal {of_workers}, and this chat has {journal.database.name}. Leave out "
                "recorder=, and set enabled = true under [journal]."
            )
        self._dispatcher = assembly.dispatcher
        self._journal = journal
        self._log = EventLog(journal.database, journal.redactor.value)
        self._followed: dict[HeldConversation, FollowedRun] = {}
        self._subscribed: dict[_Key, tuple[HeldConversation, contextlib.ExitStack]] = {}
        self._marked: set[_Key] = set()
        self._refreshing: dict[_Key, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()

    def start(self, refresh: Refresh) -> None:
        self._loop = asyncio.get_running_loop()
        self._watching = asyncio.create_task(self._watch(refresh), name="ripieno chat log")

    async def close(self, running: Sequence[HeldConversation]) -> None:
        """Leaves the runs to their workers."""
        self._closing = True
        self._changed.set()
        await self._watching
        for task in self._refreshing.values():
            task.cancel()
        await asyncio.gather(*self._refreshing.values(), return_exceptions=True)
        del running  # More may have been found meanwhile.
        followed = dict(self._followed)
        for held, run in followed.items():
            run.leave()
            held.leave()
        await asyncio.gather(*(held.stopped() for held in followed))
        for held, _ in list(self._subscribed.values()):
            self.leave(held)

    # Conversations in memory

    async def open(self, owner: str, identifier: str, *, newest: int | None) -> HeldConversation:
        # First, so that nothing is missed that comes while it is loaded.
        seen = await _in_thread(self._log.last, owner, identifier)
        pending = await self._pending(owner, identifier)
        held = await super().open(owner, identifier, newest=None if pending else newest)
        held.seen = seen
        subscription = contextlib.ExitStack()
        wake = functools.partial(self._wake, (owner, identifier))
        subscription.enter_context(self._journal.database.subscribed(topic_of(owner, identifier), wake))
        self._subscribed[owner, identifier] = held, subscription
        if pending:
            conversation, said = held.conversation, pending[0].canisters
            if said:
                conversation = (conversation.decline_open() if conversation.open else conversation).say(said)
            await self._follow(held, conversation, pending[0]).caught_up.wait()
        return held

    def leave(self, held: HeldConversation) -> None:
        _, subscription = self._subscribed.pop((held.owner, held.conversation.identifier))
        subscription.close()

    async def refresh(self, held: HeldConversation) -> None:
        """Takes what other servers and programs have done since."""
        if held.running:
            return
        owner, identifier = held.owner, held.conversation.identifier
        for number, submission, event in await _in_thread(self._log.since, owner, identifier, held.seen):
            if isinstance(event, QuestionAnswered) and any(
                event.invocation == one["invocation"] for one in held.questions
            ):
                held.adopt(await self._store.load(owner, identifier))
                held.publish(event)
            elif isinstance(event, StretchBegan):
                await self.complete(held)
                with contextlib.suppress(NameAbsence):
                    found = await _in_thread(self._dispatcher.find, submission)
                    run = self._follow(held, held.conversation, found.submission, after=number - 1)
                    held.seen = number
                    await run.caught_up.wait()
                    return
            elif isinstance(event, ConductEnded):
                # Of a run that could not be followed to its end. The journal has all of it.
                held.adopt(await self._store.load(owner, identifier))
                held.ring.restart()
            # Only now: after an error, it is read again.
            held.seen = number

    async def renew(self, held: HeldConversation, *, changed: bool) -> None:
        # Workers write to the journal, and all that they do to the log, before a run counts as done: `refresh` takes
        # that. A terminal writes to the journal alone.
        owner, identifier = held.owner, held.conversation.identifier
        if not (changed or held.under_way_elsewhere) or identifier in await self._under_way(owner):
            return
        if await _in_thread(self._log.last, owner, identifier) <= held.seen:
            await super().renew(held, changed=changed)

    # Runs

    def elsewhere(self, owner: str, identifier: str, workspace: str, *, is_submitted: bool) -> str:
        # An answer goes to a worker, which works in the folder of the submission.
        return "" if is_submitted else super().elsewhere(owner, identifier, workspace, is_submitted=False)

    async def begin(
        self,
        held: HeldConversation,
        conversation: Conversation,
        client: Ensemble | None,
        *,
        model: str,
        agent: str,
        said: Sequence[Canister] = (),
    ) -> None:
        submission = make_submission(
            self._assembly.loaded,
            self._journal,
            Conversation(identifier=conversation.identifier, canisters=tuple(said)),
            workspace=self._folder(held.owner),
            model=model,
            agent=agent,
            owner=held.owner,
            client_tools=_declared(client),
        )
        await self._submit(held, conversation, submission)

    async def go_on(self, held: HeldConversation, client: Ensemble | None) -> int:
        left = len(held.questions)
        if left:
            return left
        paused = await self._store.paused(held.owner, held.conversation.identifier)
        submission = None if paused is None else paused.next_submission
        if submission is None:
            return await super().go_on(held, client)
        if client is not None:
            submission = dataclasses.replace(submission, client_tools=_declared(client))
        await self._submit(held, held.conversation, submission)
        return 0

    async def answer(self, held: HeldConversation, invocation: str, given: Given, kind: str) -> None:
        await super().answer(held, invocation, given, kind)
        await self._note(held, invocation, kind)

    async def give(self, held: HeldConversation, result: ResultCanister) -> None:
        await super().give(held, result)
        await self._note(held, result.invocation_id, "result")

    async def allowances(self, owner: str) -> Mapping[str, Sequence[Allowance]]:
        found = await _in_thread(lambda: recorded_allowances(self._journal, owner=owner))
        return {name: given for (_, name), given in found.items()}

    async def take_back(self, owner: str, identifier: str, allowance: str) -> Allowance | None:
        # The record ends it.
        given = (await self.allowances(owner)).get(identifier, ())
        return next((one for one in given if one.identifier == allowance), None)

    async def stop(self, held: HeldConversation) -> None:
        pending = await self._pending(held.owner, held.conversation.identifier)
        for one in pending:
            await _in_thread(cancel_submission, self._dispatcher, self._journal, one.identifier)
        if not pending:
            await super().stop(held)

    async def end(self, held: HeldConversation) -> None:
        key = held.owner, held.conversation.identifier
        while pending := await self._pending(*key):
            await self.stop(held)
            if not held.running:
                # What has come so far is deleted, also what could not be read.
                self._follow(held, held.conversation, pending[0], after=await _in_thread(self._log.last, *key))
            try:
                async with asyncio.timeout(_STOPPING):
                    await held.stopped()
            except TimeoutError:
                # No worker has it if it can be claimed: its own has died, and there is no other one.
                claim = await self._store.claim(*key)
                await claim.release()
                self._followed[held].leave()
                held.leave()
                await held.stopped()
                return

    def _folder(self, owner: str) -> str | os.PathLike[str]:
        # By name, as workers have it: what a person is shown of an edited call is bound to it.
        return super()._folder(owner) or self._assembly.loaded.workspace

    async def _under_way(self, owner: str) -> set[str]:
        return {one.conversation for one in await self._active(owner)}

    async def _submit(self, held: HeldConversation, conversation: Conversation, submission: Submission) -> None:
        await _in_thread(self._dispatcher.submit, submission)
        self._follow(held, conversation, submission)

    def _follow(
        self, held: HeldConversation, conversation: Conversation, submission: Submission, *, after: int = 0
    ) -> FollowedRun:
        submitted = SubmittedRun(submission, self._dispatcher, self._journal)
        run = self._followed[held] = FollowedRun(submitted, self._store, conversation, after=after)
        self._begin(held, run, functools.partial(self._ended, held, run))
        held.model, held.agent = submission.model, submission.agent
        return run

    async def _ended(self, held: HeldConversation, run: FollowedRun) -> None:
        del self._followed[held]
        held.seen = max(held.seen, run.number)
        if run.stored is not None:
            held.adopt(run.stored)
            held.checked = time.monotonic()
        # Another one may have begun meanwhile.
        self._mark((held.owner, held.conversation.identifier))

    async def _note(self, held: HeldConversation, invocation: str, kind: str) -> None:
        """Tells other servers that a question has its answer."""
        about = Submission(identifier="", conversation=held.conversation.identifier, owner=held.owner)
        await _in_thread(self._log.add, about, QuestionAnswered(invocation=invocation, answer=kind))

    async def _active(self, owner: str, *also: State) -> Sequence[Submission]:
        """The submissions of an owner that run or wait for a worker, and those in other states, the oldest first."""
        states: Sequence[State] = ("queued", "running", *also)
        found = await _in_thread(lambda: self._dispatcher.listed(owner=owner, states=states, limit=_MOST))
        return [one.submission for one in reversed(found) if one.submission.owner == owner]

    async def _pending(self, owner: str, identifier: str) -> Sequence[Submission]:
        return [one for one in await self._active(owner, "scheduled") if one.conversation == identifier]

    # What others do

    def _wake(self, key: _Key) -> None:
        """Called in another thread."""
        with contextlib.suppress(RuntimeError):  # The loop is closed.
            self._loop.call_soon_threadsafe(self._mark, key)

    def _mark(self, key: _Key) -> None:
        self._marked.add(key)
        self._changed.set()

    async def _watch(self, refresh: Refresh) -> None:
        """Refreshes conversations about which the log has something new: one that takes long holds up no other."""
        while True:
            await self._changed.wait()
            if self._closing:
                return
            self._changed.clear()
            marked = self._marked - self._refreshing.keys()
            self._marked -= marked
            idle = {key: self._subscribed[key][0] for key in marked if key in self._subscribed}
            idle = {key: held for key, held in idle.items() if not held.running}
            try:
                numbers = await _in_thread(self._log.lasts, list(idle))
            except InputError:
                await asyncio.sleep(_PATIENCE)
                self._marked |= marked
                self._changed.set()
                continue
            for (key, held), number in zip(idle.items(), numbers, strict=True):
                if number > held.seen and not held.running:
                    task = asyncio.create_task(self._refresh(refresh, key), name="ripieno chat refresh")
                    self._refreshing[key] = task

    async def _refresh(self, refresh: Refresh, key: _Key) -> None:
        try:
            await refresh(*key)
        except InputError:
            await asyncio.sleep(_PATIENCE)
            self._marked.add(key)
        finally:
            del self._refreshing[key]
            # It may have been marked meanwhile.
            self._changed.set()


def _declared(client: Ensemble | None) -> tuple[ClientTool, ...]:
    if client is None:
        return ()
    return tuple(
        ClientTool(name=one.exposed, description=one.description, arguments=one.schema.mapping)
        for one in client.invokers.values()
    )


async def _in_thread(function: Callable[..., Any], *arguments: object) -> Any:
    return await run_in_thread(function, *arguments, name="queue", patient=False)
