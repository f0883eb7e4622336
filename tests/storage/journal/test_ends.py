"""The end of a conversation, read alone: what it has is what the whole conversation has there."""

import pathlib
import tempfile
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ripieno.canisters import (
    AssistantCanister,
    Canister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from ripieno.exceptions import InputError, NameAbsence
from ripieno.storage.journal import Journal
from ripieno.storage.records import Record
from tests.counts import count

USED = {"input_tokens": 100, "output_tokens": 7, "cache_read_tokens": 60}
#: A turn with so many calls, or a way back to so many messages of the user before the last.
STEPS = st.one_of(st.integers(0, 3).map(lambda calls: ("turn", calls)), st.tuples(st.just("back"), st.integers(1, 3)))


def conducted(steps: Sequence[tuple[str, int]], open_calls: int, first: int = 0) -> Iterator[Record]:
    """The records of a conversation in which the user also goes back. The last calls may wait for their results."""
    turn, place, asked = 0, first, list[int]()

    def record(stage: str, **parts: object) -> Record:
        return Record(stage=stage, conversation="c", owner="ada", turn=turn, **parts)  # type: ignore[arg-type]

    def saying(canister: Canister) -> Record:
        nonlocal place
        place += 1
        return record("said", canister=canister, details={"place": place - 1})

    def calling(calls: int) -> Iterator[Record]:
        nonlocal place
        found = [InvocationCanister(identifier=f"{turn}-{number}", name="look") for number in range(calls)]
        yield saying(AssistantCanister.of(f"I look {turn}."))
        yield from (saying(one) for one in found)
        yield record("turned", details={"finish": "invocations" if calls else "stop", "usage": USED})
        for one in found:
            yield record("started", tool="mine.look", invocation=one)

    def ended(calls: int) -> Iterator[Record]:
        nonlocal place
        place += calls
        for number in range(calls):
            name = f"{turn}-{number}"
            yield record(
                "finished",
                tool="mine.look",
                invocation=InvocationCanister(identifier=name, name="look"),
                result=ResultCanister(invocation_id=name),
            )

    yield record("began", details={"model": "house/small"})
    yield saying(SupervisorCanister.of("Be brief."))
    for kind, number in steps:
        if kind == "back" and len(asked) > number:
            place = asked[-number]
            del asked[-number:]
        asked.append(place)
        yield record("began", details={"model": f"house/model-{turn}"})
        yield saying(UserCanister.of(f"Go {turn}."))
        turn += 1
        if kind == "turn" and number:
            yield from calling(number)
            yield from ended(number)
            turn += 1
        yield from calling(0)
        yield record("ended", details={"finish": "stop"})
    yield record("began", details={"model": "house/last"})
    yield saying(UserCanister.of("At last."))
    turn += 1
    yield from calling(open_calls)


@settings(max_examples=count(1000, 50))
@given(st.lists(STEPS, max_size=12), st.integers(0, 2))
def test_an_end_is_the_end_of_the_whole(steps: list[tuple[str, int]], open_calls: int) -> None:
    with tempfile.TemporaryDirectory() as folder, Journal(pathlib.Path(folder, "j")) as journal:
        journal.record(list(conducted(steps, open_calls)))
        check(journal)


@pytest.mark.parametrize("turns", [2, 200])
def test_an_end_on_each_database(place: pathlib.Path | str, turns: int) -> None:
    with Journal(place) as journal:
        journal.record(list(conducted([("turn", 1)] * turns, 2)))
        check(journal, (1, 5, 200, 2000))
        assert journal.restore_end("c", owner="ada", newest=1).missing == 1 + 5 * turns


def check(journal: Journal, sizes: Sequence[int] = range(1, 30)) -> None:
    """Compares the ends of at least so many canisters with the whole conversation."""
    whole = journal.restore("c", owner="ada")
    canisters = whole.conversation.canisters
    for newest in sizes:
        end = journal.restore_end("c", owner="ada", newest=newest)
        assert len(end.conversation.canisters) >= min(newest, len(canisters))
        assert end.conversation == whole.conversation.replace(canisters=canisters[end.missing :])
        assert (end.states, end.ended, end.cut) == (whole.states, whole.ended, whole.cut)
        assert end.participants == whole.participants
        assert end.turns == whole.turns[end.missing :]
        assert end.missing == 0 or isinstance(end.conversation.canisters[0], UserCanister)


def test_an_end_of_a_fork_has_all_tokens(place: pathlib.Path | str) -> None:
    with Journal(place) as journal:
        journal.record(list(conducted([("turn", 1)] * 4, 0)))
        forked = journal.fork("c", owner="ada")
        end = journal.restore_end(forked.identifier, owner="ada", newest=1)
        assert end.conversation.usage == forked.usage
        assert forked.usage.input_tokens == 900


def test_an_end_is_of_the_owner_and_of_what_the_journal_has(tmp_path: pathlib.Path) -> None:
    with Journal(tmp_path / "j") as journal:
        journal.record(list(conducted([("turn", 1)] * 4, 0, first=3)))
        with pytest.raises(NameAbsence):
            journal.restore_end("c", owner="bob", newest=1)
        with pytest.raises(InputError, match="does not have the first 3 messages"):
            journal.restore_end("c", owner="ada", newest=1)
        journal.delete("c", owner="ada")
        with pytest.raises(InputError, match="was deleted"):
            journal.restore_end("c", owner="ada", newest=1)
