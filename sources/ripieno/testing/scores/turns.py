"""Turns and calls of a score, and the check of their references."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from frozendict import frozendict

from ripieno.descriptors.reader.problems import Problems, spelling
from ripieno.testing.scores.templates import EXPECTED, labels_of, strings_of
from ripieno.values import Value

#: The finishes that a model itself can have.
ModelFinish = Literal["stop", "invocations", "length", "filter"]

_Path = tuple[str | int, ...]


class ScoredCall(Value, kw_only=True):
    """A call of a turn. ``tool`` is an exposed name, ``label`` the name of the result in later turns."""

    tool: str
    arguments: frozendict[str, object] = frozendict()
    label: str | None = None


class Turn(Value, kw_only=True):
    """One answer of the model. ``pace`` is in seconds between streamed pieces."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[ScoredCall, ...] = ()
    #: Labels of calls that must have succeeded; otherwise the answer reports which did not.
    expect: tuple[str, ...] = ()
    #: The turn is played only if this call failed.
    on_error: str | None = None
    finish: ModelFinish | None = None
    pace: float = 0.0


def check(turns: Sequence[Turn], problems: Problems, expected: Iterable[str] = ()) -> None:
    """Adds the problems of well-formed turns: labels, references, and empty answers.

    ``expected`` are texts that quote results at the end.
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
    """The labels that a turn refers to, with their positions."""
    texts: list[tuple[_Path, str]] = [((*path, "text"), turn.text), ((*path, "reasoning"), turn.reasoning)]
    for index, call in enumerate(turn.calls):
        texts += [((*path, "calls", index, "arguments"), text) for text in strings_of(call.arguments)]
    yield from _quoted(texts, problems)
    yield from (((*path, "expect", index), label) for index, label in enumerate(turn.expect))
    if turn.on_error is not None:
        yield (*path, "on_error"), turn.on_error


def _quoted(texts: Iterable[tuple[_Path, str]], problems: Problems) -> Iterator[tuple[_Path, str]]:
    for at, text in texts:
        labels, invalid = labels_of(text)
        for part in invalid:
            problems.add(at, f"{part} is not a reference to a result", f"Write {EXPECTED}.")
        yield from ((at, label) for label in labels)
