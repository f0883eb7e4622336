"""Canisters and conversations through JSON and back: equal values, and an error with a place for all else."""

import copy
import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.canisters import (
    Canister,
    Conversation,
    DocumentContent,
    ImageContent,
    ResultCanister,
    TextualContent,
    UserCanister,
)
from ripieno.canisters.faults import Fault
from ripieno.canisters.serialization import deserialize_canister, deserialize_conversation, serialize
from ripieno.exceptions import SerializationInvalidity
from tests.support.canister_strategies import canisters, conversations


def through_json(value: Canister | Conversation) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(json.dumps(serialize(value)))
    return loaded


def exact(value: Any) -> Any:
    """Every field of a value, those too that are not compared."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [exact(getattr(value, field.name)) for field in dataclasses.fields(value)]
        return (type(value).__name__, parts)
    if isinstance(value, tuple):
        return [exact(one) for one in value]
    return (type(value).__name__, value)


@given(canisters)
def test_a_canister_comes_back_with_every_field(canister: Canister) -> None:
    back = deserialize_canister(through_json(canister))
    assert exact(back) == exact(canister)


@given(conversations)
def test_a_conversation_comes_back_with_every_field(conversation: Conversation) -> None:
    back = deserialize_conversation(through_json(conversation))
    assert exact(back) == exact(conversation)
    assert back.namespaces == {}


def test_the_form_is_small_and_says_its_version() -> None:
    canister = UserCanister(content=(TextualContent(text="Hi."), ImageContent(data=b"\x00\xff", mime_type="image/png")))
    assert serialize(canister) == {
        "version": 1,
        "type": "user",
        "content": [{"type": "text", "text": "Hi."}, {"type": "image", "data": "AP8=", "mime_type": "image/png"}],
        "timestamp": canister.timestamp.isoformat(),
    }


def stored_result() -> dict[str, Any]:
    return through_json(
        ResultCanister(
            invocation_id="a",
            content=(DocumentContent(data=b"x", mime_type="text/plain"),),
            error=Fault(category="limit", message="No."),
        )
    )


def replaced(path: str, value: Any) -> dict[str, Any]:
    """A stored result with one thing changed; a path is keys and indices with dots between."""
    stored = copy.deepcopy(stored_result())
    place: Any = stored
    *before, last = path.split(".")
    for key in before:
        place = place[int(key)] if isinstance(place, list) else place[key]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return stored


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("version", 2, "stored data: its version is 2; this is version 1."),
        ("version", ..., "its version is None"),
        ("type", "oracle", "canister: there is no type 'oracle'; known are user, assistant"),
        ("colour", "red", "canister: there is no field 'colour'; known are invocation_id, content"),
        ("invocation_id", ..., "canister: the field 'invocation_id' is missing"),
        ("invocation_id", 5, "canister.invocation_id: expected str, not int"),
        ("timestamp", "yesterday", "canister.timestamp: 'yesterday' is not an ISO 8601 time"),
        ("timestamp", "2026-01-01T00:00:00", "has no time zone"),
        ("content", "text", "canister.content: expected an array, not str"),
        ("content.0", "text", "canister.content[0]: expected an object, not str"),
        ("content.0.type", "result", "canister.content[0]: there is no type 'result'; known are text, image"),
        ("content.0.data", "no base64!", "canister.content[0].data: the text is not base64"),
        ("content.0.data", 5, "canister.content[0].data: expected base64 text, not int"),
        ("content.0.url", "https://example.org", "canister.content[0]: A document has either data or a url"),
        ("error.category", "bad luck", "canister.error.category: expected one of validation"),
        ("error.recoverable", 1, "canister.error.recoverable: expected bool, not int"),
        ("error.details", [], "canister.error.details: expected an object, not list"),
        ("error.details", {"a": float("nan")}, "canister.error.details: At "),
        ("report", {"duration_ms": "3"}, "canister.report.duration_ms: expected a number, not '3'"),
        ("report", {"attempts": 1.0}, "canister.report.attempts: expected int, not float"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(path: str, value: Any, message: str) -> None:
    stored = {**stored_result(), "content": [value]} if path == "content.0" else replaced(path, value)
    with pytest.raises(SerializationInvalidity) as caught:
        deserialize_canister(stored)
    assert message in str(caught.value)


def test_a_conversation_is_no_canister_and_the_other_way_round() -> None:
    conversation = serialize(Conversation.of("Hi."))
    with pytest.raises(SerializationInvalidity, match="no type 'conversation'"):
        deserialize_canister(conversation)
    with pytest.raises(SerializationInvalidity, match="its type is 'user', not 'conversation'"):
        deserialize_conversation(serialize(UserCanister.of("Hi.")))
    for stored in (None, [], "user", 5):
        with pytest.raises(SerializationInvalidity, match=r"stored data: expected an object, not \w+"):
            deserialize_canister(stored)  # type: ignore[arg-type]
    conversation["canisters"][0]["content"][0]["text"] = None
    with pytest.raises(
        SerializationInvalidity, match=r"conversation\.canisters\[0\]\.content\[0\]\.text: expected str, not NoneType"
    ):
        deserialize_conversation(conversation)


def test_a_time_without_a_zone_is_not_written() -> None:
    canister = UserCanister.of("Hi.")
    naive = dataclasses.replace(canister, timestamp=canister.timestamp.replace(tzinfo=None))
    with pytest.raises(SerializationInvalidity, match="has no time zone"):
        serialize(naive)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)


@given(conversations, st.data())
def test_junk_anywhere_is_an_error_of_ours_or_a_value(conversation: Conversation, data: st.DataObject) -> None:
    stored = through_json(conversation)
    place: Any = stored
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        if isinstance(place[key], dict | list) and place[key] and data.draw(st.booleans()):
            place = place[key]
            continue
        place[key] = data.draw(junk)
        break
    try:
        back = deserialize_conversation(stored)
    except SerializationInvalidity:
        return
    assert deserialize_conversation(through_json(back)) == back
