"""Writes the events of a run, joined for some milliseconds, for programs that watch it."""

import asyncio
import dataclasses

from ripieno.canisters.events import ArgumentsDelta, ReasoningDelta, TextDelta, merged
from ripieno.ensembles.threads import run_in_thread
from ripieno.exceptions import InputError, Superseded
from ripieno.storage.databases.contract import RowConflict
from ripieno.storage.dispatch.contract import Submission
from ripieno.storage.dispatch.events import EventLog, Logged
from ripieno.storage.redaction import Redactor

#: Seconds for which events are joined into one commit.
JOINED = 0.03
#: Events that are kept while the database refuses them. Those after them are lost to who watches.
_KEPT = 10_000
#: Events of one commit: a statement of SQLite has at most 32,766 parameters.
_BATCH = 1_000


class EventWriter:
    """The events of one stretch, after a number. At the end of ``async with``, all of them are written or have failed.

    A database that refuses events does not end the run: they are tried again, and the journal has what was done.
    """

    def __init__(self, log: EventLog, submission: Submission, redactor: Redactor, *, after: int) -> None:
        self._log = log
        self._submission = submission
        self._redactor = redactor
        #: The number of the last event.
        self.last = after
        self._pending: list[Logged] = []
        #: Those of a commit that has begun, and perhaps failed.
        self._sent: list[Logged] = []
        self._changed = asyncio.Event()
        self._ended = False
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "EventWriter":
        self._task = asyncio.create_task(self._write(), name="ripieno events")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ended = True
        self._changed.set()
        assert self._task is not None
        await asyncio.shield(self._task)

    def take(self, event: Logged) -> None:
        """Adds an event. Deltas that follow each other become one."""
        joined = merged(self._pending[-1], event) if self._pending else None
        if joined is not None:
            self._pending[-1] = joined
        elif len(self._pending) < _KEPT:
            self._pending.append(event)
        self._changed.set()

    async def _write(self) -> None:
        while True:
            await self._changed.wait()
            ended = self._ended
            if not ended:
                await asyncio.sleep(JOINED)
            self._changed.clear()
            failed = False
            try:
                await self._append()
            except Superseded:
                # The run ends by itself, with its next record.
                return
            except RowConflict:
                # The last event of the run before this one came between.
                self._changed.set()
                continue
            except InputError:
                # They are tried again with the next ones, and at the end once.
                failed = True
            if ended and (failed or not self._pending):
                return
            # One event alone may be the end of a text that is kept back.
            if self._ended or (len(self._pending) > 1 and not failed):
                self._changed.set()

    async def _append(self) -> None:
        log, submission = self._log, self._submission
        if self._sent:
            # A server that went away may have written them.
            if await run_in_thread(log.after, submission, self.last, name="events"):
                self._sent = []
            self.last = await run_in_thread(log.last, submission.owner, submission.conversation, name="events")
        self._sent = self._sent or self._settled()
        if self._sent:
            self.last = await run_in_thread(log.append, submission, self.last, self._sent, name="events")
            self._sent = []

    def _settled(self) -> list[Logged]:
        """Takes pending events, but for the end of a text that may be the beginning of a secret."""
        events, self._pending = self._pending[:_BATCH], self._pending[_BATCH:]
        last = events[-1] if events and not self._pending else None
        if isinstance(last, TextDelta | ReasoningDelta | ArgumentsDelta) and self._redactor and not self._ended:
            settled = self._redactor.unsettled(last.text, 0)
            if settled < len(last.text):
                self._pending.append(dataclasses.replace(last, text=last.text[settled:]))
                events[-1] = dataclasses.replace(last, text=last.text[:settled])
                if not settled:
                    del events[-1]
        return events
