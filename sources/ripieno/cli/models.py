"""Which model a command asks, and, when none is configured, how to configure one."""

from collections.abc import Mapping, Sequence

from ripieno.assembly import Assembly
from ripieno.descriptors import ProviderDescriptor
from ripieno.exceptions import InputError
from ripieno.gathering import Gathered, Places, gather
from ripieno.templates import Template


def require_model(assembly: Assembly, model: str | None, agent: str | None) -> None:
    """Makes sure that there is a model to ask, before anything is connected.

    Errors: ``InputError`` that says how to configure one; those of ``Assembly.access_model`` and ``access_agent``.
    """
    if assembly.gathered.failures:
        return  # Entering the assembly says all of them, and without them names would be missing.
    chosen = model or (assembly.access_agent(agent).model if agent is not None else None)
    chosen = chosen or assembly.configuration.model
    if chosen is None:
        raise InputError(_how_to_configure(assembly.gathered))
    assembly.access_model(chosen)


def variables_of(provider: ProviderDescriptor) -> tuple[str, ...]:
    """The environment variables that a provider's address, key and headers are made of."""
    keys = (provider.api_key, provider.base_url, provider.region, provider.project, provider.api_version)
    texts = [text for text in (*keys, *provider.headers.values()) if text is not None]
    return tuple(dict.fromkeys(name for text in texts for name in Template.parse(text, variables=True).variables))


def examples(providers: Mapping[str, ProviderDescriptor], prompt: str = "...") -> list[str]:
    """A line for each provider: how to ask it, and what it wants in the environment."""
    lines: list[str] = []
    for name, descriptor in providers.items():
        variables = variables_of(descriptor)
        needs = ", ".join(variables) or ("no key" if descriptor.cloud is None else "the credentials of its cloud")
        wants = f"   # needs {needs}"
        lines.append(f'ripieno ask -m {name}/MODEL "{prompt}"{wants}')
    return lines


def bundled_examples(prompt: str) -> list[str]:
    """The same for the providers that everybody has."""
    return examples(gather({}).providers, prompt)


def _how_to_configure(gathered: Gathered) -> str:
    file = Places.of_user().configuration / "config.toml"
    protocols: Sequence[str] = sorted(gathered.registry.protocols)
    first = next(iter(gathered.providers), "mine")
    lines = [
        "No model is configured. Name one with -m:",
        *(f"  {line}" for line in examples(gathered.providers)),
        f"or for good, in {file}:",
        "  [model]",
        f'  default = "{first}/MODEL"',
        "A server of your own is a table more there (protocols: " + ", ".join(protocols) + "):",
        "  [providers.mine]",
        f'  protocol = "{protocols[-1] if protocols else "NAME"}"',
        '  base_url = "http://localhost:8000/v1"',
        '  api_key = "{env:MINE_KEY}"          # leave it out when it wants none',
    ]
    return "\n".join(lines)
