"""Behaviours in a call: answers that are late, wrong, doubled, broken, or of the wrong kind."""

import functools
import json
from typing import Any

from tests.origins.hostile_mcp_servers.exchanges import Exchange, behave, behave_and_answer, fixed, on

CALL = "tools/call"
TEXT = [{"type": "text", "text": "it"}]
MIB = 2**20


@on(CALL)
def dies_after_call(exchange: Exchange) -> None:
    exchange.say("it")
    exchange.die()


@on(CALL)
def dies_in_the_middle_of_an_answer(exchange: Exchange) -> None:
    exchange.write(exchange.frame(json.dumps(exchange.said("it")).encode())[:40])
    exchange.die()


def _with_id(exchange: Exchange, identifier: Any) -> None:
    exchange.send({**exchange.said("of another id"), "id": identifier})


_IDS = {"another_id": 999_999, "null_id": None, "enormous_id": 10**400}
for _name, _identifier in _IDS.items():

    @on(CALL, name=f"{_name}_only")
    def _only(exchange: Exchange, identifier: Any = _identifier) -> None:
        _with_id(exchange, identifier)
        exchange.hang()


@on(CALL)
def answers_twice(exchange: Exchange) -> None:
    exchange.say("it")
    exchange.say("twice")


def _without(exchange: Exchange, key: str) -> None:
    exchange.send({name: value for name, value in exchange.said("incomplete").items() if name != key})


#: Lines before a good answer.
_LINES = {
    "no_json": b"this is no JSON",
    "half_json": b'{"jsonrpc": "2.0", "id": 1, "resu',
    "nul_bytes": b"\0\0\0",
    "invalid_utf8": b'{"jsonrpc": "2.0", "id": 7, "result": {"a": "\xff\xfe"}}',
    "deeply_nested": b'{"jsonrpc": "2.0", "id": 7, "result": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "deeper_nested": b"[" * MIB,
    "huge_number": b'{"jsonrpc": "2.0", "id": 7, "result": {"a": ' + b"9" * 100_000 + b"}}",
    "json_null": b"null",
    "json_number": b"1e999",
}


def _altered(exchange: Exchange, old: bytes, new: bytes, text: str = "it") -> bytes:
    return json.dumps(exchange.said(text)).encode().replace(old, new)


def _deep(levels: int) -> bytes:
    return b'{"a": ' * levels + b"1" + b"}" * levels


def _structured(exchange: Exchange, structure: bytes) -> None:
    exchange.line(_altered(exchange, b'"result": {', b'"result": {"structuredContent": ' + structure + b", "))


fixed(
    CALL,
    {
        "result_is_string": "it",
        "result_is_null": None,
        "result_is_list": [],
        "result_is_number": 3,
        "content_missing": {},
        "content_is_string": {"content": "it"},
        "content_is_null": {"content": None},
        "content_of_unknown_type": {"content": [{"type": "hologram"}]},
        "content_without_type": {"content": [{"text": "it"}]},
        "content_with_number_as_text": {"content": [{"type": "text", "text": 3}]},
        "is_error_no_boolean": {"content": TEXT, "isError": "perhaps"},
        "is_error": {"content": [{"type": "text", "text": "the cat \x1b[31mis here"}], "isError": True},
        "is_error_of_two_texts": {
            "content": [{"type": "text", "text": one} for one in ("first\r\n\x9b2J", "\u202esecond\U000e0041")],
            "isError": True,
        },
        "is_error_without_content": {"content": [], "isError": True},
        "is_error_that_shows_nothing": {"content": [{"type": "text", "text": " \x1b[2J\u200b"}], "isError": True},
        "broken_base64": {"content": [{"type": "image", "data": "?!", "mimeType": "image/png"}]},
        "kind_with_escapes": {"content": [{"type": "image", "data": "?!", "mimeType": "\x1b[31m\u202eimage"}]},
        "resource_without_text": {"content": [{"type": "resource", "resource": {"uri": "a:b"}}]},
        "resource_with_no_uri": {"content": [{"type": "resource_link", "uri": 3, "name": "x"}]},
        "structure_is_list": {"content": [], "structuredContent": [1]},
        "unknown_result_type": {"content": TEXT, "resultType": "surprise"},
        "result_type_is_number": {"content": TEXT, "resultType": 3},
        "input_required": {"resultType": "input_required", "inputRequests": {}, "requestState": "x"},
        "input_required_without_requests": {"resultType": "input_required"},
        "input_required_of_everything": {
            "resultType": "input_required",
            "inputRequests": {"a": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}},
            "requestState": "x" * 1000,
        },
        "task_instead_of_result": {"task": {"taskId": "1", "status": "working"}},
    },
)


