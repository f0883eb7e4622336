"""Messages as strict JSON: doubled keys, NaN and halves of characters are refused before the SDK reads them."""

import json
from typing import Any

from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError

from ripieno.descriptors.tables import is_table
from ripieno.exceptions import JsonInvalidity
from ripieno.jsonvalues import JsonValue, parse

#: How deep a message may be nested.
DEPTH = 128


class Refused(Exception):
    """What is no message, with what its sender is told."""

    def __init__(self, code: int, message: str, data: bytes = b"") -> None:
        super().__init__(message)
        error = ErrorData(code=code, message=message)
        self.answer = JSONRPCError(jsonrpc="2.0", id=_identifier(data), error=error)


def read(data: bytes, *, limit: int) -> JsonValue:
    """The JSON of a message of at most ``limit`` bytes. Errors: ``Refused``."""
    try:
        return parse(data, max_bytes=limit, max_depth=DEPTH)
    except JsonInvalidity as error:
        raise Refused(PARSE_ERROR, f"The message is not strict JSON: {error}", data) from None


def _identifier(data: bytes) -> str | int | None:
    """The id of a request that is refused, as far as it can be read: its sender waits for an answer."""
    try:
        value: Any = json.loads(data)
    except (ValueError, RecursionError):
        return None
    found: Any = value.get("id") if is_table(value) else None
    return found if isinstance(found, str | int) and not isinstance(found, bool) else None
