"""Live providers from their descriptors: keys resolved at first use, protocols imported at first use."""

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ripieno.canisters.events import Alert
from ripieno.descriptors import ConfigurationDescriptor, ProviderDescriptor, RetryPolicy
from ripieno.descriptors.loading.layers import ConfigurationPart
from ripieno.descriptors.loading.unknown_names import place_at_model
from ripieno.descriptors.providers import RETRIES
from ripieno.descriptors.reader.alternatives import Choice, alternatives
from ripieno.descriptors.templates import Template
from ripieno.descriptors.timeouts import Caution, Timeouts
from ripieno.exceptions import ConfigurationInvalidity, InputError, NameAbsence, Problem, UsageError
from ripieno.jsonvalues import EMPTY
from ripieno.models.fallback import FallbackModel
from ripieno.models.model import Model, Provider
from ripieno.models.protocol import Capabilities, Protocol
from ripieno.models.transport.breaker import Breaker
from ripieno.models.transport.clients import endpoint_of
from ripieno.models.transport.clouds import reach
from ripieno.models.transport.endpoints import Endpoint

_PROMPTED = "prompted"
#: The part of a backoff that jitter may remove. Requests of one process rarely fail at the same moment.
_JITTER = 0.25


class Providers:
    """All known providers. Each is made at first use; all are closed together.

    ``clients`` are official clients by the names of providers, whose requests they carry. They are not closed. A
    missing variable is reported at the line of ``parts``, the files of the ``configuration``, that chooses the model.
    Errors: ``NameAbsence`` for a client of an unknown provider.
    """

    def __init__(
        self,
        descriptors: Mapping[str, ProviderDescriptor],
        *,
        protocol: Callable[[str], Protocol],
        secrets: Mapping[str, str],
        configuration: ConfigurationDescriptor = ConfigurationDescriptor(),  # noqa: B008  frozen
        parts: Sequence[ConfigurationPart] = (),
        clients: Mapping[str, Any] = EMPTY,
    ) -> None:
        for name in clients:
            if name not in descriptors:
                raise NameAbsence("provider", name, descriptors, hint="Clients are named by their providers.")
        self._clients = clients
        self.descriptors = descriptors
        self._protocol = protocol
        self._secrets = secrets
        self._configuration = configuration
        self._parts = parts
        #: One breaker for each endpoint. Providers with different settings do not share one.
        self._breakers: dict[tuple[str, Caution], Breaker] = {}
        #: The first provider that used each endpoint.
        self._guarded: dict[Breaker, str] = {}
        self._made: dict[str, Provider] = {}
        #: The models whose absence from a chain was reported.
        self._reported: set[str] = set()

    def chain(self, identity: str, fallback: Sequence[str], alert: Callable[[Alert], None]) -> Model:
        """A model with its fallbacks, without those whose variables are not set. Errors: those of ``access_model``."""
        models = [self.access_model(identity)]
        for other in dict.fromkeys(fallback):
            try:
                models += [] if other == identity else [self.access_model(other)]
            except ConfigurationInvalidity as invalidity:
                # Mostly, its key is missing. One alert is enough.
                if other not in self._reported:
                    self._reported.add(other)
                    why = "; ".join(problem.message for problem in invalidity.problems)
                    alert(Alert(message=f"The fallback {other} is left out: {why}."))
        return FallbackModel.of(models)

    def access_model(self, identity: str) -> Model:
        """The model ``provider/model``; the model's own name may contain slashes.

        Errors, each with a hint: ``InputError`` for a name without a slash, ``NameAbsence`` for an unknown provider,
        ``ConfigurationInvalidity`` for a missing variable; ``UsageError`` for what is no text.
        """
        given: Any = identity
        if not isinstance(given, str):
            raise UsageError(
                f'A model is named as "provider/model", or is a Model, not {type(given).__name__}. '
                "ripieno.testing.model_of(score) makes one that plays a score."
            )
        name, slash, model = identity.partition("/")
        if identity.startswith("score:"):
            raise InputError(
                f"{identity!r} names a score, which only the command line does. In a program, pass it as the model: "
                f"ripieno.testing.model_of(Score.read({identity.removeprefix('score:')!r})), "
                "with Score from ripieno.testing.scores."
            )
        if identity.endswith(".toml") and name not in self.descriptors:
            raise InputError(
                f"{identity!r} is a file, and a model is named provider/model. To play a score on the command line: "
                f"score:{identity}"
            )
        if not slash or not model:
            raise InputError(f"A model is named provider/model, not {identity!r}. {self._proposal(name)}")
        try:
            provider = self.access_provider(name)
        except ConfigurationInvalidity as invalidity:
            placed = place_at_model(invalidity.problems, identity, self._parts, self._configuration)
            raise ConfigurationInvalidity(placed) from None
        if self.descriptors[name].protocol != _PROMPTED and not provider.capabilities(model).get(
            "function_calling", True
        ):
            provider = _prompted(provider)
        return Model(provider=provider, name=model)

    def _proposal(self, name: str) -> str:
        """Models that a name without a provider may mean, by the providers' names and descriptions."""
        family = re.split(r"[-_.:\d]", name.casefold(), maxsplit=1)[0]
        offering = [
            one.name
            for one in self.descriptors.values()
            if family and family in re.findall(r"\w+", f"{one.name} {one.description}".casefold())
        ]
        if name in self.descriptors or not offering:
            return f"For example: {name if name in self.descriptors else next(iter(self.descriptors), 'house')}/NAME."
        whole = name if name.casefold() != family else f"{name}-..."
        return f"Did you mean {' or '.join(f'{one}/{whole}' for one in offering)}?"

    def access_provider(self, name: str) -> Provider:
        """The provider with this name. Errors: as ``access_model``."""
        if name not in self.descriptors:
            hint = "Add one as a table [providers.NAME]; `ripieno providers` lists them."
            raise NameAbsence("provider", name, self.descriptors, hint=hint)
        if name not in self._made:
            self._made[name] = self._make(self.descriptors[name])
        return self._made[name]

    @property
    def openings(self) -> Mapping[str, int]:
        """The number of times that each endpoint's breaker opened, by the first provider that used the endpoint."""
        return {name: breaker.openings for breaker, name in self._guarded.items()}

    def _make(self, descriptor: ProviderDescriptor) -> Provider:
        # A prompted descriptor without a carrier is refused earlier.
        carrier = descriptor.carrier if descriptor.protocol == _PROMPTED else None
        protocol = self._protocol(carrier or descriptor.protocol)
        client = self._clients.get(descriptor.name)
        common: dict[str, Any] = {"timeouts": Timeouts(**descriptor.timeouts), "cloud": descriptor.cloud}
        if client is None:
            endpoint = self._endpoint(descriptor, protocol.sdk, **common)
        else:
            endpoint = endpoint_of(descriptor.name, protocol.sdk, client, **common)
        overrides: dict[str, Any] = dict(descriptor.breaker)
        caution = dataclasses.replace(self._configuration.breaker, **overrides)
        breaker = self._breakers.setdefault((endpoint.place.rstrip("/"), caution), Breaker(caution))
        self._guarded.setdefault(breaker, descriptor.name)
        transport, protocol = reach(endpoint, protocol, breaker, client)
        # Some of its models leave calls in the text; each request's capabilities say which ones.
        rows = (descriptor.capabilities, *(row.capabilities for row in descriptor.models))
        if carrier is None and any(row.get("text_calls") for row in rows):
            from ripieno.models.protocols.text_calls.interpreter import interpret

            protocol = dataclasses.replace(protocol, interpret=interpret)
        provider = Provider(
            name=descriptor.name,
            protocol=protocol,
            transport=transport,
            capabilities=functools.cache(descriptor.capabilities_for),
            retry=RetryPolicy(
                max_retries=RETRIES if descriptor.retries is None else descriptor.retries, jitter=_JITTER
            ),
        )
        return provider if carrier is None else _prompted(provider)

    def _endpoint(self, descriptor: ProviderDescriptor, sdk: str, **fields: Any) -> Endpoint:
        if descriptor.base_url is None and descriptor.cloud is None:
            raise self._problem(descriptor, "it has no base_url", "Set base_url.")
        texts: dict[str, Any] = {
            key: self._expand(descriptor, key, choice)
            for key in ("base_url", "api_key", "region", "project", "api_version")
            if alternatives(choice := getattr(descriptor, key))
        }
        headers = {
            header: text
            for header, value in descriptor.headers.items()
            if (text := self._expand(descriptor, f"headers.{header}", value))
        }
        key = texts.pop("api_key", None)
        return Endpoint(
            provider=descriptor.name, sdk=sdk, key=key, headers=headers, **{"base_url": "", **texts}, **fields
        )

    def _expand(self, descriptor: ProviderDescriptor, key: str, choice: Choice) -> str:
        """The first template whose variables are all set, expanded. Errors: ``ConfigurationInvalidity``."""
        lacking: list[list[str]] = []
        for text in alternatives(choice):
            template = Template.parse(text, variables=True)
            lacking.append([variable for variable in template.variables if not self._secrets.get(variable)])
            if not lacking[-1]:
                return template.header({}, self._secrets)
        names = " or ".join(" and ".join(variables) for variables in lacking)
        raise self._problem(
            descriptor,
            f"{key} needs the variable {names}, {'which is not' if len(lacking) == 1 else 'none of which is'} set",
            f"Set it (export {lacking[0][0]}=…), or write another {key} under [providers.{descriptor.name}].",
        )

    @staticmethod
    def _problem(descriptor: ProviderDescriptor, message: str, hint: str) -> ConfigurationInvalidity:
        return ConfigurationInvalidity((Problem(message=f"provider {descriptor.name!r}: {message}", hint=hint),))

    async def close(self) -> None:
        made, self._made = self._made, {}
        for provider in made.values():
            await provider.transport.close()


def _prompted(provider: Provider) -> Provider:
    """The same endpoint for models that call by text. Such calls survive streaming as any text does."""
    from ripieno.models.protocols.prompted import prompted_protocol

    def capabilities(model: str) -> Capabilities:
        return {**provider.capabilities(model), "stream_calls": True}

    return dataclasses.replace(provider, protocol=prompted_protocol(provider.protocol), capabilities=capabilities)
