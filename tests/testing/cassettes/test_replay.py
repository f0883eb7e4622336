"""Runs are recorded and replayed: the same conversation, the same events, the same records."""

import asyncio
import contextlib
import dataclasses
import json
import pathlib
import stat
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ripieno.approvals import Answer, Approve, ConfirmationRequest, Deny, Edit
from ripieno.canisters import Conversation
from ripieno.canisters.controls import Limits, Rules
from ripieno.canisters.events import Event, ResultReady
from ripieno.conducting import Run
from ripieno.descriptors import Policy
from ripieno.ensembles import Context, Ensemble, Outcome
from ripieno.exceptions import InputError, ReplayDivergence, ResourceFault, RipienoError, ToolExecutionFailure
from ripieno.execution import Execution
from ripieno.storage.records import Record
from ripieno.testing import call, turn
from ripieno.testing.cassettes import Recorder, Replay, player
from ripieno.testing.scores.turns import Turn
from ripieno.testing.wires import model_of
from tests.counts import count
from tests.support.scripted_models import Recording
from tests.support.virtual_time import VirtualLoop

WIRES = ("anthropic", "gemini", "openai-chat", "openai-responses")


class Answers:
    """Answers in turn, and begins again."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = answers
        self.asked = 0

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        self.asked += 1
        return self._answers[(self.asked - 1) % len(self._answers)]


class Band:
    """Tools that count how often they ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def ensembles(self) -> list[Ensemble]:
        async def look(context: Context, name: str, rest: float = 0.0) -> str:
            """Looks at something."""
            self.ran.append(f"look {name}")
            context.progress(1, 2, "half")
            await asyncio.sleep(rest)
            if name == "nothing":
                raise ResourceFault("There is nothing.", suggestion="Look elsewhere.")
            return f"{name} is there"

        async def write(name: str, text: str = "") -> Outcome:
            """Writes something."""
            self.ran.append(f"write {name}")
            return Outcome(content={"written": name, "size": len(text)}, exit_code=0)

        async def break_down() -> str:
            """Has a bug."""
            raise ValueError("a bug")

        reading = Policy(effect="read")
        return [
            Ensemble.of_functions("eyes", [look], policy=reading),
            Ensemble.of_functions("hands", [write], policy=Policy(effect="write")),
            Ensemble.of_functions("feet", [break_down], policy=reading),
        ]


def same(records: Sequence[Record]) -> list[Any]:
    """Records without stamps and durations of what was not recorded (an answer of a model)."""
    return [
        dataclasses.replace(one, details={name: part for name, part in one.details.items() if name != "milliseconds"})
        for one in records
    ]


async def follow(run: Run) -> tuple[list[Event], Conversation | RipienoError]:
    events: list[Event] = []
    try:
        async for event in run:
            events.append(event)
        return events, await run
    except RipienoError as error:
        return events, error


async def record_and_replay(
    path: pathlib.Path,
    turns: Sequence[Turn],
    *,
    protocol: str = "openai-chat",
    confirmer: Any = None,
    chunk: int = 8,
    **execution: Any,
) -> None:
    """The law: events, conversation, records and errors are the same, and no tool runs."""
    band, before, after = Band(), Recording(), Recording()
    with Recorder(path, variables={}) as recording:
        real = Execution(confirmer=recording.confirmer(confirmer), recorder=before, **execution)
        model = model_of(turns, protocol=protocol, chunk=chunk)
        run = recording.conduct(model, "Go on.", ensembles=band.ensembles(), execution=real)
        events, ended = await follow(run)
    ran = len(band.ran)
    replayed, ended_again = await follow(Replay(path, variables={}).conduct(execution=Execution(recorder=after)))
    assert replayed == events
    if isinstance(ended, Conversation):
        assert ended_again == ended
        assert [one.timestamp for one in ended.canisters[:1]] == [one.timestamp for one in ended_again.canisters[:1]]
    else:
        assert (type(ended_again), str(ended_again)) == (type(ended), str(ended))
    assert same(after.records) == same(before.records)
    reports = [one.result.report for one in before.records if one.result is not None and one.stage == "finished"]
    assert [one.result.report for one in after.records if one.result is not None and one.stage == "finished"] == reports
    assert len(band.ran) == ran


TURNS = (
    turn("I look.", calls=[call("look", "one", name="the sea"), call("look", "two", name="nothing", rest=0.01)]),
    turn("I write.", calls=[call("write", "three", name="note", text="the sea"), call("nowhere", "four")][:1]),
    turn("Done: {three}"),
)


