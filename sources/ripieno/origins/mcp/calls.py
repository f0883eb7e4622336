"""Calls of a server's tools, and a server's questions during a call. Imports the SDK.

Every failure becomes a fault that a model can read. Only forms are passed to the person behind the call. URLs are never
opened for a server; sampling and roots are refused.
"""

import asyncio
import base64
import binascii
import json
from collections.abc import Mapping
from typing import Annotated, Any

import mcp_types as wire
from mcp import MCPError
from mcp.client.session import ClientRequestContext, ClientSession
from pydantic import Field, TypeAdapter, ValidationError

from ripieno.canisters import Content, TextualContent
from ripieno.canisters.contents import media
from ripieno.canisters.events import Alert
from ripieno.ensembles import Context, Invocable
from ripieno.exceptions import (
    ExecutionFault,
    InputError,
    JsonInvalidity,
    NetworkFault,
    OutcomeUnknownFault,
    ToolFault,
    ValidationFault,
)
from ripieno.execution.results import shorten
from ripieno.execution.retries import NOT_SENT
from ripieno.jsonvalues import encode, is_list, is_table, thaw
from ripieno.origins.mcp.peers import Peer
from ripieno.origins.mcp.text import clean, clean_schema
from ripieno.origins.mcp.transports.framing import PARSE_ERROR, UNUSABLE

#: Characters shown of a question.
_LENGTH = 2000


class ActiveCalls:
    """The calls in progress over one connection: a handshake-era server does not name the call that it asks about."""

    def __init__(self) -> None:
        self.contexts: list[Context] = []

    async def elicit(
        self,
        context: ClientRequestContext,  # noqa: ARG002
        params: wire.ElicitRequestParams,
    ) -> wire.ElicitResult | wire.ErrorData:
        """Answers a server's request on behalf of the call that began last."""
        return await elicit(self.contexts[-1], params) if self.contexts else wire.ElicitResult(action="decline")


async def elicit(context: Context, parameters: wire.ElicitRequestParams) -> wire.ElicitResult:
    """The person's answer to a form; other requests are declined."""
    if not isinstance(parameters, wire.ElicitRequestFormParams):
        return wire.ElicitResult(action="decline")
    schema: Mapping[str, Any] = clean_schema(parameters.requested_schema)[0]
    try:
        values = await context.inquire(clean(parameters.message)[0][:_LENGTH], schema)
    except InputError:
        return wire.ElicitResult(action="cancel")
    if values is None:
        return wire.ElicitResult(action="decline")
    return wire.ElicitResult(action="accept", content=thaw(values))


#: Rounds of questions in one call.
ROUNDS = 6
#: Seconds before a deferred call is repeated.
PAUSE = 0.25


#: A block of any kind, by its name. The SDK's own validation tries all kinds, which takes six times as long (measured);
#: only a block without a name needs that.
_Named = Annotated[wire.ContentBlock, Field(discriminator="type")]
_Block = Annotated[_Named | Annotated[wire.ContentBlock, Field(union_mode="smart")], Field(union_mode="left_to_right")]


class _Result(wire.CallToolResult):
    """The SDK's result, validated faster."""

    content: list[_Block]


_RESULT: TypeAdapter[_Result | wire.InputRequiredResult] = TypeAdapter(_Result | wire.InputRequiredResult)


