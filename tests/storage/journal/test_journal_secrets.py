"""No secret stands in any file of a journal, however it is written and wherever it comes from."""

import base64
import dataclasses
import json
import random
import re
import tempfile
import urllib.parse
from pathlib import Path

import pytest
from frozendict import frozendict
from hypothesis import given, settings
from hypothesis import strategies as st

from ripieno.canisters import (
    DocumentCanister,
    DocumentContent,
    ImageContent,
    InvocationCanister,
    OpaqueContent,
    ResultCanister,
    TextualContent,
)
from ripieno.canisters.faults import Change, Fault, Report
from ripieno.exceptions import InputError
from ripieno.storage.journal import Journal
from ripieno.storage.records import Record
from tests.counts import count
from tests.storage.journal.test_journal import call, records, whole

MARK = re.compile(r"\[secret [0-9a-f]{12}\]")
#: With some variety: a row of zeros stands in the first line's digest, and in times.
secrets = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=8, max_size=20).filter(
        lambda one: len(set(one.strip())) > 5 and len(one.strip()) > 7
    ),
    st.sampled_from(['qu"o\\te\nline', "ünïcödé-ß", "9081726354", "back\\slash\\s", "a b c d e f", "10.25890001"]),
)


def spread(secret: str, chance: random.Random) -> Record:
    """A record with a secret, or a form of it, in every place that takes text."""

    def said() -> str:
        form = chance.choice(
            [secret, json.dumps(secret), json.dumps(secret, ensure_ascii=False), urllib.parse.quote(secret, safe="")]
        )
        return f"it is {form}, {form}"

    free = frozendict({said(): (said(), frozendict(inner=said())), "plain": 1})
    if secret.isdecimal() and secret[0] != "0":
        free |= {"number": int(secret)}
    fault = Fault(category="execution", message=said(), code=said(), details=free, suggestion=said())
    contents = (
        TextualContent(text=said()),
        ImageContent(data=b"\xff" + secret.encode() + b"\x00", mime_type=said()),
        DocumentContent(url=said(), mime_type="a/b"),
        OpaqueContent(protocol=said(), kind=said(), data=free),
    )
    report = Report(sandbox=said(), changes=(Change(kind="FileCreated", data=free),))
    return Record(
        stage=chance.choice(["said", "finished"]),
        conversation=said(),
        turn=1,
        tool=said(),
        invocation=InvocationCanister(
            identifier=said(), name=said(), arguments=free, raw=json.dumps({"a": secret}), fault=fault, opaque=free
        ),
        result=ResultCanister(invocation_id=said(), content=contents, error=fault, report=report),
        canister=DocumentCanister(content=contents, identifier=said(), title=said()),
        details=free,
    )


def forms_of(secret: str) -> list[bytes]:
    texts = [secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]]
    # As it stands in JSON that stands in JSON.
    texts += [json.dumps(text)[1:-1] for text in texts]
    return [text.encode() for text in [*texts, urllib.parse.quote(secret, safe=""), urllib.parse.quote_plus(secret)]]


@given(st.lists(secrets, min_size=1, max_size=3), st.integers(0, 2**32))
@settings(max_examples=count(1000, 60))
def test_no_secret_is_in_any_file(known: list[str], seed: int) -> None:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder, "j"), secrets=known) as journal:
        kept = [spread(secret.strip(), chance) for secret in known]
        journal.record(kept)
        files = {one.name: one.read_bytes() for one in Path(folder).iterdir() if one.suffix != ".key"}
        assert set(files) == {"j", "j-wal", "j-shm"}
        exported = "".join(journal.export()).encode()
        pictures = [content.data for line in journal.lines() for content in _contents(line.record) if content.data]
        for secret in known:
            for form in forms_of(secret.strip()):
                assert all(form not in data for data in (*files.values(), exported, *pictures)), form
        for line, before in zip(journal.lines(), kept, strict=True):
            record = line.record
            assert record is not None
            assert MARK.search(record.conversation)
            assert record.invocation is not None
            assert MARK.search(str(record.invocation.raw))
            assert list(journal.lines(before.conversation)) == list(journal.lines(record.conversation))
            assert line.number in [one.number for one in journal.lines(text=known[line.number - 1].strip())]
        assert journal.verify() is None


def _contents(record: Record | None) -> list[ImageContent]:
    assert record is not None
    assert record.result is not None
    return [content for content in record.result.content if isinstance(content, ImageContent)]


@given(st.lists(records, max_size=3))
@settings(max_examples=count(400))
def test_records_without_a_secret_stay_as_they_are(given: list[Record]) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        Journal(Path(folder, "j"), secrets=["never-said-anywhere", "short"]) as journal,
    ):
        journal.record(given)
        assert [whole(line.record) for line in journal.lines()] == [whole(record) for record in given]


def test_words_that_types_allow_stay_where_they_are_though_they_are_secrets(tmp_path: Path) -> None:
    record = dataclasses.replace(call("finished", text="function finished"), conversation="finished")
    with Journal(tmp_path / "j", secrets=["finished", "function", "conversation"]) as journal:
        journal.record([record])
        (line,) = journal.lines()
        assert line.record is not None
        assert (line.stage, line.record.invocation) == ("finished", record.invocation)
        assert line.record.result is not None
        assert MARK.sub("*", line.record.result.text) == "* *"
        assert MARK.fullmatch(line.conversation)


def test_a_fingerprint_is_of_the_value_and_of_the_key(tmp_path: Path) -> None:
    def marks(folder: str) -> list[str]:
        with Journal(tmp_path / folder / "j", secrets=["first secret", "second secret"]) as journal:
            journal.record([call(text="first secret, second secret, first+secret, first secret")])
            (text,) = (line.record.result.text for line in journal.lines(limit=1) if line.record and line.record.result)
            return MARK.findall(text)

    first, second, *others = marks("a")
    assert others == [first, first]
    assert first != second
    assert marks("a") == [first, second, first, first]
    assert not {first, second} & set(marks("b"))


def test_a_key_that_is_none_is_said_and_left(tmp_path: Path) -> None:
    (tmp_path / "j.key").write_bytes(b"short")
    with pytest.raises(InputError, match=r"j\.key, has 5 bytes"):
        Journal(tmp_path / "j", secrets=["a long secret"])
    assert (tmp_path / "j.key").read_bytes() == b"short"
    Journal(tmp_path / "j").close()


@pytest.mark.parametrize("around", [("", ""), ("", "\n"), ("user:", ""), ("a longer text before ", " and after")])
def test_a_secret_in_base64_alone_is_found(tmp_path: Path, around: tuple[str, str]) -> None:
    secret, (before, after) = "zebra-7781-quilt-secret", around
    written = base64.b64encode(f"{before}{secret}{after}".encode()).decode()
    with Journal(tmp_path / "journal", secrets=[secret]) as journal:
        journal.record([Record(stage="began", conversation="a", turn=0, details={"text": f"It is {written}."})])
        told = "".join(journal.export())
    # Nothing of it that is longer than what its neighbours share with it.
    assert not any(written[start : start + 12] in told for start in range(len(before) * 8 // 6 + 2, len(written) - 14))
