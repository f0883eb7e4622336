"""Scores that are named on the command line: bundled ones by name, others by file, also as models."""

import dataclasses
import pathlib
import re

from ripieno.exceptions import NameAbsence
from ripieno.models import Model
from ripieno.testing.scores import Score
from ripieno.testing.wires import model_of
from ripieno.toolset import DATA

FOLDER = DATA / "scores"
#: What names a score as a model: ``score:FILE`` of a user, or the identity of such a model in the journal.
_SCORED = re.compile(r"score:|score/(?=/)")


def find_score(name: str) -> Score:
    """The score with this name, or at this path if the name has a slash or ends in .toml.

    Errors: ``NameAbsence`` for an unknown bundled score; ``ConfigurationInvalidity`` for a file.
    """
    return Score.read(_file(name))


def find_model(name: str | None) -> str | Model | None:
    """The scripted model of ``score:FILE``; any other name as it is. Errors: those of ``find_score``.

    Its name is the absolute path of the file, so that another process finds it for the same conversation.
    """
    if name is None or (scored := _SCORED.match(name)) is None:
        return name
    file = _file(name[scored.end() :])
    return dataclasses.replace(model_of(Score.read(file)), name=str(file.resolve()))


def _file(name: str) -> pathlib.Path:
    if "/" in name or name.endswith(".toml"):
        return pathlib.Path(name)
    known = [path.stem for path in sorted(FOLDER.glob("*.toml"))]
    if name not in known:
        raise NameAbsence("score", name, known, hint="For a file, write its path, such as ./mine.toml.")
    return FOLDER / f"{name}.toml"
