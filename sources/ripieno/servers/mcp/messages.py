"""Messages as strict JSON: doubled keys, NaN and halves of characters are refused before the SDK reads them.

So is a message of more values than anybody means, before anything reads it at all.
"""

import json
import re
from typing import Any

from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError

from ripieno.exceptions import JsonInvalidity
from ripieno.jsonvalues import JsonValue, is_table, parse
from ripieno.origins.mcp.transports.framing import VALUES, too_many

#: How deep a message may be nested.
DEPTH = 128
#: Where the id of a request stands that is not read: before its method, or at its end. Clients write one or the other.
_IDENTIFIER = rb'"id"\s*:\s*(\d{1,15}|"[^"\\]{1,100}")\s*'
_BEGINNING = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _IDENTIFIER + rb",")
_END = re.compile(rb",\s*" + _IDENTIFIER + rb"\}\s*\Z")
#: Bytes at either side in which it is looked for.
_ENDS = 300


class Refused(Exception):
    """What is no message, with what its sender is told."""

    def __init__(self, code: int, message: str, data: bytes = b"") -> None:
        super().__init__(message)
        error = ErrorData(code=code, message=message)
        self.answer = JSONRPCError(jsonrpc="2.0", id=_identifier(data), error=error)


def read(data: bytes, *, limit: int) -> JsonValue:
    """The JSON of a message of at most ``limit`` bytes. Errors: ``Refused``."""
    if len(data) <= limit and too_many(data):
        raise Refused(INVALID_REQUEST, f"A message may have {VALUES} values.", data)
    try:
        return parse(data, max_bytes=limit, max_depth=DEPTH)
    except JsonInvalidity as error:
        raise Refused(PARSE_ERROR, f"The message is not strict JSON: {error}", data) from None


def _identifier(data: bytes) -> str | int | None:
    """The id of a request that is refused, as far as it can be read: its sender waits for an answer."""
    if too_many(data):
        known = _BEGINNING.match(data[:_ENDS]) or _END.search(data[-_ENDS:])
        data = b'{"id": %s}' % known[1] if known is not None else b""
    try:
        value: Any = json.loads(data)
    except (ValueError, RecursionError):
        return None
    found: Any = value.get("id") if is_table(value) else None
    return found if isinstance(found, str | int) and not isinstance(found, bool) else None
