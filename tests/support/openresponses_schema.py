"""Checks bodies and items of the Responses wire against the public schema.

Both are in ``tests/data/openresponses``: the published schema, and in ``extensions.toml`` what clients of this wire use
beyond it. A fault is an ``AssertionError`` that names the event.
"""

import functools
import json
import pathlib
import tomllib
from collections.abc import Mapping
from typing import Any

import jsonschema_rs

Table = Mapping[str, Any]

_FOLDER = pathlib.Path(__file__).parents[1] / "data" / "openresponses"
_EXTENSIONS = tomllib.loads((_FOLDER / "extensions.toml").read_text())
_TYPES: Mapping[str, type] = {"string": str, "integer": int, "object": dict, "any": object}


def _shapes(name: str) -> Mapping[str, Mapping[str, type]]:
    return {kind: {key: _TYPES[word] for key, word in members.items()} for kind, members in _EXTENSIONS[name].items()}


#: Items and events that the public schema does not have, with their required members.
ITEMS = {**_shapes("items"), **{kind: {"id": str} for kind in _EXTENSIONS["hosted_items"]}}
EVENTS = _shapes("events")
#: Events that only a stream with the events of seed 001 has.
SEED_EVENTS = _shapes("seed_events")
#: The names in the public schema of events that the vendor names differently.
RENAMED: Mapping[str, str] = _EXTENSIONS["renamed"]
#: Kinds of tools beside ``function`` that a request may have, and an answer may repeat.
TOOLS = frozenset(_EXTENSIONS["tools"])
TERMINAL: Mapping[str, str] = {f"response.{word}": word for word in ("completed", "incomplete", "failed")}
#: A part of the identifiers that our servers generate.
_MADE = "_ripieno_"


@functools.cache
def _document() -> Table:
    document: Table = json.loads((_FOLDER / "openapi-2026-04-24.json").read_bytes())
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
    """Checks a value against a schema of the document."""
    validator = _validator(name)
    if not validator.is_valid(value):
        faults = [f"{fault.instance_path}: {fault.message[:300]}" for fault in validator.iter_errors(value)]
        raise AssertionError(f"{name}: {'; '.join(faults)}")


def has(value: Table, shape: Mapping[str, type], what: str) -> None:
    """Checks that a value has these members."""
    for key, kind in shape.items():
        assert key in value, f"{what} has no {key}"
        assert isinstance(value[key], kind), f"{what} has {key} = {value[key]!r}"


def slugged(kind: object) -> bool:
    """Whether a word names an extension of a vendor, such as ``acme:trace``."""
    return isinstance(kind, str) and all(kind.partition(":"))


def check_item(item: Table) -> bool:
    """Checks an item of an answer. Returns whether the public schema has its type."""
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
    """Checks a response, whole or inside an event."""
    standard = dict(response)
    standard["output"] = [item for item in response.get("output", ()) if check_item(item)]
    standard["tools"] = [tool for tool in response.get("tools", ()) if not _extends_tools(tool)]
    choice = response.get("tool_choice")
    if isinstance(choice, dict):
        standard["tool_choice"] = _standard_choice(choice)
    satisfies(standard, "ResponseResource")
    made = [item["id"] for item in response["output"] if _MADE in item["id"]]
    assert len(set(made)) == len(made), f"repeated identifiers: {made}"
    calls = [(item["type"], item["call_id"]) for item in response["output"] if "call_id" in item]
    assert len(set(calls)) == len(calls), f"repeated calls: {calls}"
    assert all("authorization" not in tool and "headers" not in tool for tool in response["tools"]), (
        "a secret is returned"
    )


def _extends_tools(tool: Table) -> bool:
    kind = tool.get("type")
    return kind in TOOLS or slugged(kind)


def _standard_choice(choice: Table) -> object:
    """The part of a choice that the public schema can express."""
    if choice.get("type") == "allowed_tools":
        return {**choice, "tools": [tool for tool in choice["tools"] if not _extends_tools(tool)]}
    return "auto" if _extends_tools(choice) else choice


def check_body(data: bytes) -> dict[str, Any]:
    """Checks the body of an answer that is not streamed: an ended response or an error. Returns it, parsed."""
    body: dict[str, Any] = json.loads(data)
    if "object" not in body:
        assert isinstance(body.get("error"), dict), f"neither a response nor an error: {body}"
        satisfies(body["error"], "ErrorPayload")
        return body
    check_response(body)
    check_ended(body)
    return body


def check_ended(response: Table) -> None:
    """Checks that a response has ended, and that its status fits its members."""
    status = response["status"]
    assert status in TERMINAL.values(), f"the answer ended with the status {status!r}"
    assert (response["completed_at"] is not None) == (status == "completed"), (
        f"{status}, but {response['completed_at']}"
    )
    assert (response["incomplete_details"] is not None) == (status == "incomplete"), f"{status}, but its details"
    assert (response["error"] is not None) == (status == "failed"), f"{status}, but its error"
    if status != "failed":
        assert response["usage"] is not None, "the answer has no usage"
    for item in response["output"]:
        assert item.get("status") != "in_progress", f"an item has not ended: {item}"


@functools.cache
def minimal_response() -> Table:
    """The smallest response, in place of one that was checked separately."""
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
