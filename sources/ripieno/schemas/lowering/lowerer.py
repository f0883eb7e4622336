"""``Lowerer``: what lowering a subschema offers to the files that lower objects, arrays and literals."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ripieno.schemas.graph import Node
from ripieno.schemas.lowering.conjunctions import Conjunction
from ripieno.schemas.lowering.dialects import Dialect
from ripieno.schemas.lowering.losses import Outcome

#: The types of an open value in a dialect where every value needs a type.
SCALARS = ("string", "number", "boolean", "null")


class Lowerer(Protocol):
    """Lowers subschemas into one dialect, and records the losses."""

    dialect: Dialect
    #: The subschemas that lead to themselves.
    recursive: frozenset[Node]

    def lower(self, nodes: Sequence[Node]) -> Mapping[str, Any] | None:
        """Several subschemas of one value, lowered to one; None if no value fits."""
        ...

    def optional(self, lowered: Mapping[str, Any]) -> Mapping[str, Any]:
        """The schema with null allowed."""
        ...

    def report(self, keyword: str, place: Node | str, outcome: Outcome, note: str = "") -> None:
        """Records a loss."""
        ...

    def report_all(self, together: Conjunction, keyword: str, outcome: Outcome, note: str) -> None:
        """Records a loss for every occurrence of a keyword, and marks it as handled."""
        ...


def unique(lowered: Sequence[Mapping[str, Any] | None]) -> list[Mapping[str, Any]]:
    """Each form once, without those that no value fits."""
    found: list[Mapping[str, Any]] = []
    for one in lowered:
        if one is not None and one not in found:
            found.append(one)
    return found


def either(forms: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """A choice of forms; the form itself if there is only one."""
    return forms[0] if len(forms) == 1 else {"anyOf": list(forms)}
