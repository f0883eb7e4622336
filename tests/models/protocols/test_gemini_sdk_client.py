"""What google-genai, unmodified, makes of what our server half writes, and what ours makes of its requests."""

import base64
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import google.genai
import pytest
from google.genai import errors, types
from starlette.requests import Request
from starlette.responses import Response

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
from ripieno.canisters.events import play
from ripieno.jsonvalues import parse, thaw
from ripieno.models.protocol import Asked, Refusal
from ripieno.models.protocols.gemini import PROTOCOL
from ripieno.models.protocols.gemini.contents import parts_of
from ripieno.servers.http.server import serve
from ripieno.testing import call, turn
from ripieno.testing.rehearsal.server import create_application
from ripieno.testing.scores import Score
from tests.models.protocols.test_wires_golden import failed, written
from tests.models.protocols.test_wires_sdk_clients import answering, paces
from tests.support.golden_wires import ANSWERS, Scenario, addressed, named, revive, usage_in
from tests.support.loopback_models import answering as answering_with
from tests.support.loopback_servers import serving

# The official client sends with aiohttp where that is installed, in a way that aiohttp warns of.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")

SERVED = [one for one in ANSWERS if one.protocol is PROTOCOL and "canisters" in one.expected]
scenarios = pytest.mark.parametrize("scenario", SERVED, ids=named)
both_ways = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
STOPS = {"stop": "STOP", "invocations": "STOP", "length": "MAX_TOKENS", "filter": "SAFETY"}


@contextlib.asynccontextmanager
async def talking_to(url: str) -> AsyncIterator[Any]:
    """The official client, for a server on this machine."""
    options = types.HttpOptions(base_url=url, timeout=60_000, retry_options=types.HttpRetryOptions(attempts=1))
    client = google.genai.Client(api_key="none", http_options=options)
    try:
        yield client.aio
    finally:
        await client.aio.aclose()
        client.close()


def asked_in(request: Request, body: bytes) -> Asked:
    native = parse(body)
    assert isinstance(native, dict)
    assert "key" not in request.url.query
    assert request.headers["x-goog-api-key"] == "none"
    return PROTOCOL.parse(addressed(PROTOCOL, native, stream="streamGenerateContent" in request.url.path))


def calls_in(canisters: Sequence[Canister]) -> list[tuple[str | None, str, Any]]:
    """The calls that a client should have of an answer. One that must not run has no arguments, and goes on."""
    return [
        (
            None if "functionCall" in one.opaque.get("gemini", {}) else one.identifier,  # type: ignore[operator]
            one.name,
            thaw(one.arguments) if one.fault is None else None,
        )
        for one in canisters
        if isinstance(one, InvocationCanister)
    ]


def check(responses: Sequence[Any], scenario: Scenario) -> None:
    """Compares what the client has, in one answer or many chunks, with what was said."""
    expected = scenario.expectation("served")
    canisters, usage = revive(expected["canisters"]), usage_in(expected)
    parts = [part for one in responses for part in one.candidates[0].content.parts]
    calls = [part.function_call for part in parts if part.function_call]
    assert [(one.id, one.name, one.args) for one in calls] == calls_in(canisters)
    said = "".join(part.text for part in parts if part.text and not part.thought)
    assert said == "".join(one.text for one in canisters if isinstance(one, AssistantCanister))
    contents = [content for one in canisters if isinstance(one, AssistantCanister) for content in one.content]
    signed: list[Any] = [
        one.data for one in contents if isinstance(one, OpaqueContent) and "thoughtSignature" in one.data
    ]
    signed += [
        one.opaque["gemini"]
        for one in canisters
        if isinstance(one, InvocationCanister) and "thoughtSignature" in one.opaque.get("gemini", {})  # type: ignore[operator]
    ]
    signatures = [part.thought_signature for part in parts if part.thought_signature]
    assert signatures == [base64.b64decode(one["thoughtSignature"]) for one in signed]
    code = [part.executable_code.code for part in parts if part.executable_code]
    assert code == [one["executableCode"]["code"] for one in parts_of(contents) if "executableCode" in one]
    last = responses[-1]
    continued = any(
        "continuationToken" in one
        for one in (content.data for content in contents if isinstance(content, OpaqueContent))
    )
    assert last.candidates[0].finish_reason == ("CONTINUATION" if continued else STOPS[expected["finish"]])
    counted = last.usage_metadata
    assert counted.prompt_token_count == usage.input_tokens
    assert (counted.candidates_token_count or 0) + (counted.thoughts_token_count or 0) == usage.output_tokens
    assert (counted.cached_content_token_count or 0) == usage.cache_read_tokens
    assert counted.total_token_count == usage.total_tokens
    assert last.model_version == "m"


