"""An item of the Responses wire while it is streamed."""

from collections.abc import Mapping
from typing import Any

from ripieno.canisters import InvocationCanister
from ripieno.protocols.openai_responses.items import CALLS, MESSAGE, UNFINISHED, extras_in, said_in, sent_in
from ripieno.protocols.openai_responses.parts import NAME
from ripieno.protocols.reading import read_invocation


class Item:
    """An item, as far as it has come."""

    __slots__ = (
        "begun",
        "call",
        "done",
        "ended",
        "fragments",
        "identifier",
        "index",
        "invocation",
        "kind",
        "marked",
        "native",
        "parts",
        "reasoned",
        "settled",
        "started",
        "whole",
    )

    def __init__(self, kind: str, index: object, identifier: object) -> None:
        self.kind = kind
        #: The place and the identifier that the server gives it, if any.
        self.index = index
        self.identifier = identifier or None
        #: As it began, as it is, and as it ended: events may come before its beginning.
        self.started: Mapping[str, Any] | None = None
        self.native: dict[str, Any] = {}
        self.ended: Mapping[str, Any] | None = None
        self.done = False
        # Of a message: its fragments by the place of their part, whether what returns beside it was told, and
        # whether reasoning stood before it.
        self.parts: dict[object, list[str]] = {}
        self.marked = False
        self.reasoned = False
        # Of a call: its place among the calls, from 0, its identifier, fragments of its arguments, what was sent of
        # them as a whole, and what it is once it is done.
        self.call = -1
        self.settled = ""
        self.begun = False
        self.fragments: list[str] = []
        self.whole: object = None
        self.invocation: InvocationCanister | None = None

    @property
    def is_call(self) -> bool:
        """Whether it is a call for us."""
        return self.kind in CALLS

    def is_like(self, kind: object, index: object, identifier: object) -> bool:
        """Whether nothing says that it is another one."""
        return (
            self.kind == kind
            and (index is None or self.index is None or self.index == index)
            and (not identifier or self.identifier is None or self.identifier == identifier)
        )

    def take(self, native: Mapping[str, Any]) -> None:
        """The item as its server says it is by now: what it does not say again stays."""
        self.native = {**self.native, **{key: value for key, value in native.items() if value is not None}}
        # An identifier that changes on the way is the one that was heard first.
        self.identifier = self.identifier or native.get("id") or None
        if self.identifier is not None:
            self.native["id"] = self.identifier
        if self.is_call:
            sent = sent_in(native)
            if sent or self.whole is None:
                self.whole = sent

    def finish(self, native: Mapping[str, Any]) -> None:
        """The whole item."""
        if not self.is_call and self.kind != MESSAGE:
            self.native = dict(native)
        else:
            self.take(native)
        self.done, self.ended = True, native
        if self.is_call:
            self.invocation = self.read()

    @property
    def name(self) -> str:
        """The name of a call; empty when it is not known yet."""
        return str(self.native.get("name") or "")

    def read(self) -> InvocationCanister:
        """The call, as far as it has come."""
        return read_invocation(
            identifier=self.settled,
            name=self.name,
            sent=self.whole or "".join(self.fragments) or None,
            kind=CALLS[self.kind],
            protocol=NAME,
            extras=extras_in(self.native),
        )

    def said(self) -> str:
        """The text of a message, as far as it was streamed."""
        return "".join("".join(part) for part in self.parts.values())

    def text(self) -> str:
        """The text of a message: what stands in the item, where something does."""
        return said_in(self.native) or self.said()

    @property
    def unfinished(self) -> str | None:
        """The word for an item that came as a whole, and says itself that it was cut off."""
        status = self._status
        return status if status in UNFINISHED else None

    @property
    def _status(self) -> str | None:
        """What the whole item says; how it began counts no more."""
        return None if self.ended is None else self.ended.get("status")

    def doubtful(self) -> bool:
        """Whether it may have been cut off, though it came as a whole: only the end tells."""
        if self.unfinished is not None:
            return True
        invocation = self.invocation
        if invocation is None:
            return False
        return invocation.fault is not None or (not invocation.arguments and self._status != "completed")
