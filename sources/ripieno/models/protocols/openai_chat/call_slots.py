"""Separates the calls of a streamed answer, however a server numbers and names them.

A slot is one call. A fragment belongs to the slot of its index, or of its identifier, or to the last one. A fragment
that contradicts its slot opens a new one.
"""

from collections.abc import Mapping
from typing import Any

from ripieno.canisters import InvocationCanister
from ripieno.canisters.canisters import InvocationKind
from ripieno.jsonvalues import is_table
from ripieno.models.protocols.common.calls import read_arguments, read_invocation
from ripieno.models.protocols.openai_chat.invocations import NAME, extras_in, function_in


class Slot:
    def __init__(self, index: int, number: object) -> None:
        #: The call's index in the answer, from 0, and the server's index, if any.
        self.index = index
        self.number = number
        self.identifier: str | None = None
        self.name: str | None = None
        self.kind: InvocationKind = "function"
        #: Fragments of the arguments, or all of them as an object.
        self.texts: list[str] = []
        self.table: Mapping[str, Any] | None = None
        #: Fragments without deltas so far.
        self.unshown: list[str] = []
        self.extras: dict[str, Any] = {}
        #: The identifier that is unique here, once the call has begun.
        self.unique: str | None = None
        self.sealed = False

    @property
    def arguments(self) -> object:
        return ("".join(self.texts) or None) if self.table is None else self.table

    @property
    def provisional(self) -> bool:
        """Whether the arguments are only ``{}`` so far: some servers send it before the real ones (measured)."""
        return self.table is None and len(self.texts) == 1 and self.texts[0].strip() == "{}"

    @property
    def closed(self) -> bool:
        """Whether there are arguments, and they end like an object."""
        if self.table is not None:
            return True
        return self.kind == "function" and bool(self.texts) and self.texts[-1].rstrip().endswith("}")

    def complete(self) -> bool:
        """Whether the arguments are a complete JSON object."""
        return self.closed and read_arguments(self.arguments)[1] is None

    def read(self) -> InvocationCanister:
        """The call from what has arrived."""
        return read_invocation(
            identifier=self.unique or "",
            name=self.name or "",
            sent=self.arguments,
            kind=self.kind,
            protocol=NAME,
            extras=self.extras,
        )

    def add(self, sent: object) -> None:
        if isinstance(sent, str):
            if not sent:
                return
            if self.table is not None or (self.provisional and sent.lstrip().startswith("{")):
                self._forget()
            self.texts.append(sent)
            self.unshown.append(sent)
        elif is_table(sent):
            self._forget()
            self.table = sent

    def _forget(self) -> None:
        self.table = None
        self.texts.clear()
        self.unshown.clear()


class Slots:
    """The calls of one answer, in the model's order."""

    __slots__ = ("_by_index", "_last", "all")

    def __init__(self) -> None:
        self.all: list[Slot] = []
        self._by_index: dict[object, Slot] = {}
        self._last: Slot | None = None

    def feed(self, fragment: Mapping[str, Any]) -> tuple[Slot, bool] | None:
        """Adds a fragment to its slot, and returns the slot and whether it is new.

        A sealed slot is not extended: the result is None if the fragment has no arguments for it.
        """
        index, identifier = fragment.get("index"), fragment.get("id") or None
        function, freeform = function_in(fragment)
        name = function.get("name") or None
        sent = function.get("input" if freeform else "arguments")
        slot = self._find(index, identifier)
        new = slot is None or (
            (name is not None or identifier is not None) and _contradicts(slot, identifier, name, sent)
        )
        if slot is None or new:
            slot = Slot(len(self.all), index)
            self.all.append(slot)
            if index is not None:
                self._by_index[index] = slot
        self._last = slot
        if slot.sealed:
            more = sent.strip() if isinstance(sent, str) else sent
            return (slot, False) if more else None
        # Set once: some servers repeat both on every fragment.
        slot.identifier = slot.identifier or identifier
        slot.name = slot.name or name
        if freeform:
            slot.kind = "freeform"
        if extras := extras_in(fragment, function):
            slot.extras.update(extras)
        slot.add(sent)
        return slot, new

    def continues(self, slot: Slot) -> bool:
        """Whether a fragment with only the slot's index would belong to it: another slot may have taken the index."""
        return self._by_index.get(slot.number) is slot

    def _find(self, index: object, identifier: str | None) -> Slot | None:
        if index is not None:
            return self._by_index.get(index)
        if identifier is not None:
            return next((slot for slot in reversed(self.all) if slot.identifier == identifier), None)
        return self._last


def _contradicts(slot: Slot, identifier: str | None, name: str | None, sent: object) -> bool:
    """Whether a fragment for this slot begins another call."""
    if identifier is not None and slot.identifier is not None and identifier != slot.identifier:
        return True
    if name is None or slot.name is None:
        return False
    if name != slot.name:
        return True
    # The name comes again. After complete arguments, more of them belong to the next call; but a server that repeats
    # the identifier, too, may have sent an empty object first.
    return bool(sent) and slot.complete() and not (identifier is not None and slot.provisional)
