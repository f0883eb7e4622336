"""Scores that the command line names: bundled ones by name, others by file, also as models; and what they expect."""

import dataclasses
import pathlib
from collections.abc import Iterable

from ripieno.canisters import Conversation
from ripieno.exceptions import NameAbsence
from ripieno.models import Model
from ripieno.models.model import SCRIPTED
from ripieno.testing.scores import Score
from ripieno.testing.scores.templates import fill
from ripieno.testing.wires import ScoreTransport, model_of
from ripieno.toolset import DATA

FOLDER = DATA / "scores"
#: What names the score of a file as a model.
_PREFIX = f"{SCRIPTED}:"


def find_score(name: str) -> Score:
    """The score with this name, or at this path if the name has a slash or ends in .toml.

    Errors: ``NameAbsence`` for an unknown bundled score; ``ConfigurationInvalidity`` for a file.
    """
    return Score.read(find_file(name))


def find_model(name: str | None) -> str | Model | None:
    """The scripted model of ``score:FILE``; any other name as it is. Errors: those of ``find_score``.

    Its name is the absolute path of the file, so that another process finds it for the same conversation.
    """
    if name is None or not name.startswith(_PREFIX):
        return name
    file = find_file(name.removeprefix(_PREFIX))
    return dataclasses.replace(model_of(Score.read(file)), name=str(file.resolve()))


def score_of(model: str | Model | None) -> Score | None:
    """The score that a model of ``find_model`` plays; None for any other model."""
    transport = model.provider.transport if isinstance(model, Model) else None
    return transport.score if isinstance(transport, ScoreTransport) else None


def differences(score: Score, workspace: pathlib.Path, conversation: Conversation) -> list[str]:
    """The differences of a conversation and its workspace from what a score expects, without its programs."""
    expect, results = score.expect, score.results(conversation.canisters)
    faults: list[str] = []

    def seek(place: str, text: str, wanted: Iterable[str]) -> None:
        filled = [fill(one, results) for one in wanted]
        faults.extend(f"{place} does not contain {one!r}." for one in filled if one not in text)

    if score.halted(conversation.canisters):
        faults.append("The score was not played to its end. Its last answer has the reason.")
    if conversation.finish != expect.finish:
        faults.append(f"The conversation ended with {conversation.finish!r}, not with {expect.finish!r}.")
    submitted = conversation.submission
    answer = conversation.text if submitted is None else str(submitted.arguments.get("answer", ""))
    seek("The answer", answer, expect.answer)
    for label, texts in expect.results.items():
        seek(f"The result {label!r}", results[label].text if label in results else "", texts)
    for name, texts in expect.files.items():
        try:
            seek(name, read_file(workspace / name), texts)
        except (OSError, UnicodeDecodeError) as error:
            faults.append(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}.")
    return faults


def read_file(file: pathlib.Path) -> str:
    """The text of an ordinary file. Errors: ``OSError``, ``UnicodeDecodeError``."""
    if file.exists() and not file.is_file():
        raise OSError("it is not an ordinary file")
    return file.read_text(encoding="utf-8")


def find_file(name: str) -> pathlib.Path:
    """The file of a score. Errors: ``NameAbsence`` for an unknown bundled score."""
    if "/" in name or name.endswith(".toml"):
        return pathlib.Path(name)
    known = [path.stem for path in sorted(FOLDER.glob("*.toml"))]
    if name not in known:
        raise NameAbsence("score", name, known, hint="For a file, write its path, such as ./mine.toml.")
    return FOLDER / f"{name}.toml"
