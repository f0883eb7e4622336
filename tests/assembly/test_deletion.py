"""The deletion of all that is kept of a conversation."""

import contextlib
from pathlib import Path

from ripieno.assembly.deletion import delete_conversation
from ripieno.assembly.submissions import dispatcher_beside
from ripieno.storage.dispatch.contract import Submission
from ripieno.storage.journal import Journal
from ripieno.storage.outputs import Outputs
from ripieno.storage.records import Record


def test_a_deletion_takes_the_queue_and_kept_outputs_too(place_with_queue: Path | str, tmp_path: Path) -> None:
    state, workspace = tmp_path / "state", tmp_path / "work"
    outputs = Outputs(state, workspace)
    kept = [outputs.keep("A long text.", name, 100) for name in ("c", "d")]
    with Journal(place_with_queue) as journal, contextlib.closing(dispatcher_beside(place_with_queue)) as queue:
        for name in ("c", "d"):
            journal.record([Record(stage="began", conversation=name, turn=0, details={"workspace": str(workspace)})])
            queue.submit(Submission(identifier=f"run-{name}", conversation=name))
        # Again, as after one that was cut off.
        for bodies in (1, 0):
            assert delete_conversation(journal, "c", owner="", state=state, queue=queue) == bodies
        assert [one.submission.conversation for one in queue.listed()] == ["d"]
    assert None not in kept
    assert len(list(outputs.folder.glob("*/*"))) == 1
