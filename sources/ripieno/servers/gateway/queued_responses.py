"""``QueuedResponses``: background responses that a gateway has submitted, answered by a worker."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.assembly import Assembly
from ripieno.exceptions import InputError, NameAbsence
from ripieno.jsonvalues import EMPTY
from ripieno.servers.gateway.application import serving_of
from ripieno.servers.gateway.endpoint import Endpoint
from ripieno.servers.gateway.gateway import protocols_of
from ripieno.servers.gateway.stored.use import StoreUnusable
from ripieno.servers.http.bodies import routes_of
from ripieno.servers.http.errors import refusal_of
from ripieno.storage.databases.contract import Disconnected
from ripieno.storage.dispatch.contract import Dispatcher, Ending, Submission
from ripieno.storage.responses.rows import StoredResponse

_FINISHES = {"completed": "stop", "incomplete": "limit", "cancelled": "cancelled"}
#: A number that no event reaches.
_NO_EVENT = 1 << 62
#: Seconds after which a gateway has submitted what it has queued, or never will: more than it waits for databases.
_SUBMITTED = 120.0
_LOST = {"code": "server_error", "message": "The server ended before it could submit this response. Send it again."}


class QueuedResponses:
    """The endpoints of the gateway that the configuration of a worker has, without a server.

    The assembly is entered. Errors: ``InputError`` for settings that no gateway accepts.
    """

    def __init__(self, assembly: Assembly) -> None:
        serving = serving_of(assembly, assembly.configuration.gateway)
        assert serving.runs is not None
        self._runs = serving.runs
        routes = routes_of(protocols_of(assembly))
        self._endpoints = {route: Endpoint(protocol, serving) for route, protocol in routes.items()}
        #: The mark of the last look for responses that are in no queue.
        self._looked = 0.0

    async def conduct(self, submission: Submission, *, cancelled: bool) -> Ending | None:
        """Answers a queued response, or ends one that was ``cancelled`` before its turn.

        One that another worker had begun is not begun again: a client has read it. None if it is still queued, or the
        database is away: it is to be dispatched again.
        """
        try:
            return await self._conduct(submission, cancelled)
        except StoreUnusable as error:
            if not isinstance(error.__cause__, Disconnected):
                raise
            return None

    async def _conduct(self, submission: Submission, cancelled: bool) -> Ending | None:
        runs, caller, identifier = self._runs, submission.owner, submission.conversation
        if cancelled:
            await runs.library.run(runs.library.cancel, caller, identifier)
        row = await runs.library.load(caller, identifier)
        if row is not None and row.status == "queued":
            await self._answer(row)
        elif row is not None and row.open:
            # Until it ends, or its lease does.
            async with contextlib.aclosing(runs.follow(caller, identifier, _NO_EVENT)) as events:
                async for _ in events:
                    pass
        row = await runs.library.load(caller, identifier)
        if row is None:
            return Ending(finish="cancelled")
        if row.status == "queued":
            return None
        error: Mapping[str, Any] = row.body["response"].get("error") or EMPTY
        return Ending(finish=_FINISHES.get(row.status, "error"), reason=str(error.get("message", "")))

    async def _answer(self, row: StoredResponse) -> None:
        library = self._runs.library
        route = row.body["asked"]["route"]
        try:
            if route not in self._endpoints:
                raise InputError(f"A worker of this configuration answers no requests of {route}.")
            stored = await library.run(library.take, row)
            if stored is not None:
                await self._endpoints[route].conduct(row, stored)
        except Exception as error:
            refusal = refusal_of(error)
            now = await library.load(row.caller, row.identifier)
            # What could not be taken because of the store stays queued.
            holders = (library.holder,) if isinstance(error, StoreUnusable) else ("", library.holder)
            if now is not None and now.holder in holders and "asked" in now.body:
                failure = {"code": refusal.code or "server_error", "message": refusal.message}
                await library.run(lambda: library.end_queued(now, "failed", error=failure))

    def end_lost(self, dispatcher: Dispatcher) -> Sequence[str]:
        """Ends queued responses that are in no queue, so that no worker answers them; returns their identifiers.

        Their gateway was killed between its two writes, for example. They are not submitted again: their clients have
        read an error, or nothing, and may have sent them again. Errors: ``InputError``.
        """
        library, lost = self._runs.library, list[str]()
        found, mark = library.responses.queued(self._looked, _SUBMITTED)
        for caller, identifier in found:
            with contextlib.suppress(NameAbsence):
                one = dispatcher.find(identifier)
                if one.state == "cancelled":
                    library.cancel(caller, identifier)
                elif not one.over:
                    continue
            row = library.responses.load(caller, identifier)
            if row is not None and row.status == "queued":
                library.end_queued(row, "failed", error=_LOST)
                lost.append(identifier)
        self._looked = mark
        return lost

    def stop(self, submission: Submission, *, ending: bool) -> None:
        """Ends a response under way, because it is cancelled, or because the worker is ``ending``."""
        self._runs.stop(submission.owner, submission.conversation, ending=ending)
