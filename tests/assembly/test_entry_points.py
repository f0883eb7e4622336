"""Plugins are found wherever ``importlib.metadata`` finds them, and it is not imported for other distributions."""

import importlib.machinery
import importlib.metadata
import pathlib
import sys
import zipfile
from collections.abc import Iterable, Iterator

import pytest

from ripieno.assembly.entry_points import plugin_entries

METADATA = "Metadata-Version: 2.1\nName: pigeon-post\nVersion: 1.0\n"


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    plugin_entries.cache_clear()
    yield
    plugin_entries.cache_clear()


def names(monkeypatch: pytest.MonkeyPatch, *path: str) -> list[str]:
    """The names of the entry points with this ``sys.path``."""
    monkeypatch.setattr(sys, "path", [*path])
    return [one.name for one in plugin_entries(path)]


@pytest.mark.parametrize(
    "text",
    [
        "[ripieno]\npigeon = pigeon\n",
        "[console_scripts]\nripieno = a:b\n\n  [ripieno]  \n# One.\npigeon=pigeon:plugin\n",
    ],
)
@pytest.mark.parametrize(
    ("place", "folder"),
    [("site", "pigeon_post-1.0.dist-info"), ("site", "Pigeon_Post-1.0.Egg-Info"), ("post.egg", "EGG-INFO")],
)
def test_folders(text: str, place: str, folder: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = tmp_path / place / folder
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(METADATA)
    (metadata / "PKG-INFO").write_text(METADATA)
    (metadata / "entry_points.txt").write_text(text)
    assert names(monkeypatch, str(tmp_path / "none"), str(tmp_path / place)) == ["pigeon"]


def test_the_current_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "pigeon_post-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(METADATA)
    (folder / "entry_points.txt").write_text("[ripieno]\npigeon = pigeon\n")
    monkeypatch.chdir(tmp_path)
    assert names(monkeypatch, "") == ["pigeon"]


def test_an_archive(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "post.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("pigeon_post-1.0.dist-info/METADATA", METADATA)
        opened.writestr("pigeon_post-1.0.dist-info/entry_points.txt", "[ripieno]\npigeon = pigeon\n")
    assert names(monkeypatch, str(archive)) == ["pigeon"]


def test_another_finder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "pigeon_post-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(METADATA)
    (folder / "entry_points.txt").write_text("[ripieno]\npigeon = pigeon\n")

    class Finder(importlib.metadata.DistributionFinder):
        def find_spec(self, *_: object) -> None:
            return None

        def find_distributions(self, context: object = None) -> Iterable[importlib.metadata.Distribution]:
            return [importlib.metadata.Distribution.at(folder)]

    monkeypatch.setattr(sys, "meta_path", [importlib.machinery.PathFinder, Finder()])
    assert names(monkeypatch) == ["pigeon"]


@pytest.mark.parametrize("text", ["", "[console_scripts]\nripieno = ripieno.cli:main\n", "[ripieno.more]\na = b\n"])
def test_other_distributions_are_not_read(text: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "pigeon_post-1.0.dist-info"
    folder.mkdir()
    (folder / "entry_points.txt").write_text(text)
    (tmp_path / "a_file.egg-info").write_text(METADATA)

    def refuse(**_: object) -> None:
        raise AssertionError("The metadata are read.")

    monkeypatch.setattr(sys, "meta_path", [importlib.machinery.PathFinder])
    monkeypatch.setattr(importlib.metadata, "entry_points", refuse)
    assert names(monkeypatch, str(tmp_path)) == []