behave(
    CALL,
    mute_in_call=lambda one: one.hang(),
    dies_in_call=lambda one: one.die(),
    slow_and_in_time=lambda one: one.dribble(json.dumps(one.said("it")).encode(), 0.001),
    slow_and_late=lambda one: one.dribble(json.dumps(one.said("it")).encode(), 0.05),
    string_id=lambda one: _with_id(one, str(one.request["id"])),
    a_result_of_64_mib=lambda one: one.say("x" * (64 * MIB)),
    an_image_of_20_mib=lambda one: one.answer(
        {"content": [{"type": "image", "data": "AAAA" * (20 * MIB // 3), "mimeType": "image/png"}]}
    ),
    a_result_of_10_mib=lambda one: one.say("x" * (10 * MIB)),
    many_small_contents=lambda one: one.answer({"content": TEXT * 100_000}),
    more_contents_than_anybody_reads=lambda one: one.answer({"content": TEXT * 10_000}),
    carriage_returns=lambda one: one.line(json.dumps(one.said("it")).encode() + b"\r"),
    duplicate_keys=lambda one: one.line(_altered(one, b'"result":', b'"result": {"content": "first"}, "result":')),
    text_with_nul=lambda one: one.say("i\0t"),
    text_with_half_surrogate=lambda one: one.line(_altered(one, b"MARK", b"\\ud800", "MARK")),
    structure_deeply_nested=lambda one: _structured(one, _deep(10_000)),
    structure_nested_in_bounds=lambda one: _structured(one, _deep(150)),
    structure_of_many_lists=lambda one: _structured(one, b'{"a": [' + b"[]," * (5 * MIB) + b"1]}"),
    structure_with_huge_number=lambda one: _structured(one, b'{"n": ' + b"9" * 10_000 + b"}"),
    error_with_long_ansi_message=lambda one: one.fail(-1, "\x1b[31mno\u202e" + "x" * MIB, data={"deep": [1] * 1000}),
    error_of_our_own_kind=lambda one: one.fail(-32000, "no", data={"ripieno": "unsent"}),
    version_refused_in_call=lambda one: one.fail(
        -32022, "Unsupported protocol version", data={"supported": ["1999-01-01"], "requested": "x"}
    ),
)
for _name, _identifier in (_IDS | {"list_as_id": [1], "fraction_as_id": 1.5, "boolean_as_id": True}).items():
    behave_and_answer(CALL, **{f"{_name}_first": functools.partial(_with_id, identifier=_identifier)})
for _name, _data in _LINES.items():
    behave_and_answer(CALL, **{f"{_name}_first": functools.partial(Exchange.line, data=_data)})
behave_and_answer(
    CALL,
    no_id=lambda one: _without(one, "id"),
    no_version=lambda one: _without(one, "jsonrpc"),
    answers_and_fails=lambda one: one.send({**one.said("both"), "error": {"code": 1, "message": "both"}}),
    error_without_id=lambda one: one.send(
        {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}}
    ),
    batch=lambda one: one.send([one.said("in a batch")]),
    a_line_of_64_mib=lambda one: one.line(
        b'{"jsonrpc": "2.0", "id": 7, "result": {"a": "' + b"x" * (64 * MIB) + b'"}}'
    ),
    byte_order_mark=lambda one: one.line(b"\xef\xbb\xbf" + json.dumps(one.said("it")).encode()),
    error_without_message=lambda one: one.send({"jsonrpc": "2.0", "id": one.request["id"], "error": {"code": 1}}),
)
