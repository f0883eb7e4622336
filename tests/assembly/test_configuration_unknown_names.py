"""Unknown names and impossible choices in a configuration are problems at the start, with their place."""

import textwrap

import pytest

from ripieno.assembly import assemble
from ripieno.assembly.configuration import LoadedConfiguration, load_configuration
from ripieno.canisters.events import Alert
from ripieno.exceptions import ConfigurationInvalidity, Problem
from ripieno.models.fallback import FallbackModel
from tests.support.command_line import User

HOUSE = '[providers.house]\nprotocol = "openai-chat"\nbase_url = "http://127.0.0.1:9/v1"\n'
GARDEN = '[providers.garden]\nprotocol = "openai-chat"\nbase_url = "http://127.0.0.1:9/v1"\napi_key = "{env:GARDEN}"\n'


def problems_of(loaded: LoadedConfiguration) -> list[Problem]:
    found: list[Problem] = []
    for failure in loaded.failures:
        assert isinstance(failure, ConfigurationInvalidity)
        found += failure.problems
    return found


@pytest.mark.parametrize(
    ("text", "line", "key", "message", "hint"),
    [
        (
            HOUSE.replace("openai-chat", "openai-caht"),
            2,
            "providers.house.protocol",
            "protocol names the protocol 'openai-caht', which does not exist",
            "Did you mean 'openai-chat'?",
        ),
        (
            f'{HOUSE}cloud = "azur"\n',
            4,
            "providers.house.cloud",
            "cloud names 'azur', which does not exist",
            "Did you mean 'azure'?",
        ),
        (
            HOUSE.replace('"openai-chat"', '"prompted"\ncarrier = "prompted"'),
            3,
            "providers.house.carrier",
            '"prompted" has no wire format of its own, so it cannot be a carrier',
            "openai-chat, openai-responses.",
        ),
        (
            HOUSE.replace('"openai-chat"', '"prompted"\ncarrier = "wire"'),
            3,
            "providers.house.carrier",
            "carrier names the protocol 'wire', which does not exist",
            "",
        ),
        (
            '[providers.house]\nprotocol = "openai-chat"\n',
            1,
            "providers.house",
            "provider 'house' has no base_url",
            "Add its URL",
        ),
        (
            '[providers.house]\nprotocol = "openai-chat"\ncloud = "azure"\n',
            1,
            "providers.house",
            "provider 'house' has no base_url",
            "Add its URL",
        ),
        (
            '[providers.house]\nbase_url = "http://127.0.0.1:9/v1"\n',
            1,
            "providers.house",
            "[providers.house] lacks protocol",
            "",
        ),
        (
            '[providers.openai]\nprotocol = "openai-reponses"\n',
            2,
            "providers.openai.protocol",
            "protocol names the protocol 'openai-reponses'",
            "Did you mean 'openai-responses'?",
        ),
        (
            '[model]\ndefault = "house/m"\ntool_choice = "required"\n'
            f"{HOUSE}capabilities = {{ tool_choice = false }}\n",
            3,
            "model.tool_choice",
            "tool_choice = 'required', but house/m cannot be forced to call a tool",
            "[[providers.house.models]]",
        ),
        (
            '[model]\ndefault = "openai/m"\nfallback = ["ollama/m"]\ntool_choice = "read_file"\n',
            4,
            "model.tool_choice",
            "tool_choice = 'read_file', but ollama/m cannot be forced",
            "[[providers.ollama.models]]",
        ),
        (
            '[agents.one]\nmodel = "ollama/m"\n[agents.one.controls]\ntool_choice = "required"\n',
            4,
            "agents.one.controls.tool_choice",
            "but ollama/m cannot be forced to call a tool",
            "",
        ),
    ],
)
def test_what_cannot_be_asked(  # noqa: PLR0917  a case has as many
    user: User, text: str, line: int, key: str, message: str, hint: str
) -> None:
    user.configure(text)
    (problem,) = problems_of(load_configuration(places=user.places))
    assert message in problem.message
    assert hint in (problem.hint or "")
    assert (problem.key, problem.line) == (key, line)
    assert problem.file == str(user.places.configuration / "config.toml")


def test_a_providers_own_file_is_blamed(user: User) -> None:
    folder = user.places.configuration / "providers"
    folder.mkdir(parents=True)
    text = '[provider]\nname = "house"\nprotocol = "openai-chat"\ncloud = "azur"\n'
    (folder / "house.toml").write_text(text)
    (problem,) = problems_of(load_configuration(places=user.places))
    assert (problem.file, problem.key, problem.line) == (str(folder / "house.toml"), "provider.cloud", 4)


@pytest.mark.parametrize(
    "text",
    [
        # A choice that is said in words can always be said.
        '[model]\ndefault = "house/m"\ntool_choice = "required"\n'
        f"{HOUSE}capabilities = {{ tool_choice = false, function_calling = false }}\n",
        '[model]\ndefault = "ollama/m"\ntool_choice = "none"\n',
        '[providers.house]\nprotocol = "anthropic"\ncloud = "bedrock"\n',
        # The agent has taken it back.
        '[model]\ntool_choice = "required"\n[agents.one]\nmodel = "ollama/m"\ncontrols = { tool_choice = "auto" }\n',
    ],
    ids=["prompted", "none", "cloud", "agent"],
)
def test_what_can_be_asked(user: User, text: str) -> None:
    user.configure(text)
    assert load_configuration(places=user.places).failures == ()


def test_rows_of_all_layers_are_kept(user: User) -> None:
    user.configure('[[providers.gemini.models]]\nmatch = "gemini-3*"\nstreaming = false\n')
    tables = {"providers": {"gemini": {"models": [{"match": "gemini-3-pro", "strict": False}]}}}
    gemini = load_configuration(tables, places=user.places).providers["gemini"]
    assert [row.match for row in gemini.models] == ["gemini-3-pro", "gemini-3*", "gemini-2*"]
    assert gemini.capabilities_for("gemini-2.5-pro")["thinking_budgets"] is True
    assert gemini.capabilities_for("gemini-3-flash")["streaming"] is False


async def chain(user: User, text: str, **secrets: str) -> tuple[list[str], list[Alert]]:
    """The models of a chain, and the alerts about the others."""
    user.configure(textwrap.dedent(text) + HOUSE + GARDEN)
    told: list[Alert] = []
    async with assemble(places=user.places, secrets=secrets, alert=told.append) as assembly:
        runs = [assembly.conduct("Hi."), assembly.conduct("Hi.")]
    model = runs[0].model
    return [one.identity for one in (model.models if isinstance(model, FallbackModel) else (model,))], told


async def test_a_fallback_without_its_key_stops_nobody(user: User) -> None:
    text = '[model]\ndefault = "house/m"\nfallback = ["garden/m", "house/small"]\n'
    models, told = await chain(user, text)
    assert models == ["house/m", "house/small"]
    (alert,) = told
    assert alert.message == (
        "The fallback garden/m is left out: provider 'garden': api_key needs the variable GARDEN, which is not set."
    )
    assert await chain(user, text, GARDEN="k") == (["house/m", "garden/m", "house/small"], [])


async def test_a_model_without_its_key_is_still_an_error(user: User) -> None:
    with pytest.raises(ConfigurationInvalidity, match="GARDEN"):
        await chain(user, '[model]\ndefault = "garden/m"\nfallback = ["house/m"]\n')
