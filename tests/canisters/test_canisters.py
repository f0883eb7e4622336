"""Canisters: frozen, with one hidden slot, and with the JSON of the tool-calling specification."""

import copy
import dataclasses
import datetime
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from frozendict import frozendict
from hypothesis import given
from msgspec.structs import force_setattr

from ripieno.canisters import (
    AssistantCanister,
    AudioContent,
    Canister,
    Conversation,
    DocumentCanister,
    DocumentContent,
    ImageContent,
    InvocationCanister,
    OpaqueContent,
    ResultCanister,
    SupervisorCanister,
    TextualContent,
    UserCanister,
)
from ripieno.canisters.contents import legible
from ripieno.canisters.controls import Controls, Format, Limits, Rules
from ripieno.canisters.conversation import Waiting
from ripieno.canisters.faults import CATEGORY_NAMES, Change, Fault, Report
from ripieno.canisters.serialization import serialize
from ripieno.exceptions import ExecutionFault, FatalFault, JsonInvalidity, ToolFault, UsageError
from ripieno.jsonvalues import freeze
from tests.support.canister_strategies import canisters


def copies(value: Any) -> list[Any]:
    """The value, copied in every way."""
    return [copy.copy(value), copy.deepcopy(value), dataclasses.replace(value), pickle.loads(pickle.dumps(value))]


SIX: tuple[Canister, ...] = (
    UserCanister.of("Hi."),
    AssistantCanister.of("Hello."),
    SupervisorCanister.of("Be kind."),
    DocumentCanister(content=(TextualContent(text="Once."),), identifier="tale"),
    InvocationCanister(identifier="a", name="look"),
    ResultCanister(invocation_id="a"),
)


@pytest.mark.parametrize("canister", SIX, ids=lambda one: type(one).__name__)
def test_a_canister_cannot_change(canister: Any) -> None:
    for field in dataclasses.fields(canister):
        with pytest.raises(AttributeError):
            setattr(canister, field.name, None)
    for name in ("encoding", "colour"):
        with pytest.raises(AttributeError):
            setattr(canister, name, ("key", b""))
    assert not hasattr(canister, "__dict__")


PLAIN: Any = {"a": [{"b": 1}], "c": 0.5}
TEXTS: Any = [TextualContent(text="x")]
CALLS: Any = [InvocationCanister(identifier="a", name="look")]


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: UserCanister(content=TEXTS), "content"),
        (lambda: SupervisorCanister(content=TEXTS), "content"),
        (lambda: AssistantCanister(content=TEXTS), "content"),
        (lambda: DocumentCanister(content=TEXTS, identifier="a"), "content"),
        (lambda: ResultCanister(invocation_id="a", content=TEXTS), "content"),
        (lambda: InvocationCanister(identifier="a", name="b", arguments=PLAIN), "arguments"),
        (lambda: InvocationCanister(identifier="a", name="b", arguments=frozendict(PLAIN)), "arguments"),
        (lambda: InvocationCanister(identifier="a", name="b", opaque=PLAIN), "opaque"),
        (lambda: OpaqueContent(protocol="p", kind="k", data=PLAIN), "data"),
        (lambda: ImageContent(data=bytearray(b"x"), mime_type="image/png"), "data"),
        (lambda: AudioContent(data=bytearray(b"x"), mime_type="audio/wav"), "data"),
        (lambda: DocumentContent(data=bytearray(b"x"), mime_type="text/plain"), "data"),
        (lambda: Fault(category="execution", message="x", details=PLAIN), "details"),
        (lambda: Change(kind="FileCreated", data=PLAIN), "data"),
        (lambda: Report(changes=[Change.of("FileCreated", path="x")]), "changes"),  # type: ignore[arg-type]
        (lambda: Waiting(invocation="a", why="approval", request=PLAIN), "request"),
        (lambda: Conversation(canisters=CALLS), "canisters"),
        (lambda: Conversation(open=CALLS), "open"),
        (lambda: Format(kind="json_schema", schema=PLAIN), "schema"),
        (lambda: Controls(stop=["x"]), "stop"),  # type: ignore[arg-type]
        (lambda: Rules(deny=["x"]), "deny"),  # type: ignore[arg-type]
    ],
)
def test_constructors_freeze_what_they_are_given(make: Callable[[], Any], name: str) -> None:
    value = make()
    frozen = getattr(value, name)
    assert isinstance(frozen, tuple | frozendict | bytes)
    assert frozen in (tuple(TEXTS), tuple(CALLS), freeze(PLAIN), b"x", ("x",), (Change.of("FileCreated", path="x"),))
    hash(value)  # Nothing in it can change, at any level.
    assert getattr(dataclasses.replace(value), name) is frozen


def test_a_text_is_not_a_sequence_of_contents_and_objects_are_not_arguments() -> None:
    with pytest.raises(TypeError, match="content of UserCanister is a tuple or a list, not str"):
        UserCanister(content="Hi.")  # type: ignore[arg-type]
    with pytest.raises(JsonInvalidity, match=r"At the value\['a'\]: object is not a JSON type"):
        InvocationCanister(identifier="a", name="b", arguments=frozendict(a=object()))


