"""A server's tools as descriptors, and the renewed listing after changes. Imports the SDK.

Tools are listed page by page, cleaned, and completed by the operator's overrides. Changes are followed in either era.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

import mcp_types as wire
from mcp import Client, MCPError
from mcp.client.session import ClientSession, IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.inbound import find_invalid_x_mcp_header
from mcp_types import ListToolsResult, PaginatedRequestParams, Tool, methods
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from ripieno.canisters.events import Alert
from ripieno.descriptors import EnsembleDescriptor, InvokerDescriptor
from ripieno.ensembles.owner import Recovery, reason
from ripieno.exceptions import InputError, JsonInvalidity, nearest
from ripieno.jsonvalues import freeze, is_list, is_table
from ripieno.origins.mcp.text import clean, clean_schema

PAGES = 20
TOOLS = 512
#: Alerts per listing.
ALERTS = 100
_MANY = f"The server offers more than {TOOLS} tools; the others are left out."
#: The names that the protocol allows (specification 2025-11-25, "Tool Names").
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}\Z")


class Catalogue:
    """The tools of one server. Each tool that is left out is reported with its reason."""

    def __init__(self, descriptor: EnsembleDescriptor, alert: Callable[[Alert], None]) -> None:
        self.ensemble = descriptor.name
        self._descriptor = descriptor
        self._alert = alert
        #: The unusable tools by the server's names, with the reasons.
        self.left_out: dict[str, str] = {}
        self._known: set[Alert] = set()
        self._version = ""
        self._alerts = 0

    async def read(self, session: ClientSession) -> tuple[InvokerDescriptor, ...]:
        """All usable tools. Errors: those of the SDK, for an answer that violates the protocol."""
        self._version = session.protocol_version or ""
        self._alerts = 0
        self.left_out.clear()
        found: dict[str, InvokerDescriptor] = {}
        cursor: str | None = None
        many = False
        for _ in range(PAGES):
            parameters = None if cursor is None else PaginatedRequestParams(cursor=cursor)
            page = await session.list_tools(params=parameters)
            for tool in page.tools:
                if len(found) == TOOLS:
                    many = True
                    break
                definition = self._define(tool, found)
                if definition is not None:
                    found[tool.name] = definition
            cursor = page.next_cursor
            if len(found) == TOOLS and (cursor or many):
                self._report(_MANY)
            if not cursor or len(found) == TOOLS:
                break
        else:
            self._report(f"The server lists its tools on more than {PAGES} pages; the others are left out.")
        # An override without a tool may leave another tool less safe than the operator thinks.
        for name in (one for one in self._descriptor.overrides if one not in found):
            near = nearest(name, found)
            hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            self._report(f"[overrides.{name}] has no effect: the server offers no such tool.{hint}")
        return tuple(found.values())

    def screen(self, result: dict[str, Any]) -> dict[str, Any]:
        """A page without invalid tools; a tool with only its result schema invalid stays, without that schema."""
        tools = result.get("tools")
        if not is_list(tools):
            return result
        kept: list[Any] = []
        if len(tools) > TOOLS:
            self._report(_MANY)
        for tool in tools[:TOOLS]:
            usable, reason = tool, self._invalid(result, tool)
            if reason is not None and is_table(tool) and tool.get("outputSchema") is not None:
                usable = {name: value for name, value in tool.items() if name != "outputSchema"}
                if self._invalid(result, usable) is None:
                    self._report("The results of the tool are not checked: their schema is invalid.", usable)
                    reason = None
            if reason is None:
                kept.append(usable)
            else:
                self._leave_out(tool, f"the protocol does not allow its definition ({reason})")
        return {**result, "tools": kept}

    def _invalid(self, result: Mapping[str, Any], tool: object) -> str | None:
        page = {**result, "tools": [tool]}
        try:
            methods.validate_server_result("tools/list", self._version, page)
            ListToolsResult.model_validate(page, by_name=False)
        except ValidationError as error:
            first = next((one for one in error.errors(include_url=False) if one["loc"][:1] == ("tools",)), None)
            # The SDK reports defects of the page itself.
            return None if first is None else f"{'.'.join(map(str, first['loc'][2:]))}: {first['msg']}"
        if self._version in MODERN_PROTOCOL_VERSIONS and is_table(tool):
            # The SDK would leave it out silently.
            return find_invalid_x_mcp_header(tool.get("inputSchema"))
        return None

    def _define(self, tool: Tool, found: Mapping[str, InvokerDescriptor]) -> InvokerDescriptor | None:
        reason = None
        if not _NAME.match(tool.name):
            reason = "its name has other characters than letters, digits, _, - and ., or is too long"
        elif tool.name in found:
            reason = "another tool of the server has its name"
        elif tool.execution is not None and tool.execution.task_support == "required":
            reason = "it can only be called as a task, which the protocol no longer has"
        if reason is None:
            try:
                return self._describe(tool)
            except JsonInvalidity as invalidity:
                reason = f"its schema is not JSON: {invalidity}"
            except InputError as error:
                reason = f"in its schema, {error}"
        self._leave_out({"name": tool.name}, reason)
        return None

    def _describe(self, tool: Tool) -> InvokerDescriptor:
        description, hidden = clean(tool.description or tool.title or "")
        arguments: dict[str, Any]
        arguments, more = clean_schema(tool.input_schema)
        if hidden + more:
            message = f"{hidden + more} hidden characters were removed from the definition of the tool."
            self._report(message, {"name": tool.name})
        results = None if tool.output_schema is None else self._results(tool.output_schema, tool.name)
        return self._descriptor.discovered(
            tool.name,
            description=description,
            arguments=freeze(arguments),
            results=None if results is None else freeze(results),
            details=freeze(_details(tool)),
        )

    def _results(self, schema: Mapping[str, Any], name: str) -> dict[str, Any] | None:
        """The schema of results with clean texts; None if results may need its hidden characters."""
        try:
            cleaned: dict[str, Any] = clean_schema(schema, whole=True)[0]
        except InputError as error:
            self._report(f"The results of the tool are not checked: in their schema, {error}.", {"name": name})
            return None
        return cleaned

    def _leave_out(self, tool: object, reason: str) -> None:
        name = tool.get("name") if is_table(tool) else None
        if isinstance(name, str):
            self.left_out[name] = clean(reason)[0]
        self._report(f"The tool is left out: {reason}.", tool)

    def _report(self, message: str, tool: object = None) -> None:
        self._alerts += 1
        if self._alerts > ALERTS:
            return
        if self._alerts == ALERTS:
            message, tool = "Further problems with the tools of the server are not reported.", None
        name, shown = tool.get("name") if is_table(tool) else None, self.ensemble
        if isinstance(name, str):
            shown = f"{shown}.{clean(name)[0][:128]}"
        alert = Alert(message=message, tool=shown)
        # A server may announce changes repeatedly, with most tools unchanged.
        if alert not in self._known:
            if len(self._known) < TOOLS:
                self._known.add(alert)
            self._alert(alert)


def _details(tool: Tool) -> dict[str, Any]:
    """The parts of a definition that a model does not see."""
    details: dict[str, Any] = {} if tool.title is None else {"title": clean(tool.title)[0]}
    if tool.annotations is not None:
        details["annotations"] = tool.annotations.model_dump(mode="json", by_alias=True, exclude_none=True)
    return details


#: Seconds to wait for further changes before one listing for all of them.
SETTLING = 0.1
#: Seconds that a new listing may take.
DEADLINE = 30.0
#: Seconds in which a subscription must begin; without it the server is still used.
PATIENCE = 5.0
#: Delays before an ended subscription is opened again.
_RECOVERY = Recovery()


class Changes:
    """Whether the tools have changed since the last listing, and the subscriber to new listings."""

    def __init__(self) -> None:
        self._happened = asyncio.Event()
        self._awaited = asyncio.Event()
        self._subscriber: Callable[[tuple[InvokerDescriptor, ...]], None] | None = None

    def subscribe(self, subscriber: Callable[[tuple[InvokerDescriptor, ...]], None]) -> None:
        """Sets the receiver of new listings."""
        self._subscriber = subscriber
        self._awaited.set()

    def publish(self, found: tuple[InvokerDescriptor, ...]) -> None:
        """Passes a new listing to the subscriber."""
        if self._subscriber is not None:
            self._subscriber(found)

    async def take_message(self, message: IncomingMessage) -> None:
        """Receives the notification of a handshake-era server."""
        if isinstance(message, wire.ToolListChangedNotification):
            self.note()

    def note(self) -> None:
        """Records a change."""
        self._happened.set()

    async def wait(self) -> None:
        """Waits for a subscriber, a change, and those right after it."""
        await self._awaited.wait()
        await self._happened.wait()
        await asyncio.sleep(SETTLING)
        self._happened.clear()


@contextlib.asynccontextmanager
async def listening(client: Client, changes: Changes) -> AsyncGenerator[None, None]:
    """Subscribes to changes, from the beginning on, so that a later listing misses none."""
    tools = client.server_capabilities.tools
    if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or tools is None or not tools.list_changed:
        yield
        return
    begun = asyncio.Event()
    task = asyncio.create_task(_subscribe(client, changes, begun), name="subscription to changes")
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await begun.wait()
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def follow(client: Client, catalogue: Catalogue, changes: Changes, alert: Callable[[Alert], None]) -> None:
    """Lists the tools again after each change, until cancelled. A failed listing changes nothing."""
    while True:
        await changes.wait()
        try:
            async with asyncio.timeout(DEADLINE):
                found = await catalogue.read(client.session)
        except Exception as error:
            why = clean(reason(error))[0]
            alert(Alert(message=f"The tools of {catalogue.ensemble!r} have changed but could not be listed: {why}"))
        else:
            changes.publish(found)


async def _subscribe(client: Client, changes: Changes, begun: asyncio.Event) -> None:
    """Keeps a modern-era subscription to changes open."""
    losses = 0
    while True:
        try:
            async with client.listen(tools_list_changed=True) as subscription:
                begun.set()
                if losses:
                    changes.note()  # Changes between subscriptions are not announced.
                async for _ in subscription:
                    losses = 0
                    changes.note()
        except (ListenNotSupportedError, MCPError, SubscriptionLost) as error:
            if isinstance(error, ListenNotSupportedError) or getattr(error, "code", None) == wire.METHOD_NOT_FOUND:
                return
        finally:
            begun.set()
        losses += 1
        await asyncio.sleep(_RECOVERY.pause(losses))
