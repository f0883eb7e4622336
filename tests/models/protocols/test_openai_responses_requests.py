"""The Responses wire: what only it asks for, and what it refuses."""

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ripieno.canisters import (
    AssistantCanister,
    Canister,
    Controls,
    DocumentContent,
    ImageContent,
    InvocationCanister,
    OpaqueContent,
    ResultCanister,
    SupervisorCanister,
    TextualContent,
    UserCanister,
)
from ripieno.exceptions import InputError
from ripieno.jsonvalues import freeze
from ripieno.models.model import left_out
from ripieno.models.protocols.openai_responses import PROTOCOL
from tests.support.wire_requests import write

NAME = PROTOCOL.name
HI: list[Canister] = [UserCanister.of("Hi.")]
THOUGHT: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2ln"}


def kept(**data: Any) -> OpaqueContent:
    """An item that is kept as it is."""
    return OpaqueContent(protocol=NAME, kind=str(data["type"]), data=freeze(data))


def body(canisters: Sequence[Canister] = HI, **more: Any) -> Any:
    return json.loads(write(PROTOCOL, canisters, **more))


def parse(*items: Any, **more: Any) -> tuple[Canister, ...]:
    """The canisters of a request."""
    return PROTOCOL.parse({"model": "m", "input": list(items), **more}).canisters


F: dict[str, Any] = {"type": "function", "name": "f"}


@pytest.mark.parametrize(
    ("changes", "choice", "allowed"),
    [
        ({"tool_choice": {"type": "auto"}}, "auto", None),
        ({"tool_choice": {"type": "required"}}, "required", None),
        ({"tool_choice": {"forced_tool": F}}, "f", None),
        ({"tool_choice": {"type": "required", "forced_tool": F}}, "f", None),
        ({"allowed_tools": []}, None, ()),
        ({"allowed_tools": ["f"], "tool_choice": "required"}, "required", ("f",)),
        ({"allowed_tools": [F]}, None, ("f",)),
        ({"allowed_tools": ["f"], "tool_choice": {"type": "allowed_tools", "tools": []}}, "auto", ()),
    ],
)
def test_the_choice_in_the_form_of_seed_004(
    changes: Mapping[str, Any], choice: str | None, allowed: tuple[str, ...] | None
) -> None:
    """Except that an empty list allows none (record 028)."""
    controls = PROTOCOL.parse({"model": "m", "input": [], "tools": [F], **changes}).controls
    assert (controls.tool_choice, controls.allowed_tools) == (choice, allowed)


def test_an_undeclared_tool_is_refused_by_its_parameter() -> None:
    asked = PROTOCOL.parse({"model": "m", "input": [], "tool_choice": F, "allowed_tools": ["g", "f"]})
    assert {name: refusal.parameter for name, refusal in asked.undeclared.items()} == {
        "f": "tool_choice",
        "g": "allowed_tools",
    }


# Requests.


def test_nothing_is_stored_and_thoughts_come_along() -> None:
    assert body()["store"] is False
    assert "include" not in body()
    for rule in ("turn", "always"):
        assert body(reasoning_replay=rule)["include"] == ["reasoning.encrypted_content"]
    assert "include" not in body(reasoning_replay="never")


def test_reasoning_returns_as_the_providers_data_says() -> None:
    thinking = AssistantCanister(content=(kept(**THOUGHT), TextualContent(text="Yes.")))
    canisters = [*HI, thinking, UserCanister.of("Sure?"), thinking]

    def times(**capabilities: Any) -> int:
        native = body(canisters, **capabilities)
        assert sum(item["type"] == "message" for item in native["input"]) == 4
        return sum(item == THOUGHT for item in native["input"])

    assert (times(), times(reasoning_replay="always")) == (2, 2)
    assert (times(reasoning_replay="turn"), times(reasoning_replay="never")) == (1, 0)
    # Whatever else a provider keeps in its items returns in any case.
    compaction = kept(type="compaction", id="c", encrypted_content="x")
    native = body([*HI, AssistantCanister(content=(compaction,))], reasoning_replay="never")
    assert native["input"][1] == dict(compaction.data)