@scenarios
async def test_whole_answers(scenario: Scenario) -> None:
    async with answering(scenario, slowly=False) as url, talking_to(url) as client:
        off = types.GenerateContentConfig(automatic_continuation=False)
        check([await client.models.generate_content(model="m", contents="Hi.", config=off)], scenario)


@scenarios
@paces
async def test_streams(scenario: Scenario, slowly: bool) -> None:
    async with answering(scenario, slowly=slowly) as url, talking_to(url) as client:
        off = types.GenerateContentConfig(automatic_continuation=False)
        stream = await client.models.generate_content_stream(model="m", contents="Hi.", config=off)
        check([chunk async for chunk in stream], scenario)


# Errors.


async def listen(client: Any, said: list[str]) -> None:
    async for chunk in await client.models.generate_content_stream(model="m", contents="Hi."):
        said.append(chunk.text)


@both_ways
async def test_a_refused_request_is_the_error_of_the_client(stream: bool) -> None:
    words = {
        400: "INVALID_ARGUMENT",
        401: "UNAUTHENTICATED",
        404: "NOT_FOUND",
        429: "RESOURCE_EXHAUSTED",
        500: "INTERNAL",
        503: "UNAVAILABLE",
    }
    for status, word in words.items():
        answer = answering_with(PROTOCOL.refuse(Refusal(status=status, message="Too much of it.")), status=status)
        async with serving(answer) as (url, _), talking_to(url) as client:
            with pytest.raises(errors.APIError, match="Too much of it") as caught:
                await listen(client, []) if stream else await client.models.generate_content(model="m", contents="Hi.")
            assert (caught.value.status, caught.value.message) == (word, "Too much of it.")


async def test_an_error_in_a_stream_is_the_error_of_the_client() -> None:
    begun = written(PROTOCOL, list(play([AssistantCanister.of("Let me see.")], finish="stop"))[:-1])
    answer = answering_with(begun + failed(PROTOCOL, "It is gone."), "text/event-stream")
    said: list[str] = []
    async with serving(answer) as (url, _), talking_to(url) as client:
        with pytest.raises(errors.APIError, match="It is gone"):
            await listen(client, said)
    assert said == ["Let me see."]


# Conversations with a score.

SCORE = Score.of_turns(
    [
        turn("Both at once.", calls=[call("tell", "one", what="a"), call("tell", "two", what="b")], reasoning="Hm."),
        turn("And one that fails.", calls=[call("tell", "three", what="nothing")], expect=["one", "two"]),
        turn("{one}, {two}; {three.error}.", on_error="three"),
    ],
    name="telling",
)


@both_ways
async def test_a_chat_that_calls_python_by_itself(stream: bool) -> None:
    """The helper keeps the history, runs functions, and sends their results."""
    told: list[str] = []

    def tell(what: str) -> str:
        """Tells."""
        told.append(what)
        if what == "nothing":
            raise LookupError("there is nothing")
        return f"told {what}"

    async with serve(create_application(SCORE, [PROTOCOL])) as url, talking_to(url) as client:
        chat = client.chats.create(model="m", config=types.GenerateContentConfig(tools=[tell]))
        if stream:
            chunks = [chunk async for chunk in await chat.send_message_stream("Tell a and b.")]
            text = "".join(part.text for chunk in chunks for part in chunk.candidates[0].content.parts if part.text)
        else:
            text = (await chat.send_message("Tell a and b.")).text
        assert told == ["a", "b", "nothing"]
        history = list(chat.get_history(curated=True))
        # It goes on from there: what it kept is what our server half reads.
        again = await chat.send_message("Once more.")
    said = text[text.index("told a") :]
    assert said.startswith("told a, told b; Failed to invoke function tell")
    assert "there is nothing" in said
    assert [one.role for one in history if one.parts and one.parts[0].function_response] == ["user", "user"]
    assert again.text


