"""Layers of configuration: precedence, narrowing by untrusted projects, and problems with their places."""

import os
import textwrap
from typing import Any

import pytest

from ripieno.assembly import assemble
from ripieno.assembly.configuration import LoadedConfiguration, load_configuration
from ripieno.assembly.protection import protected_by
from ripieno.assembly.trust import TrustStore
from ripieno.canisters.controls import Rules
from ripieno.canisters.events import Alert
from ripieno.exceptions import ConfigurationInvalidity, NameAbsence, Problem
from ripieno.models.fallback import FallbackModel
from tests.assembly.test_trust import project_in
from tests.support.command_line import User


def test_nothing_selected_is_the_starter_profile(user: User) -> None:
    loaded = load_configuration(places=user.places)
    assert [one.name for one in loaded.ensembles] == ["io"]
    bundled = {"anthropic", "gemini", "openai", "openai-responses", "ollama", "vllm", "openrouter"}
    assert bundled <= set(loaded.providers)
    assert loaded.failures == ()


def test_native_calls_of_ollama(user: User) -> None:
    ollama = load_configuration(places=user.places).providers["ollama"]
    native = "llama3.1 llama3.2:3b llama3-groq-tool-use mistral-nemo qwen3-coder phi4-mini functiongemma gemma4"
    prompted = "gemma gemma:7b gemma2 gemma3:4b llama2 llama3 llama3:8b phi3:mini phi4:14b codellama deepseek-r1:8b"
    assert {
        name for name in f"{native} {prompted}".split() if not ollama.capabilities_for(name)["function_calling"]
    } == {*prompted.split()}


def test_enabled_names_exactly(user: User, greeting: str) -> None:
    user.ensemble("greeting", greeting)
    loaded = load_configuration({"ensembles": {"enabled": ["greeting"]}}, places=user.places)
    assert [one.name for one in loaded.ensembles] == ["greeting"]
    assert load_configuration({"ensembles": {"enabled": []}}, places=user.places).ensembles == ()


def test_ensembles_that_the_caller_does_not_need_are_left_out(user: User, greeting: str) -> None:
    user.ensemble("greeting", greeting)

    def read(*needed: str) -> list[str]:
        loaded = load_configuration(places=user.places, needs=lambda whole: needed)
        return sorted(one.name for one in loaded.ensembles)

    assert read() == []
    assert read("greeting") == ["greeting"]
    # One that is absent is refused later, with the names that there are.
    assert read("greeting", "absent") == ["greeting", "io"]


def test_caller_wins_over_user_but_denials_are_joined(user: User) -> None:
    user.configure('[confirmation]\ndeny = ["io.write_file"]\napprove = ["a.*"]\n[limits]\nturns = 5\ncalls = 7\n')
    loaded = load_configuration(
        {"confirmation": {"deny": ["io.read_file"], "approve": ["b.*"]}, "limits": {"turns": 9}}, places=user.places
    )
    assert loaded.configuration.confirmation == Rules(approve=("b.*",), deny=("io.write_file", "io.read_file"))
    assert (loaded.configuration.limits.turns, loaded.configuration.limits.calls) == (9, 7)


def test_a_provider_is_a_table(user: User) -> None:
    tables = {
        "providers": {
            "house": {"protocol": "openai-chat", "base_url": "http://127.0.0.1:1/v1"},
            "openai": {"base_url": "http://127.0.0.1:2/v1"},
        }
    }
    providers = load_configuration(tables, places=user.places).providers
    assert providers["house"].protocol == "openai-chat"
    assert providers["openai"].base_url == "http://127.0.0.1:2/v1"
    assert providers["openai"].api_key == "{env:OPENAI_API_KEY}"


def test_all_problems_of_all_files_come_together(user: User, greeting: str) -> None:
    user.configure("[limits]\nturnz = 3\n")
    user.ensemble("first", greeting.replace("effect", "efect"))
    user.ensemble("second", greeting.replace('name = "greeting"', 'name = "Second"'))
    (failure,) = [
        one for one in load_configuration(places=user.places).failures if isinstance(one, ConfigurationInvalidity)
    ]
    assert all(part in str(failure) for part in ("turnz", "efect", "Second"))
    assert all(problem.line is not None for problem in failure.problems)


def test_an_untrusted_project_may_only_narrow(user: User, greeting: str) -> None:
    (user.workspace / "ripieno.toml").write_text(
        '[ensembles]\nenabled = ["greeting"]\n'
        '[plugins]\nallow = ["evil"]\n'
        '[confirmation]\napprove = ["*"]\ndeny = ["io.read_file"]\n'
        "[limits]\nturns = 2\ncalls = 100000\n"
        '[providers.openai]\nbase_url = "http://127.0.0.1:9/"\n'
        '[sandbox]\nlevel = "off"\nnetwork = false\n'
    )
    user.ensemble("evil", greeting.replace("greeting", "evil"), folder=user.workspace / "ensembles")
    user.ensemble("greeting", greeting)
    user.configure("[limits]\ncalls = 50\n")
    project = project_in(user.workspace)
    loaded = load_configuration(places=user.places, project=project)
    assert loaded.failures == ()
    assert [one.name for one in loaded.ensembles] == ["greeting"]
    assert loaded.configuration.confirmation == Rules(deny=("io.read_file",))
    assert (loaded.configuration.limits.turns, loaded.configuration.limits.calls) == (2, 50)
    assert loaded.providers["openai"].base_url == "https://api.openai.com/v1"
    assert loaded.configuration.plugins == ()
    assert (loaded.configuration.sandbox.level, loaded.configuration.sandbox.network) == (None, False)
    # What else is left out of a project: test_trust.
    assert {"[plugins]", "[limits] calls", "[providers]", "evil"} <= {one.name for one in loaded.left_out}


