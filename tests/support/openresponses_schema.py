"""Checks bodies and items of the Responses wire against the public schema.

The schema is the published one in ``tests/data/openresponses``. What it does not know, and clients of this wire do, is
listed here with its own check. A fault is an ``AssertionError`` that names the event.
"""

import functools
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import jsonschema_rs

Table = Mapping[str, Any]

_DOCUMENT = pathlib.Path(__file__).parents[1] / "data" / "openresponses" / "openapi-2026-04-24.json"
#: Items of tools that a provider runs itself.
_HOSTED = (
    "additional_tools",
    "apply_patch_call",
    "apply_patch_call_output",
    "code_interpreter_call",
    "computer_call",
    "computer_call_output",
    "file_search_call",
    "image_generation_call",
    "local_shell_call",
    "local_shell_call_output",
    "mcp_approval_request",
    "mcp_approval_response",
    "mcp_call",
    "mcp_list_tools",
    "program",
    "program_output",
    "shell_call",
    "shell_call_output",
    "tool_search_call",
    "tool_search_output",
    "web_search_call",
)
#: Items that the public schema has no word for, and what each must have.
ITEMS: Mapping[str, Mapping[str, type]] = {
    "custom_tool_call": {"id": str, "call_id": str, "name": str, "input": str, "status": str},
    "custom_tool_call_output": {"id": str, "call_id": str, "output": object, "status": str},
    **{kind: {"id": str} for kind in _HOSTED},
}
_OF_ITEM: Mapping[str, type] = {"item_id": str, "output_index": int}
#: Events that it has no word for, and what each must have.
EVENTS: Mapping[str, Mapping[str, type]] = {
    "response.custom_tool_call_input.delta": {**_OF_ITEM, "delta": str},
    "response.custom_tool_call_input.done": {**_OF_ITEM, "input": str},
}
#: Those that only a stream with seed 001's events has.
SEED_EVENTS: Mapping[str, Mapping[str, type]] = {
    "response.output_tool_call.begin": {**_OF_ITEM, "call_id": str, "name": str},
    "response.output_tool_call.delta": {**_OF_ITEM, "delta": str},
    "response.output_tool_call.end": {**_OF_ITEM, "name": str, "arguments": str},
    "response.done": {"response": dict},
}
#: What its vendor calls events that the public schema names differently.
RENAMED: Mapping[str, str] = {
    "response.reasoning_text.delta": "response.reasoning.delta",
    "response.reasoning_text.done": "response.reasoning.done",
}
#: Kinds of tools beside ``function`` that a request may have, and an answer may repeat.
TOOLS = frozenset(
    {
        "apply_patch",
        "code_interpreter",
        "computer",
        "computer_use_preview",
        "custom",
        "file_search",
        "image_generation",
        "local_shell",
        "mcp",
        "namespace",
        "programmatic_tool_calling",
        "shell",
        "tool_search",
        "web_search",
        "web_search_2025_08_26",
        "web_search_preview",
        "web_search_preview_2025_03_11",
    }
)
TERMINAL: Mapping[str, str] = {f"response.{word}": word for word in ("completed", "incomplete", "failed")}
#: What stands in an item that a server of ours named.
_MADE = "_ripieno_"


@functools.cache
def _document() -> Table:
    document: Table = json.loads(_DOCUMENT.read_bytes())
    return document


@functools.cache
def event_schemas() -> Mapping[str, str]:
    """The names of the schemas of events, by their type."""
    schemas: Table = _document()["components"]["schemas"]
    return {
        schema["properties"]["type"]["enum"][0]: name
        for name, schema in schemas.items()
        if name.endswith("StreamingEvent")
    }


