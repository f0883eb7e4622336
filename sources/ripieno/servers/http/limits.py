"""Limits of requests, beside their size: messages, parts and tools, and the memory of all requests together."""

import re
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

from ripieno.descriptors import GatewayDescriptor
from ripieno.jsonvalues import is_list, is_table
from ripieno.models.protocol import Refusal
from ripieno.values import Value

#: Where the wires have their messages, and where a message has its parts.
_MESSAGES = ("messages", "input", "contents")
_SYSTEM = ("system", "instructions")
_PARTS = ("content", "parts", "output", "tool_calls", "summary")
#: Where a group of tools has its functions.
_FUNCTIONS = ("functionDeclarations", "function_declarations")
#: Memory that a request needs for each byte of its body: as received, parsed, translated, and encoded (measured).
_COPIES = 12
_RETRY = 1.0
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


class Refused(Exception):
    """The request is answered with an error."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class RequestLimits(Value, kw_only=True):
    """The most messages, parts of all messages, tools, and objects and lists of a request.

    ``table`` has the settings, for errors.
    """

    messages: int
    parts: int
    tools: int
    containers: int
    table: str = "[gateway]"

    @classmethod
    def of(cls, settings: GatewayDescriptor) -> "RequestLimits":
        """Those of a gateway."""
        return cls(
            messages=settings.messages, parts=settings.parts, tools=settings.tools, containers=settings.containers
        )

    def check_body(self, body: bytes) -> None:
        """Errors: ``Refused`` for JSON with more objects and lists, which would need much memory and time to read."""
        if body.count(b"{") + body.count(b"[") > self.containers:
            # Most of them may be in strings. Each step is short, so that other threads go on.
            count = position = 0
            for match in _STRING.finditer(body):
                count += _opened(body, position, match.start())
                position = match.end()
                if count > self.containers:
                    break
            self._allow("containers", count + _opened(body, position, len(body)), "objects and lists")

    def check(self, native: Mapping[str, Any]) -> None:
        """Errors: ``Refused`` for a request with more of them."""
        for name, count in _counts(native):
            self._allow(name, count, name)

    def _allow(self, name: str, count: int, words: str) -> None:
        most = getattr(self, name)
        if count > most:
            message = f"The request has {count} {words} or more; at most {most} are read ({name} under {self.table})."
            raise Refused(Refusal(status=413, message=message, code=f"too_many_{name}", parameter=name))


def _opened(body: bytes, begin: int, end: int) -> int:
    return body.count(b"{", begin, end) + body.count(b"[", begin, end)


def _counts(native: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    messages = parts = 0
    for name in _MESSAGES:
        if not is_list(given := native.get(name)):
            continue
        messages += len(given)
        for one in given:
            if is_table(one):
                parts += sum([len(one[part]) for part in _PARTS if part in one and is_list(one[part])])
    yield "messages", messages
    yield "parts", parts + sum([len(native[name]) for name in _SYSTEM if name in native and is_list(native[name])])
    tools = native.get("tools")
    tools = tools if is_list(tools) else ()
    groups = [one[name] for one in tools if is_table(one) for name in _FUNCTIONS if name in one]
    functions = [len(group) for group in groups if is_list(group)]
    yield "tools", len(tools) - len(functions) + sum(functions)


class MemoryBudget:
    """The memory of all requests of a worker together, estimated by the sizes of their bodies."""

    def __init__(self, most: int) -> None:
        self._left = most

    def reserve(self) -> "Reservation":
        """The share of one request; it must be released, or entered."""
        return Reservation(self)

    def take(self, count: int) -> None:
        """Errors: ``Refused`` if the other requests leave too little."""
        if count > self._left:
            message = "The server has too little memory for this request beside the others. Try again later."
            raise Refused(Refusal(status=503, message=message, code="overloaded", seconds=_RETRY))
        self._left -= count

    def give(self, count: int) -> None:
        """Returns what a request took."""
        self._left += count


class Reservation:
    """A request's part of a budget: grows with its body, and ends with ``release``."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        #: The bytes of the body, and of what is read for it.
        self.size = 0

    def __enter__(self) -> "Reservation":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def add(self, size: int) -> None:
        """Takes the memory for further bytes of the body. Errors: ``Refused``."""
        self._budget.take(size * _COPIES)
        self.size += size

    def hand_over(self) -> "Reservation":
        """All of it as another reservation, for what lasts longer than the request."""
        found = Reservation(self._budget)
        found.size, self.size = self.size, 0
        return found

    def release(self) -> None:
        """Returns all of it."""
        self._budget.give(self.size * _COPIES)
        self.size = 0
