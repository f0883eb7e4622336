"""Background runs: each belongs to the server, or to a worker, not to a request. Its events are stored as they come.

All who read them, here or in another process, read the same rows. What a worker needs is in the row, too.
"""

import asyncio
import contextlib
import contextvars
import dataclasses
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from starlette.types import Message, Receive, Send

from ripieno.exceptions import RipienoError
from ripieno.models.protocol import Refusal
from ripieno.servers.gateway.events import KEPT, LAST, content, last_events, named, pieces
from ripieno.servers.gateway.stored.library import CANCELLED, Library
from ripieno.servers.gateway.stored.requests import StoredRequest
from ripieno.servers.gateway.stored.use import StoreUnusable
from ripieno.storage.databases.subscribers import woken
from ripieno.storage.dispatch.contract import GATEWAY, Dispatcher, Submission
from ripieno.storage.responses.rows import OPEN_STATUSES, ConversationLocked
from ripieno.storage.responses.store import topic_of

_logger = logging.getLogger(__name__)
#: Seconds for which events are collected before they are written.
_COLLECTED = 0.05
#: Seconds between two renewals of what this process holds, and between two deletions of what has expired.
_BEAT, _SWEPT = 1.0, 60.0
#: Seconds to wait for the end of a cancelled run, before it is reported as it is, or cancelled again.
_ENDING = 5.0
Answer = Callable[[Receive, Send], Awaitable[None]]
Key = tuple[str, str]


class BackgroundRun:
    """One run, as the client of its own answer: it takes the answer's messages, and leaves if it is cancelled."""

    def __init__(self, library: Library, request: StoredRequest, *, streamed: bool, queued: bool = False) -> None:
        self._library = library
        self._queued = queued
        self.request = request
        self._streamed = streamed
        #: The response as it began, whose row exists then.
        self.begun: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._cancelled = asyncio.Event()
        self._items: list[Mapping[str, Any]] = []
        self._last: Mapping[str, Any] | None = None
        #: Whether nothing is left to store.
        self._ended = False
        #: The events that may not be written yet, and the number of the first of them; those of the end.
        self._events: list[bytes] = []
        self._first = int(queued)
        self._last_events: list[bytes] = []
        self._writing: asyncio.Task[None] | None = None
        #: Whether it was reported that events could not be written. The next ones are written with them.
        self._unwritten = False

    @property
    def key(self) -> Key:
        """Its caller and identifier."""
        return self.request.caller, self.request.identifier

    def cancel(self) -> None:
        """Ends the run as if its client had left: each call that was started still gets its result.

        A run that is at its end does the rest.
        """
        if self._last is None:
            self._cancelled.set()

    async def receive(self) -> Message:
        """The departure, when it is cancelled."""
        await self._cancelled.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Takes a part of the answer, which has whole events. An end that is not an error is stored when it returns.

        So a call that has waited for a person is forgotten only after that. Errors: those of ``_store``.
        """
        if self._last is not None:
            # There is one end: that it could not be stored is another error.
            return
        kept = False
        for piece in pieces(message.get("body", b"")):
            kind, data = named(piece)
            if kind in LAST:
                self._last = content(data)["response"]
                kept = kind in KEPT
            # The first event of a queued response is stored.
            if self._streamed and not (self._queued and kind == "response.created"):
                (self._events if self._last is None else self._last_events).append(piece)
            if kind == "response.created":
                await self._begin(content(data)["response"])
            elif kind == "response.output_item.done":
                self._items.append(content(data)["item"])
        if kept:
            await self._store()
        elif self._last is None and self._streamed and self._writing is None:
            self._writing = asyncio.create_task(self._write_soon(), name="ripieno events")

    async def _begin(self, response: Mapping[str, Any]) -> None:
        library, request = self._library, self.request
        row = dataclasses.replace(library.row_of(request, {**response, "output": []}), holder=library.holder)
        try:
            await library.run(library.responses.change if self._queued else library.responses.save, row)
        except Exception as error:
            self.begun.set_exception(error)
            self._cancelled.set()
        else:
            self.begun.set_result(response)

    async def conduct(self, answer: Answer) -> None:
        """Answers, and stores the end. Errors: none; the database's are logged, and nothing renews the lease then."""
        try:
            await answer(self.receive, self.send)
        except Exception as error:
            _logger.error("A background run failed unexpectedly.", exc_info=error)
        finally:
            if not self.begun.done():
                self.begun.set_exception(RipienoError("The background run did not begin."))
            try:
                await self._store()
            except Exception as error:
                _report("The end of a background response cannot be stored.", error)
            finally:
                # If it was not stored, nothing else ends the hold.
                await self._library.release(self.request)

    async def _store(self) -> None:
        """Stores the end. Errors: those of ``run_again``."""
        if self._writing is not None:
            await asyncio.wait((self._writing,))
        if self._ended or self.begun.exception() is not None:
            return
        if self._last is None:
            self._last = self._failed({**self.begun.result(), "output": self._items}, "cancelled", CANCELLED)
        await self._library.run_again(self.request, self._end)

    def _failed(self, response: Mapping[str, Any], status: str, error: Mapping[str, Any]) -> dict[str, Any]:
        """The response if it does not end as it would; its events end so, too."""
        number = self._first + len(self._events)
        self._last_events = last_events(response, "failed", number, error=error)
        return {**response, "status": status}

    def _end(self) -> None:
        """Can be repeated. Errors: ``RipienoError`` if another process has ended the response."""
        assert self._last is not None
        try:
            self._write_end(self._last)
        except ConversationLocked as error:
            failure = {"code": error.code, "message": str(error)}
            self._last = {**self._failed(self._last, "failed", failure), "error": failure}
            self._write_end(self._last)
            raise

    def _write_end(self, response: Mapping[str, Any]) -> None:
        library = self._library
        row = library.row_of(self.request, response)
        with library.responses.database.writing("written") as connection:
            held = library.responses.holds(connection, *self.key, library.holder)
            if held:
                if self._streamed:
                    self._append(connection, self._last_events)
                library.responses.end(row, library.holder, connection)
                library.finish(self.request, row, connection)
        if held:
            library.holding.discard(self.request)
        found = None if held else library.responses.state(*self.key)
        self._ended = True
        if not held and found is None:
            # It was deleted before it had ended: what the journal has got since then goes, too.
            library.delete(row)
        # It may have been stored by a try whose acknowledgement was lost, or deleted.
        if found is not None and found[0] != row.status:
            raise RipienoError("Another process has ended a background response, since its lease had ended.")

    async def _write_soon(self) -> None:
        while self._events and self._last is None:
            await asyncio.sleep(_COLLECTED)
            try:
                await self._library.run(self._write)
            except Exception as error:
                if not self._unwritten:
                    _report("Events of a background response cannot be stored.", error)
                self._unwritten = True
                break
        self._writing = None

    def _write(self) -> None:
        responses = self._library.responses
        with responses.database.writing("written") as connection:
            # Of a response that another process has ended, nobody reads more.
            held = responses.holds(connection, *self.key, self._library.holder)
            count = self._append(connection) if held else len(self._events)
        # Only now: until the commit, all are to be written again. The loop may have added others meanwhile.
        self._first += count
        del self._events[:count]

    def _append(self, connection: Any, more: Sequence[bytes] = ()) -> int:
        """Writes the events, and ``more``; returns how many."""
        events = (*self._events, *more)
        if events:
            self._library.responses.append(connection, *self.key, self._first, events)
        return len(events)


