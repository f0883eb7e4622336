"""A ring of numbered events: the newest are kept, and any number of readers follow it, each at its own speed."""

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator, Sequence

from ripieno.canisters.events import ArgumentsDelta, ExecutionProgress, ReasoningDelta, TextDelta, merged
from ripieno.servers.chat.events import ChatEvent, sent_form
from ripieno.values import Value

#: Events, and bytes of their JSON, that are kept.
MOST_EVENTS, MOST_BYTES = 5_000, 4 * 1024 * 1024
#: Seconds after deltas for which the next ones are joined; and the most, on an event loop that is late.
JOINED, JOINED_LATE = 0.008, 0.03
_JOINABLE = (TextDelta, ReasoningDelta, ArgumentsDelta, ExecutionProgress)


class Entry(Value):
    """An event. A reader that has it is at its ``position``. ``data`` is its JSON, which all readers share."""

    position: str
    event: ChatEvent
    data: bytes


class EventsLost(Exception):
    """The ring no longer has the events after a number, or never had them: the reader needs a snapshot."""


class EventRing:
    """Numbered events of one conversation. ``epoch`` names this ring: another process has another one.

    The position of a reader is ``EPOCH-NUMBER``, the identifier of the last event that it has.
    """

    def __init__(self) -> None:
        self.epoch = secrets.token_hex(4)
        self._entries: list[Entry] = []
        #: The number of the last event, and the bytes of the kept ones.
        self._last = 0
        self._size = 0
        self._pending: ChatEvent | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._changes: set[asyncio.Event] = set()

    @property
    def readers(self) -> int:
        """The number of readers that follow it."""
        return len(self._changes)

    @property
    def position(self) -> str:
        """The position after the last event."""
        self.flush()
        return f"{self.epoch}-{self._last}"

    def publish(self, event: ChatEvent) -> None:
        """Adds an event. The first delta after a pause goes at once; those within the next milliseconds are joined."""
        if self._pending is not None:
            joined = merged(self._pending, event)
            if joined is not None:
                self._pending = joined
                return
            self.flush()
        if not isinstance(event, _JOINABLE):
            self._append(event)
        elif self._timer is not None:
            self._pending = event
        else:
            self._append(event)
            self._join(JOINED)

    def restart(self) -> None:
        """Begins anew, where what happened is in no event: all readers need a snapshot first."""
        self.flush()
        self.epoch = secrets.token_hex(4)
        self._entries.clear()
        self._last = self._size = 0
        for changed in self._changes:
            changed.set()

    def flush(self) -> None:
        """Adds the deltas that wait for others."""
        pending, self._pending = self._pending, None
        if pending is not None:
            self._append(pending)

    def _join(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._joined)

    def _joined(self) -> None:
        timer, self._timer = self._timer, None
        assert timer is not None
        if self._pending is not None:
            self.flush()
            # A loop that is late has much to do: fewer events cost less.
            late = asyncio.get_running_loop().time() - timer.when()
            self._join(min(JOINED + 2 * late, JOINED_LATE))

    def after(self, position: str) -> Sequence[Entry]:
        """The events after a position. Errors: ``EventsLost``."""
        epoch, _, number = position.partition("-")
        if epoch != self.epoch or not (number.isascii() and number.isdigit()):
            raise EventsLost
        first = self._last - len(self._entries)
        if not first <= int(number) <= self._last:
            raise EventsLost
        return self._entries[int(number) - first :]

    async def read(self, position: str, *, quiet: float | None = None) -> AsyncGenerator[Sequence[Entry], None]:
        """The events after a position as they come, without end; none after each ``quiet`` seconds of silence.

        Errors: ``EventsLost``, also for a reader that was too slow.
        """
        changed = asyncio.Event()
        self._changes.add(changed)
        try:
            place = position
            while True:
                changed.clear()
                entries = self.after(place)
                if entries:
                    yield entries
                    place = entries[-1].position
                else:
                    try:
                        async with asyncio.timeout(quiet):
                            await changed.wait()
                    except TimeoutError:
                        yield ()
        finally:
            self._changes.discard(changed)

    def _append(self, event: ChatEvent) -> None:
        form = sent_form(event)
        if form is None:
            return
        # ASCII: halves of surrogate pairs, as models write them, have no UTF-8.
        data = json.dumps(form, separators=(",", ":")).encode()
        self._last += 1
        self._size += len(data)
        self._entries.append(Entry(f"{self.epoch}-{self._last}", event, data))
        if len(self._entries) > MOST_EVENTS or self._size > MOST_BYTES:
            self._shorten()
        for changed in self._changes:
            changed.set()

    def _shorten(self) -> None:
        """Drops the oldest events: a tenth more than needed, so that this happens rarely."""
        count = 0
        while count < len(self._entries) - 1 and (
            len(self._entries) - count > MOST_EVENTS * 9 // 10 or self._size > MOST_BYTES * 9 // 10
        ):
            self._size -= len(self._entries[count].data)
            count += 1
        del self._entries[:count]
