"""The use of a gateway's store in threads: its failures, and trying again."""

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

from ripieno.ensembles.threads import run_in_thread
from ripieno.exceptions import InputError, RequestInvalidity
from ripieno.models.protocol import Refusal
from ripieno.servers.gateway.stored.requests import StoredRequest
from ripieno.servers.http.limits import Refused
from ripieno.storage.databases.contract import Disconnected
from ripieno.storage.responses.store import LEASE

_logger = logging.getLogger(__name__)
_Result = TypeVar("_Result")
#: Seconds after which a client may try again what needs the store.
_RETRY = 5.0
#: Seconds between two tries to store the end of a response.
_BEAT = 1.0


class StoreUnusable(Refused):
    """A failure of the database, whose reason is in the log."""

    def __init__(self) -> None:
        message = "The store of responses cannot be used now. The log of the server has the reason."
        super().__init__(Refusal(status=503, code="store_unusable", message=message, seconds=_RETRY))


class StoreUse:
    """Runs what uses the database, which may fail at any time."""

    def __init__(self) -> None:
        #: The last failure of the database, until it can be used again.
        self.failure: InputError | None = None

    async def run(self, function: Callable[..., _Result], *arguments: object, patient: bool = True) -> _Result:
        """Runs a function that uses the database in a thread: it may wait for the disk, or the network.

        ``patient``: a cancelled wait goes on until the function has returned, since its work counts.
        """
        try:
            result = await run_in_thread(function, *arguments, name="store", patient=patient)
        except InputError as error:
            if isinstance(error, RequestInvalidity) or getattr(error, "code", None) is not None:
                raise
            # It concerns the operator only, and once: all requests and runs fail meanwhile.
            if self.failure is None:
                _logger.error("The store of responses cannot be used. %s", error)
            self.failure = error
            raise StoreUnusable from error
        # On a full disk, what only reads goes on.
        if isinstance(self.failure, Disconnected):
            self.recover()
        return result

    async def run_again(self, request: StoredRequest, function: Callable[..., object], *arguments: object) -> None:
        """Runs a function that stores the end of a response, and can be repeated.

        While the store cannot be used, it is tried again, as long as a lease. Errors: those of ``run``.
        """
        loop = asyncio.get_running_loop()
        while True:
            try:
                await self.run(function, *arguments)
            except StoreUnusable:
                if request.until is None:
                    request.until = loop.time() + LEASE
                if loop.time() >= request.until:
                    raise
                await asyncio.sleep(_BEAT)
            else:
                return

    def recover(self) -> None:
        """Reports that the store can be used again, if it could not."""
        if self.failure is not None:
            self.failure = None
            _logger.warning("The store of responses can be used again.")
