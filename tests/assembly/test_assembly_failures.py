"""What a start that fails says: every reason, once, in a traceback and to people."""

import pathlib
import traceback

import pytest

from ripieno.assembly import assemble
from ripieno.assembly.configuration import Places, load_configuration
from ripieno.exceptions import AssemblyFailure, NameAbsence


async def fail(places: Places) -> AssemblyFailure:
    settings = {"ensembles": {"enabled": ["nowhere", "io", "nothing"]}, "plugins": {"allow": ["not-installed"]}}
    with pytest.raises(AssemblyFailure) as caught:
        async with assemble(settings, places=places):
            pytest.fail("It must not start.")
    return caught.value


@pytest.fixture
def places(tmp_path: pathlib.Path) -> Places:
    return Places(configuration=tmp_path / "configuration", state=tmp_path / "state")


async def test_a_traceback_has_each_reason_once(places: Places) -> None:
    failure = await fail(places)
    shown = "".join(traceback.format_exception(failure))
    for reason in ("'nowhere'", "'nothing'", "'not-installed'"):
        assert shown.count(reason) == 1
        assert failure.text.count(reason) == 1


async def test_a_part_of_a_failure_is_one_too(places: Places) -> None:
    names, others = (await fail(places)).split(NameAbsence)
    assert isinstance(names, AssemblyFailure)
    assert isinstance(others, AssemblyFailure)
    assert "'nowhere'" in names.text
    assert "'not-installed'" not in names.text


def test_every_unknown_ensemble_is_named(places: Places) -> None:
    loaded = load_configuration({"ensembles": {"enabled": ["oi", "io", "nothing"]}}, places=places)
    assert [failure.name for failure in loaded.failures if isinstance(failure, NameAbsence)] == ["oi", "nothing"]
    assert "under [ensembles] enabled" in str(loaded.failures[0])


def test_the_profile_that_names_an_unknown_ensemble_is_named(places: Places) -> None:
    profiles = places.configuration / "profiles"
    profiles.mkdir(parents=True)
    (profiles / "odd.toml").write_text('[profile]\nname = "odd"\nensembles = ["oi"]\n')
    (failure,) = load_configuration({"ensembles": {"profile": "odd"}}, places=places).failures
    assert "by the profile 'odd'" in str(failure)


def test_a_configuration_that_is_not_there_says_how_to_make_one(places: Places, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "ripieno.toml"
    (failure,) = load_configuration(file, places=places).failures
    assert str(file) in str(failure)
    assert "[ensembles]" in str(failure)
    assert "ripieno schema config" in str(failure)
    # An empty one will do, as it says; a broken one is told what is broken.
    file.write_text("")
    assert load_configuration(file, places=places).failures == ()
    file.write_text("[")
    (failure,) = load_configuration(file, places=places).failures
    assert "ripieno schema config" not in str(failure)
