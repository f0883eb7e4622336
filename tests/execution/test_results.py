"""Return values of tools as contents, and their bounds."""

import collections
import dataclasses
import json
from typing import Any

import pytest
from frozendict import frozendict
from hypothesis import given, settings
from hypothesis import strategies as st

from ripieno.canisters import AudioContent, Content, DocumentContent, ImageContent, OpaqueContent, TextualContent
from ripieno.canisters.faults import Change, Fault
from ripieno.ensembles import Outcome
from ripieno.execution.results import bound, bound_fault, changes_of, contents_of, cut_streams, shorten, structure_of
from ripieno.jsonvalues import encode, freeze
from tests.counts import count
from tests.support.canister_strategies import contents as any_contents
from tests.support.canister_strategies import json_values

IMAGE = ImageContent(data=b"x" * 100, mime_type="image/png")


def text(value: str, mime_type: str = "text/plain") -> TextualContent:
    return TextualContent(text=value, mime_type=mime_type)


@pytest.mark.parametrize(
    ("value", "contents"),
    [
        ("said", (text("said"),)),
        ("", (text(""),)),
        (None, ()),
        (True, (text("true", "application/json"),)),
        (5, (text("5", "application/json"),)),
        ({"a": [1, None]}, (text('{"a":[1,null]}', "application/json"),)),
        (frozendict({"a": (1,)}), (text('{"a":[1]}', "application/json"),)),
        ([], (text("[]", "application/json"),)),
        (["a", "b"], (text('["a","b"]', "application/json"),)),
        (10**30, (text("1" + "0" * 30, "application/json"),)),
        (IMAGE, (IMAGE,)),
        ([text("a"), IMAGE], (text("a"), IMAGE)),
        ((text("a"),), (text("a"),)),
        (Outcome(content="said", exit_code=1), (text("said"),)),
        (Outcome(content=[IMAGE]), (IMAGE,)),
        (Outcome(content={"a": 1}), (text('{"a":1}', "application/json"),)),
        (Outcome(content=None), ()),
        (collections.Counter("aab"), (text('{"a":2,"b":1}', "application/json"),)),
    ],
)
def test_what_may_be_returned(value: object, contents: tuple[Content, ...]) -> None:
    assert contents_of(value) == contents


@pytest.mark.parametrize(
    "value",
    [
        object(),
        b"bytes",
        {1, 2},
        {"a": object()},
        float("nan"),
        {1: "a"},
        [IMAGE, "text beside contents"],
        Outcome(content=object()),
        Outcome(content=Outcome(content="nested")),
        type,
        lambda: None,
        TextualContent(text=5),  # type: ignore[arg-type]
        TextualContent(text="a", mime_type=None),  # type: ignore[arg-type]
        ImageContent(data="a", mime_type="image/png"),  # type: ignore[arg-type]
        AudioContent(data=[97], mime_type="audio/wav"),  # type: ignore[arg-type]
        DocumentContent(data=5, mime_type="text/plain"),  # type: ignore[arg-type]
        DocumentContent(url=5, mime_type="text/plain"),  # type: ignore[arg-type]
        OpaqueContent(protocol="p", kind="k", data=None),  # type: ignore[arg-type]
    ],
    ids=lambda value: type(value).__name__,
)
def test_nonsense_is_named(value: object) -> None:
    with pytest.raises(TypeError) as caught:
        contents_of(value)
    assert "not" in str(caught.value)


def test_an_object_is_refused_with_the_way_to_convert_it() -> None:
    with pytest.raises(
        TypeError, match=r"not Fault: .*: Fault is not a JSON type\. Convert a dataclass with dataclasses"
    ):
        contents_of(Fault(category="execution", message="m"))


def test_halves_of_characters_are_no_reason_to_lose_a_conversation() -> None:
    assert contents_of("caf\udce9") == (text("caf\\udce9"),)
    assert contents_of(TextualContent(text="\udce9", mime_type="text/x")) == (text("\\udce9", "text/x"),)
    (content,) = contents_of({"names": ["caf\udce9", "é"]})
    assert isinstance(content, TextualContent)
    assert content.text.isascii()
    assert json.loads(content.text) == {"names": ["caf\udce9", "é"]}


@given(json_values)
@settings(max_examples=count(2000, 60), deadline=None)
def test_json_comes_back_from_its_text(value: Any) -> None:
    (content,) = contents_of({"value": value})
    assert isinstance(content, TextualContent)
    assert json.loads(content.text) == {"value": value}


@given(st.lists(any_contents, min_size=1, max_size=4))
def test_contents_stay_as_they_are(contents: list[Content]) -> None:
    assert contents_of(contents) == tuple(contents)
    assert hash(contents_of(contents)) == hash(tuple(contents))


@pytest.mark.parametrize(
    ("value", "structure"),
    [
        ("text", None),
        (None, None),
        (IMAGE, None),
        ([IMAGE], None),
        ({"a": 1}, {"a": 1}),
        ([], []),
        (0, 0),
        (Outcome(content={"a": 1}), {"a": 1}),
        (Outcome(content="text"), None),
    ],
)
def test_structure_is_what_is_no_text_and_no_content(value: object, structure: object) -> None:
    assert structure_of(value) == structure


# Bounds.


def test_head_and_tail_are_kept() -> None:
    ((content,), total, cut) = bound((text("".join(f"{number:03}" for number in range(1000))),), 90)
    assert isinstance(content, TextualContent)
    head, between, tail = content.text.split("\n")
    assert head == "".join(f"{number:03}" for number in range(20))
    assert tail == "".join(f"{number:03}" for number in range(990, 1000))
    assert between == "[… 2910 bytes left out …]"
    assert (total, cut) == (3000, True)