async def test_the_client_lists_the_model_and_an_unknown_method_is_refused() -> None:
    async with serve(create_application(SCORE, [PROTOCOL])) as url, talking_to(url) as client:
        assert [model.name async for model in await client.models.list()] == ["models/telling"]
        with pytest.raises(errors.ClientError, match="method 'countTokens' is unknown"):
            await client.models.count_tokens(model="m", contents="Hi.")


# What the client sends, in its own mixture of spellings.


async def test_everything_that_the_client_sends_is_read() -> None:
    seen: list[Asked] = []

    async def answer(request: Request) -> Response:
        seen.append(asked_in(request, await request.body()))
        return Response(PROTOCOL.encode(play([AssistantCanister.of("Yes.")], finish="stop"), Asked(model="m")))

    image = b"\xff\xfe\xfb\xff"  # Its base64 has both of the characters that URLs cannot have.
    schema = types.Schema(type=types.Type.OBJECT, properties={"a": types.Schema(type=types.Type.STRING, max_length=9)})
    config = types.GenerateContentConfig(
        system_instruction="Be brief.",
        thinking_config=types.ThinkingConfig(include_thoughts=True, thinking_level=types.ThinkingLevel.LOW),
        tools=[types.Tool(function_declarations=[types.FunctionDeclaration(name="f", parameters=schema)])],
        tool_config=types.ToolConfig(
            function_calling_config=types.FunctionCallingConfig(mode="VALIDATED", allowed_function_names=["f"])  # type: ignore[arg-type]
        ),
    )
    called = types.FunctionCall(name="f", args={"snake_case": 1}, id="x")
    part = types.FunctionResponsePart.from_bytes(data=image, mime_type="image/png")
    failed_response = types.FunctionResponse(id="x", name="f", response={"error": "boom"}, parts=[part])
    contents = [
        types.Content(
            role="user",
            parts=[
                types.Part(text="Look."),
                types.Part.from_bytes(data=image, mime_type="image/png"),
                types.Part.from_uri(file_uri="https://example.org/a", mime_type="application/pdf"),
            ],
        ),
        types.Content(role="model", parts=[types.Part(function_call=called, thought_signature=image)]),
        types.Content(role="user", parts=[types.Part(function_response=failed_response)]),
    ]
    async with serving(answer) as (url, _), talking_to(url) as client:
        assert (await client.models.generate_content(model="gem", contents=contents, config=config)).text == "Yes."
    (asked,) = seen
    held = ImageContent(data=image, mime_type="image/png")
    supervisor, user, _, invocation, result = asked.canisters
    assert supervisor == SupervisorCanister.of("Be brief.")
    link = DocumentContent(url="https://example.org/a", mime_type="application/pdf")
    assert user == UserCanister(content=(TextualContent(text="Look."), held, link))
    assert isinstance(invocation, InvocationCanister)
    assert (invocation.identifier, dict(invocation.arguments)) == ("x", {"snake_case": 1})
    signature = base64.urlsafe_b64encode(image).decode()
    assert thaw(invocation.opaque) == {"gemini": {"thoughtSignature": signature}}
    assert isinstance(result, ResultCanister)
    assert (result.invocation_id, result.text, result.content) == ("x", "Error: boom", (held,))
    assert asked.controls == Controls(reasoning="low", stream=False, tool_choice="auto", allowed_tools=("f",))
    (tool,) = asked.tools
    assert thaw(tool.schema.mapping)["properties"] == {"a": {"type": "string", "maxLength": 9}}
