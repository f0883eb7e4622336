"""Provider descriptors to live models: names are looked up, keys found, protocols imported at first use."""

from collections.abc import Callable, Mapping

from ripieno.descriptors import ProviderDescriptor
from ripieno.exceptions import ConfigurationInvalidity, InputError, NameAbsence, Problem
from ripieno.processors import Capabilities, Model, Protocol, Provider
from ripieno.protocols.transport import Endpoint, HttpTransport
from ripieno.templates import Template


class Providers:
    """All providers that are known, each made when it is first asked for, and closed together."""

    def __init__(
        self,
        descriptors: Mapping[str, ProviderDescriptor],
        *,
        protocol: Callable[[str], Protocol],
        secrets: Mapping[str, str],
    ) -> None:
        self.descriptors = descriptors
        self._protocol = protocol
        self._secrets = secrets
        self._made: dict[str, Provider] = {}

    def access_model(self, identity: str) -> Model:
        """The model ``provider/model``; the name of the model may have slashes of its own.

        Errors: ``InputError`` for a name without a slash, ``NameAbsence`` for an unknown provider,
        ``ConfigurationInvalidity`` for a missing variable, each with what to do.
        """
        name, slash, model = identity.partition("/")
        if not slash or not model:
            example = next(iter(self.descriptors), "house")
            raise InputError(f"A model is named provider/model, such as {example}/NAME; not {identity!r}.")
        return Model(provider=self.access_provider(name), name=model)

    def access_provider(self, name: str) -> Provider:
        """The provider of that name. Errors: as ``access_model``."""
        if name not in self.descriptors:
            raise NameAbsence("provider", name, self.descriptors, hint="Add one as a table [providers.NAME].")
        if name not in self._made:
            self._made[name] = self._make(self.descriptors[name])
        return self._made[name]

    def _make(self, descriptor: ProviderDescriptor) -> Provider:
        protocol = self._protocol(descriptor.protocol)
        if descriptor.base_url is None:
            raise self._problem(descriptor, "it has no base_url", "Set base_url.")
        endpoint = Endpoint(
            provider=descriptor.name,
            sdk=protocol.sdk,
            base_url=descriptor.base_url,
            key=None if descriptor.api_key is None else self._expand(descriptor, "api_key", descriptor.api_key),
            headers={
                header: self._expand(descriptor, f"headers.{header}", value)
                for header, value in descriptor.headers.items()
            },
        )
        cached: dict[str, Capabilities] = {}

        def capabilities(model: str) -> Capabilities:
            if model not in cached:
                cached[model] = descriptor.capabilities_for(model)
            return cached[model]

        return Provider(
            name=descriptor.name, protocol=protocol, transport=HttpTransport(endpoint), capabilities=capabilities
        )

    def _expand(self, descriptor: ProviderDescriptor, key: str, text: str) -> str:
        """A template with its variables. Errors: ``ConfigurationInvalidity``, which names the one that is missing."""
        template = Template.parse(text, variables=True)
        for variable in template.variables:
            if not self._secrets.get(variable):
                raise self._problem(
                    descriptor,
                    f"{key} wants the variable {variable}, which is not set",
                    f"Set it (export {variable}=…), or write another {key} under [providers.{descriptor.name}].",
                )
        return template.header({}, self._secrets)

    @staticmethod
    def _problem(descriptor: ProviderDescriptor, message: str, hint: str) -> ConfigurationInvalidity:
        problem = Problem(message=f"provider {descriptor.name!r}: {message}", file=descriptor.file, hint=hint)
        return ConfigurationInvalidity((problem,))

    async def close(self) -> None:
        """Closes what was opened."""
        made, self._made = self._made, {}
        for provider in made.values():
            await provider.transport.close()
