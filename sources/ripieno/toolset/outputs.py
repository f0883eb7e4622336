"""The bundled invocable that reads outputs too long for a result, page by page or by a pattern."""

from typing import Any

from ripieno.ensembles import Context
from ripieno.exceptions import ResourceFault
from ripieno.storage.outputs import Outputs
from ripieno.toolset.arguments import several
from ripieno.toolset.search.expressions import Expression, check

#: Bytes searched at once. A longer line is searched in such parts.
_BLOCK = 64 * 1024
#: Bytes shown of a line, and of these before the match.
_LINE, _BEFORE = 400, 100


def read_output(context: Context, arguments: dict[str, Any]) -> str:
    """A page of a kept output, or its lines that match a pattern with their offsets, and where it continues.

    Errors: ``ResourceFault`` where this conversation has no such output; ``ValidationFault`` for an invalid pattern.
    """
    outputs = None if context.surroundings is None else context.surroundings.outputs
    if outputs is None:
        raise ResourceFault("No outputs are kept here.", code="no_output")
    handle, offset, limit = arguments["handle"], arguments["offset"], arguments["limit"]
    pattern = arguments.get("pattern")
    if pattern is not None:
        check(pattern, literal=False)
        return _search(outputs.load(handle, context.conversation), pattern, offset, limit)
    return _page(outputs, handle, context.conversation, offset, limit)


def _page(outputs: Outputs, handle: str, conversation: str, offset: int, limit: int) -> str:
    page = outputs.read(handle, conversation, offset, limit)
    more = f"read on with offset={page.next}" if page.next < page.total else "this is its end"
    line_end = "" if page.text.endswith("\n") else "\n"
    return f"{page.text}{line_end}[bytes {page.offset} to {page.next} of {page.total}; {more}]"


def _search(data: bytes, pattern: str, offset: int, limit: int) -> str:
    expression = Expression(pattern, literal=pattern.isalnum(), case_sensitive=True)
    shown: list[str] = []
    left, start = limit, min(offset, len(data))
    while start < len(data):
        end = _end(data, start)
        for begin, stop, where in expression.spots(data[start:end]):
            line = _excerpt(data, start + begin, start + stop, where)
            left -= len(line.encode())
            if shown and left < 0:
                on = f"search on with offset={start + begin}"
                return "\n".join((*shown, f"[{several(len(shown), 'line')} of more; {on}]"))
            shown.append(line)
        start = end
    return "\n".join((*shown, f"[{several(len(shown), 'line')} from byte {offset} of {len(data)} on; these are all]"))


def _end(data: bytes, start: int) -> int:
    """The end of the complete lines from ``start`` that are searched at once, or of a part of a longer line."""
    end = start + _BLOCK
    if end >= len(data):
        return len(data)
    line_end = data.rfind(b"\n", start, end) + 1
    while not line_end and 0x80 <= data[end] < 0xC0:
        end -= 1
    return line_end or end


def _excerpt(data: bytes, begin: int, stop: int, where: int) -> str:
    """A line with its offset, or the matching part of a long one."""
    first = begin + max(0, where - _BEFORE) if stop - begin > _LINE else begin
    text = data[first : min(stop, first + _LINE)].decode(errors="replace")
    return f"{first}: {'…' if first > begin else ''}{text}{'…' if first + _LINE < stop else ''}"
