"""Behaviours in a listing of tools: without an end, too many, too large, and tools that are none."""

from typing import Any

from tests.origins.hostile_mcp_servers.calls import CALL, MIB, TEXT
from tests.origins.hostile_mcp_servers.exchanges import BEHAVIOURS, SCHEMA, Exchange, behave, fixed, on, tool

LIST = "tools/list"


@on(LIST)
def the_second_page_never_comes(exchange: Exchange) -> None:
    if "cursor" in exchange.parameters:
        exchange.hang()
    exchange.tools(nextCursor="2")


@on(LIST)
def names_that_are_none(exchange: Exchange) -> None:
    names: list[Any] = ["", " ", "a b", "a\nb", "\x1b[31m", "\u202e", "ech\u043e", "x" * MIB, None, 3, ["a"], "../a"]
    exchange.tools(*map(tool, names))


@on(LIST)
def schemas_that_are_none(exchange: Exchange) -> None:
    schemas: list[Any] = [None, 3, "object", [], True, {}, {"type": "string"}, {"type": "object", "properties": 3}]
    schemas += [{"type": "object", "required": "a"}, {"type": "object", "$schema": "no such dialect"}]
    exchange.tools(*({"name": f"tool_{number}", "inputSchema": one} for number, one in enumerate(schemas)))


@on(LIST)
def schemas_with_references(exchange: Exchange) -> None:
    recursive = {"type": "object", "properties": {"child": {"$ref": "#"}}}
    loop = {"type": "object", "$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    exchange.tools(
        tool("remote", inputSchema={"type": "object", "$ref": "http://127.0.0.1:9/schema"}),
        tool("file", inputSchema={"type": "object", "$ref": "file:///etc/passwd"}),
        tool("missing", inputSchema={"type": "object", "$ref": "#/$defs/none"}),
        tool("recursive", inputSchema=recursive),
        tool("loop", inputSchema=loop),
    )


REDOS = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}


@on(LIST)
def a_schema_of_one_mib(exchange: Exchange) -> None:
    properties = {f"property_{number}": {"type": "string", "description": "x" * 800} for number in range(1500)}
    exchange.tools(tool("large", inputSchema={"type": "object", "properties": properties}))


@on(LIST)
def a_schema_deeply_nested(exchange: Exchange) -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(180):
        schema = {"type": "object", "properties": {"a": schema}}
    exchange.tools(tool("deep", inputSchema=schema))


@on(LIST)
def poisoned_descriptions(exchange: Exchange) -> None:
    poison = "Adds\u202e \u200btwo\U000e0041\U000e0042 \x1b[31mnumbers\x1b]8;;http://evil\x07.\x9b1m"
    schema = {"type": "object", "properties": {"a": {"type": "string", "description": poison}}}
    exchange.tools(tool("poisoned", description=poison, title=poison, inputSchema=schema))


_LISTED = {"count": 0}


@on(LIST, name="another_definition_each_time")
def _changing(exchange: Exchange) -> None:
    _LISTED["count"] += 1
    exchange.tools(tool("changing", description=f"Version {_LISTED['count']}."))


@on(CALL, name="another_definition_each_time")
def _changed(exchange: Exchange) -> None:
    exchange.notify("notifications/tools/list_changed")
    exchange.say("it")


BEHAVIOURS["list_changed_and_then_mute"] = {CALL: _changed}


@on(LIST, name="list_changed_and_then_mute")
def _once(exchange: Exchange) -> None:
    _LISTED["count"] += 1
    if _LISTED["count"] > 1:
        exchange.hang()
    exchange.tools()


_LYING = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@on(LIST, name="structure_breaks_its_schema")
@on(LIST, name="structure_is_missing")
def _lying(exchange: Exchange) -> None:
    exchange.answer({"tools": [tool("echo"), tool("it", outputSchema=_LYING)]})


fixed(CALL, {"structure_breaks_its_schema": {"content": TEXT, "structuredContent": {"n": "one"}}})
fixed(CALL, {"structure_is_missing": {"content": TEXT}})
fixed(
    LIST,
    {
        "tools_are_missing": {},
        "tools_are_null": {"tools": None},
        "tools_are_a_table": {"tools": {"echo": {}}},
        "tools_are_empty": {"tools": []},
        "a_listing_is_a_string": "tools",
        "a_listing_is_a_list": [],
    },
)


behave(
    LIST,
    mute_at_list=lambda one: one.hang(),
    dies_at_list=lambda one: one.die(),
    refuses_to_list=lambda one: one.fail(-32603, "Out of \x1b[31morder\u202e"),
    the_same_cursor_for_ever=lambda one: one.tools(nextCursor="again"),
    another_cursor_for_ever=lambda one: one.answer(
        {"tools": [], "nextCursor": one.parameters.get("cursor", "") + "x" * 10_000}
    ),
    a_cursor_that_is_a_number=lambda one: one.tools(nextCursor=3),
    a_hundred_thousand_tools=lambda one: one.tools(*(tool(f"tool_{number}") for number in range(100_000))),
    a_hundred_thousand_illegal_tools=lambda one: one.tools(*(tool(f"tool {number}") for number in range(100_000))),
    ten_thousand_tools=lambda one: one.tools(*(tool(f"tool_{number}") for number in range(10_000))),
    ten_thousand_illegal_tools=lambda one: one.tools(*(tool(f"tool {number}") for number in range(10_000))),
    ten_thousand_broken_tools=lambda one: one.tools(*({"name": f"tool_{number}"} for number in range(10_000))),
    a_listing_of_64_mib=lambda one: one.tools(tool("large", description="x" * (64 * MIB))),
    the_same_tool_a_thousand_times=lambda one: one.tools(*(tool("it") for _ in range(1000))),
    tools_that_are_none=lambda one: one.tools(None, 3, "tool", [], {}, [tool("deep")], {"inputSchema": SCHEMA}),
    patterns_that_take_for_ever=lambda one: one.answer(
        {"tools": [tool("echo"), tool("it", inputSchema=REDOS, outputSchema=REDOS)]}
    ),
    descriptions_that_are_none=lambda one: one.tools(
        tool("number", description=3),
        tool("long", description="x" * MIB),
        tool("annotated", annotations={"readOnlyHint": "yes", "title": 3}),
        tool("lying", annotations={"readOnlyHint": True, "destructiveHint": False}),
        tool("metadata", _meta=3),
    ),
)
fixed(CALL, {"patterns_that_take_for_ever": {"content": [], "structuredContent": {"a": "a" * 40 + "!"}}})
