"""The SDK's low-level server over an assembly: lists the tools and calls them."""

import asyncio
import contextlib
import importlib.metadata
import logging
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from mcp import MCPError
from mcp.server import NotificationOptions, Server, ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from mcp.server.models import InitializationOptions
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    ListToolsResult,
    NotificationParams,
    PaginatedRequestParams,
    SetLevelRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from ripieno.assembly import Assembly
from ripieno.ensembles import Ensemble
from ripieno.jsonvalues import digest
from ripieno.servers.mcp.calls import Parking, Performance, refuse
from ripieno.servers.mcp.client import Client, DirectClient, Levels, RoundsClient
from ripieno.servers.mcp.results import Concealer, answer
from ripieno.servers.mcp.tools import Changes, Listing, output_schema

#: The maximum number of concurrent calls of all clients; further calls wait.
PARALLEL = 64
_logger = logging.getLogger(__name__)


class EnsembleServer(Server[None]):
    """The SDK's server with the tools of ensembles. Created by ``create_server``."""

    def __init__(
        self, assembly: Assembly, ensembles: Sequence[Ensemble], *, name: str, instructions: str | None
    ) -> None:
        self._execution = assembly.execution
        self._workspace = assembly.surroundings.workspace
        self._listing = Listing(ensembles, assembly.surroundings.alert)
        self._slots = asyncio.Semaphore(PARALLEL)
        self._levels = Levels()
        self._parking = Parking()
        self._connections = 0
        #: Whether all requests are of one client, also those of the modern era, which belong to no connection.
        self.has_one_client = False
        self._owner = ""
        self.changes = Changes(self._listing)
        super().__init__(
            name,
            version=_version(),
            instructions=instructions,
            lifespan=self._live,
            get_tool_input_schema=self._listing.input_schema,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_subscriptions_listen=self.changes.listen,
        )
        # In the SDK's constructor, it would cause a deprecation warning.
        self.add_request_handler("logging/setLevel", SetLevelRequestParams, self._levels.take)
        self.add_notification_handler("notifications/initialized", NotificationParams, self.changes.follow)
        self.middleware.append(_guard)

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """The SDK's options; announces change notifications to peers of the handshake era."""
        options = notification_options or NotificationOptions(
            tools_changed=True, prompts_changed=True, resources_changed=True
        )
        return super().create_initialization_options(options, experimental_capabilities, extensions)

    @contextlib.asynccontextmanager
    async def _live(self, server: Server[None]) -> AsyncGenerator[None, None]:
        del server
        self._connections += 1
        try:
            async with self.changes.watching():
                yield
        finally:
            self._connections -= 1
            if not self._connections:
                await self._parking.clear()

    async def _list_tools(
        self, context: ServerRequestContext[None], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        if params is not None and params.cursor is not None:
            raise MCPError(code=INVALID_PARAMS, message="There is only one page of tools: leave out the cursor.")
        await self.changes.look()
        return ListToolsResult(tools=self._listing.tools(modern=_is_modern(context)))

    async def _call_tool(
        self, context: ServerRequestContext[None], params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        await self.changes.look()
        async with self._slots:
            # Created here, because a reading call starts at once.
            performance = self._continue(context, params) or self._begin(context, params)
            result = await performance.proceed()
        client = performance.client
        if result is None:
            return InputRequiredResult(
                input_requests=dict(client.requests), request_state=self._parking.put(performance)
            )
        if client.lacking is not None and result.error is not None and _is_modern(context):
            required = client.lacking.model_dump(mode="json", by_alias=True, exclude_none=True)
            raise MCPError(
                code=MISSING_REQUIRED_CLIENT_CAPABILITY,
                message=f"The tool needs these client capabilities: {', '.join(required)}.",
                data={"requiredCapabilities": required},
            )
        structured = output_schema(performance.invoker, modern=_is_modern(context)) is not None
        conceal = Concealer(workspace=self._workspace, arguments=performance.arguments)
        return answer(result, performance.invoker, conceal, structured=structured)

    def _begin(self, context: ServerRequestContext[None], params: CallToolRequestParams) -> Performance:
        offer = self._listing.offer
        client: Client
        if _is_modern(context):
            client = RoundsClient(context.session, context.meta, self._levels, params.input_responses or {})
            client.crowded = self._parking.full
        else:
            client = DirectClient(context.session, context.meta, self._levels)
        if self.has_one_client:
            client.owner = self._owner = self._owner or client.owner
        # An entry of the journal for each owner: one is found by its identifier alone.
        conversation = digest([client.owner])[:32]
        invoker = offer.named(params.name)
        if invoker is None:
            message = refuse(self._execution, offer, params.name, client, conversation)
            raise MCPError(code=INVALID_PARAMS, message=message)
        arguments = params.arguments or {}
        return Performance(self._execution, offer, invoker, arguments, client, conversation=conversation)

    def _continue(self, context: ServerRequestContext[None], params: CallToolRequestParams) -> Performance | None:
        """The call that this request continues; None for a new one."""
        if params.request_state is None or not _is_modern(context):
            return None
        performance = self._parking.take(params.request_state, params.name, params.arguments or {})
        performance.client.resume(context.session, context.meta, params.input_responses or {})
        return performance


async def _guard(ctx: ServerRequestContext[None], call_next: CallNext) -> HandlerResult:
    """Hides the details of an internal error; in the handshake era the SDK would send them (measured)."""
    try:
        return await call_next(ctx)
    except (MCPError, ValidationError):
        raise
    except Exception as error:
        _logger.exception("The request %s failed.", ctx.method)
        raise MCPError(code=INTERNAL_ERROR, message=f"Internal server error ({type(error).__name__})") from None


def _is_modern(context: ServerRequestContext[None]) -> bool:
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


def _version() -> str:
    try:
        return importlib.metadata.version("ripieno")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"  # Runs from its sources.


def create_server(
    assembly: Assembly,
    *,
    ensembles: Sequence[Ensemble] | None = None,
    name: str = "ripieno",
    instructions: str | None = None,
) -> EnsembleServer:
    """A server for the tools of an entered assembly: all its ensembles, or these.

    Calls use the assembly's execution: its rules, limits, confirmer and recorder. Run it with ``serve_stdio`` or
    ``serve_http``, or with the SDK's ``run`` or ``streamable_http_app``, within the assembly. Errors:
    ``ConfigurationInvalidity`` if two tools have the same name.
    """
    served = assembly.ensembles if ensembles is None else ensembles
    return EnsembleServer(assembly, served, name=name, instructions=instructions)
