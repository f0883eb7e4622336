"""Trust: a path, and the hash of everything that its files reach."""

import pathlib

import pytest

from ripieno.exceptions import InputError
from ripieno.trust import TrustStore, find_project
from tests.assembly.conftest import Home


def test_a_plain_folder_is_no_project(tmp_path: pathlib.Path) -> None:
    assert find_project(tmp_path) is None


def test_every_file_that_is_reached_changes_the_digest(home: Home, greeting: str) -> None:
    folder = home.workspace
    home.ensemble("greeting", greeting, folder=folder / "ensembles")
    referring = '[ensemble]\nname = "other"\nmodule = "m"\n[[invokers]]\nsource = "other/one.toml"\n'
    home.ensemble("other", referring, folder=folder / "ensembles")
    (folder / "ensembles" / "other").mkdir()
    source = folder / "ensembles" / "other" / "one.toml"
    source.write_text('[invoker]\nname = "one"\ndescription = "One."\n')
    module = folder / "ensembles" / "tools.py"
    module.write_text("def one(context, arguments): ...\n")
    (folder / "ripieno.toml").write_text("[limits]\nturns = 3\n")
    first = find_project(folder)
    assert first is not None
    assert {pathlib.Path(path).name for path in first.files} == {
        "greeting.toml",
        "other.toml",
        "one.toml",
        "tools.py",
        "ripieno.toml",
    }
    digests = {first.digest}
    for file in (source, module, folder / "ripieno.toml", folder / "ensembles" / "greeting.toml"):
        file.write_text(file.read_text() + "\n# changed\n")
        project = find_project(folder)
        assert project is not None
        digests.add(project.digest)
    assert len(digests) == 5


def test_trust_is_stored_and_taken_back(home: Home, greeting: str) -> None:
    home.ensemble("greeting", greeting, folder=home.workspace / "ensembles")
    project = find_project(home.workspace)
    assert project is not None
    store = TrustStore(home.places.state)
    assert (store.trusts(project), store.knows(project)) == (False, False)
    store.add(project)
    assert TrustStore(home.places.state).trusts(project)
    assert store.file.parent.stat().st_mode & 0o077 == 0
    assert store.remove(home.workspace)
    assert not store.remove(home.workspace)
    assert not store.trusts(project)


@pytest.mark.parametrize("text", ["no json", "[]", '{"version": 2, "trusted": {}}', '{"version": 1}'])
def test_a_store_that_cannot_be_read_is_no_consent(home: Home, greeting: str, text: str) -> None:
    home.ensemble("greeting", greeting, folder=home.workspace / "ensembles")
    project = find_project(home.workspace)
    assert project is not None
    store = TrustStore(home.places.state)
    store.file.parent.mkdir(parents=True)
    store.file.write_text(text)
    with pytest.raises(InputError, match=r"trust\.json"):
        store.trusts(project)


def test_scripts_that_descriptors_may_name_are_covered(home: Home, greeting: str) -> None:
    folder = home.workspace / "ensembles"
    home.ensemble("greeting", greeting.replace('"echo"', '"./greet.sh"'), folder=folder)
    script, beside = folder / "greet.sh", home.workspace / "tools.py"
    digests = set()
    for text in ("echo 1", "echo 2"):
        for file in (script, beside):
            file.write_text(text)
            project = find_project(home.workspace)
            assert project is not None
            digests.add(project.digest)
    assert len(digests) == 4


def test_what_lies_outside_is_not_looked_at(home: Home, tmp_path: pathlib.Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "tools.py").write_text("")
    (home.workspace / "ripieno.toml").write_text(f'[ensembles]\npaths = ["/", "{tmp_path / "outside"}"]\n')
    project = find_project(home.workspace)
    assert project is not None
    assert {pathlib.Path(path).name for path in project.files} == {"ripieno.toml"}


def test_too_many_files_cannot_be_trusted(home: Home, greeting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ripieno.trust._FILES", 2)
    for number in range(3):
        home.ensemble(f"greeting{number}", greeting, folder=home.workspace / "ensembles")
    project = find_project(home.workspace)
    assert project is not None
    store = TrustStore(home.places.state)
    with pytest.raises(InputError, match="too many"):
        store.add(project)
    assert not store.trusts(project)
