"""``QueuedResponses``: background responses that a gateway has submitted, answered by a worker."""

import contextlib
from collections.abc import Mapping
from typing import Any

from ripieno.assembly import Assembly
from ripieno.jsonvalues import EMPTY
from ripieno.servers.gateway.application import serving_of
from ripieno.servers.gateway.endpoint import Endpoint
from ripieno.servers.gateway.gateway import protocols_of
from ripieno.servers.http.bodies import routes_of
from ripieno.servers.http.errors import refusal_of
from ripieno.storage.dispatch.contract import Ending, Submission
from ripieno.storage.responses.rows import StoredResponse

_FINISHES = {"completed": "stop", "incomplete": "limit", "cancelled": "cancelled"}
#: A number that no event reaches.
_NO_EVENT = 1 << 62


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

    async def conduct(self, submission: Submission) -> Ending:
        """Answers a queued response. One that another worker had begun is not begun again: a client has read it."""
        runs, caller, identifier = self._runs, submission.owner, submission.conversation
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
        error: Mapping[str, Any] = row.body["response"].get("error") or EMPTY
        return Ending(finish=_FINISHES.get(row.status, "error"), reason=str(error.get("message", "")))

    async def _answer(self, row: StoredResponse) -> None:
        library = self._runs.library
        try:
            stored = await library.run(library.take, row)
            if stored is not None:
                await self._endpoints[row.body["asked"]["route"]].conduct(row, stored)
        except Exception as error:
            refusal = refusal_of(error)
            now = await library.load(row.caller, row.identifier)
            if now is not None and now.holder == library.holder and "asked" in now.body:
                failure = {"code": refusal.code or "server_error", "message": refusal.message}
                await library.run(lambda: library.end_queued(now, "failed", error=failure))

    def stop(self, submission: Submission, *, ending: bool) -> None:
        """Ends a response under way, because it is cancelled, or because the worker is ``ending``."""
        self._runs.stop(submission.owner, submission.conversation, ending=ending)
