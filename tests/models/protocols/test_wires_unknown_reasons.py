"""Answers with calls whose end has an unknown reason: the calls run, and an alert says so once."""

import json
from collections.abc import Callable

import pytest
from starlette.responses import Response

from ripieno.canisters.events import Alert, TurnEnded
from ripieno.conducting import conduct
from ripieno.jsonvalues import JsonValue
from ripieno.models import Protocol
from ripieno.models.protocol import Identifiers, Native
from ripieno.models.protocols.anthropic import PROTOCOL as MESSAGES
from ripieno.models.protocols.gemini import PROTOCOL as GEMINI
from ripieno.models.protocols.openai_chat import PROTOCOL as CHAT
from ripieno.models.protocols.openai_responses import PROTOCOL as RESPONSES
from tests.models.protocols.listening import Listening
from tests.support.loopback_models import converse, saying
from tests.support.loopback_servers import serving
from tests.support.runs import collected
from tests.support.scripted_models import ensemble, fates, tool


def chat(identifier: str | None, reason: str) -> JsonValue:
    call = {"id": identifier, "type": "function", "function": {"name": "look", "arguments": "{}"}}
    message = {"role": "assistant", "content": "Done."} if identifier is None else {"tool_calls": [call]}
    return {"choices": [{"index": 0, "message": message, "finish_reason": reason}]}


def message(identifier: str | None, reason: str) -> JsonValue:
    call = {"type": "tool_use", "id": identifier, "name": "look", "input": {}}
    block = {"type": "text", "text": "Done."} if identifier is None else call
    return {"type": "message", "role": "assistant", "content": [block], "stop_reason": reason}


def candidate(identifier: str | None, reason: str) -> JsonValue:
    call = {"functionCall": {"id": identifier, "name": "look", "args": {}}}
    part = {"text": "Done."} if identifier is None else call
    return {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": reason}]}


def response(identifier: str | None, reason: str) -> JsonValue:
    call = {"type": "function_call", "id": f"fc_{identifier}", "call_id": identifier, "name": "look", "arguments": "{}"}
    text = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Done."}],
    }
    return {"object": "response", "status": reason, "output": [text if identifier is None else call]}


@pytest.mark.parametrize(
    ("protocol", "answer", "known"),
    [
        (CHAT, chat, "stop"),
        (MESSAGES, message, "end_turn"),
        (GEMINI, candidate, "STOP"),
        (RESPONSES, response, "completed"),
    ],
    ids=lambda value: value.name if isinstance(value, Protocol) else "",
)
async def test_calls_before_an_unknown_reason_are_run(
    protocol: Protocol, answer: Callable[[str | None, str], JsonValue], known: str
) -> None:
    """Two such answers, then a plain one: each call has its result, and the run has one alert."""

    def served(identifier: str | None, reason: str) -> Callable[[], Response]:
        return lambda: Response(json.dumps(answer(identifier, reason)), media_type="application/json")

    served_in_turn = saying(served("a", "FUNCTION_CALL"), served("b", "FUNCTION_CALL"), served(None, known))
    async with serving(served_in_turn) as (url, _):
        transport, model = converse(url, protocol, streaming=False)
        events = await collected(run := conduct(model, "Go.", ensembles=[ensemble(tool("look"))]))
        await transport.close()
    assert fates(run.conversation.canisters) == [("a", "look"), ("b", "look")]
    assert (run.conversation.finish, run.conversation.text) == ("stop", "Done.")
    alerts = [event.message for event in events if isinstance(event, Alert)]
    assert alerts == ["house ended its answer with the unknown reason 'FUNCTION_CALL'; its calls are run."]


@pytest.mark.parametrize(
    ("protocol", "native"),
    [
        (CHAT, chat(None, "eos")),
        (MESSAGES, message(None, "over")),
        (GEMINI, candidate(None, "OVER")),
        (RESPONSES, response(None, "over")),
    ],
)
def test_without_calls_an_unknown_reason_is_an_ordinary_end(protocol: Protocol, native: Native) -> None:
    *_, last = events = list(protocol.decoder("house", Identifiers()).play(native))
    assert isinstance(last, TurnEnded)
    assert last.finish == "stop"
    assert not [event for event in events if isinstance(event, Alert)]


def test_a_response_that_requires_an_action_is_complete() -> None:
    """Some gateways end with this status when the client has to run calls."""
    heard = Listening(RESPONSES)
    native = {"type": "response.completed", "response": response("a", "requires_action")}
    assert heard.end(native).finish == "invocations"
    assert not [event for event in heard.events if isinstance(event, Alert)]
