"""What the walk is to those who say objects, arrays and literals for it."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ripieno.schemas.graph import Node
from ripieno.schemas.lowering.conjunctions import Conjunction
from ripieno.schemas.lowering.dialects import Dialect
from ripieno.schemas.lowering.losses import Outcome

#: What an open value is asked for as, where every value needs a type.
SCALARS = ("string", "number", "boolean", "null")


class Speaker(Protocol):
    """Lowers subschemas into one dialect, and notes what is lost."""

    dialect: Dialect
    #: The subschemas that lead to themselves.
    recursive: frozenset[Node]

    def lower(self, nodes: Sequence[Node]) -> Mapping[str, Any] | None:
        """What several subschemas say of one value; None when no value fits."""
        ...

    def optional(self, said: Mapping[str, Any]) -> Mapping[str, Any]:
        """What may be null as well."""
        ...

    def report(self, keyword: str, place: Node | str, outcome: Outcome, note: str = "") -> None:
        """Notes a loss."""
        ...

    def report_all(self, together: Conjunction, keyword: str, outcome: Outcome, note: str) -> None:
        """Notes what became of a keyword wherever it stands, and takes it."""
        ...


def unique(said: Sequence[Mapping[str, Any] | None]) -> list[Mapping[str, Any]]:
    """Each form once; those that no value fits are left out."""
    found: list[Mapping[str, Any]] = []
    for one in said:
        if one is not None and one not in found:
            found.append(one)
    return found


def either(forms: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """One of several forms, of which there is at least one."""
    return forms[0] if len(forms) == 1 else {"anyOf": list(forms)}
