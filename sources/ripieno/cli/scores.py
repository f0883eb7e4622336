"""Finds the score that a command names: a bundled one by its name, or a file by its path."""

import pathlib

from ripieno.exceptions import NameAbsence
from ripieno.scores import Score
from ripieno.toolset import DATA

FOLDER = DATA / "scores"


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
