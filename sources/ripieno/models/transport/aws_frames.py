"""Amazon's event streams: native events out of binary frames.

The official SDK decodes them inside of streams that read a response of their own, past our clock; what it does it with
is private. So its extra's other half does it here: ``botocore`` takes the bytes apart and checks them, and what the
frames mean is told by their headers: ``chunk`` has an event in base64, an error or exception has words.
"""

import base64
import importlib
import struct
from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from typing import Any

from ripieno.exceptions import ProviderFailure, WireInvalidity
from ripieno.models.protocol import Native, Natives
from ripieno.models.transport.sse import read_object

_MODULE = "botocore.eventstream"


async def unframe(chunks: AsyncIterable[bytes], provider: str) -> AsyncGenerator[Natives, None]:
    """The events of a streamed answer, as many at a time as came together. An error in a frame becomes an event.

    Errors: ``WireInvalidity`` for frames that cannot be read; ``ProviderFailure`` where nothing here can read any.
    """
    eventstream: Any = importlib.import_module(_MODULE)
    try:
        buffer, damage = eventstream.EventStreamBuffer(), eventstream.ParserError
    except AttributeError as error:
        raise ProviderFailure(
            provider,
            f"Its event stream cannot be read: {error}.",
            hint="This botocore is not one that ripieno knows. Install one: pip install --upgrade 'ripieno[bedrock]'.",
        ) from error
    async for chunk in chunks:
        natives: list[Native] = []
        failure: Exception | None = None
        try:
            buffer.add_data(chunk)
            for frame in buffer:
                native = _native(frame.headers, frame.payload, provider)
                if native is not None:
                    natives.append(native)
        except (damage, struct.error, LookupError, TypeError, ValueError, WireInvalidity) as error:
            failure = error
        # What came before an error has happened all the same.
        yield natives
        if failure is not None:
            raise WireInvalidity(provider, f"It sent frames that cannot be read ({failure}).") from failure


def _native(headers: Mapping[str, Any], payload: bytes, provider: str) -> Native | None:
    """The event of one frame; None where it is of a kind that means nothing here."""
    match headers.get(":message-type"):
        case "exception":
            said = read_object(payload or b"{}", provider)
            words = said.get("message") or said.get("Message") or ""
            return _error(headers.get(":exception-type"), words)
        case "error":
            return _error(headers.get(":error-code"), headers.get(":error-message"))
        case "event" if headers.get(":event-type") == "chunk":
            data = base64.b64decode(read_object(payload, provider)["bytes"], validate=True)
            native = read_object(data, provider)
            return native if isinstance(native.get("type"), str) else None
        case _:
            return None


def _error(kind: Any, words: Any) -> Native:
    """The wire's own event for an error."""
    return {"type": "error", "error": {"type": str(kind or "error"), "message": str(words or "")}}
