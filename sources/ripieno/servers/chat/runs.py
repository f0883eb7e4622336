"""``Runs``: the runs of a chat. Each is counted before it begins, and its end is stored before the next one begins."""

import asyncio
import contextlib
import functools
import math
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence

from ripieno.approvals import Given
from ripieno.approvals.allowances import Allowance
from ripieno.assembly import Assembly
from ripieno.canisters import Canister, Conversation, ResultCanister
from ripieno.canisters.display import short
from ripieno.conducting import Run
from ripieno.conducting.paused import Paused
from ripieno.ensembles import Ensemble
from ripieno.exceptions import Conflict
from ripieno.models.protocol import Refusal
from ripieno.servers.chat.held import GONE_ON, UNDER_WAY_ELSEWHERE, ConversationRun, HeldConversation, progress_of
from ripieno.servers.chat.messages import ChatLimits
from ripieno.servers.chat.store import Claim, ConversationStore
from ripieno.servers.http.limits import Refused
from ripieno.storage.dispatch.contract import CLIENT
from ripieno.storage.dispatch.events import QuestionAnswered

#: The folder of an owner's tools.
Workspaces = Callable[[str], str | os.PathLike[str]]


class Runs:
    """Begins runs over one assembly, in this process. Most methods are called in a change of the conversation."""

    def __init__(
        self, assembly: Assembly, store: ConversationStore, limits: ChatLimits, workspace: Workspaces | None
    ) -> None:
        self._assembly = assembly
        self._store = store
        self._limits = limits
        self._workspace = workspace
        #: The conversations with a run, and those where one may begin.
        self._busy: set[HeldConversation] = set()
        self._closing = False

    def start(self, refresh: Callable[[str, str], Awaitable[None]]) -> None:
        """Begins to look at the log of submitted runs: ``refresh`` then looks at a conversation in memory again."""

    async def close(self, running: Sequence[HeldConversation]) -> None:
        """Ends with the server: its runs are stopped."""
        self._closing = True
        for held in running:
            held.stop()
        await asyncio.gather(*(held.stopped() for held in running))

    async def open(self, owner: str, identifier: str, *, newest: int | None) -> HeldConversation:
        """The conversation as it is stored; with ``newest``, its end is enough. Errors: ``NameAbsence``."""
        stored = await self._store.load(owner, identifier, newest=newest)
        return HeldConversation(owner, stored, self.elsewhere, self._assembly.configuration.model_of)

    async def complete(self, held: HeldConversation) -> None:
        """Reads what is missing of a conversation."""
        if held.missing:
            held.adopt(await self._store.load(held.owner, held.conversation.identifier))

    async def refresh(self, held: HeldConversation) -> None:
        """Takes what the log of submitted runs has of a conversation since it was opened."""

    async def look(self, held: HeldConversation) -> bool:
        """Looks at a conversation again, and takes what another process has done; returns whether its journal has more.

        Of the summaries of one with a run, or whose run ends meanwhile, the latest stays.
        """
        known, running = held.summary, held.running
        found = await self._store.summary(held.owner, held.conversation.identifier)
        changed = not running and progress_of(found) != progress_of(known)
        if not running:
            more = found.is_open_ended and found.lines != known.lines
            await self.renew(held, changed=changed or more)
        if held.summary is known:
            held.summary = found
        return changed

    async def renew(self, held: HeldConversation, *, changed: bool) -> None:
        """Takes what another process has done with a conversation, such as ``ripieno resume`` or ``approvals``.

        ``changed``: its journal has more than what is known here. Otherwise, only its answers may be other ones.
        """
        if held.running or not (changed or held.conversation.open or held.under_way_elsewhere):
            return
        owner, identifier = held.owner, held.conversation.identifier
        if held.under_way_elsewhere and not changed:
            if await self._store.is_claimed(owner, identifier):
                return
        elif not changed:
            paused = await self._store.paused(owner, identifier)
            if paused is None or paused.answers == held.answers:
                return
        newest = len(held.conversation.canisters) if held.missing else None
        held.adopt(await self._store.load(owner, identifier, newest=newest, was_under_way=held.under_way_elsewhere))
        held.ring.restart()

    def leave(self, held: HeldConversation) -> None:
        """Called when a conversation leaves the memory."""

    @contextlib.asynccontextmanager
    async def starting(self, held: HeldConversation) -> AsyncGenerator[None, None]:
        """Counts a run that may begin, before anything is stored.

        Errors: ``Refused`` if the owner has too many; ``Conflict`` if it is to be continued elsewhere.
        """
        self._require_here(held)
        elsewhere = await self._under_way(held.owner)
        self._busy = {one for one in self._busy if one.running or one.starting}
        here = {one.conversation.identifier for one in self._busy if one.owner == held.owner}
        # Its own has ended, also if the queue does not know that yet.
        if (running := len((elsewhere | here) - {held.conversation.identifier})) >= self._limits.runs:
            raise Refused(too_many(f"{running} runs", self._limits.runs))
        held.starting = True
        self._busy.add(held)
        try:
            yield
        finally:
            held.starting = False

    def _require_here(self, held: HeldConversation) -> None:
        """Errors: ``Conflict`` for a conversation that is to be continued elsewhere."""
        if held.elsewhere:
            raise Conflict(held.elsewhere)

    def elsewhere(self, owner: str, identifier: str, workspace: str, *, is_submitted: bool) -> str:
        """Why and how a conversation is to be continued elsewhere; empty if it can be continued here.

        The run of a worker, and the user's own conversation of another folder.
        """
        if is_submitted:
            return f"A worker conducts this run. Answer in a terminal: ripieno approvals show {short(identifier)}"
        here = os.path.realpath(self._place(owner))
        # Owners of an application have the folders that it gives them now.
        if owner or not workspace or os.path.realpath(workspace) == here:
            return ""
        return (
            f"The workspace of the conversation is {workspace}, not {here}. To continue it, in that folder: "
            f"ripieno resume {short(identifier)}"
        )

    async def _under_way(self, owner: str) -> set[str]:
        """The conversations of an owner whose runs are under way elsewhere."""
        del owner
        return set()

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
        """Begins a run of a conversation, of which ``said`` is new.

        Its first step comes after what the caller does before it waits again.
        """
        del said
        run = self.make(held, conversation, client, model=model, agent=agent)
        claim = await self._store.claim(held.owner, conversation.identifier)
        try:
            # Now no other process continues it; one may have done so since it was looked at.
            if await self.look(held):
                raise Conflict(GONE_ON)
        except BaseException:
            await claim.release()
            raise
        self._begin(held, run, functools.partial(self._stopped, held, claim, run.model.identity))
        held.model, held.agent = model, agent

    def make(
        self,
        held: HeldConversation,
        conversation: Conversation,
        client: Ensemble | None,
        *,
        model: str,
        agent: str,
    ) -> Run:
        """A run of a conversation, which has not begun."""
        owner = held.owner
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
            workspace=self._folder(owner),
        )

    def _place(self, owner: str) -> str | os.PathLike[str]:
        """The folder of an owner's tools: their own, or that of all."""
        return self._folder(owner) or self._assembly.surroundings.workspace

    def _folder(self, owner: str) -> str | os.PathLike[str] | None:
        return None if self._workspace is None else self._workspace(owner)

    async def go_on(self, held: HeldConversation, client: Ensemble | None) -> int:
        """Begins a run when no question about a call is left."""
        left = len(held.questions)
        if not left:
            await self.begin(held, held.conversation, client, model=held.model, agent=held.agent)
        return left

    async def answer(self, held: HeldConversation, invocation: str, given: Given, kind: str) -> None:
        """Keeps an answer to a question about a call. Errors: ``Conflict``."""
        paused = await self._store.answer(held.owner, held.conversation.identifier, invocation, given)
        held.answers, held.checked = paused.answers, -math.inf
        held.publish(QuestionAnswered(invocation=invocation, answer=kind))

    async def give(self, held: HeldConversation, result: ResultCanister) -> None:
        """Keeps the result of a call that the client runs. Errors: ``Conflict``."""
        conversation = held.conversation.say(result)
        await self._store.give(held.owner, conversation.identifier, result)
        held.conversation, held.checked = conversation, -math.inf
        held.publish(QuestionAnswered(invocation=result.invocation_id, answer="result"))

    async def allowances(self, owner: str) -> Mapping[str, Sequence[Allowance]]:
        """The owner's permissions by *always*, by conversations."""
        return self._assembly.execution.allowances.of(owner)

    async def take_back(self, owner: str, identifier: str, allowance: str) -> Allowance | None:
        """Ends what *always* has allowed, before that is recorded, and returns it. None if there is none."""
        return self._assembly.execution.allowances.take_back(owner, identifier, allowance)

    async def stop(self, held: HeldConversation) -> None:
        """Stops the run of a conversation, if there is one. Errors: ``Conflict`` if another process conducts it."""
        if held.under_way_elsewhere:
            raise Conflict(UNDER_WAY_ELSEWHERE)
        held.stop()

    async def end(self, held: HeldConversation) -> None:
        """Stops the run of a conversation, and waits for its end."""
        held.stop()
        await held.stopped()

    def _begin(self, held: HeldConversation, run: ConversationRun, ended: Callable[[], Awaitable[None]]) -> None:
        held.revised.clear()
        held.begin(run, ended)
        self._busy.add(held)

    async def _stopped(self, held: HeldConversation, claim: Claim, model: str) -> None:
        try:
            if held.cut or self._closing:
                identifier = held.conversation.identifier
                await self._store.record_cut(held.owner, identifier, held.cut, interrupted=self._closing)
            await self._keep(held, model)
            # As it is now, before another process can continue it.
            held.summary = await self._store.summary(held.owner, held.conversation.identifier)
        finally:
            await claim.release()

    async def _keep(self, held: HeldConversation, model: str) -> None:
        """Stores that a conversation waits, or that it does not."""
        conversation = held.conversation
        try:
            if not conversation.open:
                await self._store.resume(held.owner, conversation.identifier)
                return
            await self._store.pause(
                Paused(
                    conversation=conversation,
                    workspace=str(self._place(held.owner)),
                    model=model,
                    agent=held.agent,
                    options=self._assembly.loaded.options,
                    owner=held.owner,
                )
            )
        finally:
            held.checked = -math.inf


def too_many(what: str, most: int) -> Refusal:
    """The refusal of what an owner has too much of."""
    return Refusal(
        status=429, code="too_many", message=f"You have {what} already; at most {most} at once.", seconds=1.0
    )
