"""The stored conversations of a chat, apart from its server."""

import asyncio
from pathlib import Path

import pytest

from ripieno.servers.chat.store import ConversationStore
from ripieno.storage.databases.contract import Disconnected
from ripieno.storage.journal import Journal
from tests.storage.journal.test_owners import said


class Away(Journal):
    """The journal whose server goes away as it has deleted a conversation."""

    def delete(self, conversation: str, *, owner: str | None = None, clean: bool = True) -> int:
        super().delete(conversation, owner=owner, clean=clean)
        raise Disconnected("The server is away.")


def test_what_a_deletion_deletes_leaves_the_file_also_if_it_then_fails(tmp_path: Path) -> None:
    with Away(tmp_path / "journal") as journal:
        journal.record([said("ada", "c", "gone-" * 900)])
        with pytest.raises(Disconnected):
            asyncio.run(ConversationStore(journal).delete("ada", "c"))
        assert b"gone-gone-" not in b"".join(one.read_bytes() for one in tmp_path.glob("journal*") if one.is_file())
