"""Values in a cassette, besides canisters: settings, models, tools, events and failures of a run."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from frozendict import frozendict

from ripieno.canisters import Controls
from ripieno.canisters.controls import Limits, Rules
from ripieno.canisters.events import Alert, ConfirmationRequested, ExecutionProgress
from ripieno.descriptors import Policy
from ripieno.descriptors.policies import Hosted
from ripieno.ensembles import Definition, Invoker
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import ProviderFailure, ProviderRefusal, ProviderUnreachable, WireInvalidity
from ripieno.jsonvalues import freeze
from ripieno.schemas import Schema
from ripieno.values import Value

#: Events of a running call, and alerts about retries.
RecordedEvent: TypeAlias = Alert | ConfirmationRequested | ExecutionProgress


class RecordedSettings(Value, kw_only=True):
    """The settings of a run. ``execution_limits`` and ``rules`` are those of its execution."""

    controls: Controls = Controls()
    limits: Limits = Limits()
    rules: Rules = Rules()
    execution_limits: Limits = Limits()
    tools: tuple[str, ...] | None = None
    workspace: str | None = None


class RecordedModel(Value, kw_only=True):
    """A model, as far as its answers need it to be decoded again."""

    provider: str
    name: str
    protocol: str
    prompted: bool = False
    interpreted: bool = False
    capabilities: Mapping[str, Any] = frozendict[str, Any]()
    retries: int = 0


class RecordedTool(Value, kw_only=True):
    """An offered tool, without its implementation."""

    name: str
    exposed: str
    description: str
    schema: Mapping[str, Any]
    policy: Policy = Policy()
    origin: str = ""
    results: Mapping[str, Any] | None = None
    hosted: Hosted = "here"
    configuration: Mapping[str, Any] = frozendict[str, Any]()

    @classmethod
    def of(cls, invoker: Invoker, *, searchable: bool) -> "RecordedTool":
        return cls(
            name=invoker.name,
            exposed=invoker.exposed,
            description=invoker.description,
            schema=invoker.schema.mapping,
            policy=dataclasses.replace(invoker.policy, tool_search=searchable),
            origin=invoker.origin,
            results=None if invoker.results is None else invoker.results.mapping,
            hosted=invoker.hosted,
            configuration=freeze(invoker.configuration),
        )

    def definition(self) -> Definition:
        """The definition of an equal tool. Errors: ``SchemaInvalidity``."""
        return Definition(
            name=self.name,
            exposed=self.exposed,
            description=self.description,
            schema=Schema.of(self.schema),
            results=None if self.results is None else Schema.of_results(self.results),
            policy=self.policy,
            hosted=self.hosted,
            configuration=self.configuration,
            origin=self.origin,
        )


class RecordedEnsemble(Value, kw_only=True):
    name: str
    prefix: str
    description: str
    tools: tuple[RecordedTool, ...]


def record_offer(offer: Offer) -> tuple[RecordedEnsemble, ...]:
    searchable = {one.exposed for one in offer.searchable}
    tools: dict[str, list[RecordedTool]] = {}
    ensembles = {invoker.ensemble.name: invoker.ensemble for invoker in offer.everything}
    for invoker in offer.everything:
        tools.setdefault(invoker.ensemble.name, []).append(
            RecordedTool.of(invoker, searchable=invoker.exposed in searchable)
        )
    return tuple(
        RecordedEnsemble(name=name, prefix=one.prefix, description=one.description, tools=tuple(tools[name]))
        for name, one in ensembles.items()
    )


class RecordedFailure(Value, kw_only=True):
    kind: Literal["unreachable", "refusal", "wire", "other"]
    provider: str
    reason: str
    hint: str = ""
    category: str = "execution"
    retryable: bool = False
    after: float | None = None
    status: int | None = None
    body: Any = None

    @classmethod
    def of(cls, error: ProviderFailure) -> "RecordedFailure":
        kind: Any = next((name for kind, name in _FAILURES if isinstance(error, kind)), "other")
        names = (field.name for field in dataclasses.fields(cls) if hasattr(error, field.name))
        return cls(kind=kind, **{name: getattr(error, name) for name in names})

    def error(self) -> ProviderFailure:
        if self.kind == "wire":
            return WireInvalidity(self.provider, self.reason, hint=self.hint, retryable=self.retryable)
        common: dict[str, Any] = {name: getattr(self, name) for name in ("hint", "category", "retryable", "after")}
        if self.kind == "refusal":
            return ProviderRefusal(self.provider, self.reason, status=self.status, body=self.body, **common)
        kind = ProviderUnreachable if self.kind == "unreachable" else ProviderFailure
        return kind(self.provider, self.reason, **common)


_FAILURES = ((ProviderUnreachable, "unreachable"), (ProviderRefusal, "refusal"), (WireInvalidity, "wire"))
