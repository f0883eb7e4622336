"""The list of a journal's conversations in parts, on each database: order, owners, deletions, tokens, and searches."""

import pathlib
from collections.abc import Generator, Sequence

import pytest

from ripieno.canisters import AssistantCanister, UserCanister
from ripieno.storage.journal import Journal, Summary
from ripieno.storage.records import Record
from tests.support.scripted_models import invoke


@pytest.fixture
def journal(place: pathlib.Path | str) -> Generator[Journal, None, None]:
    with Journal(place) as opened:
        yield opened


def talk(name: str, text: str, *, owner: str = "", turns: int = 1) -> list[Record]:
    """A conversation of one question and some answers."""
    used = {"model": f"house/{name}", "finish": "stop", "usage": {"input_tokens": 5, "output_tokens": 2}}
    lines = [
        Record(stage="began", conversation=name, turn=0, owner=owner),
        Record(stage="said", conversation=name, turn=0, owner=owner, canister=UserCanister.of(text)),
    ]
    for turn in range(1, turns + 1):
        answer = AssistantCanister.of(f"Answer {turn} of {name}.")
        lines.append(Record(stage="turned", conversation=name, turn=turn, owner=owner, details=used))
        lines.append(Record(stage="said", conversation=name, turn=turn, owner=owner, canister=answer))
    return [*lines, Record(stage="ended", conversation=name, turn=turns, owner=owner, details={"finish": "stop"})]


def read_all(journal: Journal, limit: int, **wanted: str) -> list[Summary]:
    """All parts one after another. None has more than ``limit``, and only the last may have fewer."""
    found: list[Summary] = []
    before, sizes = None, list[int]()
    while not sizes or before is not None:
        part = journal.page(before=before, limit=limit, **wanted)
        for one in part.summaries:
            total = journal.statistics(conversation=one.identifier, owner=one.owner).total
            assert part.tokens[one.identifier, one.owner] == (total.input_tokens, total.output_tokens)
        found += part.summaries
        sizes.append(len(part.summaries))
        before = part.next
    assert all(size == limit for size in sizes[:-1])
    return found


def names(summaries: Sequence[Summary]) -> list[tuple[str, str]]:
    return [(one.identifier, one.owner) for one in summaries]


def test_the_parts_are_the_whole_list(journal: Journal) -> None:
    for number in range(7):
        # The same name of two owners: two conversations.
        journal.record(talk(f"c{number % 5}", f"Question {number}.", owner="ada" if number > 4 else "", turns=number))
    journal.record(talk("c2", "Once more.")[1:2])
    whole = list(journal.conversations())
    assert names(whole)[:2] == [("c2", ""), ("c1", "ada")]
    for limit in (1, 2, 3, 7, 100):
        assert read_all(journal, limit) == whole
    assert read_all(journal, 2, owner="ada") == [one for one in whole if one.owner == "ada"]
    assert read_all(journal, 2, owner="") == [one for one in whole if not one.owner]
    assert [journal.summary(one.identifier, owner=one.owner) for one in whole] == whole


def test_deleted_conversations_are_not_in_a_part(journal: Journal) -> None:
    for number in range(6):
        journal.record(talk(f"c{number}", "Hello."))
    for number in (0, 2, 5):
        journal.delete(f"c{number}")
    assert [one.identifier for one in read_all(journal, 1)] == ["c4", "c3", "c1"]
    assert journal.page(limit=3).next is None


def test_a_search_finds_what_was_said_and_no_name_of_a_field(journal: Journal) -> None:
    said: list[Record] = []
    for number in range(250):
        said += talk(f"c{number}", f'Look for file {number}, ü "quoted".')
    journal.record(said)
    journal.record(talk("hers", "Look for file 17, too.", owner="ada"))
    assert names(read_all(journal, 10, text="file 17,")) == [("hers", "ada"), ("c17", "")]
    assert names(read_all(journal, 10, text="file 17,", owner="")) == [("c17", "")]
    assert names(read_all(journal, 10, text='ü "quoted"'))[:2] == [("c249", ""), ("c248", "")]
    assert len(read_all(journal, 100, text="Look for")) == 251
    assert read_all(journal, 10, text="canister") == []
    assert read_all(journal, 10, text="nothing of this") == []


def test_a_call_without_a_model_is_named_by_its_tool(journal: Journal) -> None:
    call = invoke("look", "one")
    journal.record([Record(stage="started", conversation="alone", turn=0, tool="mine.look", invocation=call)])
    journal.record(talk("said", "Hello."))
    said, alone = journal.page().summaries
    assert (said.words, said.conducted, said.model, said.finish) == ("Hello.", True, "house/said", "stop")
    assert (alone.words, alone.conducted, alone.calls, alone.model) == ("(call of mine.look)", False, 1, None)