def test_a_trusted_project_acts_and_still_never_takes_what_is_the_users(user: User, greeting: str) -> None:
    (user.workspace / "ripieno.toml").write_text(
        '[confirmation]\napprove = ["*"]\n'
        '[plugins]\nallow = ["evil"]\n'
        '[providers.openai]\nbase_url = "http://127.0.0.1:9/"\napi_key = "x"\n'
        '[providers.ours]\nprotocol = "openai-chat"\nbase_url = "http://127.0.0.1:8/v1"\n'
        '[agents.helper]\nmodel = "ours/small"\n'
    )
    file = user.ensemble("greeting", greeting, folder=user.workspace / "ensembles")
    project = project_in(user.workspace)
    store = TrustStore(user.places.state)
    store.add(project)
    loaded = load_configuration(places=user.places, project=project)
    assert [one.name for one in loaded.ensembles] == ["io", "greeting"]
    assert loaded.configuration.confirmation == Rules()
    assert loaded.configuration.plugins == ()
    assert loaded.providers["openai"].base_url == "https://api.openai.com/v1"
    assert loaded.providers["ours"].base_url == "http://127.0.0.1:8/v1"
    assert loaded.configuration.agents["helper"].model == "ours/small"
    file.write_text(greeting + "# changed\n")
    changed = project_in(user.workspace)
    assert (store.trusts(changed), store.knows(changed)) == (False, True)
    assert [one.name for one in load_configuration(places=user.places, project=changed).ensembles] == ["io"]


STRANGE = """
[model]
default = "house/m"
fallback = ["openai/m", "hose/m"]

[providers.house]
protocol = "openai-chat"
base_url = "http://127.0.0.1:9/v1"

[agents.one]
model = "opnai/m"

[agents.two]
fallback = ["house/x", "xyzzy/x/y"]
"""


def problems_of(loaded: LoadedConfiguration) -> list[Problem]:
    found: list[Problem] = []
    for failure in loaded.failures:
        assert isinstance(failure, ConfigurationInvalidity)
        found += failure.problems
    return found


def test_every_model_is_of_a_provider_that_there_is(user: User) -> None:
    user.configure(STRANGE)
    file = str(user.places.configuration / "config.toml")
    second, third, fourth = problems_of(load_configuration(places=user.places))
    assert (second.file, second.line, second.key) == (file, 4, "model.fallback[1]")
    assert second.message == "model.fallback[1] names the provider 'hose', which does not exist"
    assert second.hint == "Did you mean 'house'?"
    assert (third.line, third.key, third.hint) == (11, "agents.one.model", "Did you mean 'openai'?")
    assert (fourth.line, fourth.key) == (14, "agents.two.fallback[1]")
    assert "house" in (fourth.hint or "")
    # The last word counts, wherever a provider of that name is.
    corrected = {"model": {"fallback": []}, "agents": {"one": {"model": "house/y"}, "two": {"fallback": []}}}
    assert load_configuration(corrected, places=user.places).failures == ()
    (default,) = problems_of(
        load_configuration({**corrected, "model": {"default": "hous/m", "fallback": []}}, places=user.places)
    )
    assert default.key == "model.default"
    assert "model.default names the provider 'hous'" in str(default)


def test_a_provider_that_cannot_be_read_is_not_missed_as_well(user: User) -> None:
    folder = user.places.configuration / "providers"
    folder.mkdir(parents=True)
    (folder / "cellar.toml").write_text('[provider]\nname = "cellar"\nprotocl = "openai-chat"\n')
    (problem,) = problems_of(load_configuration({"model": {"default": "cellar/m"}}, places=user.places))
    assert "protocl" in problem.message


# ``[configuration.NAME]``, settings over those of an ensemble.

MORE = '[configuration]\nfolder = "a"\nplaces = { one = 1, two = 2 }\n[[invokers]]\n'


def test_settings_are_laid_over_an_ensemble_and_its_invokers(user: User, greeting: str) -> None:
    user.ensemble("greeting", greeting.replace("[[invokers]]\n", MORE, 1))
    user.configure('[configuration.greeting]\nfolder = "b"\nnames = ["x"]\n')
    loaded = load_configuration(
        {"configuration": {"greeting": {"names": [], "places": {"two": 3}}}}, places=user.places
    )
    assert loaded.failures == ()
    one = loaded.known["greeting"]
    assert one.configuration == {"folder": "b", "names": (), "places": {"one": 1, "two": 3}}
    assert one.invokers[0].configuration == one.configuration


