"""What a call would change, where its tool can tell: a unified diff, made before anybody is asked."""

import difflib
import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ripieno.jsonvalues import thaw

#: Foresees what a call with these arguments would change, as text (a unified diff, by custom), and changes nothing.
#: None where it cannot tell.
Preview: TypeAlias = Callable[[Mapping[str, Any]], str | None]

#: Lines, before and after together, of which a diff is made. It takes time in proportion to their product.
_MOST_LINES = 4_000
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def foresee(preview: Preview | None, arguments: Mapping[str, Any]) -> str | None:
    """What a preview says of a copy of the arguments. One that fails says so, and keeps nobody from being asked."""
    if preview is None:
        return None
    try:
        return preview(thaw(arguments))
    except Exception as error:
        return f"What would change is not known: the preview failed with {type(error).__name__}."


def show_change(path: str, before: str | None, after: str | None) -> str:
    """The unified diff of a text that becomes another one; None is a file that is not there. Empty for no change.

    Texts of too many lines are told by their sizes and hashes.
    """
    if before == after:
        return ""
    old, new = _lines(before), _lines(after)
    names = ("/dev/null" if before is None else path, "/dev/null" if after is None else path)
    if len(old) + len(new) > _MOST_LINES:
        return f"--- {names[0]}\n+++ {names[1]}\n{_told('-', before)}\n{_told('+', after)}\n"
    lines = list(difflib.unified_diff(old, new, *names))
    if not lines:  # A file without content comes or goes.
        lines = [f"--- {names[0]}\n", f"+++ {names[1]}\n"]
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _lines(text: str | None) -> list[str]:
    """Lines that end at line feeds alone, as programs count them."""
    return _LINE.findall(text or "")


def _told(sign: str, text: str | None) -> str:
    data = (text or "").encode("utf-8", "surrogatepass")
    return f"{sign} {len(data)} bytes, SHA-256 {hashlib.sha256(data).hexdigest()}"
