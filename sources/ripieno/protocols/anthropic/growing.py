"""A block of the Messages wire while it is streamed."""

from collections.abc import Mapping
from typing import Any

from ripieno.canisters import InvocationCanister
from ripieno.protocols.anthropic.blocks import NAME
from ripieno.protocols.anthropic.invocations import extras_in
from ripieno.protocols.reading import read_arguments, read_invocation


class Block:
    """A block, as far as it has come."""

    __slots__ = ("call", "fragments", "grown", "identifier", "invocation", "kind", "start", "stopped")

    def __init__(self, start: Mapping[str, Any]) -> None:
        self.start = dict(start)
        self.kind = start.get("type")
        #: Pieces of its text, or of its arguments.
        self.fragments: list[str] = []
        #: Pieces of other members, by their names.
        self.grown: dict[str, list[str]] = {}
        self.stopped = False
        # Of a call: its place among the calls, from 0, its identifier, and what it is once it has stopped.
        self.call = -1
        self.identifier = ""
        self.invocation: InvocationCanister | None = None

    def read(self) -> InvocationCanister:
        """The call, as far as it has come."""
        return read_invocation(
            identifier=self.identifier,
            name=str(self.start.get("name") or ""),
            sent="".join(self.fragments) or self.start.get("input"),
            protocol=NAME,
            extras=extras_in(self.start),
            keep_text=False,
        )

    def whole(self) -> Mapping[str, Any]:
        """The block as it would stand in a whole answer."""
        for name, pieces in self.grown.items():
            self.start[name] = (self.start.get(name) or "") + "".join(pieces)
        if self.fragments:
            self.start["input"], _ = read_arguments("".join(self.fragments))
        return self.start

    def doubtful(self) -> bool:
        """Whether a call that has stopped may have been cut off: only the reason at the end tells."""
        invocation = self.invocation
        return invocation is not None and (invocation.fault is not None or not invocation.arguments)
