"""The calls of a streamed answer, told apart however a server numbers and names them.

A slot is one call. A fragment belongs to the slot of its index, or of its identifier, or to the last one; and it
opens a new slot when it contradicts the one it would belong to.
"""

from collections.abc import Mapping
from typing import Any

from ripieno.descriptors.tables import is_table
from ripieno.exceptions import JsonInvalidity
from ripieno.jsonvalues import parse
from ripieno.protocols.openai_chat.invocations import extras_in, function_in


class Slot:
    """One call, as far as it has come."""

    __slots__ = ("extras", "freeform", "identifier", "index", "name", "sealed", "sent", "settled", "shown")

    def __init__(self, index: int) -> None:
        #: The place of the call in the answer, from 0.
        self.index = index
        self.identifier: str | None = None
        self.name: str | None = None
        self.freeform = False
        #: Fragments of text; or the whole, where a server sends an object.
        self.sent: list[str] | Mapping[str, Any] = []
        self.extras: dict[str, Any] = {}
        #: The identifier that the call has for us, from its beginning on.
        self.settled: str | None = None
        #: How many of the fragments were shown as deltas.
        self.shown = 0
        self.sealed = False

    @property
    def arguments(self) -> object:
        """What was sent of the arguments: text, an object, or None for nothing."""
        return ("".join(self.sent) or None) if isinstance(self.sent, list) else self.sent

    @property
    def provisional(self) -> bool:
        """Whether ``{}`` is all so far: some servers send it first, and what they mean after it (measured)."""
        return isinstance(self.sent, list) and len(self.sent) == 1 and self.sent[0].strip() == "{}"

    def whole(self) -> bool:
        """Whether something was sent of the arguments, and it is a whole JSON object."""
        if not isinstance(self.sent, list):
            return True
        if self.freeform or not self.sent or not self.sent[-1].rstrip().endswith("}"):
            return False
        try:
            return is_table(parse("".join(self.sent)))
        except JsonInvalidity:
            return False

    def take(self, text: str) -> bool:
        """More of arguments that are all shown so far, as text and for good; whether it was so."""
        sent = self.sent
        if not isinstance(sent, list) or self.shown != len(sent) or self.provisional:
            return False
        if not sent and text.strip() == "{}":
            return False  # It may be what some servers send first.
        sent.append(text)
        self.shown += 1
        return True

    def add(self, sent: object) -> None:
        """More of the arguments."""
        if isinstance(sent, str):
            if not sent:
                return
            if not isinstance(self.sent, list) or (self.provisional and sent.lstrip().startswith("{")):
                self.sent = []
                self.shown = 0
            self.sent.append(sent)
        elif is_table(sent):
            self.sent = sent


class Slots:
    """All calls of one answer, in the model's order."""

    __slots__ = ("_by_index", "_last", "all")

    def __init__(self) -> None:
        self.all: list[Slot] = []
        self._by_index: dict[object, Slot] = {}
        self._last: Slot | None = None

    def goes_on(self, index: object) -> Slot | None:
        """The slot that a fragment with this index and nothing but arguments belongs to: the one that is filled now."""
        slot = self._by_index.get(index)
        return slot if slot is self._last else None

    def feed(self, fragment: Mapping[str, Any]) -> tuple[Slot, bool] | None:
        """The slot that a fragment belongs to, with the fragment in it, and whether the slot is new.

        A slot that is sealed takes nothing more: None when nothing more was sent for it.
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
            slot = Slot(len(self.all))
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
        slot.freeform = slot.freeform or freeform
        if extras := extras_in(fragment, function):
            slot.extras.update(extras)
        slot.add(sent)
        return slot, new

    def _find(self, index: object, identifier: str | None) -> Slot | None:
        if index is not None:
            return self._by_index.get(index)
        if identifier is not None:
            return next((slot for slot in reversed(self.all) if slot.identifier == identifier), None)
        return self._last


def _contradicts(slot: Slot, identifier: str | None, name: str | None, sent: object) -> bool:
    """Whether a fragment that points to this slot begins another call."""
    if identifier is not None and slot.identifier is not None and identifier != slot.identifier:
        return True
    if name is None or slot.name is None:
        return False
    if name != slot.name:
        return True
    # The name comes again. After whole arguments, more of them are those of the next call; but a server that repeats
    # the identifier, too, may have sent an empty object first.
    return bool(sent) and slot.whole() and not (identifier is not None and slot.provisional)
