"""Calls of a server's tools: arguments out, contents back, and every failure as a fault that a model can read.

What a server asks back in the middle of a call, put to the person behind the call. Imports the SDK.

Only forms are passed on. A URL is never opened for a server; sampling and roots are refused.
"""

import asyncio
import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from typing import Any

import mcp_types as wire
from mcp import MCPError
from mcp.client.session import ClientRequestContext, ClientSession
from pydantic import TypeAdapter, ValidationError

from ripieno.canisters import AudioContent, Content, DocumentContent, ImageContent, TextualContent
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
from ripieno.jsonvalues import encode, is_list, is_table, thaw
from ripieno.origins.mcp.peers import Peer
from ripieno.origins.mcp.text import clean, clean_schema
from ripieno.origins.mcp.transports.framing import PARSE_ERROR, UNUSABLE

#: Characters of a question that are shown.
_LENGTH = 2000


class Asking:
    """The calls under way over one connection: a server of the handshake era does not say which of them it asks for."""

    def __init__(self) -> None:
        self._calls: list[Context] = []

    def begin(self, context: Context) -> None:
        """A call begins."""
        self._calls.append(context)

    def end(self, context: Context) -> None:
        """It has ended."""
        self._calls.remove(context)

    async def elicit(
        self,
        context: ClientRequestContext,  # noqa: ARG002
        params: wire.ElicitRequestParams,
    ) -> wire.ElicitResult | wire.ErrorData:
        """Answers a server that asks by itself: on behalf of the call that began last."""
        return await elicit(self._calls[-1], params) if self._calls else wire.ElicitResult(action="decline")


async def elicit(context: Context, parameters: wire.ElicitRequestParams) -> wire.ElicitResult:
    """The person's answer to a form; anything else is declined."""
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


async def respond(context: Context, requests: wire.InputRequests) -> wire.InputResponses | None:
    """Answers to all that a result of the newer era asks for, one after the other; None where one is refused."""
    responses: wire.InputResponses = {}
    for key, request in requests.items():
        if not isinstance(request, wire.ElicitRequest):
            return None
        responses[key] = await elicit(context, request.params)
    return responses


#: Rounds of asking back in one call.
ROUNDS = 6
#: Seconds before a call is repeated that was only put off.
PAUSE = 0.25
_RESULT: TypeAdapter[wire.CallToolResult | wire.InputRequiredResult] = TypeAdapter(
    wire.CallToolResult | wire.InputRequiredResult
)


def make_invocable(tool: str) -> Invocable:
    """The invocable of one tool, over whatever its ensemble is connected to. Cancelling a call tells the server."""

    async def invoke(context: Context, arguments: dict[str, Any]) -> Any:
        async def tell(progress: float, total: float | None, message: str | None) -> None:
            context.progress(progress, total, clean(message or "")[0])

        try:
            encode(arguments)
        except JsonInvalidity as invalidity:
            raise ValidationFault(f"The arguments are no JSON: {invalidity}") from invalidity
        peer: Peer = context.connection.peer
        session: ClientSession = context.connection.session
        if peer.ended.is_set():
            raise _unsent(peer)
        asking: Asking = context.connection.asking
        asking.begin(context)
        parameters = wire.CallToolRequestParams(name=tool, arguments=arguments)
        try:
            for _ in range(ROUNDS):
                request = wire.CallToolRequest(params=parameters)
                # The SDK's own call checks results against their schema, and raises after the tool has run (measured).
                result = await session.send_request(request, _RESULT, progress_callback=tell)
                if not isinstance(result, wire.InputRequiredResult):
                    return _value(context, result)
                parameters = await _answered(context, parameters, result)
        except MCPError as error:
            raise await _failed(context, peer, tool, error) from error
        except ValidationError as error:
            raise ExecutionFault(
                f"The server answered what its protocol does not allow: {_first(error)}", code="answer_invalid"
            ) from error
        finally:
            asking.end(context)
        raise ExecutionFault(f"The tool asked back more than {ROUNDS} times.", code="input_required")

    return invoke


async def _answered(
    context: Context, parameters: wire.CallToolRequestParams, result: wire.InputRequiredResult
) -> wire.CallToolRequestParams:
    """The same call with answers to what was asked back. Errors: ``ExecutionFault`` where nobody can answer that."""
    responses = None
    if result.input_requests:
        responses = await respond(context, result.input_requests)
        if responses is None:
            raise ExecutionFault("The tool asks back for something that nobody here can give.", code="input_required")
    elif result.request_state is None:
        raise ExecutionFault("The tool asks back, and does not say for what.", code="input_required")
    else:
        await asyncio.sleep(PAUSE)  # It only wants to be asked again.
    return parameters.model_copy(update={"input_responses": responses, "request_state": result.request_state})


