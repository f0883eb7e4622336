"""The SDK's low-level server over an assembly: it lists the tools and calls them."""

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
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    NotificationParams,
    PaginatedRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from ripieno.assembly import Assembly
from ripieno.ensembles import Ensemble
from ripieno.mcpserver.answering import answer
from ripieno.mcpserver.calling import perform, refuse
from ripieno.mcpserver.changes import Changes
from ripieno.mcpserver.concealing import Concealer
from ripieno.mcpserver.describing import output_schema
from ripieno.mcpserver.listing import Listing

#: Calls that run at the same time, whoever asked for them; more wait for their turn.
PARALLEL = 64
_logger = logging.getLogger(__name__)


class EnsembleServer(Server[None]):
    """The SDK's server, whose tools are those of ensembles. Make it with ``create_server``."""

    def __init__(
        self, assembly: Assembly, ensembles: Sequence[Ensemble], *, name: str, instructions: str | None
    ) -> None:
        self._execution = assembly.execution
        self._workspace = assembly.surroundings.workspace
        self._listing = Listing(ensembles, assembly.surroundings.alert)
        self._room = asyncio.Semaphore(PARALLEL)
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
        self.add_notification_handler("notifications/initialized", NotificationParams, self.changes.follow)
        self.middleware.append(_guard)

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """The SDK's, which says to peers of the handshake era that they will be told of changes."""
        told = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(told, experimental_capabilities, extensions)

    @contextlib.asynccontextmanager
    async def _live(self, server: Server[None]) -> AsyncGenerator[None, None]:
        del server
        async with self.changes.watching():
            yield

    async def _list_tools(
        self, context: ServerRequestContext[None], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        """All tools on one page."""
        if params is not None and params.cursor is not None:
            raise MCPError(code=INVALID_PARAMS, message="There is one page of tools only: leave the cursor out.")
        await self.changes.look()
        return ListToolsResult(tools=self._listing.tools(modern=_is_modern(context)))

    async def _call_tool(self, context: ServerRequestContext[None], params: CallToolRequestParams) -> CallToolResult:
        await self.changes.look()
        offer = self._listing.offer
        invoker = offer.named(params.name)
        if invoker is None:
            raise MCPError(code=INVALID_PARAMS, message=refuse(self._execution, offer, params.name))
        arguments = params.arguments or {}
        async with self._room:
            result = await perform(self._execution, offer, params.name, arguments, context.session)
        structured = output_schema(invoker, modern=_is_modern(context)) is not None
        return answer(result, invoker, Concealer(workspace=self._workspace, arguments=arguments), structured=structured)


async def _guard(ctx: ServerRequestContext[None], call_next: CallNext) -> HandlerResult:
    """Says nothing of a bug of ours but that it is one; in the handshake era the SDK would say all (measured)."""
    try:
        return await call_next(ctx)
    except (MCPError, ValidationError):
        raise
    except Exception as error:
        _logger.exception("A request could not be answered: %s", ctx.method)
        raise MCPError(code=INTERNAL_ERROR, message=f"Internal server error ({type(error).__name__})") from None


def _is_modern(context: ServerRequestContext[None]) -> bool:
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


def _version() -> str:
    try:
        return importlib.metadata.version("ripieno")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"  # It is run from its sources.


def create_server(
    assembly: Assembly,
    *,
    ensembles: Sequence[Ensemble] | None = None,
    name: str = "ripieno",
    instructions: str | None = None,
) -> EnsembleServer:
    """A server for the tools of an entered assembly: of all its ensembles, or of these.

    Calls go through the assembly's execution: its rules, limits, confirmer and recorder. Run it with ``serve_stdio``
    or ``serve_http``, or with what the SDK has: ``run``, ``streamable_http_app``. It must not outlive the assembly.
    Errors: ``ConfigurationInvalidity`` when two tools have one name.
    """
    playing = assembly.ensembles if ensembles is None else ensembles
    return EnsembleServer(assembly, playing, name=name, instructions=instructions)
