"""A folder for temporary files of one test, in which a sandbox leaves its own."""

import pathlib
import tempfile

import pytest


@pytest.fixture
def above(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The folder for temporary files of this test."""
    folder = tmp_path / "above"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder
