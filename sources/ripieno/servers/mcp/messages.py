"""Strict JSON for messages: no duplicate keys, NaN, lone surrogates or too many values reach the SDK."""

import json
import re
from typing import Any

from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError

from ripieno.exceptions import JsonInvalidity
from ripieno.jsonvalues import JsonValue, is_table, parse
from ripieno.origins.mcp.transports.framing import VALUES, too_many

#: The maximum nesting of a message.
DEPTH = 128
#: The id of an unparsed request: clients write it before the method, or at the end.
_IDENTIFIER = rb'"id"\s*:\s*(\d{1,15}|"[^"\\]{1,100}")\s*'
_BEGINNING = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _IDENTIFIER + rb",")
_END = re.compile(rb",\s*" + _IDENTIFIER + rb"\}\s*\Z")
#: The number of bytes at either end that are searched for it.
_ENDS = 300


class Refused(Exception):
    """Invalid data, with the answer for its sender."""

    def __init__(self, code: int, message: str, data: bytes = b"") -> None:
        super().__init__(message)
        error = ErrorData(code=code, message=message)
        self.answer = JSONRPCError(jsonrpc="2.0", id=_identifier(data), error=error)


def read(data: bytes, *, limit: int) -> JsonValue:
    """The JSON of a message of at most ``limit`` bytes. Errors: ``Refused``."""
    if len(data) <= limit and too_many(data):
        raise Refused(INVALID_REQUEST, f"A message may have at most {VALUES} values.", data)
    try:
        return parse(data, max_bytes=limit, max_depth=DEPTH)
    except JsonInvalidity as error:
        raise Refused(PARSE_ERROR, f"The message is not strict JSON: {error}", data) from None


def _identifier(data: bytes) -> str | int | None:
    """The id of a refused request, if it can be read, because its sender waits for an answer."""
    if too_many(data):
        known = _BEGINNING.match(data[:_ENDS]) or _END.search(data[-_ENDS:])
        data = b'{"id": %s}' % known[1] if known is not None else b""
    try:
        value: Any = json.loads(data)
    except (ValueError, RecursionError):
        return None
    found: Any = value.get("id") if is_table(value) else None
    return found if isinstance(found, str | int) and not isinstance(found, bool) else None