async def test_the_cassette_is_the_owners_alone_and_has_the_lines_of_its_format(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "c"
    await record_and_replay(path, TURNS, confirmer=Answers(Approve()))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0]["kind"] == "cassette"
    assert lines[0]["version"] == 1
    assert lines[-1]["kind"] == "end"
    assert {"conduct", "ensemble", "request", "native", "event", "result", "decision"} <= {one["kind"] for one in lines}
    assert len([one for one in lines if one["kind"] == "ensemble"]) == 1
    # What was said before is not written again.
    second = [one for one in lines if one["kind"] == "request"][1]
    assert list(second["body"]) == ["lists"]
    with pytest.raises(InputError, match="already"):
        Recorder(path)


ANSWERS = st.one_of(
    st.just(Approve()), st.text(max_size=10).map(Deny), st.just(Edit({"name": "other"})), st.just(Edit({"name": 5}))
)
NAMES = st.sampled_from(["the sea", "nothing", "a “quoted” \\ 😀", "tab\t"])
CALLS = st.one_of(
    st.builds(lambda name, rest: call("look", None, name=name, rest=rest), NAMES, st.sampled_from([0.0, 0.002])),
    st.builds(lambda name: call("write", None, name=name), NAMES),
    st.just(call("look", None, nome="the sea")),
)
SAID = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12).map(
    lambda text: text.replace("{", "(").replace("}", ")")
)


@st.composite
def scores(draw: st.DrawFn) -> list[Turn]:
    calls = draw(st.lists(st.lists(CALLS, min_size=1, max_size=3), max_size=3))
    turns = [turn(draw(SAID), calls=some) for some in calls]
    return [*turns, turn(draw(SAID) or "Done.")]


@settings(max_examples=count(400))
@given(scores(), st.sampled_from(WIRES), st.lists(ANSWERS, min_size=1, max_size=3), st.data())
def test_any_run_is_the_same_again(
    tmp_path_factory: pytest.TempPathFactory,
    turns: list[Turn],
    protocol: str,
    answers: list[Answer],
    data: st.DataObject,
) -> None:
    path = tmp_path_factory.mktemp("cassettes") / "c"
    rules = data.draw(st.sampled_from([Rules(), Rules(approve=("hands.*",)), Rules(deny=("eyes.*",))]))
    limits = data.draw(st.sampled_from([Limits(), Limits(calls=2), Limits(turns=1)]))
    asyncio.run(
        record_and_replay(
            path,
            turns,
            protocol=protocol,
            confirmer=Answers(*answers),
            chunk=data.draw(st.integers(1, 20)),
            rules=rules,
            limits=limits,
        )
    )


async def test_a_bug_of_a_tool_is_one_again(tmp_path: pathlib.Path) -> None:
    await record_and_replay(tmp_path / "c", [turn("Oh.", calls=[call("break_down")]), turn("Never.")])
    error = (await follow(Replay(tmp_path / "c").conduct()))[1]
    assert isinstance(error, ToolExecutionFailure)
    assert "ValueError: a bug" in str(error)


SMALL = (turn("I look.", calls=[call("look", "one", name="the sea")]), turn("Done: {one}"))


async def record(path: pathlib.Path, turns: Sequence[Turn] = SMALL, **settings: Any) -> Conversation:
    with Recorder(path, variables={}) as recording:
        execution = Execution(rules=Rules(approve=("hands.*",)))
        return await recording.conduct(
            model_of(turns, **{"protocol": "openai-chat", **settings}),
            "Go on.",
            ensembles=Band().ensembles(),
            execution=execution,
        )


async def test_another_question_is_named_by_its_step_and_place(tmp_path: pathlib.Path) -> None:
    await record(tmp_path / "c")
    with pytest.raises(ReplayDivergence, match=r"step 1: messages\[0\]\.content.*\"Go on\.\".*\"Go away\.\"") as caught:
        await Replay(tmp_path / "c").conduct(None, "Go away.")
    assert caught.value.step == 1
    lenient = await Replay(tmp_path / "c", lenient=True).conduct(None, "Go away.")
    assert lenient.text == "Done: the sea is there"


