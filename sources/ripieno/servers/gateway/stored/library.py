"""The store of a gateway: reads what requests continue, and keeps answers. Its database is used in threads only."""

import contextlib
import dataclasses
import logging
import os
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from ripieno.assembly import Assembly
from ripieno.assembly.journal import open_database
from ripieno.conducting.paused import PausedStore
from ripieno.descriptors.gateway import StoreDescriptor
from ripieno.exceptions import InputError, NameAbsence, RequestInvalidity
from ripieno.models.protocol import Native
from ripieno.servers.gateway.events import created, last_events
from ripieno.servers.gateway.stored.referred_items import ReferredItems
from ripieno.servers.gateway.stored.requests import (
    CONVERSATION,
    NO_CONVERSATION,
    NOT_CONTINUED,
    RESPONSE,
    UNFINISHED,
    References,
    StoredRequest,
    Waiting,
    is_identifier,
    items_in,
    new_identifier,
    not_found,
)
from ripieno.servers.gateway.stored.use import StoreUnusable, StoreUse
from ripieno.servers.http.limits import Refused, Reservation
from ripieno.storage.databases.contract import Database
from ripieno.storage.journal import Journal
from ripieno.storage.outputs import Outputs
from ripieno.storage.responses.caller_keys import CallerKeys
from ripieno.storage.responses.conversations import ConversationStore
from ripieno.storage.responses.rows import ChainBroken, ConversationLocked, StoredResponse, StoreLimits
from ripieno.storage.responses.store import LEASE, ResponseStore

_logger = logging.getLogger(__name__)
#: The statuses of responses that can be continued; some clients get the last one.
_ENDED = ("completed", "incomplete", "requires_action")
#: The error of a stream that was cancelled: streams have no event of their own for that.
CANCELLED = {"code": "cancelled", "message": "The response was cancelled."}
_LOST = (
    "The server that ran this response ended, or could not reach its database for some time, before it was complete. "
    "Send the request again."
)
_TAKEN = (
    "Another response has continued the conversation meanwhile, or it was deleted, so this answer is not in it. Send "
    "the request again."
)


