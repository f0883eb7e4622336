"""The model that a command asks, and help for configuring one."""

import re
from collections.abc import Mapping

from ripieno.assembly import Assembly
from ripieno.assembly.builtins import DEFAULT_PROTOCOL
from ripieno.assembly.configuration import load_configuration
from ripieno.descriptors import ProviderDescriptor
from ripieno.exceptions import InputError
from ripieno.jsonvalues import EMPTY
from ripieno.models import Model
from ripieno.models.transport.cloud_names import HOMES
from ripieno.storage.places import Places
from ripieno.storage.redaction import HIDDEN

_CREDENTIALS = "the credentials of its cloud"
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_VARIABLES_ONLY = re.compile(r"(?:\{env:[^{}]*\}|:)*")


def require_model(assembly: Assembly, model: str | Model | None, agent: str | None, *, command: str) -> None:
    """Checks that a model is configured, before anything is connected. ``command`` needs it, such as ``resume``.

    Errors: ``InputError`` that explains how to configure one; those of ``Assembly.access_model`` and ``access_agent``.
    """
    if assembly.loaded.failures:
        return  # Entering the assembly reports them.
    chosen = model or (assembly.access_agent(agent).model if agent is not None else None)
    chosen = chosen or assembly.configuration.model
    if chosen is None:
        raise InputError(_how_to_configure(assembly, command))
    if isinstance(chosen, str):
        assembly.access_model(chosen)


def has_cloud_credentials(provider: ProviderDescriptor) -> bool:
    """Whether its cloud supplies the credentials, because no key is configured."""
    return provider.cloud in HOMES and provider.api_key is None


def variables_of(provider: ProviderDescriptor) -> tuple[str, ...]:
    """The environment variables in a provider's address, key and headers."""
    return tuple(dict.fromkeys(name for need in provider.needs for variables in need for name in variables))


def missing_variables(provider: ProviderDescriptor | None, variables: Mapping[str, str]) -> list[str]:
    """The variables that a provider needs and that are not set, as text: ``the variable A or B``."""
    unmet = missing_needs(provider, variables)
    return ["the variable " + " or ".join(" and ".join(one) for one in need) for need in unmet]


def missing_needs(
    provider: ProviderDescriptor | None, variables: Mapping[str, str]
) -> list[tuple[tuple[str, ...], ...]]:
    """The needs of a provider that are not met: of each, the alternatives, which are names of variables."""
    needs = () if provider is None else provider.needs
    return [need for need in needs if not any(all(variables.get(name) for name in one) for one in need)]


def show_address(url: str) -> str:
    """An address with literal user, password and query values hidden. Names of variables stay."""
    scheme = _SCHEME.match(url)
    head = scheme[0] if scheme is not None else ""
    user, at, place = url.removeprefix(head).rpartition("@")
    path, mark, query = place.partition("?")
    fields = (field.partition("=") for field in query.split("&"))
    shown = "&".join(f"{name}={_covered(value)}" if equals else _covered(name) for name, equals, value in fields)
    return f"{head}{_covered(user)}{at}{path}{mark}{shown}"


def _covered(text: str) -> str:
    """The text if it consists of variables, otherwise ``[hidden]``."""
    return text if _VARIABLES_ONLY.fullmatch(text) else HIDDEN


def show_needs(provider: ProviderDescriptor, known: Mapping[str, bool] = EMPTY) -> str:
    """The needed variables as text, with a star behind those that are ``known``: ``A* or B, C``. Empty if none."""
    shown: list[str] = []
    for need in provider.needs:
        named = [" and ".join(f"{name}{'*' * known.get(name, False)}" for name in one) for one in need if one]
        shown.append(" or ".join([*named, *(["none"] if () in need else [])]))
    return ", ".join(shown)


def examples(
    providers: Mapping[str, ProviderDescriptor], prompt: str = "...", known: Mapping[str, bool] = EMPTY
) -> list[str]:
    """A command for each provider, with what it needs in the environment. A star marks what is ``known``."""
    lines: list[str] = []
    for name, descriptor in providers.items():
        needs = ", ".join(
            filter(None, (show_needs(descriptor, known), _CREDENTIALS if has_cloud_credentials(descriptor) else ""))
        )
        wants = f"   # needs {needs or 'no key'}"
        lines.append(f'ripieno ask -m {name}/MODEL "{prompt}"{wants}')
    return lines


def bundled_examples(prompt: str) -> list[str]:
    """The commands for the bundled providers."""
    return examples(load_configuration({}).providers, prompt)


def _how_to_configure(assembly: Assembly, command: str) -> str:
    providers, secrets = assembly.loaded.providers, assembly.surroundings.secrets
    head = "No model is configured. Name one with -m:"
    chosen = [f"ripieno {command} -m PROVIDER/MODEL   # to list the providers: ripieno providers"]
    if command == "ask":
        known = {name: bool(secrets.get(name)) for one in providers.values() for name in variables_of(one)}
        chosen = examples(providers, known=known)
        head = f"{head[:-1]} (a star marks a variable that is set):" if any(known.values()) else head
    prompt = ' "..."' if command == "ask" else ""
    chosen.append(f"ripieno {command} -m score:FILE{prompt}   # plays the answers in a file; needs no key")
    lines = [
        head,
        *(f"  {line}" for line in chosen),
        f"or permanently, such as a server of your own, in {Places.of_user().file}:",
        "  [model]",
        '  default = "mine/MODEL"',
        "  [providers.mine]",
        f'  protocol = "{DEFAULT_PROTOCOL}"',
        '  base_url = "http://localhost:8000/v1"   # if it needs a key: api_key = "{env:MINE_KEY}"',
    ]
    return "\n".join(lines)
