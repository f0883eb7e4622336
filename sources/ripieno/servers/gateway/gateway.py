"""The gateway: what answers a request over any wire with any model."""

import contextlib
import dataclasses
import logging
from collections.abc import Sequence

from ripieno.assembly import Assembly
from ripieno.canisters import Controls
from ripieno.canisters.events import Batches
from ripieno.conducting import Watcher
from ripieno.descriptors import GatewayDescriptor
from ripieno.models import Protocol
from ripieno.models.protocol import Asked
from ripieno.servers.gateway.models import Names
from ripieno.servers.gateway.pass_through import translate
from ripieno.servers.gateway.request_log import UNSEEN, RequestLog
from ripieno.servers.gateway.run import HostedRuns
from ripieno.servers.gateway.tools import Offers

_logger = logging.getLogger(__name__)


class Gateway:
    """One assembly, its models under the names of clients, and nothing of a request that outlives it.

    ``secret`` signs the results of what runs here. ``watchers`` are told of requests for which nothing runs here.
    Errors: ``InputError`` for models, ensembles and tools that are not there.
    """

    def __init__(
        self, assembly: Assembly, settings: GatewayDescriptor, secret: bytes, watchers: Sequence[Watcher] = ()
    ) -> None:
        self.names = Names(assembly, settings)
        self._stage = HostedRuns(assembly, settings, _logger.warning, secret)
        self._show_calls = settings.show_calls
        self._offers = Offers()
        self._watchers = tuple(watchers)
        #: What the operator sets for models, where a client leaves it out.
        self._defaults = {
            field.name: value
            for field in dataclasses.fields(Controls)
            if field.name != "stream" and (value := getattr(assembly.configuration.controls, field.name)) is not None
        }

    async def play(self, asked: Asked, protocol: Protocol, caller: str, sight: RequestLog = UNSEEN) -> Batches:
        """The events of the answer to one request. Errors: ``InputError``, ``ProviderFailure``."""
        model = self.names.resolve(asked.model)
        sight.resolve(model)
        asked, claim = self._stage.pair(asked, caller)
        if self._defaults:
            asked = self._complete(asked)
        plan = self._stage.plan(asked, caller, claim)
        if plan is None:
            if asked.hosted:
                # Words for what nobody here runs mean nothing to a model.
                asked = dataclasses.replace(asked, controls=self._stage.settle(asked.controls))
            playing = translate(model, asked, self._offers.of(caller, asked.tools), self._watchers)
        else:
            shows = self._show_calls and protocol.shows_results
            playing = plan.play(model, wire=protocol.name if shows else None, hear=sight.take)
        async with contextlib.aclosing(playing) as batches:
            async for batch in batches:
                yield sight.hear(batch)

    def _complete(self, asked: Asked) -> Asked:
        """With what the operator has set, where the client has not."""
        lacking = {name: value for name, value in self._defaults.items() if getattr(asked.controls, name) is None}
        if not lacking:
            return asked
        return dataclasses.replace(asked, controls=dataclasses.replace(asked.controls, **lacking))


def protocols_of(assembly: Assembly) -> Sequence[Protocol]:
    """The wires that have a server's half, by their names."""
    registry = assembly.loaded.registry
    found: list[Protocol] = [registry.resolve("protocols", name) for name in sorted(registry.protocols)]
    return [protocol for protocol in found if protocol.routes]
