"""A server whose tools are what a JSON file says: ``shifting.py FILE``. Each call says that they have changed."""

import asyncio
import json
import os
import pathlib
import sys
import warnings
from typing import Any

from mcp.server import NotificationOptions, Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)

FILE = pathlib.Path(sys.argv[1])
BUS = InMemorySubscriptionBus()


async def list_tools(context: ServerRequestContext, parameters: PaginatedRequestParams | None) -> ListToolsResult:
    """What the file says now."""
    tools = json.loads(FILE.read_text())  # noqa: ASYNC240  a small file
    return ListToolsResult(tools=[Tool.model_validate(one) for one in tools])


async def call_tool(context: ServerRequestContext, parameters: CallToolRequestParams) -> CallToolResult:
    """Says that the tools may have changed."""
    await BUS.publish(ToolsListChanged())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        await context.session.send_tool_list_changed()
    return CallToolResult(content=[TextContent(text="done")])


server: Any = Server(
    "shifting",
    version="1",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_subscriptions_listen=ListenHandler(BUS),
)


async def serve() -> None:
    """Serves its standard streams."""
    options = server.create_initialization_options(notification_options=NotificationOptions(tools_changed=True))
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, options)


if __name__ == "__main__":
    if "STARTED" in os.environ:
        pathlib.Path(os.environ["STARTED"]).touch()
    asyncio.run(serve())