@pytest.mark.parametrize("canister", SIX, ids=lambda one: type(one).__name__)
def test_the_hidden_slot_leaves_no_trace(canister: Any) -> None:
    bare, printed = copy.copy(canister), repr(canister)
    force_setattr(canister, "encoding", ("openai", b"secret"))
    assert canister == bare
    assert hash(canister) == hash(bare)
    assert repr(canister) == printed
    for other in copies(canister):
        assert other == canister
        assert other.timestamp == canister.timestamp
        assert not hasattr(other, "encoding")
    assert b"secret" not in pickle.dumps(canister)
    assert "secret" not in str(serialize(canister))
    assert "encoding" not in {field.name for field in dataclasses.fields(canister)}


@given(canisters)
def test_canisters_are_values(canister: Canister) -> None:
    twin = pickle.loads(pickle.dumps(canister))
    later = dataclasses.replace(canister, timestamp=canister.timestamp + datetime.timedelta(1))
    assert twin == canister == later
    assert hash(twin) == hash(canister) == hash(later)


def test_times_are_aware_and_reports_are_not_compared() -> None:
    before = datetime.datetime.now(datetime.UTC)
    result = ResultCanister(invocation_id="a")
    assert before <= result.timestamp <= datetime.datetime.now(datetime.UTC)
    assert result == ResultCanister(invocation_id="a", report=Report(duration_ms=5.0))


def test_a_document_has_data_or_a_url() -> None:
    for given_parts in ({}, {"data": b"x", "url": "https://example.org"}):
        with pytest.raises(ValueError, match="exactly one"):
            DocumentContent(mime_type="text/plain", **given_parts)  # type: ignore[arg-type]


def test_the_limits_are_the_documented_ones() -> None:
    assert Limits() == Limits(turns=20, calls=100, wall=600.0, repeats=3, output=None, tokens=None)


def test_a_format_has_a_schema_where_it_is_one() -> None:
    assert Format(kind="json_schema", schema=frozendict(type="object")) != Format(kind="json_object")
    with pytest.raises(ValueError, match="has a schema if its kind is json_schema"):
        Format(kind="json_schema")
    with pytest.raises(ValueError, match="and no schema otherwise"):
        Format(kind="json_object", schema=frozendict(type="object"))


def test_a_format_of_another_class_is_refused_where_it_is_given() -> None:
    form: Any = {"kind": "json_object"}
    with pytest.raises(UsageError, match=r"control format takes Format, of \S+, not dict: \{'kind': 'json_object'\}"):
        Controls(format=form)
    with pytest.raises(UsageError, match=r"not str"):
        dataclasses.replace(Controls(), format="json_object")


# The forms of seed 000, section 6. The examples there are its examples.

STAMP = datetime.datetime(2025, 2, 4, 10, 30, tzinfo=datetime.UTC)


def test_a_request_has_the_form_of_section_6_1() -> None:
    invocation = InvocationCanister(
        identifier="call_abc123xyz",
        name="bash",
        arguments=freeze({"command": "python -m pytest tests/ -v", "timeout_seconds": 120}),
        timestamp=STAMP,
    )
    mapping = invocation.request_mapping(step_number=5, task_id="task_xyz789", working_directory="/workspace/project")
    assert mapping == {
        "tool_call_id": "call_abc123xyz",
        "name": "bash",
        "arguments": {"command": "python -m pytest tests/ -v", "timeout_seconds": 120},
        "timestamp": "2025-02-04T10:30:00Z",
        "context": {"step_number": 5, "task_id": "task_xyz789", "working_directory": "/workspace/project"},
    }
    assert list(mapping) == ["tool_call_id", "name", "arguments", "timestamp", "context"]


def test_a_response_has_the_form_of_section_6_2() -> None:
    result = ResultCanister(
        invocation_id="call_abc123xyz",
        content=(TextualContent(text="===== 5 passed in 0.42s ====="),),
        report=Report(
            duration_ms=1523.4,
            exit_code=0,
            changes=(Change.of("FileCreated", path=".pytest_cache/v/cache/lastfailed"),),
            total_bytes=247,
            attempts=1,
        ),
    )
    assert result.response_mapping() == {
        "tool_call_id": "call_abc123xyz",
        "success": True,
        "output": "===== 5 passed in 0.42s =====",
        "error": None,
        "exit_code": 0,
        "execution_time_ms": 1523,
        "state_changes": [{"type": "FileCreated", "path": ".pytest_cache/v/cache/lastfailed"}],
        "metadata": {"stdout_truncated": False, "stderr_truncated": False, "total_output_bytes": 247},
    }