def test_texts_share_the_room_and_pictures_have_their_own() -> None:
    bounded, total, cut = bound((IMAGE, text("a" * 8), text("b" * 8), text("c" * 8)), 10)
    assert bounded[0] is IMAGE
    assert bounded[1] == text("a" * 8)
    assert bounded[2] == text("b\n[… 6 bytes left out …]\nb")
    assert bounded[3] == text("\n[… 8 bytes left out …]\n")
    assert (total, cut) == (124, True)


def test_pictures_that_do_not_fit_are_told() -> None:
    bounded, total, cut = bound((IMAGE, IMAGE, text("caption")), 10)
    assert bounded == (IMAGE, text("[100 bytes of image/png left out]"), text("caption"))
    assert (total, cut) == (207, True)
    opaque = OpaqueContent(protocol="p", kind="thinking", data=frozendict({"a": "x" * 500}))
    assert bound((opaque,), 10)[0] == (text("[508 bytes of thinking left out]"),)
    link = DocumentContent(url="https://example.org", mime_type="text/html")
    assert bound((link,), 0) == ((link,), 0, False)


@given(st.text(max_size=300), st.integers(0, 200))
@settings(max_examples=count(10_000, 100), deadline=None)
def test_a_shortened_text_says_how_much_is_missing(whole: str, limit: int) -> None:
    size = len(whole.encode("utf-8", "backslashreplace"))
    short = shorten(whole, limit)
    head, _, rest = short.partition("\n[… ")
    missing, _, tail = rest.partition(" bytes left out …]\n")
    if "\n[… " not in whole:
        assert len(head.encode()) + len(tail.encode()) + int(missing) == size
    assert len(short.encode()) <= limit + 64
    short.encode()


@given(st.lists(any_contents, max_size=5).map(tuple), st.integers(0, 40))
@settings(max_examples=count(4000, 80), deadline=None)
def test_the_bound_holds(contents: tuple[Content, ...], limit: int) -> None:
    bounded, total, cut = bound(contents, limit)
    texts = sum(len(one.text.encode()) for one in bounded if isinstance(one, TextualContent))
    assert len(bounded) == len(contents)
    assert texts <= limit + 64 * len(contents)
    assert cut is (bounded != contents)
    assert bound(contents, 10**6) == (contents, total, False)


def test_a_fault_is_bounded_too() -> None:
    fault = Fault(category="execution", message="m", suggestion="s", details=frozendict({"a": 1}))
    assert bound_fault(fault, 1000) is fault
    long = Fault(category="execution", message="m" * 5000, suggestion="s" * 5000, details=frozendict({"a": "x" * 5000}))
    short = bound_fault(long, 100)
    assert len(short.text()) < 400
    assert "4900 bytes left out" in short.message
    assert short.details == {"a": shorten("x" * 5000, 99)}
    assert dataclasses.replace(long, details=frozendict()) == bound_fault(
        dataclasses.replace(long, details=frozendict()), 5000
    )
    only_message = dataclasses.replace(long, suggestion=None)
    assert bound_fault(only_message, 100).suggestion is None


def test_small_details_stay_beside_long_ones() -> None:
    """Seed 000, section 6.3: the details of a program that failed have its exit code."""
    details = freeze({"exit_code": 3, "stdout": "o" * 300_000, "stderr": "\x00" * 3000, "found": [1] * 5000})
    short = bound_fault(Fault(category="execution", message="m", details=details), 4000)
    assert (short.details["exit_code"], short.details["found"]) == (3, "[10011 bytes left out]")
    assert list(short.details) == ["exit_code", "stdout", "stderr", "found"]
    stdout, stderr = str(short.details["stdout"]), str(short.details["stderr"])
    assert stdout.startswith("o" * 1000)
    assert stdout.endswith("o" * 500)
    assert " bytes left out" in stderr
    assert len(encode(short.details)) < 4500


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=400) | st.integers(), max_size=8), st.integers(0, 300))
@settings(max_examples=count(4000, 80), deadline=None)
def test_details_are_bounded(details: dict[str, object], limit: int) -> None:
    fault = Fault(category="execution", message="", details=freeze(details))
    short = bound_fault(fault, limit).details
    assert len(encode(short)) <= 2 * limit + 100 * (len(details) + 1)
    assert short == fault.details or len(encode(fault.details)) > limit


@pytest.mark.parametrize(
    ("before", "size", "lost"),
    [
        (None, 5000, (True, False)),  # One stream, or something else.
        (0, 5000, (False, True)),  # Only standard error.
        (500, 5000, (False, True)),
        (3000, 5000, (True, True)),
        (4800, 5000, (True, False)),
    ],
)
def test_the_stream_that_was_cut(before: int | None, size: int, lost: tuple[bool, bool]) -> None:
    assert cut_streams(Outcome(stdout_bytes=before), size, 900) == lost


def test_changes_are_changes() -> None:
    change = Change.of("FileCreated", path="x")
    assert changes_of(Outcome(changes=[change]), ()) == (change,)  # type: ignore[arg-type]
    # What a tool reports about a path says more than what was seen of it.
    seen = [Change.of("FileModified", path=path) for path in ("x", "y")]
    assert changes_of(Outcome(changes=(change,)), seen) == (change, seen[1])
    for nonsense in (5, ["x"], None):
        with pytest.raises(TypeError):
            changes_of(Outcome(changes=nonsense), ())  # type: ignore[arg-type]
