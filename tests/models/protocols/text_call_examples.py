"""What the tests of calls in text share: known tools, texts taken apart in every way, and what they are made of."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ripieno.jsonvalues import parse
from ripieno.models.protocols.text_calls.grammar import Piece, Reasoning, Text, TextCall, Tools
from ripieno.models.protocols.text_calls.openings import FORMS
from ripieno.models.protocols.text_calls.scanner import Parser

TOOLS: Tools = {
    "read": {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "lines": {"type": "integer"},
            "whole": {"type": "boolean"},
            "kinds": {"type": "array"},
            "note": {"type": ["string", "null"]},
        },
    },
    "list_all": {"type": "object", "properties": {}},
}
#: Every example of every form, with the form's name.
EXAMPLES = [(form.name, example) for form in FORMS for example in form.examples]
#: What texts of calls consist of, and what stands around them.
_TOKENS = re.compile(r'<[^<>]*>|\[[A-Z_]+\]|"[^"]*"|[{}\[\]()]|\s+|[^<>{}\[\]()\s"]+')
BITS: Sequence[str] = sorted(
    {bit for _, example in EXAMPLES for bit in _TOKENS.findall(example)}
    | {example for _, example in EXAMPLES}
    | {"```", "`", "~~~", "```json\n", "> ", "- ", "\n", "\n\n", "\r\n", "    ", "\\", "'", '"', "é", "word ", "\ud83d"}
    | {";", "; ", '<|python_tag|>{"name": "read"}; {"name": "list_all"}', '; {"name": "read"}'}
    | {"<tool_result id=1>", "</tool_result>", "<invoke ", "<a:", "<function_calls>", "</function_calls>"}
    | {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<|end|>", "<|channel|>analysis<|message|>"}  # noqa: RUF001
)


def source_of(piece: Piece) -> str:
    """The source text of a piece. The sources of all pieces, joined, are the parsed text."""
    return piece.text if isinstance(piece, Text | Reasoning) else piece.raw


def taken_apart(
    chunks: str | Iterable[str], tools: Tools = TOOLS, *, echoed: Callable[[str], bool] | None = None
) -> list[Piece]:
    """The pieces of a text, adjacent ones of one kind as one. Nothing may be lost on the way."""
    parser = Parser(tools, echoed=echoed)
    given = [chunks] if isinstance(chunks, str) else list(chunks)
    pieces = [piece for chunk in given for piece in parser.feed(chunk)]
    pieces += parser.finish()
    assert "".join(map(source_of, pieces)) == "".join(given)
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if isinstance(piece, Text) and isinstance(last, Text):
            joined[-1] = Text(last.text + piece.text)
        elif isinstance(piece, Reasoning) and isinstance(last, Reasoning):
            joined[-1] = Reasoning(last.text + piece.text)
        else:
            joined.append(piece)
    return joined


def calls_in(
    chunks: str | Iterable[str], tools: Tools = TOOLS, *, echoed: Callable[[str], bool] | None = None
) -> list[tuple[str, Any]]:
    """The calls of a text: names, and arguments as they can be read."""
    pieces = taken_apart(chunks, tools, echoed=echoed)
    return [(call.name, parse(call.arguments)) for call in pieces if isinstance(call, TextCall)]


def texts_in(chunks: str | Iterable[str], tools: Tools = TOOLS) -> str:
    """What is left of a text beside its calls."""
    return "".join(piece.text for piece in taken_apart(chunks, tools) if isinstance(piece, Text))


def everywhere(text: str) -> Iterable[list[str]]:
    """The text cut in two at every place, and into single characters."""
    yield list(text)
    for at in range(len(text) + 1):
        yield [text[:at], text[at:]]
