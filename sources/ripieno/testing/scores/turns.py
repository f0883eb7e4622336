"""What a score is made of: turns and their calls, and what must hold between them."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from frozendict import frozendict

from ripieno.descriptors.reader.problems import Problems, spelling
from ripieno.testing.scores.templates import EXPECTED, labels_of, strings_of

#: The finishes that a model has of its own; the others are made here.
ModelFinish = Literal["stop", "invocations", "length", "filter"]

_Path = tuple[str | int, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ScoredCall:
    """A call of a turn. ``tool`` is an exposed name, ``label`` what later turns call its result."""

    tool: str
    arguments: frozendict[str, object] = frozendict()  # noqa: RUF009
    label: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One answer of the model. ``pace`` is in seconds between streamed pieces."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[ScoredCall, ...] = ()
    #: Labels of results that must be good; otherwise the answer says which is not.
    expect: tuple[str, ...] = ()
    #: The turn is played only when this call failed.
    on_error: str | None = None
    finish: ModelFinish | None = None
    pace: float = 0.0


def check(turns: Sequence[Turn], problems: Problems, expected: Iterable[str] = ()) -> None:
    """Adds what is wrong with turns that are well formed one by one: labels, references, and empty answers.

    ``expected`` are texts that quote results after the last turn.
    """
    known: set[str] = set()
    if not turns:
        problems.add(("turns",), "a score has no turns", "Add [[turns]] with a text.")
    for number, turn in enumerate(turns):
        path: _Path = ("turns", number)
        _check_known(_references(turn, path, problems), known, problems)
        if turn.finish == "invocations" and not turn.calls:
            problems.add((*path, "finish"), 'finish = "invocations" needs calls', "Leave finish out, or add a call.")
        for index, call in enumerate(turn.calls):
            if call.label in known:
                problems.add((*path, "calls", index, "label"), f"two calls are labelled {call.label!r}")
            elif call.label is not None:
                known.add(call.label)
    _check_known(_quoted([(("expect",), text) for text in expected], problems), known, problems)


def _check_known(references: Iterable[tuple[_Path, str]], known: set[str], problems: Problems) -> None:
    for at, label in references:
        if label not in known:
            problems.add(at, f"no earlier turn has a call labelled {label!r}", spelling(label, known) or None)


def _references(turn: Turn, path: _Path, problems: Problems) -> Iterator[tuple[_Path, str]]:
    """Every label that a turn refers to, and where."""
    texts: list[tuple[_Path, str]] = [((*path, "text"), turn.text), ((*path, "reasoning"), turn.reasoning)]
    for index, call in enumerate(turn.calls):
        texts += [((*path, "calls", index, "arguments"), text) for text in strings_of(call.arguments)]
    yield from _quoted(texts, problems)
    yield from (((*path, "expect", index), label) for index, label in enumerate(turn.expect))
    if turn.on_error is not None:
        yield (*path, "on_error"), turn.on_error


def _quoted(texts: Iterable[tuple[_Path, str]], problems: Problems) -> Iterator[tuple[_Path, str]]:
    """The labels that texts quote, and where."""
    for at, text in texts:
        labels, senseless = labels_of(text)
        for part in senseless:
            problems.add(at, f"{part} is no reference to a result", f"Write {EXPECTED}.")
        yield from ((at, label) for label in labels)