def test_settings_of_nobody_are_an_error(user: User, greeting: str) -> None:
    user.ensemble("greeting", greeting)
    (failure,) = load_configuration({"configuration": {"greetings": {"a": 1}}}, places=user.places).failures
    assert isinstance(failure, NameAbsence)
    assert failure.nearest[0] == "greeting"
    assert "under [configuration]" in str(failure)


HOUSE = '[providers.house]\nprotocol = "openai-chat"\nbase_url = "http://127.0.0.1:9/v1"\n'
GARDEN = '[providers.garden]\nprotocol = "openai-chat"\nbase_url = "http://127.0.0.1:9/v1"\napi_key = "{env:GARDEN}"\n'


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        (
            HOUSE.replace("openai-chat", "openai-caht"),
            "2: providers.house.protocol",
            "protocol names the protocol 'openai-caht', which does not exist",
            "Did you mean 'openai-chat'?",
        ),
        (
            f'{HOUSE}cloud = "azur"\n',
            "4: providers.house.cloud",
            "cloud names 'azur', which does not exist",
            "Did you mean 'azure'?",
        ),
        (
            HOUSE.replace('"openai-chat"', '"prompted"\ncarrier = "prompted"'),
            "3: providers.house.carrier",
            '"prompted" has no wire format of its own, so it cannot be a carrier',
            "openai-chat, openai-responses.",
        ),
        (
            HOUSE.replace('"openai-chat"', '"prompted"\ncarrier = "wire"'),
            "3: providers.house.carrier",
            "carrier names the protocol 'wire', which does not exist",
            "",
        ),
        (
            '[providers.house]\nprotocol = "openai-chat"\n',
            "1: providers.house",
            "provider 'house' has no base_url",
            "Add its URL",
        ),
        (
            '[providers.house]\nprotocol = "openai-chat"\ncloud = "azure"\n',
            "1: providers.house",
            "provider 'house' has no base_url",
            "Add its URL",
        ),
        (
            '[providers.house]\nbase_url = "http://127.0.0.1:9/v1"\n',
            "1: providers.house",
            "[providers.house] lacks protocol",
            "",
        ),
        (
            '[providers.openai]\nprotocol = "openai-reponses"\n',
            "2: providers.openai.protocol",
            "protocol names the protocol 'openai-reponses'",
            "Did you mean 'openai-responses'?",
        ),
        (
            '[model]\ndefault = "house/m"\ntool_choice = "required"\n'
            f"{HOUSE}capabilities = {{ tool_choice = false }}\n",
            "3: model.tool_choice",
            "tool_choice = 'required', but house/m cannot be forced to call a tool",
            "[[providers.house.models]]",
        ),
        (
            '[model]\ndefault = "openai/m"\nfallback = ["ollama/m"]\ntool_choice = "read_file"\n',
            "4: model.tool_choice",
            "tool_choice = 'read_file', but ollama/m cannot be forced",
            "[[providers.ollama.models]]",
        ),
        (
            '[agents.one]\nmodel = "ollama/m"\n[agents.one.controls]\ntool_choice = "required"\n',
            "4: agents.one.controls.tool_choice",
            "but ollama/m cannot be forced to call a tool",
            "",
        ),
    ],
)
def test_what_cannot_be_asked(user: User, text: str, place: str, message: str, hint: str) -> None:
    user.configure(text)
    (problem,) = problems_of(load_configuration(places=user.places))
    assert message in problem.message
    assert hint in (problem.hint or "")
    assert f"{problem.line}: {problem.key}" == place
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


@pytest.mark.parametrize("form", ["mapping", "file", "nothing", "requested"])
async def test_an_application_that_names_its_configuration_reads_no_other(user: User, greeting: str, form: str) -> None:
    """Neither settings nor ensembles of the user, nor the project of the workspace, unless it asks for them."""
    user.ensemble("greeting", greeting)
    user.configure('[model]\ndefault = "anthropic/mine"\n[confirmation]\napprove = ["*.*"]\n')
    (user.workspace / "ripieno.toml").write_text('[confirmation]\ndeny = ["*"]\n')
    file = user.workspace / "application.toml"
    file.write_text('[ensembles]\nenabled = ["io"]\n')
    configuration = {"mapping": {"ensembles": {"enabled": ["io"]}}, "file": file}.get(form)
    if form == "requested":
        configuration = {"ensembles": {"enabled": ["io"]}}
    layers: Any = "user" if form == "requested" else None
    assembly = assemble(configuration, workspace=user.workspace, places=user.places, layers=layers)
    asked = form in ("nothing", "requested")
    assert (assembly.configuration.model == "anthropic/mine") is asked
    assert ("greeting" in assembly.loaded.known) is asked
    assert bool(assembly.configuration.confirmation.approve) is asked
    assert not assembly.configuration.confirmation.deny
    assert str(user.configuration) + "/" in protected_by(assembly.loaded)
    assert all(os.path.isabs(path) for path in protected_by(assembly.loaded))
