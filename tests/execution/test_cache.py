"""Cached results: only without a later write, only in one conversation, and for a limited time."""

import asyncio
import pathlib
import tempfile
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from ripieno.canisters import Conversation, ImageContent, ResultCanister
from ripieno.canisters.controls import Limits, Rules
from ripieno.descriptors import RetryPolicy
from ripieno.ensembles import Ensemble
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import ExecutionFault, OutcomeUnknownFault
from ripieno.execution import Circumstances, Execution
from ripieno.execution.budget import Budget
from ripieno.execution.cache import ResultCache
from ripieno.execution.call import Call, settle
from ripieno.execution.scheduling.turn import Turn
from tests.counts import count
from tests.support.scripted_models import Blocking, Recording, ensemble, invoke, tool
from tests.support.single_calls import Seeing, launch, raising
from tests.support.virtual_time import VirtualLoop

Value = TypeVar("Value")
ALL = Rules(approve=("mine.*", "mine.write"))
PATHS: tuple[str, ...] = ("a", "a/b")


class House:
    """An execution over these tools, with a clock that a test sets."""

    def __init__(self, *tools: Any, recorder: Any = None, **bounds: Any) -> None:
        self.now = 0.0
        self.cache = ResultCache(clock=lambda: self.now, **bounds)
        self.ensemble: Ensemble = ensemble(*tools)
        self.execution = Execution(rules=ALL, recorder=recorder)
        self.execution._cache = self.cache
        self.around = Circumstances(conversation="c")

    def start(self, name: str, around: Circumstances | None = None, **arguments: Any) -> Call:
        return launch(self.execution, self.ensemble, invoke(name, **arguments), around or self.around)

    async def call(self, name: str, around: Circumstances | None = None, **arguments: Any) -> ResultCanister:
        call = self.start(name, around, **arguments)
        await settle((call,))
        return call.result.result()

    async def cached(self, name: str, around: Circumstances | None = None, **arguments: Any) -> bool:
        return (await self.call(name, around, **arguments)).report.cached


def reader(name: str = "read", invocable: Any = None, **policy: Any) -> Any:
    return tool(name, invocable, **{"cache": 60, "reads": ("file:{path}",), **policy})


def writer(name: str = "write", invocable: Any = None, **policy: Any) -> Any:
    return tool(name, invocable, **{"effect": "write", "writes": ("file:{path}",), **policy})


async def test_the_same_call_is_not_made_again() -> None:
    recording, seeing = Recording(), Seeing()
    house = House(reader(invocable=seeing), recorder=recording)
    one, two = await house.call("read", path="a"), await house.call("read", path="a")
    assert (one.text, one.report.cached, one.report.attempts) == ("seen", False, 1)
    assert (two.text, two.report.cached, two.report.attempts, two.report.duration_ms) == ("seen", True, 0, 0)
    assert (one, two.invocation_id, len(seeing.arguments)) == (two, "read", 1)
    house.execution.reporter.flush("", "c")
    assert [stage for stage, _ in recording.stages] == ["started", "finished", "finished"]
    assert not await house.cached("read", path="a", id="another")


async def test_its_seconds_count_from_when_it_was_read() -> None:
    blocking = Blocking()
    house = House(reader(invocable=blocking))
    call = house.start("read", path="a")
    await blocking.began.wait()
    house.now = 30
    blocking.go.set()
    await settle((call,))
    house.now = 59
    assert await house.cached("read", path="a")
    house.now = 60
    assert not await house.cached("read", path="a")
    house.now = 119
    assert await house.cached("read", path="a")


async def test_another_conversation_and_another_caller_have_their_own() -> None:
    house = House(reader())
    handle = Seeing()
    ada: dict[str, Any] = {"user": "x", "tags": [1], "handle": handle}
    here, there = Conversation(identifier="c"), Conversation(identifier="c")
    spaces = here.namespaces
    first = Circumstances(conversation="c", namespaces=spaces, auxdata=ada)
    assert not await house.cached("read", first, path="a")
    same = Circumstances(conversation="c", namespaces=spaces, auxdata={**ada, "tags": [1]}, turn=5)
    assert await house.cached("read", same, path="a")
    changes: tuple[dict[str, Any], ...] = ({"user": "y"}, {"tags": [True]}, {"tags": {}}, {"handle": Seeing()})
    for other in (
        *(Circumstances(conversation="c", namespaces=spaces, auxdata={**ada, **change}) for change in changes),
        Circumstances(conversation="c", namespaces=there.namespaces, auxdata=ada),
        Circumstances(conversation="d", namespaces=spaces, auxdata=ada),
        Circumstances(conversation="c", namespaces=spaces, auxdata=ada, output=10),
    ):
        assert not await house.cached("read", other, path="a")
    house.ensemble = ensemble(reader())  # Connected again: what it offers is new.
    assert not await house.cached("read", first, path="a")