class Library(StoreUse):
    """The stored responses and conversations of all callers of a gateway.

    ``holder`` names this process among those that answer responses. A response holds its conversation by its own name.
    """

    def __init__(
        self,
        database: Database,
        settings: StoreDescriptor,
        secret: bytes,
        clock: Callable[[], float] | None = None,
        journal: Journal | None = None,
        *,
        outputs: Outputs | None = None,
    ) -> None:
        super().__init__()
        self._journal = journal
        self._outputs = outputs
        self._paused = PausedStore(database)
        self.settings = settings
        self.holder = secrets.token_hex(8)
        limits = StoreLimits(
            seconds=settings.days * 86_400,
            event_seconds=settings.event_seconds,
            rows=settings.responses,
            size=settings.bytes,
            links=settings.chain,
            chain=settings.chain_bytes,
        )
        keys = CallerKeys.beside(database, secret)
        self.responses = ResponseStore(database, keys, limits, clock)
        self.conversations = ConversationStore(database, keys, limits, clock)
        #: The requests of this process that hold a conversation.
        self.holding: set[StoredRequest] = set()
        #: Whether what was deleted was removed from the files.
        self._cleaned = True

    @classmethod
    def of(
        cls, assembly: Assembly, settings: StoreDescriptor, secret: bytes, clock: Callable[[], float] | None = None
    ) -> "Library":
        """The store in the database of the assembly's state. Errors: ``InputError`` without a state folder."""
        recorder = assembly.execution.reporter.recorder
        journal = recorder if isinstance(recorder, Journal) else None
        return cls(database_of(assembly), settings, secret, clock, journal, outputs=assembly.surroundings.outputs)

    async def read(self, native: Native, caller: str, reservation: Reservation) -> tuple[Native, StoredRequest | None]:
        """A request with the conversation that it continues, and what is to be stored; None if it has no part in that.

        A conversation is held until ``keep`` or ``release``. The memory of what is continued is reserved. Errors:
        ``InputError``, ``Refused``.
        """
        references = References.read(native, default=self.settings.default)
        own = items_in(native.get("input"))
        if referred := ReferredItems(self.responses, self.conversations, caller, own):
            measured = await self.run(referred.measure)
            reservation.add(measured)
            own, size = await self.run(referred.resolve)
            # What is named often is read once.
            reservation.add(max(0, size - measured))
            native = {**native, "input": own}
        if not references.stores and references.parent is None:
            return native, None
        request = StoredRequest(caller=caller, references=references, own=own)
        if references.background:
            request.native = {name: value for name, value in native.items() if name != "input"}
        await self.run(self._begin, request)
        # Before it is read: many at once would need more memory than there is.
        reservation.add(request.size)
        await self.run(self._continue, request)
        return request.expanded(native), request

    def _begin(self, request: StoredRequest) -> None:
        if request.references.stores:
            with self.responses.database.using("read") as connection:
                self.responses.check_room(connection, request.caller)
            request.identifier = new_identifier(RESPONSE)
        self._measure(request)

    def _measure(self, request: StoredRequest) -> None:
        """Finds the size of what a request continues."""
        parent, name = request.references.parent, request.references.conversation
        if parent is not None:
            size = self.responses.chain_size(request.caller, parent) if is_identifier(parent, RESPONSE) else None
            if size is None:
                raise not_found(NOT_CONTINUED)
            request.size = size
        elif name is not None:
            size = self.conversations.size(request.caller, name) if is_identifier(name, CONVERSATION) else None
            if size is None:
                raise not_found(NO_CONVERSATION, "conversation")
            request.size = size

    def _continue(self, request: StoredRequest) -> None:
        """Reads what a request continues, and holds its conversation."""
        references, caller = request.references, request.caller
        parent = references.parent
        if parent is not None:
            try:
                chain, request.links, request.chain = self.responses.begin(caller, parent)
            except ChainBroken:
                raise not_found(NOT_CONTINUED) from None
            last = chain[-1]
            if last.status not in _ENDED:
                raise Refused(UNFINISHED)
            request.claim = Waiting.of(last.body)
            if request.claim is not None and not references.stores:
                raise RequestInvalidity(
                    "A call of the previous response waits for a person: continue it with store = true.",
                    parameter="store",
                )
            request.history = [item for one in chain for item in (*one.body["input"], *one.body["output"])]
        elif references.conversation is not None:
            name = references.conversation
            if request not in self.holding:
                self.conversations.lock(caller, name, request.identifier)
                self.holding.add(request)
            try:
                # Again: it may have been deleted, or have grown, before it was held.
                self._measure(request)
                request.history = list(self.conversations.items(caller, name))
            except BaseException:
                self._release(request)
                raise

    def queue(self, request: StoredRequest, response: Mapping[str, Any], **asked: Any) -> None:
        """Stores a response that a worker answers. Its conversation stays held until then."""
        row = self.row_of(request, {**response, "output": []})
        row = dataclasses.replace(row, body={**row.body, "asked": {"native": request.native, **asked}})
        with self.responses.database.writing("written") as connection:
            self.responses.save(row, connection)
            if asked["streamed"]:
                # So that its client knows its name.
                self.responses.append(connection, request.caller, request.identifier, 0, [created(response)])
            if request in self.holding:
                name = request.references.conversation or ""
                seconds = self.responses.limits.seconds
                self.conversations.hold(connection, request.caller, name, request.identifier, seconds)
        self.holding.discard(request)

    def take(self, row: StoredResponse) -> StoredRequest | None:
        """Holds a queued response, and returns its request; None if it is not queued any more."""
        references = References.read(row.body["asked"]["native"], default=True)
        request = StoredRequest(
            caller=row.caller,
            references=references,
            own=row.body["input"],
            identifier=row.identifier,
            created=row.body["response"].get("created_at", 0),
        )
        with self.responses.database.writing("written") as connection:
            if not self.responses.take(connection, row.caller, row.identifier, self.holder):
                return None
            if references.conversation is not None:
                name = references.conversation
                if not self.conversations.hold(connection, row.caller, name, row.identifier, LEASE):
                    raise ConversationLocked(_TAKEN)
        if references.conversation is not None:
            self.holding.add(request)
        try:
            self._continue(request)
        except BaseException:
            # Who ends the response ends the hold.
            self.holding.discard(request)
            raise
        return request

    def cancel(self, caller: str, identifier: str) -> None:
        """Ends a queued response, or asks the process that holds it to end it."""
        row = self.responses.load(caller, identifier)
        if row is not None and row.status == "queued":
            self.end_queued(row, "cancelled")
        self.responses.cancel(caller, identifier)

    def end_queued(self, row: StoredResponse, status: str, **members: Any) -> None:
        """Ends a response that no process has begun to answer, unless one does now."""
        response = {**row.body["response"], **members, "status": status}
        body = {**row.body, "response": response}
        streamed = body.pop("asked")["streamed"]
        ended = dataclasses.replace(row, status=status, body=body)
        with self.responses.database.writing("written") as connection:
            if row.holder or self.responses.take(connection, row.caller, row.identifier, self.holder):
                if streamed:
                    error = members.get("error") or CANCELLED
                    number = self.responses.next_event(connection, row.caller, row.identifier) or 0
                    events = last_events(response, "failed", number, error=error)
                    self.responses.append(connection, row.caller, row.identifier, number, events)
                self.responses.end(ended, self.holder, connection)
                if row.conversation is not None:
                    self.conversations.release(connection, row.caller, row.conversation, row.identifier)

    async def keep(self, request: StoredRequest, response: Mapping[str, Any]) -> None:
        """Stores the answer to a request, durably, and adds it to its conversation."""
        if request.identifier:
            await self.run_again(request, self._keep, request, response)

    def _keep(self, request: StoredRequest, response: Mapping[str, Any]) -> None:
        row = self.row_of(request, response)
        with self.responses.database.writing("written") as connection:
            if self.responses.save(row, connection):
                self.finish(request, row, connection)
        self.holding.discard(request)

    def finish(self, request: StoredRequest, row: StoredResponse, connection: Any) -> None:
        """Adds a response to the conversation that it holds, if it can be continued, and ends the hold.

        Errors: ``ConversationLocked`` if it does not hold it any more, for a response that would be added.
        """
        name, added = request.references.conversation, row.status in _ENDED
        if name is not None and request in self.holding:
            items = [*row.body["input"], *row.body["output"]] if added else []
            held = self.conversations.finish(connection, request.caller, name, request.identifier, items)
            if added and not held:
                _logger.warning("The hold of a conversation was lost, so that %s fails.", request.identifier)
                raise ConversationLocked(_TAKEN)

    def row_of(self, request: StoredRequest, response: Mapping[str, Any]) -> StoredResponse:
        """The row of a response."""
        return StoredResponse(
            caller=request.caller,
            identifier=request.identifier,
            body=request.body(response),
            status=response["status"],
            parent=request.references.parent,
            conversation=request.references.conversation,
            background=request.references.background,
            links=request.links + 1,
            chain=request.chain,
        )

    async def release(self, request: StoredRequest) -> None:
        """Ends the hold of a conversation, if the answer was not kept.

        Errors: none: if the store cannot be used, the hold is not renewed, and ends with its lease.
        """
        if request in self.holding:
            with contextlib.suppress(StoreUnusable):
                await self.run(self._release, request)

    def _release(self, request: StoredRequest) -> None:
        if request.references.conversation is not None:
            self.holding.discard(request)
            self.conversations.unlock(request.caller, request.references.conversation, request.identifier)

    async def load(self, caller: str, identifier: str, reservation: Reservation | None = None) -> StoredResponse | None:
        """The caller's response, whose memory is reserved before. One whose process has ended has failed."""
        if not is_identifier(identifier, RESPONSE):
            return None
        if reservation is not None:
            reservation.add(await self.run(self.responses.size, caller, identifier))
        return await self.run(self._load, caller, identifier)

    def _load(self, caller: str, identifier: str) -> StoredResponse | None:
        row = self.responses.load(caller, identifier)
        if row is None or not row.lost:
            return row
        error = {"code": "server_error", "message": _LOST}
        response = {**row.body["response"], "status": "failed", "error": error}
        failed = dataclasses.replace(row, status="failed", lost=False, body={**row.body, "response": response})
        with self.responses.database.writing("written") as connection:
            if self.responses.has_lost(connection, caller, identifier, row.holder):
                number = self.responses.next_event(connection, caller, identifier)
                if number is not None:
                    events = last_events(response, "failed", number)
                    self.responses.append(connection, caller, identifier, number, events)
                if self.responses.end(failed, row.holder, connection):
                    return failed
        return self.responses.load(caller, identifier)

    async def erase(self, function: Callable[..., bool], *arguments: object) -> bool:
        """Runs a function that deletes, and lets ``clean`` remove the text from the files. Errors: those of ``run``."""
        found = await self.run(function, *arguments)
        self._cleaned = False
        return found

    def delete(self, row: StoredResponse) -> None:
        """Deletes a response with its events, its kept outputs, its journal, and the conversation of a call that waits.

        Can be repeated: the response is there until the rest is deleted. That conversation has the name of the response
        in which it began, and belongs to it: while it waits, another response that has continued it leaves it.
        """
        for name in row.body.get("journal", ()):
            began_before = name != row.identifier and self.responses.size(row.caller, name)
            if began_before and self._paused.load(name, owner=row.caller) is not None:
                continue
            if self._outputs is not None:
                self._outputs.forget(name)
            self._paused.forget(name, owner=row.caller)
            if self._journal is not None:
                with contextlib.suppress(NameAbsence):
                    self._journal.delete(name, owner=row.caller, clean=False)
        self.responses.delete(row.caller, row.identifier)
        self._cleaned = False

    def clean(self) -> None:
        """Removes the text that was deleted since the last time from the files."""
        if not self._cleaned:
            self._cleaned = True
            self.responses.database.clean()

    def close(self) -> None:
        """Closes the databases. The next use opens them again."""
        if not self.responses.database.remote:
            self.clean()
        self.responses.keys.database.close()
        self.responses.database.close()


def database_of(assembly: Assembly) -> Database:
    """The database of an assembly's state, in which the journal is, too. Errors: ``InputError`` without a folder."""
    if assembly.loaded.state is None:
        raise InputError("[gateway.store] needs a state folder. Set one, or leave the table out.")
    journal = assembly.execution.reporter.recorder
    # The same object, so that the journal's lines are checked against the claims that are made here.
    return journal.database if isinstance(journal, Journal) else open_database(assembly.loaded, os.environ)
