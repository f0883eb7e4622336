"""The tools of ``fixtures.toml``: each gives what the suite's scenario of its name expects."""

import base64
import logging
import struct
from typing import Any

from tests.conformance.beside import PNG

from ripieno.canisters import AudioContent, Content, DocumentContent, ImageContent, TextualContent
from ripieno.ensembles import Context
from ripieno.exceptions import ExecutionFault

_PNG = base64.b64decode(PNG)
#: Two samples of silence: 8000 Hz, 16 bits, one channel.
_FORMAT = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 16000, 2, 16)
_WAV = struct.pack("<4sI4s24s4sI4s", b"RIFF", 40, b"WAVE", _FORMAT, b"data", 4, bytes(4))


async def test_simple_text(context: Context, arguments: dict[str, Any]) -> str:
    return "This is a simple text response for testing."


async def test_image_content(context: Context, arguments: dict[str, Any]) -> Content:
    return ImageContent(data=_PNG, mime_type="image/png")


async def test_audio_content(context: Context, arguments: dict[str, Any]) -> Content:
    return AudioContent(data=_WAV, mime_type="audio/wav")


async def test_embedded_resource(context: Context, arguments: dict[str, Any]) -> Content:
    return DocumentContent(data=b"This is an embedded resource content.", mime_type="text/plain")


async def test_multiple_content_types(context: Context, arguments: dict[str, Any]) -> list[Content]:
    return [
        TextualContent(text="Multiple content types test:"),
        ImageContent(data=_PNG, mime_type="image/png"),
        DocumentContent(data=b'{"test":"data","value":123}', mime_type="application/json"),
    ]


async def test_error_handling(context: Context, arguments: dict[str, Any]) -> str:
    raise ExecutionFault("This tool intentionally returns an error for testing")


async def test_tool_with_progress(context: Context, arguments: dict[str, Any]) -> str:
    for done in (0, 50, 100):
        context.progress(done, 100)
    return "Done."


async def test_streaming_elicitation(context: Context, arguments: dict[str, Any]) -> str:
    return await test_tool_with_progress(context, arguments)


async def test_logging_tool(context: Context, arguments: dict[str, Any]) -> str:
    logging.getLogger(__name__).warning("It is logged, and no client sees it.")
    return "Logged."


async def test_custom_header(context: Context, arguments: dict[str, Any]) -> str:
    return str(arguments["region"])


async def json_schema_2020_12_tool(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    return arguments
