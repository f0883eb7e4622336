"""Amazon event streams: native events from binary frames.

The official SDK decodes them only within its own response streams, without our timeouts, and its decoder is private.
Here, ``botocore`` splits and verifies the bytes. The headers of a frame give its meaning: ``chunk`` has an event in
base64, an error or exception has a message.
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
    """The events of a streamed answer, in batches as they arrived. An error in a frame becomes an event.

    Errors: ``WireInvalidity`` for invalid frames; ``ProviderFailure`` for an unsupported botocore.
    """
    eventstream: Any = importlib.import_module(_MODULE)
    try:
        buffer, damage = eventstream.EventStreamBuffer(), eventstream.ParserError
    except AttributeError as error:
        raise ProviderFailure(
            provider,
            f"Its event stream cannot be read: {error}.",
            hint="This version of botocore is not supported. Run: pip install --upgrade 'ripieno[bedrock]'.",
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
        # Events before an error are handed on.
        yield natives
        if failure is not None:
            raise WireInvalidity(provider, f"It sent frames that cannot be read ({failure}).") from failure


def _native(headers: Mapping[str, Any], payload: bytes, provider: str) -> Native | None:
    """The event of one frame; None for a kind without meaning here."""
    match headers.get(":message-type"):
        case "exception":
            error = read_object(payload or b"{}", provider)
            return _error(headers.get(":exception-type"), error.get("message") or error.get("Message"))
        case "error":
            return _error(headers.get(":error-code"), headers.get(":error-message"))
        case "event" if headers.get(":event-type") == "chunk":
            data = base64.b64decode(read_object(payload, provider)["bytes"], validate=True)
            native = read_object(data, provider)
            return native if isinstance(native.get("type"), str) else None
        case _:
            return None


def _error(kind: Any, words: Any) -> Native:
    return {"type": "error", "error": {"type": str(kind or "error"), "message": str(words or "")}}
