"""A server that adds tools, over HTTP or standard streams, in either era: ``growing_tools.py stdio|http|sse [legacy]``.

Over HTTP it prints its port first. ``legacy`` excludes the newer era. ``sse`` is the earlier form of HTTP: posts at
``/messages/``, and a stream of events at ``/sse``.
"""

import asyncio
import json
import os
import sys
import warnings
from typing import Any

import anyio
import uvicorn
from mcp import MCPError
from mcp.server import NotificationOptions, Server, ServerRequestContext
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

#: Method and authorization of every request over ``sse``, for the tool ``echo``.
HEADERS: list[str] = []
#: Tools whose answers are cut off, over HTTP.
KINDS = {"cut_json": b"application/json", "cut_events": b"text/event-stream"}
TOOLS = ["grow", "echo", "wait", "die", "fail", "count", "ask", *KINDS]
BUS = InMemorySubscriptionBus()
#: Set when a call of ``wait`` has begun.
WAITED_FOR = asyncio.Event()


async def list_tools(context: ServerRequestContext, parameters: PaginatedRequestParams | None) -> ListToolsResult:
    """All tools so far."""
    return ListToolsResult(tools=[Tool(name=name, description=name, input_schema={"type": "object"}) for name in TOOLS])


async def ask(context: ServerRequestContext, parameters: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
    """Asks the client ``times`` times and returns the last answer; for 0 times, the client's capabilities."""
    times = int((parameters.arguments or {}).get("times", 1))
    if times == 0:
        known = context.session.client_params
        able = known.capabilities.model_dump(exclude_none=True) if known is not None else None
        return CallToolResult(content=[TextContent(text=json.dumps(able))])
    properties = {"region": {"type": "string"}, "sure": {"type": "boolean", "default": True}}
    schema = {"type": "object", "properties": properties, "required": ["region"]}
    asked = int(parameters.request_state or 0)
    if context.protocol_version == "2026-07-28":
        if asked < times:
            form = ElicitRequestFormParams(message=f"Region?\u202e {asked}", requested_schema=schema)
            return InputRequiredResult(
                input_requests={"r": ElicitRequest(params=form)},
                request_state=str(asked + 1),
                result_type="input_required",
            )
        answer: Any = (parameters.input_responses or {}).get("r")
    else:
        answer = await context.session.elicit_form("Region?", requested_schema=schema)
    said = f"{answer.action} {json.dumps(answer.content, sort_keys=True)}"
    return CallToolResult(content=[TextContent(text=said)])


async def call_tool(
    context: ServerRequestContext, parameters: CallToolRequestParams
) -> CallToolResult | InputRequiredResult:
    """Runs a tool; most return their name and arguments."""
    match parameters.name:
        case "grow":
            TOOLS.append(f"grown{len(TOOLS)}")
            await BUS.publish(ToolsListChanged())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                await context.session.send_tool_list_changed()
        case "wait":
            WAITED_FOR.set()
            await anyio.sleep_forever()
        case "ask":
            return await ask(context, parameters)
        case "die":
            if (parameters.arguments or {}).get("waited"):
                await WAITED_FOR.wait()
            os._exit(3)
        case "echo" if (parameters.arguments or {}).get("headers"):
            return CallToolResult(content=[TextContent(text=" ".join(sorted(set(HEADERS))))])
        case "echo" if (parameters.arguments or {}).get("fail"):
            return CallToolResult(content=[TextContent(text="it \x1b[31mbroke")], is_error=True)
        case "count":
            for done in range(3):
                await context.session.report_progress(done + 1, 3, f"step {done + 1}")
        case name if name not in TOOLS:
            raise MCPError(code=INVALID_PARAMS, message=f"Unknown tool: {name}")
    said = f"{parameters.name} {json.dumps(parameters.arguments or {})}"
    return CallToolResult(content=[TextContent(text=said)])


server: Any = Server(
    "changing",
    version="1",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_subscriptions_listen=ListenHandler(BUS),
)


class Middle:
    """Middleware that refuses discovery if ``legacy``, and cuts answers off."""

    def __init__(self, inner: Any, *, legacy: bool) -> None:
        self.inner = inner
        self.legacy = legacy

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.inner(scope, receive, send)
            return
        body = await Request(scope, receive).body()
        asked = json.loads(body)
        name = asked.get("params", {}).get("name")
        if (kind := KINDS.get(name)) is not None:
            # Less than the content-length, so that the connection is closed in the middle.
            headers = [(b"content-type", kind), (b"content-length", b"1000")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b'data: {"jsonrpc":"2.0"', "more_body": True})
            return
        if name == "fail":
            await Response("a traceback", 500)(scope, receive, send)
            return
        unknown = self.legacy and asked.get("method") == "server/discover"
        if unknown and scope["path"].startswith("/messages"):
            # The refusal comes in the stream, as for any unknown method.
            body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "method": "server/unknown"}).encode()
        elif unknown:
            await Response("no such thing", 404)(scope, receive, send)
            return
        once = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Any:
            return once.pop() if once else await receive()

        await self.inner(scope, replay, send)


def events_app() -> Any:
    """The application of the earlier form of HTTP."""
    transport = SseServerTransport("/messages/")

    async def connect(request: Request) -> Response:
        HEADERS.append(f"GET {request.headers.get('authorization')}")
        options = server.create_initialization_options(notification_options=NotificationOptions(tools_changed=True))
        async with transport.connect_sse(request.scope, request.receive, request._send) as (incoming, outgoing):
            await server.run(incoming, outgoing, options)
        return Response()

    async def post(scope: Any, receive: Any, send: Any) -> None:
        HEADERS.append(f"POST {dict(scope['headers']).get(b'authorization', b'None').decode()}")
        await transport.handle_post_message(scope, receive, send)

    return Starlette(routes=[Route("/sse", connect), Mount("/messages/", app=post)])


async def serve_http(port: int, legacy: bool, *, events: bool) -> None:
    """Serves until it is stopped."""
    app = Middle(events_app() if events else server.streamable_http_app(), legacy=legacy)
    running = uvicorn.Server(uvicorn.Config(app, port=port, log_level="critical", timeout_graceful_shutdown=0))
    task = asyncio.create_task(running.serve())
    while not running.started:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    print(running.servers[0].sockets[0].getsockname()[1], flush=True)
    await task


async def serve_stdio() -> None:
    """Serves its standard streams."""
    options = server.create_initialization_options(notification_options=NotificationOptions(tools_changed=True))
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, options)


if __name__ == "__main__":
    if "ALIVE" in os.environ:
        os.open(os.environ["ALIVE"], os.O_WRONLY)
    if sys.argv[1] == "stdio":
        asyncio.run(serve_stdio())
    else:
        events = sys.argv[1] == "sse"
        asyncio.run(serve_http(int(os.environ.get("PORT", "0")), "legacy" in sys.argv, events=events))
