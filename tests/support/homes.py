"""A user with folders of their own, and a workspace."""

import dataclasses
import pathlib

import pytest

from ripieno.assembly.configuration import Places


@dataclasses.dataclass(frozen=True, slots=True)
class Home:
    """Where this test's user lives."""

    places: Places
    workspace: pathlib.Path

    def configure(self, text: str) -> None:
        """Writes the user's own configuration."""
        self.places.configuration.mkdir(parents=True, exist_ok=True)
        (self.places.configuration / "config.toml").write_text(text)

    def ensemble(self, name: str, text: str, *, folder: pathlib.Path | None = None) -> pathlib.Path:
        """Writes an ensemble, into the user's folder unless another is given."""
        place = folder or self.places.configuration / "ensembles"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{name}.toml").write_text(text)
        return place / f"{name}.toml"


@pytest.fixture
def home(tmp_path: pathlib.Path) -> Home:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    return Home(places=Places(configuration=tmp_path / "configuration", state=tmp_path / "state"), workspace=workspace)


@pytest.fixture
def greeting() -> str:
    """An ensemble with one command tool."""
    return """
[ensemble]
name = "greeting"
[[invokers]]
name = "say_hello"
description = "Says hello."
effect = "read"
[invokers.invocable]
origin = "command"
argv = ["echo", "hello", "--", "{name}"]
[invokers.arguments]
type = "object"
required = ["name"]
[invokers.arguments.properties.name]
type = "string"
description = "Whom to greet."
"""