async def _failed(context: Context, peer: Peer, tool: str, error: MCPError) -> ToolFault:
    """What an error of the SDK means for the call."""
    loss = peer.loss(error.code, error.message, error.error.data)
    if loss is None:
        return _refused(context, error)
    if loss == "unsent":
        return _unsent(peer)
    why = UNUSABLE if error.code == PARSE_ERROR else clean(error.message)[0]
    if peer.ended.is_set():
        why = f"it {await peer.ending()}."
        if peer.last_words and not peer.told and context.surroundings is not None:
            # For the person: whoever disconnects now, as after one call, is told of no loss.
            peer.told = True
            words = Alert(message=f"Its server is gone. {peer.last_words}", tool=context.invoker.identity)
            context.surroundings.alert(words)
    message = f"The answer of {tool!r} was lost, at the server of {peer.ensemble!r}: {why}"
    if context.invoker.policy.harmless:
        return NetworkFault(message, code="server_lost")
    return OutcomeUnknownFault(
        message, code="server_lost", suggestion="It may have done part of its work: check before repeating it."
    )


def _unsent(peer: Peer) -> ToolFault:
    return NetworkFault(
        f"The server of {peer.ensemble!r} is not connected now; nothing was sent.",
        code="server_lost",
        suggestion="It is connected again by itself, if it can be: try again a little later.",
    )


def _refused(context: Context, error: MCPError) -> ToolFault:
    message = _said(context, error.message) or "It gave no message."
    kind = ValidationFault if error.code == wire.INVALID_PARAMS else ExecutionFault
    return kind(f"The server refused the call: {message}", code="server_refused", details={"code": error.code})


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    return clean(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")[0]


def _said(context: Context, *texts: str) -> str:
    """What a server said, for a fault: clean, and within what the invoker may put out. Empty where it said nothing."""
    text = clean("\n".join(texts))[0]
    if not text.strip():
        return ""
    limit = context.invoker.policy.output
    return text if len(text) * 4 <= limit or len(text.encode(errors="replace")) <= limit else shorten(text, limit)


def _value(context: Context, result: wire.CallToolResult) -> Any:
    """What the call gives. Errors: ``ExecutionFault`` when the tool says that it failed."""
    contents = [_content(block) for block in result.content]
    texts = [content.text for content in contents if isinstance(content, TextualContent)]
    if result.is_error:
        raise ExecutionFault(_said(context, *texts) or "The tool failed, and did not say why.")
    structured = result.structured_content
    if structured is None:
        return contents or None
    try:
        encoded = encode(structured).decode()
    except JsonInvalidity as invalidity:
        message = _said(context, f"The structured result is no JSON: {invalidity}")
        raise ExecutionFault(message, code="result_invalid") from invalidity
    only_texts = len(contents) == len(texts)
    if only_texts and (not texts or (len(texts) == 1 and _same(texts[0], structured))):
        # Execution checks it, and keeps it beside the fault.
        return structured
    _check_structure(context, structured, texts)
    if _wraps(structured, result):
        return contents
    return [*contents, TextualContent(text=encoded, mime_type="application/json")]


def _check_structure(context: Context, structured: Any, texts: Sequence[str]) -> None:
    schema = context.invoker.results
    problems = schema.validate(structured) if schema is not None and is_table(structured) else ()
    if problems:
        message = f"The result does not match the schema of its tool: {problems[0].message}"
        raise ExecutionFault(_said(context, message, *texts), code="result_invalid")


def _wraps(structured: Any, result: wire.CallToolResult) -> bool:
    """Whether the structure only wraps what the contents say; servers do that, under names of their own (measured)."""
    if not is_table(structured) or len(structured) != 1:
        return False
    (value,) = structured.values()
    blocks = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content]
    items = value if is_list(value) else [value]
    return items == blocks or (
        len(items) == len(blocks)
        and all(
            block["type"] == "text" and (block["text"] == item or _same(block["text"], item))
            for block, item in zip(blocks, items, strict=True)
        )
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
    kind = mime_type.partition("/")[0]
    if kind == "image":
        return ImageContent(data=data, mime_type=mime_type)
    if kind == "audio":
        return AudioContent(data=data, mime_type=mime_type)
    return DocumentContent(data=data, mime_type=mime_type)
