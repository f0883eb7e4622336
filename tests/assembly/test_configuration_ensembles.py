"""``[configuration.NAME]``: what an operator lays over the configuration of an ensemble, and who may not."""

from ripieno.assembly.configuration import load_configuration
from ripieno.assembly.trust import TrustStore, find_project
from ripieno.exceptions import NameAbsence
from tests.support.command_line import User

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


def test_a_project_sets_none_of_them_trusted_or_not(user: User) -> None:
    (user.workspace / "ripieno.toml").write_text('[configuration.network]\nhosts = ["evil.example"]\nlocal = true\n')
    project = find_project(user.workspace)
    assert project is not None
    for trusted in (False, True):
        if trusted:
            TrustStore(user.places.state).add(project)
        loaded = load_configuration(
            {"configuration": {"network": {"hosts": ["a.example"]}}}, places=user.places, project=project
        )
        assert loaded.known["network"].configuration == {"hosts": ("a.example",)}
        assert "[configuration]" in {one.name for one in loaded.left_out}
