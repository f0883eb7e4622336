"""The gateway: answers a request over any wire with any model."""

import contextlib
import dataclasses
import logging
from collections.abc import Mapping, Sequence

from frozendict import frozendict

from ripieno.assembly import Assembly
from ripieno.canisters import AssistantCanister, Controls, InvocationCanister, SupervisorCanister
from ripieno.canisters.conversation import NO_USAGE
from ripieno.canisters.events import Batches, Event, TurnBegan, TurnEnded, collect
from ripieno.conducting import Watcher
from ripieno.conducting.history.summary import SUMMARY, summary_request
from ripieno.descriptors import GatewayDescriptor
from ripieno.exceptions import InputError, NameAbsence, ProviderRefusal
from ripieno.jsonvalues import encode
from ripieno.models import Model, Protocol
from ripieno.models.protocol import Asked
from ripieno.servers.gateway.history_checks import unanswered
from ripieno.servers.gateway.pass_through import translate
from ripieno.servers.gateway.request_log import UNOBSERVED, RequestLog
from ripieno.servers.gateway.run import HostedRuns
from ripieno.servers.gateway.sealing import Compaction, Sealer
from ripieno.servers.gateway.stored.requests import StoredRequest
from ripieno.servers.gateway.tools import Offers
from ripieno.servers.http.bodies import model_entry, model_list

_logger = logging.getLogger(__name__)
#: The name for all other names.
ANY = "*"
#: Tokens of the summary in a compaction.
_SUMMARY_TOKENS = 4096


class Names:
    """Names of models. All models are created at the start, so that a wrong name is reported then.

    A model has its identity, ``provider/model``; its bare name, if it is unique; and the names that map to it. Without
    models and map, it is the default model. Errors: ``InputError``.
    """

    def __init__(self, assembly: Assembly, settings: GatewayDescriptor) -> None:
        known: dict[str, Model] = {}
        bare: dict[str, list[Model]] = {}
        identities = settings.models
        if not identities and not settings.map:
            if assembly.configuration.model is None:
                raise InputError(
                    "There is no model to serve. Name one: --model provider/model, --map "
                    'NAME=provider/model, or models = ["provider/model"] under [gateway].'
                )
            identities = (assembly.configuration.model,)
        for identity in identities:
            default = identity == assembly.configuration.model
            model = assembly.access_model(None if default else identity)
            known[identity] = model
            bare.setdefault(model.name, []).append(model)
        for name, models in bare.items():
            if len(models) == 1:
                known.setdefault(name, models[0])
        for name, identity in settings.map.items():
            model = known[name] = assembly.access_model(identity)
            if name == ANY:
                known.setdefault(identity, model)
        for model in dict.fromkeys(known.values()):
            model.open()
        self._any = known.pop(ANY, None)
        self._known: Mapping[str, Model] = frozendict[str, Model](known)
        self.listed = encode(model_list(tuple(self._known)))

    def resolve(self, name: str) -> Model:
        """The model of this name. Errors: ``NameAbsence``."""
        model = self._known.get(name) or self._any
        if model is None:
            raise NameAbsence("model", name, self._known)
        return model

    def one(self, name: str) -> bytes | None:
        """The description of one model, or None."""
        return encode(model_entry(name)) if name in self._known else None