@functools.cache
def _validator(name: str) -> jsonschema_rs.Draft202012Validator:
    """The validator of one of the document's schemas."""
    document = _document()
    return jsonschema_rs.Draft202012Validator(
        {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    )


def satisfies(value: object, name: str) -> None:
    """The value satisfies a schema of the document."""
    validator = _validator(name)
    if not validator.is_valid(value):
        faults = [f"{fault.instance_path}: {fault.message[:300]}" for fault in validator.iter_errors(value)]
        raise AssertionError(f"{name}: {'; '.join(faults)}")


def has(value: Table, shape: Mapping[str, type], what: str) -> None:
    """A value has these members."""
    for key, kind in shape.items():
        assert key in value, f"{what} has no {key}"
        assert isinstance(value[key], kind), f"{what} has {key} = {value[key]!r}"


def slugged(kind: object) -> bool:
    """Whether a word is somebody's extension: ``acme:trace``."""
    return isinstance(kind, str) and all(kind.partition(":"))


def check_item(item: Table) -> bool:
    """An item of an answer. Whether the public schema has a word for it."""
    kind = item.get("type")
    if kind in ITEMS:
        has(item, ITEMS[kind], f"an item of the type {kind}")
        return False
    if slugged(kind):
        has(item, {"id": str}, f"an item of the type {kind}")
        return False
    if "namespace" in item:
        assert kind == "function_call", f"an item of the type {kind} has a namespace"
        has(item, {"namespace": str}, f"an item of the type {kind}")
    satisfies(item, "ItemField")
    return True


def check_response(response: Table) -> None:
    """A response, whole or inside an event."""
    standard = dict(response)
    standard["output"] = [item for item in response.get("output", ()) if check_item(item)]
    standard["tools"] = [tool for tool in response.get("tools", ()) if not _extends_tools(tool)]
    choice = response.get("tool_choice")
    if isinstance(choice, dict):
        standard["tool_choice"] = _standard_choice(choice)
    satisfies(standard, "ResponseResource")
    made = [item["id"] for item in response["output"] if _MADE in item["id"]]
    assert len(set(made)) == len(made), f"identifiers are doubled: {made}"
    calls = [(item["type"], item["call_id"]) for item in response["output"] if "call_id" in item]
    assert len(set(calls)) == len(calls), f"calls are doubled: {calls}"
    assert all("authorization" not in tool and "headers" not in tool for tool in response["tools"]), "a secret returns"


def _extends_tools(tool: Table) -> bool:
    kind = tool.get("type")
    return kind in TOOLS or slugged(kind)


def _standard_choice(choice: Table) -> object:
    """What the public schema can say of a choice."""
    if choice.get("type") == "allowed_tools":
        return {**choice, "tools": [tool for tool in choice["tools"] if not _extends_tools(tool)]}
    return "auto" if _extends_tools(choice) else choice


def check_body(data: bytes) -> dict[str, Any]:
    """The body of an answer that is not streamed: a response that is over, or an error. Returns it, parsed."""
    body: dict[str, Any] = json.loads(data)
    if "object" not in body:
        assert isinstance(body.get("error"), dict), f"neither a response nor an error: {body}"
        satisfies(body["error"], "ErrorPayload")
        return body
    check_response(body)
    check_ended(body)
    return body


def check_ended(response: Table) -> None:
    """A response is over, and says how."""
    status = response["status"]
    assert status in TERMINAL.values(), f"an answer is over, but its status is {status!r}"
    assert (response["completed_at"] is not None) == (status == "completed"), (
        f"{status}, but {response['completed_at']}"
    )
    assert (response["incomplete_details"] is not None) == (status == "incomplete"), f"{status}, but its details"
    assert (response["error"] is not None) == (status == "failed"), f"{status}, but its error"
    if status != "failed":
        assert response["usage"] is not None, "an answer says nothing of its usage"
    for item in response["output"]:
        assert item.get("status") != "in_progress", f"an answer is over, but an item is not: {item}"


@functools.cache
def minimal_response() -> Table:
    """The smallest response: it stands for one that was checked by itself."""
    schema = _document()["components"]["schemas"]["ResponseResource"]
    numbers = ("top_p", "presence_penalty", "frequency_penalty", "top_logprobs", "temperature")
    return {
        **dict.fromkeys(schema["required"]),
        **dict.fromkeys(numbers, 1),
        "id": "resp",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": "m",
        "output": [],
        "tools": [],
        "tool_choice": "auto",
        "truncation": "disabled",
        "parallel_tool_calls": True,
        "text": {"format": {"type": "text"}},
        "store": False,
        "background": False,
        "service_tier": "default",
    }