def test_a_failure_has_the_form_of_section_6_3() -> None:
    details = {"command": "npm install", "timeout_seconds": 30, "partial_output": "Installing dependencies..."}
    result = ResultCanister(
        invocation_id="call_def456",
        error=Fault(
            category="execution",
            message="Command timed out after 30 seconds",
            code="timeout",
            details=freeze(details),
            suggestion="Retry with increased timeout or check network connectivity",
        ),
        report=Report(duration_ms=30000.0),
    )
    assert result.response_mapping() == {
        "tool_call_id": "call_def456",
        "success": False,
        "output": "",
        "error": {
            "type": "ExecutionError",
            "message": "Command timed out after 30 seconds",
            "code": "TIMEOUT",
            "details": details,
        },
        "exit_code": None,
        "execution_time_ms": 30000,
        "state_changes": [],
        "recoverable": True,
        "suggested_action": "Retry with increased timeout or check network connectivity",
    }


def test_a_turn_has_the_form_of_section_6_4() -> None:
    first = InvocationCanister(identifier="call_1", name="read_file", arguments=freeze({"path": "src/main.py"}))
    second = InvocationCanister(identifier="call_2", name="bash", arguments=freeze({"command": "git status"}))
    conversation = Conversation(
        canisters=(
            UserCanister.of("Go."),
            AssistantCanister.of("I look."),
            first,
            second,
            ResultCanister(invocation_id="call_1", content=(TextualContent(text="# main.py content..."),)),
            ResultCanister(invocation_id="call_2", error=Fault(category="network", message="No git.")),
            AssistantCanister.of("Done."),
        )
    )
    assert conversation.turn_mapping(1) == {
        "assistant_message": {
            "role": "assistant",
            "tool_calls": [
                {"id": "call_1", "name": "read_file", "arguments": {"path": "src/main.py"}},
                {"id": "call_2", "name": "bash", "arguments": {"command": "git status"}},
            ],
        },
        "tool_results": [
            {"tool_call_id": "call_1", "success": True, "output": "# main.py content..."},
            {"tool_call_id": "call_2", "success": False, "output": "Error: No git."},
        ],
    }
    assert conversation.turn_mapping(2)["tool_results"] == []
    for number in (0, 3):
        with pytest.raises(ValueError, match=f"There is no turn {number}; this conversation has 2"):
            conversation.turn_mapping(number)


# What a model reads of a failure, and what a tool may put into it.


def test_what_failed_comes_before_what_was_said() -> None:
    fault = Fault(category="timeout", message="It took too long.", suggestion="Ask for less.")
    said = (TextualContent(text="half "), ImageContent(data=b"x", mime_type="image/png"), TextualContent(text="done"))
    assert ResultCanister(invocation_id="a", content=said).text == "half done"
    assert ResultCanister(invocation_id="a", content=said, error=fault).text == (
        "Error: It took too long.\nAsk for less.\nhalf done"
    )
    assert ResultCanister(invocation_id="a", error=fault).text == "Error: It took too long.\nAsk for less."


@pytest.mark.parametrize(
    "kind", [ToolFault, *(one for one in ToolFault.__subclasses__() if one.__module__ == ToolFault.__module__)]
)
def test_every_fault_that_a_tool_raises_has_its_category(kind: type[ToolFault]) -> None:
    fault = Fault.raised(kind("No.", code="E_NO", details={"paths": ["a"]}, suggestion="Try b."))
    assert fault.category == kind.category
    assert fault.category in CATEGORY_NAMES
    assert fault.mapping() == {
        "type": CATEGORY_NAMES[kind.category],
        "message": "No.",
        "code": "E_NO",
        "details": {"paths": ["a"]},
    }
    assert fault.recoverable is (kind is not FatalFault)
    plain = Fault.raised(kind("No."))
    assert plain.mapping()["code"] == kind.category.upper()
    assert bool(plain.suggestion) is (kind is not FatalFault)


def test_a_fault_of_anything_is_made_plain() -> None:
    class Strange(ToolFault):
        category = "spacetime"

    raised = Strange(5, code=6, details={"when": STAMP, "name\udcff": {1}}, suggestion=7)  # type: ignore[arg-type]
    fault = Fault.raised(raised)
    assert (fault.category, fault.message, fault.code, fault.suggestion) == ("execution", "5", "6", "7")
    assert fault.details == frozendict({"when": repr(STAMP), "name\\udcff": "{1}"})
    assert fault.mapping()["type"] == "ExecutionError"


def test_halves_of_characters_are_shown_as_escapes() -> None:
    assert legible("caf\udce9 é") == "caf\\udce9 é"
    fault = Fault.raised(ExecutionFault("no \udcff", details={"path": "\udcff"}, suggestion="\ud800"))
    assert fault.text().encode() == b"Error: no \\udcff\n\\ud800"
    assert str(fault.details).isascii()


def test_an_error_is_named_once() -> None:
    """Servers write the word in their messages, too."""
    assert Fault(category="execution", message="Error: There is no file.").text() == "Error: There is no file."
