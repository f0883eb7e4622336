"""Finds the score that a command names, and the ensembles whose tools it calls."""

import dataclasses
import pathlib

from ripieno.assembly.configuration import LoadedConfiguration, prefix_of
from ripieno.cli.common.rules import exposed_names
from ripieno.descriptors.loading import Layer, load_ensembles
from ripieno.descriptors.names import unprefixed
from ripieno.exceptions import NameAbsence
from ripieno.testing.scores import Score
from ripieno.toolset import DATA

FOLDER = DATA / "scores"
#: The ensembles that bundled scores want beside those that everybody has.
ENSEMBLES = DATA / "demo" / "ensembles"


def find_score(name: str) -> Score:
    """The score. What has a slash or ends in .toml is a path.

    Errors: ``NameAbsence`` for a bundled one that is not there; ``ConfigurationInvalidity`` for a file.
    """
    if "/" in name or name.endswith(".toml"):
        return Score.read(pathlib.Path(name))
    known = [path.stem for path in sorted(FOLDER.glob("*.toml"))]
    if name not in known:
        raise NameAbsence("score", name, known, hint="A file is named by its path, such as ./mine.toml.")
    return Score.read(FOLDER / f"{name}.toml")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WantedEnsemble:
    """Tools that a score calls, and whose they are. ``folder`` is what a configuration must name to have them."""

    name: str
    tools: tuple[str, ...]
    file: str
    folder: str | None = None


def wanted_ensembles(score: Score, loaded: LoadedConfiguration) -> tuple[WantedEnsemble, ...]:
    """The ensembles that the score calls, those that play first, then the demo's; "?" has tools that nobody knows."""
    demo = load_ensembles([Layer(name="demo", paths=(ENSEMBLES,))]).ensembles
    wanted: list[WantedEnsemble] = []
    left = dict.fromkeys(score.tools)
    for descriptor in (*loaded.ensembles, *demo.values()):
        declared = {name for _, _, name in exposed_names(descriptor)}
        prefix = prefix_of(descriptor) if descriptor.connection is not None else ""
        tools = tuple(name for name in left if name in declared or unprefixed(name, prefix) is not None)
        for name in tools:
            del left[name]
        if tools:
            file = descriptor.file or "in the configuration"
            folder = descriptor.folder if descriptor.layer == "demo" else None
            wanted.append(WantedEnsemble(name=descriptor.name, tools=tools, file=file, folder=folder))
    return (*wanted, *([WantedEnsemble(name="?", tools=tuple(left), file="")] if left else []))
