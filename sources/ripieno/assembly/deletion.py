"""The deletion of conversations, with all that is kept of them."""

import pathlib

from ripieno.storage.dispatch.contract import Dispatcher
from ripieno.storage.journal import Journal
from ripieno.storage.outputs import Outputs


def delete_conversation(
    journal: Journal, conversation: str, *, owner: str, state: pathlib.Path | None, queue: Dispatcher | None
) -> int:
    """Deletes what a journal, the queue beside it, and this machine's kept outputs have of an owner's conversation.

    Returns the number of lines whose bodies were deleted. The journal comes last, so that a deletion that fails can be
    repeated. The caller has claimed the conversation, and calls ``journal.database.clean`` after the last one.
    ``state`` is the folder of the user's state. Errors: ``NameAbsence`` if the journal has none; ``InputError``.
    """
    if queue is not None:
        queue.forget(owner, conversation)
    if state is not None:
        began = [line.record for line in journal.lines(conversation, owner=owner, stage="began")]
        for folder in {one.details.get("workspace") for one in began if one is not None}:
            if folder:
                Outputs(state, pathlib.Path(folder)).forget(conversation)
    return journal.delete(conversation, owner=owner, clean=False)