def make_invocable(tool: str) -> Invocable:
    """The invocable of one tool, over its ensemble's connection. Cancelling a call cancels it at the server."""

    async def invoke(context: Context, arguments: dict[str, Any]) -> Any:
        async def report(progress: float, total: float | None, message: str | None) -> None:
            context.progress(progress, total, clean(message or "")[0])

        try:
            encode(arguments)
        except JsonInvalidity as invalidity:
            raise ValidationFault(f"The arguments are not JSON: {invalidity}") from invalidity
        peer: Peer = context.connection.peer
        session: ClientSession = context.connection.session
        if peer.ended.is_set():
            raise _unsent(peer)
        calls: ActiveCalls = context.connection.calls
        calls.contexts.append(context)
        parameters = wire.CallToolRequestParams(name=tool, arguments=arguments)
        try:
            for _ in range(ROUNDS):
                request = wire.CallToolRequest(params=parameters)
                # The SDK's own call validates results and raises after the tool has run (measured).
                result = await session.send_request(request, _RESULT, progress_callback=report)
                if not isinstance(result, wire.InputRequiredResult):
                    return _value(context, result)
                parameters = await _answered(context, parameters, result)
        except MCPError as error:
            raise await _failed(context, peer, tool, error) from error
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            found = clean(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")[0]
            raise ExecutionFault(
                f"The server's answer violates its protocol: {found}", code="answer_invalid"
            ) from error
        finally:
            calls.contexts.remove(context)
        raise ExecutionFault(f"The tool asked for input more than {ROUNDS} times.", code="input_required")

    return invoke


async def _answered(
    context: Context, parameters: wire.CallToolRequestParams, result: wire.InputRequiredResult
) -> wire.CallToolRequestParams:
    """The same call with the answers to all requests of a modern-era result, one after the other.

    Errors: ``ExecutionFault`` for unanswerable requests.
    """
    responses: wire.InputResponses = {}
    for key, request in (result.input_requests or {}).items():
        if not isinstance(request, wire.ElicitRequest):
            raise ExecutionFault("The tool asks for input that is not available here.", code="input_required")
        responses[key] = await elicit(context, request.params)
    if not responses:
        if result.request_state is None:
            raise ExecutionFault("The tool asks for input without a request.", code="input_required")
        await asyncio.sleep(PAUSE)  # It only wants a repetition.
    return parameters.model_copy(update={"input_responses": responses or None, "request_state": result.request_state})


async def _failed(context: Context, peer: Peer, tool: str, error: MCPError) -> ToolFault:
    loss = peer.loss(error.code, error.message, error.error.data)
    if loss is None:
        return _refused(context, error)
    if loss == "unsent":
        return _unsent(peer)
    why = UNUSABLE if error.code == PARSE_ERROR else clean(error.message)[0]
    if peer.ended.is_set():
        why = f"it {await peer.ending()}."
        if peer.last_words and not peer.reported and context.surroundings is not None:
            # A program that disconnects now, as after one call, gets no other report of the loss.
            peer.reported = True
            alert = Alert(message=f"Its server is gone. {peer.last_words}", tool=context.invoker.identity)
            context.surroundings.alert(alert)
    message = f"The answer of {tool!r} from the server of {peer.ensemble!r} was lost: {why}"
    if context.invoker.policy.harmless:
        return NetworkFault(message, code="server_lost")
    return OutcomeUnknownFault(
        message, code="server_lost", suggestion="Part of its work may be done: check before repeating it."
    )


def _unsent(peer: Peer) -> ToolFault:
    return NetworkFault(
        f"The server of {peer.ensemble!r} is not connected; nothing was sent.",
        code=NOT_SENT,
        suggestion="It is reconnected automatically if possible: try again a little later.",
    )


def _refused(context: Context, error: MCPError) -> ToolFault:
    message = _shown(context, error.message) or "It gave no message."
    kind = ValidationFault if error.code == wire.INVALID_PARAMS else ExecutionFault
    return kind(f"The server refused the call: {message}", code="server_refused", details={"code": error.code})


def _shown(context: Context, *texts: str) -> str:
    """A server's text for a fault: cleaned, within the invoker's output limit; empty for blank text."""
    text = clean("\n".join(texts))[0]
    if not text.strip():
        return ""
    limit = context.invoker.policy.output
    return text if len(text) * 4 <= limit or len(text.encode(errors="replace")) <= limit else shorten(text, limit)


def _value(context: Context, result: wire.CallToolResult) -> Any:
    """The result of a call. Errors: ``ExecutionFault`` for a tool's error."""
    contents = [_content(block) for block in result.content]
    texts = [content.text for content in contents if isinstance(content, TextualContent)]
    if result.is_error:
        raise ExecutionFault(_shown(context, *texts) or "The tool failed without a message.")
    structured = result.structured_content
    if structured is None:
        return contents or None
    try:
        encoded = encode(structured).decode()
    except JsonInvalidity as invalidity:
        message = _shown(context, f"The structured result is not JSON: {invalidity}")
        raise ExecutionFault(message, code="result_invalid") from invalidity
    only_texts = len(contents) == len(texts)
    if only_texts and (not texts or (len(texts) == 1 and _same(texts[0], structured))):
        # Execution validates it and attaches it to the fault.
        return structured
    schema = context.invoker.results
    problems = schema.validate(structured) if schema is not None and is_table(structured) else ()
    if problems:
        message = f"The result does not match the schema of its tool: {problems[0].message}"
        raise ExecutionFault(_shown(context, message, *texts), code="result_invalid")
    if _wraps(structured, result):
        return contents
    return [*contents, TextualContent(text=encoded, mime_type="application/json")]


def _wraps(structured: Any, result: wire.CallToolResult) -> bool:
    """Whether the structure only wraps the contents; servers do that, under names of their own (measured)."""
    if not is_table(structured) or len(structured) != 1:
        return False
    (value,) = structured.values()
    blocks = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content]
    items = value if is_list(value) else [value]
    return len(items) == len(blocks) and all(
        block == item or (block["type"] == "text" and (block["text"] == item or _same(block["text"], item)))
        for block, item in zip(blocks, items, strict=True)
    )


def _same(text: str, value: Any) -> bool:
    """Whether a text is this JSON value."""
    try:
        return bool(json.loads(text) == value)
    except (ValueError, RecursionError):
        return False


def _content(block: wire.ContentBlock) -> Content:
    if isinstance(block, wire.TextContent):
        return TextualContent(text=block.text)
    if isinstance(block, wire.ImageContent | wire.AudioContent):
        return _media(block.data, block.mime_type)
    if isinstance(block, wire.ResourceLink):
        parts = [block.title or block.name, f"<{block.uri}>", block.mime_type or "", block.description or ""]
        return TextualContent(text=clean(f"[Resource: {' '.join(part for part in parts if part)}]")[0])
    resource = block.resource
    if isinstance(resource, wire.TextResourceContents):
        return TextualContent(text=resource.text, mime_type=resource.mime_type or "text/plain")
    return _media(resource.blob, resource.mime_type or "application/octet-stream")


def _media(encoded: str, mime_type: str) -> Content:
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return TextualContent(text=f"[{clean(mime_type)[0]} left out: it is not base64]")
    return media(data, mime_type)
