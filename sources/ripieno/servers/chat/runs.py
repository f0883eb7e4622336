"""``Runs``: the runs of a chat. Each is counted before it begins, and its end is stored before the next one begins."""

import contextlib
import functools
import math
import os
from collections.abc import Callable, Generator, Mapping

from ripieno.approvals import Given
from ripieno.assembly import Assembly
from ripieno.canisters import Conversation
from ripieno.conducting import Run
from ripieno.conducting.paused import Paused
from ripieno.ensembles import Ensemble
from ripieno.models.protocol import Refusal
from ripieno.servers.chat.held import HeldConversation
from ripieno.servers.chat.messages import ChatLimits
from ripieno.servers.chat.open_conversations import OpenConversations
from ripieno.servers.chat.store import Claim, ConversationStore
from ripieno.servers.http.limits import Refused

#: The ensemble of the tools that a client declares.
CLIENT = "client"
#: The folder of an owner's tools.
Workspaces = Callable[[str], str | os.PathLike[str]]


class Runs:
    """Begins runs over one assembly. Its methods are called in a change of the conversation, one at a time."""

    def __init__(
        self,
        assembly: Assembly,
        store: ConversationStore,
        conversations: OpenConversations,
        limits: ChatLimits,
        workspace: Workspaces | None,
    ) -> None:
        self._assembly = assembly
        self._store = store
        self._open = conversations
        self._limits = limits
        self._workspace = workspace

    @contextlib.contextmanager
    def starting(self, held: HeldConversation) -> Generator[None, None, None]:
        """Counts a run that may begin, before anything waits. Errors: ``Refused`` if the owner has too many."""
        running = sum(one.running or one.starting for _, one in self._open.of(held.owner))
        if running >= self._limits.runs:
            raise Refused(too_many(f"{running} runs", self._limits.runs))
        held.starting = True
        try:
            yield
        finally:
            held.starting = False

    async def begin(
        self,
        held: HeldConversation,
        conversation: Conversation,
        client: Ensemble | None,
        *,
        model: str,
        agent: str,
    ) -> None:
        """Begins a run. Its first step comes after what the caller does before it waits again."""
        run = self.make(held, conversation, client, model=model, agent=agent)
        claim = await self._store.claim(held.owner, conversation.identifier)
        held.revised.clear()
        held.begin(run, functools.partial(self._ended, held, claim))
        held.model, held.agent = model or run.model.identity, agent

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
            workspace=None if self._workspace is None else self._workspace(owner),
        )

    async def go_on(self, held: HeldConversation, client: Ensemble | None) -> int:
        """Begins a run when no question about a call is left."""
        left = len(held.questions)
        if not left:
            await self.begin(held, held.conversation, client, model=held.model, agent=held.agent)
        return left

    async def _ended(self, held: HeldConversation, claim: Claim) -> None:
        try:
            if held.cut:
                await self._store.record_cut(held.owner, held.conversation.identifier, held.cut)
            await self.keep(held, held.conversation, held.answers)
        finally:
            await claim.release()

    async def keep(self, held: HeldConversation, conversation: Conversation, answers: Mapping[str, Given]) -> None:
        """Stores that a conversation waits, with its answers; or that it does not."""
        try:
            if not conversation.open:
                await self._store.resume(held.owner, conversation.identifier)
                return
            await self._store.pause(
                Paused(
                    conversation=conversation,
                    workspace=str(self._assembly.surroundings.workspace),
                    model=held.model,
                    agent=held.agent,
                    answers=answers,
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
