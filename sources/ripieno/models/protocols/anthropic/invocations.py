"""Tools, calls and results of the Messages wire."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.canisters import Content, InvocationCanister, OpaqueContent, ResultCanister, TextualContent
from ripieno.canisters.contents import text_of
from ripieno.canisters.events import InvocationBegan
from ripieno.canisters.faults import Fault
from ripieno.ensembles import Definition, Invoker
from ripieno.exceptions import InputError, RequestInvalidity
from ripieno.jsonvalues import EMPTY
from ripieno.models.protocol import HostedTool, Identifiers, InvocationsProcessor, Native
from ripieno.models.protocols.anthropic.contents import NAME, block_of, contents_of
from ripieno.models.protocols.common.calls import extras_of, read_invocation, require_answer
from ripieno.models.protocols.common.dialects import ANTHROPIC_STRICT
from ripieno.models.protocols.common.requests import table_in, tables_in, texts_in
from ripieno.models.protocols.common.tools import Declared, client_function, described, one_by_one

_CALL_KEYS = frozenset({"type", "id", "name", "input"})


class Invocations(InvocationsProcessor):
    """Flat definitions; calls and results are blocks of messages."""

    strict_dialect = ANTHROPIC_STRICT

    def definition_of(self, invoker: Invoker, *, strict: bool = False) -> Native:
        lowered = self.lowered(invoker, strict=strict)
        definition = {**described(invoker), "input_schema": lowered.schema}
        return {**definition, "strict": True} if lowered.strict else definition

    def normalize_invocations(self, native: Native) -> Sequence[InvocationCanister]:
        require_answer(native, "content")
        identifiers = Identifiers()
        calls = [block for block in native.get("content") or () if block.get("type") == "tool_use"]
        return [invocation_of(block, identifiers.unique(block.get("id"))) for block in calls]

    def nativize_results(self, results: Sequence[ResultCanister]) -> Sequence[Native]:
        return [{"role": "user", "content": [result_block(result) for result in results]}] if results else []


INVOCATIONS = Invocations()


def invocation_of(block: Native, identifier: str | None = None) -> InvocationCanister:
    return read_invocation(
        identifier=str(block.get("id") or "") if identifier is None else identifier,
        name=str(block.get("name") or ""),
        sent=block.get("input"),
        protocol=NAME,
        extras=extras_in(block),
        keep_text=False,
    )


def extras_in(block: Native) -> Mapping[str, Any]:
    """The keys of a call that only its provider needs, such as ``caller``."""
    if block.keys() <= _CALL_KEYS:
        return EMPTY
    return {key: value for key, value in block.items() if key not in _CALL_KEYS and value is not None}


def invocation_block(invocation: InvocationCanister) -> dict[str, Any]:
    return {**begun_block(invocation), "input": invocation.arguments}


def begun_block(call: InvocationCanister | InvocationBegan) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.identifier, "name": call.name, "input": EMPTY, **extras_of(call, NAME)}


def result_block(result: ResultCanister) -> dict[str, Any]:
    """The block of a result. Text alone is a string, which every server understands; an error is first."""
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.invocation_id}
    natives = [native for content in result.content if (native := _result_block(content)) is not None]
    others = [native for native in natives if native["type"] != "text"]
    text = "".join(native["text"] for native in natives if native["type"] == "text")
    if result.error is not None:
        text = f"{result.error.text()}\n{text}" if text else result.error.text()
        natives = [{"type": "text", "text": text}, *others]
        block["is_error"] = True
    # A blank text is refused as a block, but allowed in a string.
    block["content"] = [one for one in natives if one["type"] != "text" or one["text"].strip()] if others else text
    return block


def _result_block(content: Content) -> Mapping[str, Any] | None:
    block = block_of(content)
    if block is None and not isinstance(content, TextualContent | OpaqueContent):
        return {"type": "text", "text": f"[{type(content).__name__} left out]"}
    return block


def result_of(block: Native) -> ResultCanister:
    """The result in a block of a request. Errors: ``InputError``."""
    identifier = block.get("tool_use_id")
    if not isinstance(identifier, str):
        raise InputError("A tool_result has no tool_use_id.")
    contents = contents_of(block.get("content"))
    if not block.get("is_error"):
        return ResultCanister(invocation_id=identifier, content=contents)
    message = text_of(contents).removeprefix("Error: ")
    rest = tuple(content for content in contents if not isinstance(content, TextualContent))
    return ResultCanister(invocation_id=identifier, content=rest, error=Fault(category="execution", message=message))


_DATE = re.compile(r"_\d{8}\Z")


def definition_from(tool: Native) -> Definition | HostedTool | None:
    """A client's tool: its own, or one for the server, whose kind is without the date.

    None for a tool search, since the model gets all definitions. Errors: ``InputError``.
    """
    kind = tool.get("type")
    if kind in (None, "custom"):
        return client_function(tool, tool.get("input_schema"), "A tool has no name.")
    if not isinstance(kind, str) or not kind:
        raise InputError("The type of a tool is a text.")
    if kind == "mcp_toolset":
        return _toolset(tool)
    kind = _DATE.sub("", kind)
    return None if kind.startswith("tool_search_tool") else HostedTool(kind=kind, label=str(tool.get("name") or ""))


def _toolset(tool: Native) -> HostedTool:
    """The tools of a server: all, or those that are enabled one by one."""
    label, default = tool.get("mcp_server_name"), table_in(tool, "default_config").get("enabled", True)
    if not isinstance(label, str) or not label:
        raise InputError("An mcp_toolset has no mcp_server_name.")
    switched = {str(name): one.get("enabled", default) for name, one in table_in(tool, "configs").items()}
    if default and not all(switched.values()):
        raise InputError("An mcp_toolset disables single tools: enable the wanted tools instead.")
    names = None if default else tuple(name for name, enabled in switched.items() if enabled)
    return HostedTool(kind="mcp", label=label, names=names)


_declared = one_by_one(definition_from)


def declared_in(native: Native) -> Declared:
    """The tools of a request, with those of its MCP servers. Errors: ``InputError``."""
    declared = _declared(native)
    servers = tables_in(native, "mcp_servers")
    if not servers:
        return declared
    known = {one.label for one in declared.hosted if one.kind == "mcp"}
    beside = [server for server in servers if server.get("name") not in known]
    return dataclasses.replace(declared, hosted=(*declared.hosted, *filter(None, map(_server, beside))))


def _server(server: Native) -> HostedTool | None:
    """A server whose tools are not declared; None if it is disabled."""
    label, config = server.get("name"), table_in(server, "tool_configuration")
    if not isinstance(label, str) or not label:
        raise RequestInvalidity("A server has no name.", parameter="mcp_servers")
    if not config.get("enabled", True):
        return None
    return HostedTool(kind="mcp", label=label, names=texts_in(config, "allowed_tools"))
