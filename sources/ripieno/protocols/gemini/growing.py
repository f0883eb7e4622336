"""A call of the generateContent wire whose arguments are streamed, value by value, each with its place."""

import itertools
import re
from collections.abc import Mapping
from typing import Any

from ripieno.jsonvalues import thaw
from ripieno.protocols.gemini.invocations import STREAMED
from ripieno.protocols.reading import read_arguments

#: One step of a place such as ``$.foo.bar[0]['a b']``.
_STEP = re.compile(r"""\.([^.\[\]'"]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]""")
_VALUES = ("stringValue", "numberValue", "boolValue")


class Growing:
    """A call, as far as it has come. Parts that follow have no name, or repeat the identifier."""

    def __init__(self, part: Mapping[str, Any], identifier: str) -> None:
        call = part["functionCall"]
        self.identifier = identifier
        self._given = call.get("id")
        self._part = {key: value for key, value in part.items() if key != "functionCall"}
        self._call = {key: value for key, value in call.items() if key not in STREAMED}
        arguments, fault = read_arguments(call.get("args"))
        self._arguments: Any = None if fault is not None else thaw(arguments)
        self._add(call)

    def goes_on(self, call: Mapping[str, Any]) -> bool:
        """Whether a part is more of this call."""
        return not call.get("name") or (self._given is not None and call.get("id") == self._given)

    def add(self, part: Mapping[str, Any]) -> None:
        """More of it. Errors: ``ValueError`` for a place that there is not."""
        self._part.update({key: value for key, value in part.items() if key != "functionCall" and value is not None})
        self._add(part["functionCall"])

    def whole(self) -> Mapping[str, Any]:
        """The part as it would stand in a whole answer."""
        call = self._call
        return {**self._part, "functionCall": call if self._arguments is None else {**call, "args": self._arguments}}

    def _add(self, call: Mapping[str, Any]) -> None:
        for partial in call.get("partialArgs") or ():
            if self._arguments is None:
                raise ValueError("arguments are no object")
            _put(self._arguments, steps_of(partial["jsonPath"]), partial)


def steps_of(path: str) -> list[str | int]:
    """The steps of a place. Errors: ``ValueError``."""
    place = 1
    steps: list[str | int] = []
    while place < len(path):
        found = _STEP.match(path, place)
        if found is None:
            break
        plain, number, single, double = found.groups()
        quoted = single if single is not None else double
        if quoted is not None:
            steps.append(re.sub(r"\\(.)", r"\1", quoted))
        else:
            steps.append(plain if plain is not None else int(number))
        place = found.end()
    if not steps or path[0] != "$" or place < len(path):
        raise ValueError(f"{path!r} is no place")
    return steps


def _put(target: Any, steps: list[str | int], partial: Mapping[str, Any]) -> None:
    """Puts a value at its place; more of a text joins what stands there."""
    for step, following in itertools.pairwise(steps):
        target = _at(target, step, [] if isinstance(following, int) else {})
    value = next((partial[key] for key in _VALUES if partial.get(key) is not None), None)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # The wire has one kind of number.
    last = steps[-1]
    if isinstance(value, str):
        value = _at(target, last, "") + value
    _at(target, last, value)
    target[last] = value


def _at(target: Any, step: str | int, otherwise: Any) -> Any:
    """What stands at a step, made where there is nothing. Errors: ``ValueError``."""
    # One after the other: an array grows by one at most.
    if isinstance(step, int) is not isinstance(target, list) or (isinstance(step, int) and step > len(target)):
        raise ValueError(f"there is no {step!r} at that place")
    if isinstance(step, str):
        return target.setdefault(step, otherwise)
    if step == len(target):
        target.append(otherwise)
    return target[step]
