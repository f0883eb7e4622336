"""Results of calls in the protocol's form: contents, structured results, and errors without local paths."""

import base64
import contextlib
import itertools
import json
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from ripieno.canisters import ResultCanister, contents
from ripieno.ensembles import Invoker
from ripieno.exceptions import JsonInvalidity
from ripieno.jsonvalues import is_table, parse
from ripieno.values import Value

#: An absolute path, also after ``file://``, but not the path of another URL.
_PATH = re.compile(r"(?:(?<=file://)|(?<![\w/.~%-])(?!//))/[^\s'\"`<>|:,;()\[\]{}]+")


class Concealer(Value, kw_only=True):
    """Replaces absolute paths of this machine in a text.

    Paths in the workspace and in the caller's own arguments stay. A text whose first folder does not exist, such as a
    route of a web service, is not a path.
    """

    workspace: pathlib.Path
    arguments: Mapping[str, Any]

    def __call__(self, text: str) -> str:
        known: list[str] = []

        def replace(match: re.Match[str]) -> str:
            path = match[0]
            if not known:
                known.append(json.dumps(dict(self.arguments), ensure_ascii=False, default=str))
            if path.rstrip(".!?") in known[0] or self._is_ours(path) or not _is_here(path):
                return path
            return "(a path outside of the workspace)"

        return _PATH.sub(replace, text)

    def _is_ours(self, path: str) -> bool:
        plain = pathlib.PurePosixPath(path.rstrip(".!?"))
        return ".." not in plain.parts and plain.is_relative_to(self.workspace)


def _is_here(path: str) -> bool:
    first = path.strip("/").partition("/")[0]
    return bool(first) and pathlib.Path("/", first).exists()


#: Bytes and nesting of a structured result, at most.
_BYTES = 64 * 1024 * 1024
_DEPTH = 128
_JSON = "application/json"


def answer(result: ResultCanister, invoker: Invoker, conceal: Concealer, *, structured: bool) -> CallToolResult:
    """The answer to a call. ``structured``: the client knows a schema, and expects a result that fits it."""
    blocks = list(_blocks(result))
    if result.error is not None:
        return _failure(conceal(result.error.text()), blocks)
    if not structured or invoker.results is None:
        return CallToolResult(content=blocks)
    for value in itertools.chain(_values(result), _wrapped(result, invoker.results.mapping)):
        if not invoker.results.validate(value):
            return CallToolResult(content=blocks, structured_content=value)
    # Clients discard a successful answer that does not fit the schema (measured).
    if result.report.stdout_truncated:
        return _failure("Error: The result is too large for its schema. A truncated result follows.", blocks)
    return _failure("Error: The result does not fit the tool's schema. The result follows.", blocks)


def _failure(text: str, blocks: list[ContentBlock]) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text), *blocks], is_error=True)


def _values(result: ResultCanister) -> Iterator[Any]:
    """The candidates for the structured result: the last JSON content, or else the text."""
    texts = [content for content in result.content if isinstance(content, contents.TextualContent)]
    for content in reversed(texts):
        if content.mime_type == _JSON:
            try:
                yield parse(content.text, max_bytes=_BYTES, max_depth=_DEPTH)
            except JsonInvalidity:
                continue  # It was truncated.
            return
    if texts:
        yield contents.text_of(result.content)


def _wrapped(result: ResultCanister, schema: Mapping[str, Any]) -> Iterator[Any]:
    """The texts wrapped as an object, if the schema is that of an object with one property.

    Servers wrap values that are no object (measured), and contents arrive without that wrapping.
    """
    properties = schema.get("properties")
    if not is_table(properties) or len(properties) != 1:
        return
    (name,) = properties
    texts = [content.text for content in result.content if isinstance(content, contents.TextualContent)]
    read = [_read(text) for text in texts]
    yield from ({name: value} for value in ([*texts, *read] if len(texts) == 1 else [contents.text_of(result.content)]))
    yield from ({name: values} for values in (texts, read))


def _read(text: str) -> Any:
    try:
        return parse(text, max_bytes=_BYTES, max_depth=_DEPTH)
    except JsonInvalidity:
        return text


def _blocks(result: ResultCanister) -> Iterator[ContentBlock]:
    """The contents. Opaque content of one provider is omitted, as over every other wire."""
    for index, content in enumerate(result.content):
        if isinstance(content, contents.TextualContent):
            yield TextContent(text=content.text)
        elif isinstance(content, contents.ImageContent):
            yield ImageContent(data=_encoded(content.data), mime_type=content.mime_type)
        elif isinstance(content, contents.AudioContent):
            yield AudioContent(data=_encoded(content.data), mime_type=content.mime_type)
        elif isinstance(content, contents.DocumentContent):
            yield _document(content, f"ripieno:{result.invocation_id}/{index}")


def _document(content: contents.DocumentContent, uri: str) -> ContentBlock:
    if content.data is None:
        url = content.url or ""
        name = urlsplit(url).path.rpartition("/")[2] or "document"
        return ResourceLink(name=name, uri=url, mime_type=content.mime_type)
    if content.mime_type.startswith("text/"):
        with contextlib.suppress(UnicodeDecodeError):
            text = TextResourceContents(uri=uri, mime_type=content.mime_type, text=content.data.decode())
            return EmbeddedResource(resource=text)
    blob = BlobResourceContents(uri=uri, mime_type=content.mime_type, blob=_encoded(content.data))
    return EmbeddedResource(resource=blob)


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
