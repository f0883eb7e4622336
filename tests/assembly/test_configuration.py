"""Layers of configuration: precedence, narrowing by untrusted projects, and problems."""

from ripieno.assembly.configuration import LoadedConfiguration, load_configuration
from ripieno.assembly.trust import TrustStore
from ripieno.canisters.controls import Rules
from ripieno.exceptions import ConfigurationInvalidity, NameAbsence, Problem
from tests.assembly.test_trust import project_in
from tests.support.command_line import User


def test_nothing_selected_is_the_starter_profile(user: User) -> None:
    loaded = load_configuration(places=user.places)
    assert [one.name for one in loaded.ensembles] == ["io"]
    bundled = {"anthropic", "gemini", "openai", "openai-responses", "ollama", "vllm", "openrouter"}
    assert bundled <= set(loaded.providers)
    assert loaded.failures == ()


def test_enabled_names_exactly(user: User, greeting: str) -> None:
    user.ensemble("greeting", greeting)
    loaded = load_configuration({"ensembles": {"enabled": ["greeting"]}}, places=user.places)
    assert [one.name for one in loaded.ensembles] == ["greeting"]
    assert load_configuration({"ensembles": {"enabled": []}}, places=user.places).ensembles == ()


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
        '[environment]\nallow = ["SECRET"]\n'
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
    assert loaded.configuration.environment is None
    assert (loaded.configuration.sandbox.level, loaded.configuration.sandbox.network) == (None, False)
    named = {one.name for one in loaded.left_out}
    assert {
        "[plugins]",
        "[confirmation] approve",
        "[limits] calls",
        "[providers]",
        "[environment]",
        "[sandbox] level",
        "evil",
    } <= named


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


def problems_of(loaded: LoadedConfiguration) -> tuple[Problem, ...]:
    (failure,) = loaded.failures
    assert isinstance(failure, ConfigurationInvalidity)
    return failure.problems


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