class BackgroundRuns:
    """The background runs of this process, and the renewal of all that it holds. ``close`` ends them.

    With a ``dispatcher``, workers answer instead.
    """

    def __init__(self, library: Library, dispatcher: Dispatcher | None = None) -> None:
        self.library = self._library = library
        self.dispatcher = dispatcher
        self._runs: dict[Key, BackgroundRun] = {}
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._keeping: asyncio.Task[None] | None = None
        self._cleaning: asyncio.Task[None] | None = None
        self._ended = False

    async def start(self, request: StoredRequest, answer: Answer, *, streamed: bool) -> Mapping[str, Any]:
        """Starts the run of a request; returns its response as it begins, when it is stored. Errors: ``InputError``."""
        run = BackgroundRun(self._library, request, streamed=streamed)
        self._begin(run, answer)
        return await asyncio.shield(run.begun)

    async def submit(self, request: StoredRequest, response: Mapping[str, Any], route: str, *, streamed: bool) -> None:
        """Stores a response as queued, and gives it to a worker. Errors: ``InputError``."""
        library, dispatcher = self._library, self.dispatcher
        assert dispatcher is not None
        await library.run(lambda: library.queue(request, response, route=route, streamed=streamed))
        submission = Submission(
            identifier=request.identifier,
            conversation=request.identifier,
            owner=request.caller,
            host=GATEWAY,
            response=True,
        )
        try:
            await library.run(dispatcher.submit, submission)
        except Exception:
            await library.run(library.cancel, request.caller, request.identifier)
            raise

    async def conduct(self, request: StoredRequest, answer: Answer, *, streamed: bool) -> None:
        """Conducts the run of a queued response that this process holds, to its end."""
        run = BackgroundRun(self._library, request, streamed=streamed, queued=True)
        await asyncio.wait((self._begin(run, answer),))
        if (error := run.begun.exception()) is not None:
            raise error

    def _begin(self, run: BackgroundRun, answer: Answer) -> asyncio.Task[None]:
        self._runs[run.key] = run
        task = self._tasks[run.key] = asyncio.create_task(run.conduct(answer), name="ripieno background run")

        def end(_: object) -> None:
            self._tasks.pop(run.key, None)
            self._runs.pop(run.key, None)

        task.add_done_callback(end)
        self.keep()
        return task

    def stop(self, caller: str, identifier: str, *, ending: bool) -> None:
        """Ends a run of this process, because it is cancelled, or because the process is ``ending``."""
        if ending and (caller, identifier) in self._tasks:
            self._tasks[caller, identifier].cancel()
        elif (caller, identifier) in self._runs:
            self._runs[caller, identifier].cancel()

    async def cancel(self, caller: str, identifier: str) -> None:
        """Ends a run of any process, and waits a while for its end."""
        library = self._library
        run = self._runs.get((caller, identifier))
        if run is None:
            await library.run(library.cancel, caller, identifier)
        else:
            run.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ENDING), self._woken(caller, identifier) as changed:
                while await self._runs_on(caller, identifier):
                    await _wait(changed)

    async def _runs_on(self, caller: str, identifier: str) -> bool:
        """Whether a response is in progress. One whose process has ended fails now."""
        library = self._library
        found = await library.run(library.responses.state, caller, identifier, patient=False)
        if found is not None and found[1]:
            await library.load(caller, identifier)
            return False
        return found is not None and found[0] in OPEN_STATUSES

    def _woken(self, caller: str, identifier: str) -> contextlib.AbstractAsyncContextManager[asyncio.Event]:
        return woken(self._library.responses.database, topic_of(caller, identifier))

    async def follow(self, caller: str, identifier: str, after: int) -> AsyncGenerator[bytes, None]:
        """The events with numbers over ``after``, as they were sent; empty after some silence."""
        library = self._library
        async with self._woken(caller, identifier) as changed:
            while True:
                # First: when it has ended, all events are there.
                running = await self._runs_on(caller, identifier)
                batches = await library.run(library.responses.events, caller, identifier, after, patient=False)
                for first, data in batches:
                    for number, piece in enumerate(pieces(data), first):
                        if number > after:
                            after = number
                            yield piece
                if not batches:
                    if not running:
                        return
                    yield b""
                    await _wait(changed)

    def keep(self) -> None:
        """Renews what this process holds, and deletes what has expired, from now on."""
        if self._keeping is None and not self._ended:
            # Its log is not that of the request, or of the run, that happens to be the first.
            nobody = contextvars.Context()
            self._keeping = asyncio.create_task(self._keep(), name="ripieno store", context=nobody)

    async def _keep(self) -> None:
        library, since = self._library, _SWEPT
        while True:
            try:
                # After a failure, a deletion shows whether the store can be written again.
                if since >= _SWEPT or library.failure is not None:
                    since = 0.0
                    await library.run(library.responses.sweep, patient=False)
                    # It may take longer than a lease.
                    self._cleaning = asyncio.create_task(library.run(library.clean, patient=False))
                await self.renew()
                library.recover()
            except StoreUnusable:
                # It is in the log. A run whose lease ends meanwhile is lost; the next beat may come in time.
                pass
            except Exception as error:
                _logger.error("The background responses of this process cannot be renewed.", exc_info=error)
            await asyncio.sleep(_BEAT)
            since += _BEAT

    async def renew(self) -> None:
        """Renews what this process runs and holds, and ends the runs that it is asked to end. Errors: those of ``run``.

        What could not be ended in the store is not among that: it ends with its lease.
        """
        library, runs = self._library, [(run, run.begun.done()) for run in self._runs.values()]
        responses = [run.request.identifier for run, _ in runs]
        holding = [one.identifier for one in tuple(library.holding)]
        if responses or holding:
            renew = library.responses.renew
            held = await library.run(renew, library.holder, responses, holding, patient=False)
            for run, begun in runs:
                # Another process has ended one that is not held any more, or it was deleted: it may do nothing more.
                if held.get(run.request.identifier, begun):
                    run.cancel()

    async def close(self) -> None:
        """Ends all runs, whose responses say so, and waits for that."""
        self._ended = True
        while self._tasks:
            # A run that writes at this moment notices only the next time.
            tasks = tuple(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=_ENDING)
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait((self._keeping,))
        await self._library.run(self._library.close)


def _report(message: str, error: Exception) -> None:
    # The log has the reason of a store that cannot be used.
    _logger.error(message, exc_info=None if isinstance(error, StoreUnusable) else error)


async def _wait(changed: asyncio.Event) -> None:
    """Waits for rows, or a while: nothing says that the lease of a run has ended."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_BEAT):
            await changed.wait()
    changed.clear()


#: The refusal of what only background responses can do.
NOT_BACKGROUND = Refusal(
    status=400,
    code="not_a_background_response",
    message="Only a response that was created with background = true can be cancelled, or streamed again.",
)
