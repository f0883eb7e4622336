"""``AllowedCalls``: what people have allowed with *always*, for the conversations that a worker conducts."""

import os
from collections.abc import Iterable, Sequence

from ripieno.approvals.allowances import Allowance
from ripieno.approvals.recorded_allowances import LIFETIME, recorded_allowances
from ripieno.assembly import Assembly
from ripieno.ensembles.threads import run_in_thread
from ripieno.storage.dispatch.contract import Submission
from ripieno.storage.journal import Journal


class AllowedCalls:
    """The allowances of the conversations under way here. The journal has them for all workers.

    Errors of its methods: ``InputError``.
    """

    def __init__(self, assembly: Assembly, journal: Journal) -> None:
        self._assembly = assembly
        self._journal = journal
        self._allowances = assembly.execution.allowances
        self._allowances.lifetime = LIFETIME

    def read(self, submission: Submission) -> Sequence[Allowance]:
        """The calls that were allowed in the conversation, for tools of this workspace."""
        here = os.path.realpath(submission.workspace or self._assembly.surroundings.workspace)
        recorded = self._recorded(submission.owner, submission.conversation)
        return [one for one in recorded if not one.workspace or os.path.realpath(one.workspace) == here]

    def begin(self, submission: Submission, allowances: Iterable[Allowance]) -> None:
        """Allows this in the conversation."""
        for one in allowances:
            self._allowances.add(submission, one)

    def end(self, submission: Submission) -> None:
        """Forgets those of a conversation, which another worker may continue."""
        self._allowances.forget(submission.owner, submission.conversation)

    async def take_back(self) -> None:
        """Ends what people have taken back meanwhile, in any program."""
        for owner, conversation in self._allowances.conversations:
            # What is allowed here now was recorded before.
            given = self._allowances.of(owner).get(conversation, ())
            recorded = await run_in_thread(self._recorded, owner, conversation, name="allowances")
            left = {one.identifier for one in recorded}
            for one in given:
                if one.identifier not in left:
                    self._allowances.take_back(owner, conversation, one.identifier)

    def _recorded(self, owner: str, conversation: str) -> Sequence[Allowance]:
        found = recorded_allowances(self._journal, owner=owner, conversation=conversation)
        return [one for given in found.values() for one in given]