async def test_a_result_that_is_another_one_is_named(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "c"
    await record(path)
    lines = path.read_text().splitlines()
    at = next(index for index, line in enumerate(lines) if '"kind":"result"' in line)
    lines[at] = lines[at].replace("the sea is there", "the sea is gone")
    path.write_text("\n".join([*lines, ""]))
    with pytest.raises(ReplayDivergence, match=r"step 2: messages\[2\].*the sea is there.*the sea is gone"):
        await Replay(path).conduct()


async def test_more_runs_than_were_recorded_are_refused(tmp_path: pathlib.Path) -> None:
    await record(tmp_path / "c")
    replay = Replay(tmp_path / "c")
    await replay.conduct()
    with pytest.raises(ReplayDivergence, match="no more runs"):
        replay.conduct()


def test_the_recorded_timing_is_kept_on_request(tmp_path: pathlib.Path) -> None:
    slow = [turn("I look.", calls=[call("look", "one", name="the sea", rest=0.1)]), turn("Done.")]

    async def play(**settings: Any) -> float:
        began = asyncio.get_running_loop().time()
        assert await Replay(tmp_path / "c", **settings).conduct() == conversation
        return asyncio.get_running_loop().time() - began

    conversation = asyncio.run(record(tmp_path / "c", slow))
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(play()) == 0
        assert runner.run(play(speed=1)) >= 0.1


async def test_several_runs_of_one_conversation(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "c"
    model = model_of([*SMALL], protocol="anthropic")
    with Recorder(path, variables={}) as recording:
        first = await recording.conduct(model, "Go on.", ensembles=Band().ensembles())
        second = await recording.conduct(model, first.say("And again?"), ensembles=Band().ensembles())
    conducts = [json.loads(line) for line in path.read_text().splitlines() if '"kind":"conduct"' in line]
    assert [one["kept"] for one in conducts] == [0, len(first.canisters)]
    assert len(conducts[1]["conversation"]["canisters"]) == 1
    replay = Replay(path)
    assert replay.left == 2
    assert await replay.conduct() == first
    assert await replay.conduct() == second
    again = Replay(path)
    conversation = await again.conduct(None, "Go on.")
    assert await again.conduct(None, conversation.say("And again?")) == second


@pytest.mark.parametrize("protocol", WIRES)
async def test_a_fork_goes_on_live(tmp_path: pathlib.Path, protocol: str) -> None:
    path, band = tmp_path / "c", Band()
    turns = [turn("One.", calls=[call("look", "one", name="the sea")]), *TURNS[1:]]
    recorded = await record(path, turns, protocol=protocol)
    other = [turns[0], turn("Other.", calls=[call("look", "new", name="the hills")]), turn("So: {new}")]
    fork = Replay(path).fork(1)
    run = fork.conduct(model_of(other), "Go on.", ensembles=band.ensembles())
    events, conversation = await follow(run)
    assert isinstance(conversation, Conversation)
    assert conversation.text == "So: the hills is there"
    assert band.ran == ["look the hills"]
    assert conversation.identifier != recorded.identifier
    assert conversation.canisters[:4] == recorded.canisters[:4]
    assert [one.result.text for one in events if isinstance(one, ResultReady)] == [
        "the sea is there",
        "the hills is there",
    ]
    with pytest.raises(InputError, match="3 steps"):
        Replay(path).fork(4)


async def test_a_fork_begins_with_what_the_tools_are_now(tmp_path: pathlib.Path) -> None:
    await record(tmp_path / "c")
    with pytest.raises(ReplayDivergence, match=r"step 1: tools"):
        await Replay(tmp_path / "c").fork(1).conduct(model_of(SMALL), "Go on.", ensembles=Band().ensembles()[:1])


async def test_a_cassette_that_is_cut_anywhere_is_read_or_refused(tmp_path: pathlib.Path) -> None:
    path, cut = tmp_path / "c", tmp_path / "cut"
    conversation = await record(path)
    data = path.read_bytes()
    step = 1 if count(20) == 20 else 37
    played = stopped = refused = 0
    ends = {index + 1 for index, byte in enumerate(data) if byte == 10}
    for size in sorted({*range(0, len(data), step), *ends, len(data)}):
        cut.write_bytes(data[:size])
        try:
            replay = Replay(cut)
            assert replay.whole is (size == len(data))
            ended = await replay.conduct()
        except (ReplayDivergence, ToolExecutionFailure) as error:
            assert "the recording ends here" in str(error)  # noqa: PT017
            stopped += 1
        except InputError as error:
            assert str(cut) in str(error)  # noqa: PT017
            refused += 1
        else:
            assert ended == conversation
            played += 1
    assert played >= 1
    assert stopped > 10
    assert refused >= 1


@pytest.fixture(scope="module")
def hasty() -> Iterator[None]:
    """Whatever never comes is not waited for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(player, "PATIENCE", 0.5)
        yield


@settings(max_examples=count(1000))
@given(st.data())
def test_a_cassette_that_is_damaged_is_played_or_refused(
    hasty: None, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("damaged") / "c"
    asyncio.run(record(path))
    lines = path.read_text().splitlines()
    at = data.draw(st.integers(0, len(lines) - 1))
    fields = json.loads(lines[at])
    name = data.draw(st.sampled_from(sorted(fields)))
    fields[name] = data.draw(st.sampled_from([None, 1, -1.5, "text", [], {}, [1], {"a": 1}, True]))
    lines[at] = json.dumps(fields)
    path.write_text("\n".join([*lines, ""]))

    async def play() -> None:
        async with asyncio.timeout(30):
            await Replay(path, lenient=data.draw(st.booleans())).conduct()

    with contextlib.suppress(RipienoError):
        asyncio.run(play())
