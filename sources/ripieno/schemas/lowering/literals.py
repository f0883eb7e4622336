"""Enumerations and constants: a value that the dialect has no literal for becomes its type, or JSON text."""

from collections.abc import Iterable, Mapping
from typing import Any

from ripieno.jsonvalues import encode, is_list, is_table
from ripieno.schemas.description import type_of
from ripieno.schemas.lowering.conjunctions import Conjunction, fits_type
from ripieno.schemas.lowering.lowerer import Lowerer, either


def lower_literals(
    lowerer: Lowerer, together: Conjunction, literals: list[Any], types: tuple[str, ...] | None
) -> dict[str, Any] | None:
    """The schema of the values that fit; None if there are none."""
    if not literals:
        return None
    containers = [one for one in literals if is_table(one) or is_list(one)]
    for keyword in ("enum", "const") if containers else ():
        lowerer.report_all(together, keyword, "kept", "objects and lists in it as texts of JSON")
    if containers:
        literals = [encode(one).decode() if is_table(one) or is_list(one) else one for one in literals]
        types = None if types is None else (*types, "string")
    lowered = [one for one in literals if fits_type(one, lowerer.dialect.literals)]
    forms: list[Mapping[str, Any]] = []
    if lowered:
        listed = _listed(lowerer, together, lowered, alone=len(lowered) == len(literals))
        forms.append({"type": _types(lowered, types), **listed})
    if None in literals and None not in lowered:
        forms.append({"type": "null"})
    truths = [] if "boolean" in lowerer.dialect.literals else [one for one in literals if isinstance(one, bool)]
    if truths:
        forms.append({"type": "boolean"})
    if len(truths) == 1:
        together.notes.append(f"enum: {encode(truths).decode()}")
    if lowered != literals:
        note = "as its types" if len(truths) != 1 else "true and false are not distinguished"
        for keyword in ("enum", "const"):
            lowerer.report_all(together, keyword, "kept", note)
    together.take("enum", "const")
    return dict(either(forms))


def _listed(lowerer: Lowerer, together: Conjunction, lowered: list[Any], *, alone: bool) -> dict[str, Any]:
    constant = "const" in together and "enum" not in together
    if constant and alone and "const" in lowerer.dialect.keywords:
        return {"const": lowered[0]}
    lowerer.report_all(together, "const", "kept", "as enum")
    return {"enum": lowered}


def _types(values: Iterable[Any], declared: tuple[str, ...] | None) -> str | list[str]:
    kinds = dict.fromkeys(map(type_of, values))
    if "integer" in kinds and ("number" in kinds or (declared is not None and "number" in declared)):
        kinds = dict.fromkeys("number" if kind == "integer" else kind for kind in kinds)
    found = list(kinds)
    return found[0] if len(found) == 1 else found


def accepts_null(lowered: Mapping[str, Any]) -> bool:
    """Whether null fits a lowered schema; references are not followed."""
    if "anyOf" in lowered:
        return any(map(accepts_null, lowered["anyOf"]))
    if "const" in lowered:
        return lowered["const"] is None
    types = lowered.get("type", ())
    return "null" in ((types,) if isinstance(types, str) else types) and None in lowered.get("enum", (None,))
