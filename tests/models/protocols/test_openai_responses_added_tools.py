"""What coding agents say in a conversation of the Responses wire beside it: tools that they add, and sharp images."""

import base64
from typing import Any

import pytest

from ripieno.canisters import DocumentContent, ImageContent, InvocationCanister, OpaqueContent, UserCanister
from ripieno.exceptions import RequestInvalidity
from ripieno.models.protocol import Asked
from ripieno.models.protocols.openai_responses import PROTOCOL

DATA = base64.b64encode(b"an image").decode()


def asked(*items: Any, **members: Any) -> Asked:
    return PROTOCOL.parse({"model": "m", "input": [*items, {"role": "user", "content": "Go."}], **members})


def added(*tools: Any, name: str = "functions") -> dict[str, Any]:
    return {
        "type": "additional_tools",
        "role": "developer",
        "tools": [{"type": "namespace", "name": name, "tools": tools}],
    }


def function(name: str, description: str = "") -> dict[str, Any]:
    return {"type": "function", "name": name, "description": description, "parameters": {"type": "object"}}


def test_tools_in_the_conversation_are_offered_with_the_others() -> None:
    script = {"type": "custom", "name": "exec", "description": "Runs a script."}
    called = {"type": "custom_tool_call", "call_id": "c", "name": "exec", "namespace": "functions", "input": "1;"}
    output = {"type": "custom_tool_call_output", "call_id": "c", "output": "done"}
    read = asked(added(script, function("wait")), called, output, tools=[function("shell")])
    assert [tool.exposed for tool in read.tools] == ["shell", "functions__exec", "functions__wait"]
    # The item itself is nothing that anybody has said, and a call has the name that the model sees.
    assert not any(
        isinstance(one, OpaqueContent) for canister in read.canisters for one in getattr(canister, "content", ())
    )
    (call,) = [one for one in read.canisters if isinstance(one, InvocationCanister)]
    assert call.name == "functions__exec"


def test_tools_that_are_added_again_are_those_that_were_added_last() -> None:
    read = asked(added(function("wait"), function("stop")), added(function("wait", "Longer.")))
    assert [(tool.exposed, tool.description) for tool in read.tools] == [("functions__wait", "Longer.")]


def test_a_tool_that_is_declared_twice_is_refused() -> None:
    item = {"type": "additional_tools", "tools": [function("shell")]}
    with pytest.raises(RequestInvalidity, match="shell"):
        asked(item, tools=[function("shell")])
    with pytest.raises(RequestInvalidity, match="tools is a list of objects"):
        asked({"type": "additional_tools", "tools": "shell"})


@pytest.mark.parametrize("detail", ["low", "high", "original", "auto", None])
def test_an_image_that_stands_in_its_part_is_an_image_however_sharp(detail: str | None) -> None:
    part = {"type": "input_image", "image_url": f"data:image/png;base64,{DATA}", "detail": detail}
    read = asked({"role": "user", "content": [part]})
    assert isinstance(read.canisters[0], UserCanister)
    assert read.canisters[0].content == (ImageContent(data=b"an image", mime_type="image/png"),)


def test_an_image_elsewhere_is_kept_for_its_own_wire_when_it_must_be_sharp() -> None:
    parts = [
        {"type": "input_image", "image_url": "https://example.org/a.png", "detail": one} for one in ("auto", "high")
    ]
    read = asked({"role": "user", "content": parts})
    assert isinstance(read.canisters[0], UserCanister)
    assert [type(one) for one in read.canisters[0].content] == [DocumentContent, OpaqueContent]