async def test_only_what_is_good_and_changes_nothing_is_kept() -> None:
    fails = raising(lambda: ExecutionFault("No."))
    house = House(
        reader(cache=0), reader("fails", fails), reader("writes", effect="write"), reader("none", effect="none")
    )
    for name, kept in (("read", False), ("fails", False), ("writes", False), ("none", True)):
        await house.call(name, path="a")
        assert await house.cached(name, path="a") is kept, name


@pytest.mark.parametrize(
    ("write", "kept"),
    [
        ({"path": "a"}, {"d"}),
        ({"path": "."}, set[str]()),
        ({"path": "a/../d"}, {"a"}),
        ({}, set[str]()),
        ({"path": "e"}, {"a", "d"}),
    ],
)
async def test_a_write_drops_what_it_overlaps_with(write: dict[str, Any], kept: set[str]) -> None:
    house = House(reader(), writer())
    for path in ("a", "d"):
        await house.call("read", path=path)
    await house.call("write", **write)
    assert {path for path in ("a", "d") if await house.cached("read", path=path)} == kept


@pytest.mark.parametrize("cancelled", [False, True])
async def test_what_is_read_while_it_is_written_is_not_kept(cancelled: bool) -> None:
    blocking = Blocking()
    house = House(reader(), writer(invocable=blocking))
    call = house.start("write", path="a")
    await blocking.began.wait()
    assert [await house.cached("read", path="a") for _ in range(3)] == [False] * 3
    if cancelled:
        call.cancel()
    else:
        blocking.go.set()
    await settle((call,))
    assert [await house.cached("read", path="a") for _ in range(3)] == [False, True, True]


async def test_nothing_is_kept_of_what_nobody_knows_the_outcome_of() -> None:
    house = House(reader(), writer(invocable=raising(lambda: OutcomeUnknownFault("It was sent."))))
    for _ in range(3):
        await house.call("write", path="a")
    for _ in range(3):
        assert not await house.cached("read", path="a")
    await house.call("read", path="d")
    assert await house.cached("read", path="d")


async def test_there_is_an_end_to_what_is_kept() -> None:
    house = House(reader(), entries=3)
    for path in "abcad":
        await house.call("read", path=path)
    assert len(house.cache) == 3
    assert await house.cached("read", path="a")
    assert not await house.cached("read", path="b")

    async def sees(context: Any, arguments: Any) -> ImageContent:
        return ImageContent(data=b"x" * arguments["size"], mime_type="image/png")

    house = House(reader("see", sees), size=2500)
    for size in (1000, 1001, 1002):
        await house.call("see", size=size)
    assert [await house.cached("see", size=size) for size in (1002, 1001)] == [True, True]
    assert len(house.cache) == 2
    house = House(reader("see", sees, output=2**20), size=2**30)
    await house.call("see", size=2**20 + 1)
    assert len(house.cache) == 0


async def test_it_counts_as_a_call_and_not_as_a_repetition() -> None:
    house = House(reader())
    execution = Execution(limits=Limits(repeats=2))
    budget = Budget(execution.limits)
    found: list[ResultCanister | None] = []
    for number in range(3):
        turn = Turn(execution=execution, offer=Offer.of([house.ensemble]), scope=house.around, budget=budget)
        turn.seal(invoke("read", f"{number}", path="a"))
        await turn.finish()
        found += [entry.result for entry in turn.entries]
    assert [one.report.cached for one in found if one is not None] == [False, True, True]
    assert [one.error for one in found if one is not None] == [None] * 3
    assert budget.calls == 3


