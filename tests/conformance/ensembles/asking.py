"""The tools of ``asking.toml``: each asks what the suite's scenario of its name expects."""

import json
from collections.abc import Mapping
from typing import Any

from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequest,
    ListRootsRequest,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)
from tests.conformance.beside import change_prompts

from ripieno.ensembles import Context
from ripieno.servers.mcp.client import Client, current_client

_NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
_COLOR = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}
_YES = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


def client() -> Client:
    """Who asks for this call; these tools serve MCP clients only."""
    found = current_client()
    assert found is not None
    return found


def _form(message: str, schema: dict[str, Any]) -> ElicitRequest:
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def _sample(text: str) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(text=text))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=100))


async def _said(name: str, text: str) -> str:
    answer = (await client().ask({name: _sample(text)}))[name]
    assert isinstance(answer, CreateMessageResult)
    assert isinstance(answer.content, TextContent)
    return answer.content.text


async def _ask_person(context: Context, message: str, schema: Mapping[str, Any]) -> str:
    values = await context.inquire(message, schema)
    return "action=decline, content={}" if values is None else f"action=accept, content={json.dumps(dict(values))}"


async def test_tool_with_logging(context: Context, arguments: dict[str, Any]) -> str:
    for done, message in enumerate(("Tool execution started", "Tool processing data", "Tool execution completed")):
        context.progress(done, 2, message)
    return "Done."


async def test_sampling(context: Context, arguments: dict[str, Any]) -> str:
    return f"LLM response: {await _said('sample', arguments['prompt'])}"


async def test_missing_capability(context: Context, arguments: dict[str, Any]) -> str:
    return await _said("sample", "Is anybody there?")


async def test_elicitation(context: Context, arguments: dict[str, Any]) -> str:
    properties = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    schema = {"type": "object", "properties": properties, "required": ["username", "email"]}
    return f"User response: {await _ask_person(context, arguments['message'], schema)}"


async def test_elicitation_sep1034_defaults(context: Context, arguments: dict[str, Any]) -> str:
    properties = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    schema = {"type": "object", "properties": properties}
    return f"Elicitation completed: {await _ask_person(context, 'Who are you?', schema)}"


async def test_elicitation_sep1330_enums(context: Context, arguments: dict[str, Any]) -> str:
    options = ["option1", "option2", "option3"]
    titled = [{"const": f"value{number}", "title": f"{word} Option"} for number, word in _numbered()]
    choices = [{"const": f"value{number}", "title": f"{word} Choice"} for number, word in _numbered()]
    legacy = {"enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]}
    properties: dict[str, Any] = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", **legacy},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": choices}},
    }
    schema = {"type": "object", "properties": properties}
    return f"Elicitation completed: {await _ask_person(context, 'Choose.', schema)}"


def _numbered() -> list[tuple[int, str]]:
    return [(1, "First"), (2, "Second"), (3, "Third")]


async def test_input_required_result_elicitation(context: Context, arguments: dict[str, Any]) -> str:
    values = await client().inquire("What is your name?", _NAME, "user_name")
    return "Nobody." if values is None else f"Hello, {values['name']}!"


async def test_input_required_result_sampling(context: Context, arguments: dict[str, Any]) -> str:
    return await _said("capital_question", "What is the capital of France?")


async def test_input_required_result_list_roots(context: Context, arguments: dict[str, Any]) -> str:
    answer = (await client().ask({"client_roots": ListRootsRequest()}))["client_roots"]
    assert isinstance(answer, ListRootsResult)
    return " ".join(str(root.uri) for root in answer.roots)


async def test_input_required_result_request_state(context: Context, arguments: dict[str, Any]) -> str:
    return await _ask_person(context, "Please confirm", _YES) + " state-ok"


async def test_input_required_result_tampered_state(context: Context, arguments: dict[str, Any]) -> str:
    return await _ask_person(context, "Please confirm", _YES)


async def test_input_required_result_multi_round(context: Context, arguments: dict[str, Any]) -> str:
    name = await _ask_person(context, "Step 1: What is your name?", _NAME)
    color = await _ask_person(context, "Step 2: What is your favorite color?", _COLOR)
    return f"{name} {color}"


async def test_input_required_result_multiple_inputs(context: Context, arguments: dict[str, Any]) -> str:
    requests: dict[str, InputRequest] = {
        "user_name": _form("What is your name?", _NAME),
        "greeting": _sample("Generate a greeting"),
        "client_roots": ListRootsRequest(),
    }
    answers = await client().ask(requests)
    return f"All of {', '.join(answers)} are there."


async def test_input_required_result_capabilities(context: Context, arguments: dict[str, Any]) -> str:
    wanted: dict[str, InputRequest] = {"user_name": _form("Your name?", _NAME), "greeting": _sample("Greet them.")}
    asked = {name: request for name, request in wanted.items() if client().offers(request)}
    return f"Asked: {', '.join(await client().ask(asked))}"


async def test_trigger_prompt_change(context: Context, arguments: dict[str, Any]) -> str:
    await change_prompts()
    return "Changed."
