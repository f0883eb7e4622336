"""Messages to and from servers of the Model Context Protocol as lines of a cassette. They are for people to read."""

import contextlib
import itertools
import json
import time
from collections.abc import Mapping
from typing import Any

from ripieno.cassettes.recorders import Desk
from ripieno.exceptions import InputError
from ripieno.jsonvalues import is_list, is_table

#: Bytes of the largest message that is kept whole, as it stands in the file.
LIMIT = 256 * 1024
#: Of a larger one: characters of the longest texts, and items of the longest tables and lists, that are kept.
_TEXT = 200
_ITEMS = 20


class Traffic:
    """Writes them down as they pass."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._began = time.monotonic()

    def record(self, ensemble: str, told: Mapping[str, Any]) -> None:
        """A message of the direction that is told, as a ``Tap``.

        A file that takes no more is no failure of the server: whoever records the next line of a run hears of it.
        """
        line: dict[str, Any] = {
            "kind": "mcp",
            "ms": round((time.monotonic() - self._began) * 1000, 3),
            "ensemble": ensemble,
            "direction": told["direction"],
            **_bounded(told["message"]),
        }
        with contextlib.suppress(InputError):
            self._desk.put(line)


def _bounded(message: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a line for a message. ``abridged`` are the bytes of one that is too large."""
    size = _size(message)
    if size <= LIMIT:
        return {"message": message}
    shown = _abridge(message)
    if _size(shown) > LIMIT:
        shown = {name: _abridge(message[name]) for name in ("jsonrpc", "id", "method") if name in message}
    return {"abridged": size, "message": shown}


def _abridge(value: Any) -> Any:
    """The same with marks for what is long: a text is left out whole, since half of a secret is not known for one."""
    if isinstance(value, str):
        return value if len(value) <= _TEXT else f"[{len(value)} characters]"
    if is_table(value):
        kept = {_abridge(name): _abridge(item) for name, item in itertools.islice(value.items(), _ITEMS)}
        return kept if len(value) <= _ITEMS else {**kept, "…": f"[{len(value) - _ITEMS} more]"}
    if is_list(value):
        items = [_abridge(item) for item in value[:_ITEMS]]
        return items if len(value) <= _ITEMS else [*items, f"[{len(value) - _ITEMS} more]"]
    return value


def _size(message: Mapping[str, Any]) -> int:
    return len(json.dumps(message, separators=(",", ":")))
