"""The objects of a run are freed when it ends, without the garbage collector: long results do not stay in memory."""

import collections
import contextlib
import gc
import pathlib
from collections.abc import Mapping

import pytest

from ripieno.approvals import Approve
from ripieno.canisters import Controls
from ripieno.conducting import conduct
from ripieno.ensembles import Context
from ripieno.execution import Execution
from ripieno.storage.journal import Journal
from ripieno.testing import call, model_of, turn
from tests.support.golden_wires import PROTOCOLS
from tests.support.scripted_models import Person, ensemble, tool

SCHEMA = {"properties": {"path": {"type": "string"}}}


async def fail(_: Context, arguments: dict[str, object]) -> str:
    """The tool that fails."""
    raise OSError(arguments["path"])


async def garbage_of(protocol: str, execution: Execution, *, stream: bool, iterate: bool) -> Mapping[str, int]:
    """The objects of this package that only the collector can free, by class, after a conversation.

    Its calls succeed, fail, name no tool, and change something.
    """
    model = model_of(
        [
            turn(calls=[call("look", path="a"), call("fail", path="b"), call("nothing")]),
            turn(calls=[call("change", path="c")]),
            turn(text="Done."),
        ],
        protocol=protocol,
    )
    tools = ensemble(
        tool("look", schema=SCHEMA), tool("fail", fail, schema=SCHEMA), tool("change", schema=SCHEMA, effect="write")
    )
    gc.collect()
    gc.disable()
    try:
        run = conduct(model, "Go.", ensembles=[tools], execution=execution, controls=Controls(stream=stream))
        if iterate:
            async for _ in run:
                pass
        assert (await run).finish == "stop"
        del run
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        kinds = [type(one) for one in gc.garbage]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    return collections.Counter(kind.__qualname__ for kind in kinds if kind.__module__.startswith("ripieno"))


@pytest.mark.parametrize("iterate", [False, True], ids=["awaited", "iterated"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_run_is_freed_at_its_end(protocol: str, stream: bool, iterate: bool) -> None:
    execution = Execution(confirmer=Person(Approve()))
    assert await garbage_of(protocol, execution, stream=stream, iterate=iterate) == {}


async def test_a_recorded_run_is_freed_at_its_end(tmp_path: pathlib.Path) -> None:
    with contextlib.closing(Journal(tmp_path / "journal.db")) as journal:
        execution = Execution(recorder=journal, confirmer=Person(Approve()))
        assert await garbage_of("openai-chat", execution, stream=True, iterate=True) == {}
