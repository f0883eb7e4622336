"""Plugins: installation is not consent, and one that fails does not affect the others."""

import importlib
import pathlib
import sys
from collections.abc import Iterator

import pytest

from ripieno.assembly.configuration import load_configuration
from ripieno.assembly.plugins import BUILT_IN, discover
from ripieno.exceptions import NameAbsence

GOOD = """
from ripieno.plugin import hookimpl
import pathlib
@hookimpl
def ripieno_data():
    return (pathlib.Path(__file__).parent,)
@hookimpl
def ripieno_origins():
    return {"carrier-pigeon": "good_plugin:ORIGIN"}
ORIGIN = "an origin"
"""
UNKNOWN = """
from ripieno.plugin import hookimpl
@hookimpl
def ripieno_orgins():
    return {}
"""
RAISING = """
from ripieno.plugin import hookimpl
@hookimpl
def ripieno_data():
    raise RuntimeError("no data today")
"""


def install(site: pathlib.Path, distribution: str, module: str, source: str) -> None:
    """An installed distribution: a module, and metadata with an entry point."""
    (site / f"{module}.py").write_text(source)
    folder = site / f"{distribution.replace('-', '_')}-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(f"[ripieno]\n{module} = {module}\n")


@pytest.fixture
def site(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if name.endswith("_plugin"):
            del sys.modules[name]


def test_the_built_in_plugin_is_registered_like_others() -> None:
    registry = discover()
    assert set(registry.protocols) >= {"anthropic", "gemini", "openai-chat", "openai-responses"}
    assert set(registry.origins) >= {"client", "command", "http", "mcp", "python"}
    assert [name for name, _ in registry.data] == [BUILT_IN]
    assert registry.failures == ()
    assert registry.resolve("protocols", "anthropic").name == "anthropic"


def test_unknown_name_tells_the_nearest() -> None:
    with pytest.raises(NameAbsence, match=r"no protocol named 'antropic'.*'anthropic'"):
        discover().resolve("protocols", "antropic")


def test_what_is_not_allowed_is_reported_and_never_imported(site: pathlib.Path) -> None:
    install(site, "pigeon-post", "good_plugin", GOOD)
    registry = discover()
    (status,) = registry.plugins
    assert (status.name, status.distribution, status.allowed) == ("good_plugin", "pigeon-post", False)
    assert "good_plugin" not in sys.modules
    assert "carrier-pigeon" not in registry.origins
    assert registry.advice == (
        "Installed plugins that are not allowed: pigeon-post. "
        'To allow it, write under [plugins]: allow = ["pigeon-post"]'
    )


def test_several_that_are_not_allowed_are_named_with_one_as_the_example(site: pathlib.Path) -> None:
    install(site, "pigeon-post", "good_plugin", GOOD)
    install(site, "albatross", "other_plugin", GOOD)
    assert discover().advice == (
        "Installed plugins that are not allowed: albatross, pigeon-post. "
        'To allow one, name it under [plugins], such as: allow = ["albatross"]'
    )


@pytest.mark.parametrize("spelling", ["pigeon-post", "Pigeon_Post", "pigeon.post"])
def test_allowed_plugin_plays_whatever_the_spelling(site: pathlib.Path, spelling: str) -> None:
    install(site, "pigeon-post", "good_plugin", GOOD)
    registry = discover([spelling])
    assert registry.failures == ()
    assert registry.resolve("origins", "carrier-pigeon") == "an origin"
    assert ("good_plugin", (site,)) in registry.data


def test_failures_are_named_and_the_others_go_on(site: pathlib.Path) -> None:
    install(site, "pigeon-post", "good_plugin", GOOD)
    install(site, "broken", "broken_plugin", "import nothing_of_that_name\n")
    install(site, "mistyped", "mistyped_plugin", UNKNOWN)
    install(site, "raising", "raising_plugin", RAISING)
    registry = discover(["pigeon-post", "broken", "mistyped", "raising", "not-installed"])
    reasons = {failure.plugin: failure.reason for failure in registry.failures}
    assert set(reasons) == {"broken_plugin", "mistyped_plugin", "raising_plugin"}
    assert registry.missing == ("not-installed",)
    assert "nothing_of_that_name" in reasons["broken_plugin"]
    assert reasons["mistyped_plugin"].startswith(
        "mistyped_plugin cannot be loaded: There is no hook named 'ripieno_orgins'. Did you mean 'ripieno_origins'"
    )
    assert "The hooks are ripieno_commands, ripieno_data, " in reasons["mistyped_plugin"]
    assert "no data today" in reasons["raising_plugin"]
    assert "carrier-pigeon" in registry.origins
    # An unknown name may be that of something which these would have provided.
    failed = "broken_plugin, mistyped_plugin, raising_plugin"
    assert registry.advice == f"It may come from a plugin that could not be loaded: {failed}."


@pytest.mark.parametrize("folder", ["'data'", "pathlib.Path('data')"])
def test_one_folder_that_is_no_list_is_one_failure(site: pathlib.Path, folder: str) -> None:
    hook = f"@hookimpl\ndef ripieno_data():\n    return {folder}\n"
    install(site, "single", "single_plugin", f"import pathlib\nfrom ripieno.plugin import hookimpl\n{hook}")
    (failure,) = discover(["single"]).failures
    assert failure.reason == "ripieno_data returned 'data': return a list of folders, such as ['data']."


def test_what_is_taken_stays(site: pathlib.Path) -> None:
    install(site, "greedy", "greedy_plugin", GOOD.replace("carrier-pigeon", "mcp"))
    registry = discover(["greedy"])
    assert registry.origins["mcp"] == "ripieno.origins.mcp:ORIGIN"
    (failure,) = registry.failures
    assert "'mcp' is taken" in failure.reason


def test_a_distribution_that_is_not_installed_gets_the_nearest_one(site: pathlib.Path, tmp_path: pathlib.Path) -> None:
    install(site, "house-weather", "good_plugin", GOOD)
    loaded = load_configuration({"plugins": {"allow": ["house-wether"]}}, workspace=tmp_path, user=False)
    (warning,) = [one for one in loaded.warnings if "house-wether" in one.message]
    assert warning.hint == "Did you mean 'house-weather'?"
