"""What the suite wants of a server beside tools: an application adds such things with the SDK's own handlers."""

import re
from typing import Any

from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.server.subscriptions import PromptsListChanged
from mcp_types import (
    INVALID_PARAMS,
    BlobResourceContents,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmbeddedResource,
    EmptyResult,
    GetPromptRequestParams,
    GetPromptResult,
    ImageContent,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    UnsubscribeRequestParams,
)

from ripieno.servers.mcp.server import EnsembleServer

#: The one that serves, for tools that change something beside the tools.
_servers: list[EnsembleServer] = []
_Context = ServerRequestContext[Any]
#: One red pixel.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
_TEMPLATE = re.compile(r"test://template/([^/]+)/data\Z")


def _prompt(name: str, *arguments: str) -> Prompt:
    wanted = [PromptArgument(name=one, description=f"The {one} of it.", required=True) for one in arguments]
    return Prompt(name=name, description="A prompt that the suite names.", arguments=wanted or None)


_PROMPTS = [
    _prompt("test_simple_prompt"),
    _prompt("test_prompt_with_arguments", "arg1", "arg2"),
    _prompt("test_prompt_with_embedded_resource", "resourceUri"),
    _prompt("test_prompt_with_image"),
    _prompt("test_input_required_result_prompt"),
]
_RESOURCES = [
    Resource(uri="test://static-text", name="text", description="A text.", mime_type="text/plain"),
    Resource(uri="test://static-binary", name="image", description="An image.", mime_type="image/png"),
    Resource(uri="test://watched-resource", name="watched", description="It may change.", mime_type="text/plain"),
]


async def list_prompts(context: _Context, params: PaginatedRequestParams | None) -> ListPromptsResult:
    return ListPromptsResult(prompts=_PROMPTS)


async def get_prompt(context: _Context, params: GetPromptRequestParams) -> GetPromptResult | InputRequiredResult:
    given = params.arguments or {}
    contents: list[Any]
    match params.name:
        case "test_simple_prompt":
            contents = [TextContent(text="This is a simple prompt for testing.")]
        case "test_prompt_with_arguments":
            text = f"Prompt with arguments: arg1='{given.get('arg1', '')}', arg2='{given.get('arg2', '')}'"
            contents = [TextContent(text=text)]
        case "test_prompt_with_embedded_resource":
            embedded = TextResourceContents(
                uri=given["resourceUri"], mime_type="text/plain", text="Embedded resource content for testing."
            )
            ask = TextContent(text="Please process the embedded resource above.")
            contents = [EmbeddedResource(resource=embedded), ask]
        case "test_prompt_with_image":
            ask = TextContent(text="Please analyze the image above.")
            contents = [ImageContent(data=PNG, mime_type="image/png"), ask]
        case "test_input_required_result_prompt":
            answer = (params.input_responses or {}).get("user_context")
            if not isinstance(answer, ElicitResult):
                return _wanted()
            contents = [TextContent(text=f"Context: {(answer.content or {}).get('context')}")]
        case _:
            raise MCPError(code=INVALID_PARAMS, message=f"Unknown prompt: {params.name[:100]}")
    return GetPromptResult(messages=[PromptMessage(role="user", content=content) for content in contents])


def _wanted() -> InputRequiredResult:
    schema = {"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]}
    form = ElicitRequestFormParams(message="What context should the prompt use?", requested_schema=schema)
    return InputRequiredResult(input_requests={"user_context": ElicitRequest(params=form)})


async def list_resources(context: _Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
    return ListResourcesResult(resources=_RESOURCES)


async def list_templates(context: _Context, params: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
    template = ResourceTemplate(
        uri_template="test://template/{id}/data", name="data", description="By number.", mime_type="application/json"
    )
    return ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(context: _Context, params: ReadResourceRequestParams) -> ReadResourceResult:
    uri = str(params.uri)
    content: TextResourceContents | BlobResourceContents
    if uri == "test://static-text":
        text = "This is the content of the static text resource."
        content = TextResourceContents(uri=uri, mime_type="text/plain", text=text)
    elif uri == "test://static-binary":
        content = BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)
    elif uri == "test://watched-resource":
        content = TextResourceContents(uri=uri, mime_type="text/plain", text="Unchanged.")
    elif found := _TEMPLATE.match(uri):
        text = f'{{"id":"{found[1]}","templateTest":true,"data":"Data for ID: {found[1]}"}}'
        content = TextResourceContents(uri=uri, mime_type="application/json", text=text)
    else:
        raise MCPError(code=INVALID_PARAMS, message="Resource not found", data={"uri": uri})
    return ReadResourceResult(contents=[content])


async def subscribe(context: _Context, params: SubscribeRequestParams | UnsubscribeRequestParams) -> EmptyResult:
    return EmptyResult()


async def complete(context: _Context, params: CompleteRequestParams) -> CompleteResult:
    values = [word for word in ("paris", "park", "party") if word.startswith(params.argument.value)]
    return CompleteResult(completion=Completion(values=values, total=len(values), has_more=False))


async def change_prompts() -> None:
    """Says that the prompts have changed."""
    await _servers[-1].changes.publish(PromptsListChanged())


def add_to(server: EnsembleServer) -> None:
    """Adds all of it."""
    _servers.append(server)
    server.add_request_handler("prompts/list", PaginatedRequestParams, list_prompts)
    server.add_request_handler("prompts/get", GetPromptRequestParams, get_prompt)
    server.add_request_handler("resources/list", PaginatedRequestParams, list_resources)
    server.add_request_handler("resources/templates/list", PaginatedRequestParams, list_templates)
    server.add_request_handler("resources/read", ReadResourceRequestParams, read_resource)
    server.add_request_handler("resources/subscribe", SubscribeRequestParams, subscribe)
    server.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, subscribe)
    server.add_request_handler("completion/complete", CompleteRequestParams, complete)