def test_stop_sequences_are_an_error_not_a_silence() -> None:
    with pytest.raises(InputError, match="does not support stop: leave it out"):
        body(controls=Controls(stop=("END",)))
    assert body(controls=Controls(stop=()))["model"] == "m"


def test_a_result_says_which_call_it_answers_wherever_that_stands() -> None:
    freeform = InvocationCanister(identifier="c", name="patch", kind="freeform", raw="x")
    result = ResultCanister(invocation_id="c", content=(TextualContent(text="done"),))
    native = body([*HI, freeform, InvocationCanister(identifier="d", name="f"), UserCanister.of("Well?"), result])
    assert native["input"][-1] == {"type": "custom_tool_call_output", "call_id": "c", "output": "done"}
    # The same result beside another call is another item, though its piece was kept.
    function = InvocationCanister(identifier="c", name="f")
    assert body([*HI, function, result])["input"][-1]["type"] == "function_call_output"
    assert body([*HI, result])["input"][-1]["type"] == "function_call_output"


def test_files_and_what_else_stands_in_messages() -> None:
    file = DocumentContent(data=b"alpha", mime_type="text/plain")
    link = DocumentContent(url="https://example.org/a.pdf", mime_type="application/pdf")
    held = {"type": "input_file", "file_id": "file_1"}
    sharp = {"type": "input_image", "detail": "high", "image_url": "https://example.org/a.png"}
    raw = {"type": "input_file", "filename": "a.bin", "file_data": "YWxwaGE="}
    picture = {"type": "input_image", "image_url": "https://example.org/a.png"}
    (read,) = parse(
        {"role": "user", "content": [*body([UserCanister(content=(file, link))])["input"][0]["content"], raw, picture]}
    )
    assert isinstance(read, UserCanister)
    assert read.content == (
        file,
        link,
        DocumentContent(data=b"alpha", mime_type="application/octet-stream"),
        DocumentContent(url="https://example.org/a.png", mime_type="image/*"),
    )
    # What no other wire could say returns to this one as it came, and to no other.
    canisters = parse({"role": "user", "content": [held, sharp, {"type": "text", "text": "Look."}]})
    assert body(canisters)["input"][0]["content"] == [held, sharp, {"type": "input_text", "text": "Look."}]
    output = parse({"type": "function_call_output", "call_id": "c", "output": [held]})
    assert body(output)["input"][0]["output"] == [held]
    image = ImageContent(data=b"x", mime_type="image/png")
    assert left_out([UserCanister(content=(image, file))], PROTOCOL) == {}


def test_the_documentation_shows_what_is_sent() -> None:
    page = (pathlib.Path(__file__).parents[3] / "documentation/reference/protocols/openai-responses.rst").read_text()
    shown = page.partition(".. code-block:: json\n")[2].partition("\n\n.. list-table::")[0]
    beside = kept(type="message", phase="commentary")
    canisters: list[Canister] = [
        SupervisorCanister.of("Be brief."),
        UserCanister.of("Is it raining in Wien?"),
        AssistantCanister(
            content=(kept(**{**THOUGHT, "encrypted_content": "gAAA"}), beside, TextualContent(text="I look."))
        ),
        InvocationCanister(
            identifier="call_1",
            name="get_weather",
            arguments=freeze({"city": "Wien"}),
            opaque=freeze({NAME: {"id": "fc_1"}}),
        ),
        ResultCanister(invocation_id="call_1", content=(TextualContent(text="rain"),)),
    ]
    sent = body(canisters, controls=Controls(), reasoning_replay="always")
    assert json.loads(shown) == {**sent, "model": "gpt-…"}


# Requests of clients.


