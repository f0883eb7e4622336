"""A server of one tool, which adds another one whenever it is called. Speaks over its standard streams."""

import asyncio
from typing import Any

from mcp.server import NotificationOptions, Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams, TextContent, Tool

NAMES = ["test_trigger_tool_change"]
BUS = InMemorySubscriptionBus()


async def list_tools(context: ServerRequestContext[Any], parameters: PaginatedRequestParams | None) -> ListToolsResult:
    return ListToolsResult(
        tools=[Tool(name=name, description="Adds a tool.", input_schema={"type": "object"}) for name in NAMES]
    )


async def call_tool(context: ServerRequestContext[Any], parameters: CallToolRequestParams) -> CallToolResult:
    NAMES.append(f"added_{len(NAMES)}")
    await BUS.publish(ToolsListChanged())
    return CallToolResult(content=[TextContent(text=f"There are {len(NAMES)} tools now.")])


async def main() -> None:
    server: Server[Any] = Server(
        "changing",
        version="1",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_subscriptions_listen=ListenHandler(BUS),
    )
    async with stdio_server() as (reading, writing):
        await server.run(
            reading, writing, server.create_initialization_options(NotificationOptions(tools_changed=True))
        )


asyncio.run(main())