class Files(RuleBasedStateMachine):
    """Calls that read and write real files, and begin, act, end, fail and are cancelled in any order.

    The law: the result of a read is not older than the last overlapping write that ended before the read began.
    """

    def __init__(self) -> None:
        super().__init__()
        self.blocking = Blocking()
        self.written: list[int] = []
        self.fails = False
        self.loop = VirtualLoop()
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        self.versions = 0
        #: By path, the newest version that was written by a call that has ended.
        self.ended = dict.fromkeys(PATHS, 0)
        self.reads: list[tuple[Call, Blocking, str, int]] = []
        self.writes: list[tuple[Call, Blocking, list[str], list[int]]] = []
        self.hits = 0
        for path in PATHS:
            self.write(path)
        once = RetryPolicy(max_retries=0)
        self.house = self.run(
            self.build(
                reader(invocable=self.look, retry=once),
                writer(invocable=self.change),
                writer("anything", invocable=self.change, writes=None),
                reader("all", invocable=self.look, reads=None),
            )
        )

    def run(self, coroutine: Coroutine[Any, Any, Value]) -> Value:
        asyncio.set_event_loop(self.loop)
        return self.loop.run_until_complete(coroutine)

    async def build(self, *tools: Any) -> House:
        return House(*tools)

    def file(self, path: str) -> pathlib.Path:
        return self.root / path.replace("/", "-")

    def write(self, path: str, version: int = 0) -> None:
        self.file(path).write_text(str(version))

    async def look(self, context: Any, arguments: dict[str, Any]) -> str:
        blocking: Blocking = self.blocking
        early = self.file(arguments["path"]).read_text()
        await blocking(context, arguments)
        return early

    async def change(self, context: Any, arguments: dict[str, Any]) -> str:
        blocking, versions = self.blocking, self.written
        fails, path = self.fails, arguments["path"]

        def act() -> None:
            self.versions += 1
            versions.append(self.versions)
            self.write(path, self.versions)

        act()
        await blocking(context, arguments)
        act()
        if fails:
            raise ExecutionFault("No.")
        return "changed"

    @rule(path=st.sampled_from(PATHS), name=st.sampled_from(["read", "all"]))
    def begin_read(self, path: str, name: str) -> None:
        async def go() -> None:
            self.blocking = Blocking()
            blocking = self.blocking
            call = self.house.start(name, path=path)
            for _ in range(5):
                await asyncio.sleep(0)
            self.reads.append((call, blocking, path, self.ended[path]))

        self.run(go())
        self.settle_reads()

    @rule(path=st.sampled_from(PATHS), name=st.sampled_from(["write", "anything"]), fails=st.booleans())
    def begin_write(self, path: str, name: str, fails: bool) -> None:
        async def go() -> None:
            written: list[int] = []
            self.blocking, self.written, self.fails = Blocking(), written, fails
            blocking = self.blocking
            call = self.house.start(name, path=path)
            for _ in range(5):
                await asyncio.sleep(0)
            self.writes.append((call, blocking, [path], written))

        self.run(go())

    @rule(index=st.integers(0, 2), cancelled=st.booleans())
    def end_write(self, index: int, cancelled: bool) -> None:
        if not self.writes:
            return
        call, blocking, (path,), written = self.writes.pop(index % len(self.writes))

        async def go() -> None:
            if cancelled:
                call.cancel()
            else:
                blocking.go.set()
            await settle((call,))

        self.run(go())
        if not any(others == [path] for _, _, others, _ in self.writes):
            # With another writer under way, their order is undefined.
            self.ended[path] = max(self.ended[path], *written)

    @rule(index=st.integers(0, 2))
    def end_read(self, index: int) -> None:
        if self.reads:
            call, blocking, _, _ = self.reads[index % len(self.reads)]
            blocking.go.set()
            self.run(settle((call,)))
            self.settle_reads()

    def settle_reads(self) -> None:
        """Judges the reads that have their results; what was recalled has it at once."""
        for read in list(self.reads):
            call, _, _, floor = read
            if call.result.done():
                self.reads.remove(read)
                self.hits += call.result.result().report.cached
                assert int(call.result.result().text) >= floor

    def teardown(self) -> None:
        for call, blocking, *_ in (*self.reads, *self.writes):
            blocking.go.set()
            self.run(settle((call,)))
        self.settle_reads()
        self.run(asyncio.sleep(0))
        asyncio.set_event_loop(None)
        self.loop.close()
        self.folder.cleanup()


Files.TestCase.settings = settings(max_examples=count(2_000, 80), stateful_step_count=40, deadline=None)
TestFiles = Files.TestCase