def test_a_text_is_one_message() -> None:
    read = PROTOCOL.parse({"model": "m", "input": "Hi.", "instructions": "Be brief."})
    assert read.canisters == (SupervisorCanister.of("Be brief."), UserCanister.of("Hi."))


def test_histories_of_clients() -> None:
    canisters = parse(
        {"role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
        {"role": "user", "content": ""},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}", "id": "fc_1", "status": "completed"},
        THOUGHT,
        {"role": "assistant", "content": [{"type": "output_text", "text": "One"}, {"type": "refusal", "refusal": "."}]},
        {"type": "message", "role": "assistant", "content": "Two.", "id": "msg_2"},
        {"type": "message", "role": "assistant", "content": "", "id": "msg_3"},
        {"type": "function_call_output", "call_id": "c1", "output": None, "id": "fco_1", "status": "completed"},
        {"type": "message", "role": "assistant", "content": "Three.", "id": "msg_4"},
    )
    assert canisters == (
        SupervisorCanister.of("Be brief."),
        UserCanister(content=()),
        AssistantCanister(),
        InvocationCanister(identifier="c1", name="f", raw="{}", opaque=freeze({NAME: {"id": "fc_1"}})),
        AssistantCanister(
            content=(
                kept(**THOUGHT),
                TextualContent(text="One."),
                # Reasoning stands before it, so that its identifier may be asked for.
                kept(type="message", id="msg_2"),
                TextualContent(text="Two."),
            )
        ),
        ResultCanister(invocation_id="c1"),
        AssistantCanister.of("Three."),
    )


@pytest.mark.parametrize("detail", ["low", "high", "original", "auto", None])
def test_an_image_that_stands_in_its_part_is_an_image_however_sharp(detail: str | None) -> None:
    part = {"type": "input_image", "image_url": "data:image/png;base64,YWxwaGE=", "detail": detail}
    image = ImageContent(data=b"alpha", mime_type="image/png")
    assert parse({"role": "user", "content": [part]}) == (UserCanister(content=(image,)),)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": None}, "no model"),
        ({"input": None}, "no input"),
        ({"input": 7}, "input is a list of objects"),
        ({"input": ["x"]}, "input is a list of objects"),
        ({"input": [{"role": "narrator", "content": "x"}]}, "'narrator'"),
        ({"input": [{"role": "user", "content": 7}]}, "Content is a text or a list"),
        ({"input": [{"role": "user", "content": [7]}]}, "is an object with a type"),
        ({"input": [{"role": "user", "content": [{"type": "audio"}]}]}, "'audio', which is not supported"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:x;base64,?"}]}]}, "base64"),
        ({"input": [{"content": "x"}]}, "An item is an object with a type"),
        ({"input": [{"type": "function_call_output", "output": "x"}]}, "function_call_output has no call_id"),
        ({"previous_response_id": "resp_1"}, "previous_response_id refers to nothing: send the whole conversation"),
        ({"background": True}, "background answers could not be fetched"),
        ({"tools": [{"type": "mcp"}]}, "has no server_label"),
        ({"tools": [{"type": "function", "function": {}}]}, "A tool has no name"),
        ({"tool_choice": {"type": "web_search"}}, "tool_choice names 'web_search', which is not among the tools"),
        ({"tool_choice": 7}, "tool_choice is an object"),
        ({"tool_choice": {"forced_tool": "f"}}, "forced_tool is a tool, such as"),
        ({"tool_choice": {"type": "none", "forced_tool": {"type": "function", "name": "f"}}}, "Leave out the type"),
        ({"allowed_tools": "f"}, "allowed_tools is a list of tools"),
        ({"allowed_tools": [7]}, "allowed_tools is a list of tools"),
    ],
)
def test_a_wrong_request_is_an_error_that_says_what_is_wrong(changes: Mapping[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        PROTOCOL.parse({"model": "m", "input": [], **changes})
