"""The score that a command names, and the ensembles whose tools it calls."""

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
#: The ensembles that bundled scores need in addition to the bundled ones.
ENSEMBLES = DATA / "demo" / "ensembles"


def find_score(name: str) -> Score:
    """The score with this name, or at this path if the name has a slash or ends in .toml.

    Errors: ``NameAbsence`` for an unknown bundled score; ``ConfigurationInvalidity`` for a file.
    """
    if "/" in name or name.endswith(".toml"):
        return Score.read(pathlib.Path(name))
    known = [path.stem for path in sorted(FOLDER.glob("*.toml"))]
    if name not in known:
        raise NameAbsence("score", name, known, hint="For a file, write its path, such as ./mine.toml.")
    return Score.read(FOLDER / f"{name}.toml")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WantedEnsemble:
    """An ensemble, and the tools that a score calls in it. ``added``: its file must be configured to have them."""

    name: str
    tools: tuple[str, ...]
    file: str
    added: bool = False


def wanted_ensembles(score: Score, loaded: LoadedConfiguration) -> tuple[WantedEnsemble, ...]:
    """The ensembles that the score calls: enabled ones, then the demo's. "?" holds the unknown tools."""
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
            wanted.append(
                WantedEnsemble(name=descriptor.name, tools=tools, file=file, added=descriptor.layer == "demo")
            )
    return (*wanted, *([WantedEnsemble(name="?", tools=tuple(left), file="")] if left else []))
