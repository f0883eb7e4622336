"""What a server offers, as descriptors: listed page by page, cleaned, and laid under the operator's overrides."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from mcp.client.session import ClientSession
from mcp.shared.inbound import find_invalid_x_mcp_header
from mcp_types import ListToolsResult, PaginatedRequestParams, Tool, methods
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from ripieno.canisters.events import Alert
from ripieno.descriptors import EnsembleDescriptor, InvokerDescriptor
from ripieno.exceptions import JsonInvalidity, nearest
from ripieno.jsonvalues import freeze, is_list, is_table
from ripieno.origins.mcp.cleaning import clean, clean_schema

PAGES = 20
TOOLS = 512
#: Alerts of one listing.
ALERTS = 100
_MANY = f"The server offers more than {TOOLS} tools; the others are left out."
#: The names that the protocol allows (specification 2025-11-25, "Tool Names").
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}\Z")


class Catalogue:
    """The tools of one server. What is left out is told to the application, each tool with its reason."""

    def __init__(self, descriptor: EnsembleDescriptor, alert: Callable[[Alert], None]) -> None:
        self.ensemble = descriptor.name
        self._descriptor = descriptor
        self._alert = alert
        #: The tools that cannot be used, by the names that the server gave them, each with why.
        self.left_out: dict[str, str] = {}
        self._known: set[Alert] = set()
        self._version = ""
        self._told = 0

    async def read(self, session: ClientSession) -> tuple[InvokerDescriptor, ...]:
        """All usable tools. Errors: those of the SDK, when the server does not answer as the protocol says."""
        self._version = session.protocol_version or ""
        self._told = 0
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
                self._tell(_MANY)
            if not cursor or len(found) == TOOLS:
                break
        else:
            self._tell(f"The server lists its tools on more than {PAGES} pages; the others are left out.")
        self._check_overrides(found)
        return tuple(found.values())

    def screen(self, result: dict[str, Any]) -> dict[str, Any]:
        """A page without the tools that the protocol does not allow; without those schemas of results either."""
        tools = result.get("tools")
        if not is_list(tools):
            return result
        kept: list[Any] = []
        if len(tools) > TOOLS:
            self._tell(_MANY)
        for tool in tools[:TOOLS]:
            reason = self._invalid(result, tool)
            if reason is not None and is_table(tool) and tool.get("outputSchema") is not None:
                without = {name: value for name, value in tool.items() if name != "outputSchema"}
                if self._invalid(result, without) is None:
                    self._tell("The results of the tool are not checked: their schema is broken.", without)
                    kept.append(without)
                    continue
            if reason is None:
                kept.append(tool)
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
            # What is wrong with the page itself is the SDK's to say.
            return None if first is None else f"{'.'.join(map(str, first['loc'][2:]))}: {first['msg']}"
        if self._version in MODERN_PROTOCOL_VERSIONS and is_table(tool):
            # The SDK would leave it out without a word.
            return find_invalid_x_mcp_header(tool.get("inputSchema"))
        return None

    def _define(self, tool: Tool, found: Mapping[str, InvokerDescriptor]) -> InvokerDescriptor | None:
        reason = None
        if not _NAME.match(tool.name):
            reason = "its name is more than letters, digits, _, - and ., or too long"
        elif tool.name in found:
            reason = "another tool of the server has its name"
        elif tool.execution is not None and tool.execution.task_support == "required":
            reason = "it can only be called as a task, which was taken out of the protocol"
        if reason is None:
            try:
                return self._describe(tool)
            except JsonInvalidity as invalidity:
                reason = f"its schema is no JSON: {invalidity}"
        self._leave_out({"name": tool.name}, reason)
        return None

    def _describe(self, tool: Tool) -> InvokerDescriptor:
        description, hidden = clean(tool.description or tool.title or "")
        arguments: dict[str, Any]
        arguments, more = clean_schema(tool.input_schema)
        if hidden + more:
            message = f"{hidden + more} hidden characters were taken out of the description of the tool."
            self._tell(message, {"name": tool.name})
        return self._descriptor.discovered(
            tool.name,
            description=description,
            arguments=freeze(arguments),
            results=None if tool.output_schema is None else freeze(tool.output_schema),
            details=freeze(_details(tool)),
        )

    def _check_overrides(self, found: Mapping[str, InvokerDescriptor]) -> None:
        """An override that matches nothing may be a tool that is not as safe as the operator thinks."""
        for name in self._descriptor.overrides:
            if name not in found:
                near = nearest(name, found)
                hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
                self._tell(f"[overrides.{name}] is of no use: the server offers no such tool.{hint}")

    def _leave_out(self, tool: object, reason: str) -> None:
        name = tool.get("name") if is_table(tool) else None
        if isinstance(name, str):
            self.left_out[name] = clean(reason)[0]
        self._tell(f"The tool is left out: {reason}.", tool)

    def _tell(self, message: str, tool: object = None) -> None:
        self._told += 1
        if self._told > ALERTS:
            return
        if self._told == ALERTS:
            message, tool = "More is wrong with the tools of the server than is told here.", None
        name = tool.get("name") if is_table(tool) else None
        shown = None
        if isinstance(name, str):
            shown = f"{self._descriptor.name}.{clean(name)[0][:128]}"
        alert = Alert(message=message, tool=shown or self._descriptor.name)
        # A server may say again and again that its tools have changed, of which most have not.
        if alert not in self._known:
            if len(self._known) < TOOLS:
                self._known.add(alert)
            self._alert(alert)


def _details(tool: Tool) -> dict[str, Any]:
    """What a definition says beside what a model sees."""
    details: dict[str, Any] = {} if tool.title is None else {"title": clean(tool.title)[0]}
    if tool.annotations is not None:
        details["annotations"] = tool.annotations.model_dump(mode="json", by_alias=True, exclude_none=True)
    return details