class Gateway:
    """One assembly, with models under the clients' names. Stores nothing of a request.

    ``secret`` signs the results of tools that run here. ``watchers`` observe requests without a run. Errors:
    ``InputError`` for unknown models, ensembles and tools.
    """

    def __init__(
        self, assembly: Assembly, settings: GatewayDescriptor, secret: bytes, watchers: Sequence[Watcher] = ()
    ) -> None:
        self.names = Names(assembly, settings)
        self._hosted = HostedRuns(assembly, settings, _logger.warning, secret)
        self._sealer = Sealer(secret)
        self._show_calls = settings.show_calls
        self._offers = Offers()
        self._watchers = tuple(watchers)
        #: The operator's controls, for those that a client leaves out.
        self._defaults = {
            field.name: value
            for field in dataclasses.fields(Controls)
            if field.name != "stream" and (value := getattr(assembly.configuration.controls, field.name)) is not None
        }

    async def respond(
        self,
        asked: Asked,
        protocol: Protocol,
        caller: str,
        log: RequestLog = UNOBSERVED,
        stored: StoredRequest | None = None,
    ) -> Batches:
        """The events of the answer, in batches. ``stored`` is its part in the store.

        Errors: ``InputError``, ``ProviderFailure``.
        """
        model = self.names.resolve(asked.model)
        log.resolve(model)
        asked = self._sealer.reveal(asked, protocol.name, caller)
        lacking = {name: value for name, value in self._defaults.items() if getattr(asked.controls, name) is None}
        if lacking:
            asked = dataclasses.replace(asked, controls=dataclasses.replace(asked.controls, **lacking))
        # Over other wires, only the operator continues.
        defers = stored is not None and bool(stored.identifier) if protocol.stores else True
        plan = self._hosted.plan(asked, caller, stored, defers=defers)
        if plan is None:
            if asked.hosted:
                # A model does not know the names of hosted tools that do not run here.
                asked = dataclasses.replace(asked, controls=self._hosted.hosting.resolve(asked.controls))
            answering = translate(model, asked, self._offers.of(caller, asked.tools), self._watchers)
        else:
            shows = self._show_calls and protocol.shows_results
            answering = plan.respond(model, wire=protocol.name if shows else None, hear=log.take)
        async with contextlib.aclosing(answering) as batches:
            async for batch in batches:
                yield log.hear(batch)

    async def prepare(self, asked: Asked, log: RequestLog = UNOBSERVED) -> Batches:
        """The events of an answer without a model, which a later request continues. Errors: ``InputError``."""
        log.resolve(self.names.resolve(asked.model))
        yield [TurnBegan(model=asked.model, turn=1), TurnEnded(finish="stop", turn=1)]

    async def compact(self, asked: Asked, protocol: Protocol, caller: str, log: RequestLog = UNOBSERVED) -> bytes:
        """The body of a compaction, whose summary the requested model writes. No tool runs.

        Errors: ``InputError``, ``ProviderFailure``.
        """
        assert protocol.compacted is not None
        model = self.names.resolve(asked.model)
        log.resolve(model)
        canisters = self._sealer.reveal(asked, protocol.name, caller).canisters
        opened = unanswered(canisters)
        # A later call may have the identifier of an earlier one.
        last = {one.identifier: one for one in canisters if isinstance(one, InvocationCanister)}
        calls = tuple(last[identifier] for identifier in opened)
        # A client sends its instructions again.
        first = 1 if asked.native.get("instructions") and isinstance(canisters[0], SupervisorCanister) else 0
        said = [one for one in canisters[first:] if not any(one is call for call in calls)]
        summarizing = Asked(
            model=asked.model,
            canisters=summary_request(said, _SUMMARY_TOKENS),
            controls=Controls(stream=False),
            native=asked.native,
        )
        events: list[Event] = []
        async with contextlib.aclosing(
            translate(model, summarizing, self._offers.of(caller, ()), self._watchers)
        ) as batches:
            async for batch in batches:
                events += log.hear(batch)
        usage = sum((event.usage for event in events if isinstance(event, TurnEnded)), NO_USAGE)
        text = "".join(one.text for one in collect(events) if isinstance(one, AssistantCanister)).strip()
        if not text:
            raise ProviderRefusal(model.identity, "The model wrote no summary.")
        sealed = self._sealer.seal(Compaction(summary=SUMMARY + text, calls=calls), caller)
        return protocol.compacted(asked, sealed, usage)


def protocols_of(assembly: Assembly) -> Sequence[Protocol]:
    """The protocols that serve clients, by name."""
    registry = assembly.loaded.registry
    found: list[Protocol] = [registry.resolve("protocols", name) for name in sorted(registry.protocols)]
    return [protocol for protocol in found if protocol.routes]
