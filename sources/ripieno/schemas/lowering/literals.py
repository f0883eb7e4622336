"""Enumerations and constants: what a dialect has no literal for is said as its type, or as JSON text."""

from collections.abc import Iterable, Mapping
from typing import Any

from ripieno.jsonvalues import encode
from ripieno.schemas.description import type_of
from ripieno.schemas.graph import is_mapping, is_sequence
from ripieno.schemas.lowering.conjunctions import Conjunction, fits_type
from ripieno.schemas.lowering.walk import Speaker, either


def say_literals(
    speaker: Speaker, together: Conjunction, literals: list[Any], types: tuple[str, ...] | None
) -> dict[str, Any] | None:
    """The values that fit, of which there are so many; None when there are none."""
    if not literals:
        return None
    containers = [one for one in literals if is_mapping(one) or is_sequence(one)]
    for keyword in ("enum", "const") if containers else ():
        speaker.report_all(together, keyword, "kept", "objects and lists in it as texts of JSON")
    if containers:
        literals = [encode(one).decode() if is_mapping(one) or is_sequence(one) else one for one in literals]
        types = None if types is None else (*types, "string")
    said = [one for one in literals if fits_type(one, speaker.dialect.literals)]
    forms: list[Mapping[str, Any]] = []
    if said:
        forms.append(
            {"type": _types(said, types), **_listed(speaker, together, said, alone=len(said) == len(literals))}
        )
    if None in literals and None not in said:
        forms.append({"type": "null"})
    truths = [one for one in literals if isinstance(one, bool) and one not in [x for x in said if isinstance(x, bool)]]
    if truths:
        forms.append({"type": "boolean"})
    if len(truths) == 1:
        together.notes.append(f"enum: {encode(truths).decode()}")
    if said != literals:
        note = "as its types" if len(truths) != 1 else "true and false are not told apart"
        for keyword in ("enum", "const"):
            speaker.report_all(together, keyword, "kept", note)
    together.take("enum", "const")
    return dict(either(forms))


def _listed(speaker: Speaker, together: Conjunction, said: list[Any], *, alone: bool) -> dict[str, Any]:
    constant = "const" in together and "enum" not in together
    if constant and alone and "const" in speaker.dialect.keywords:
        return {"const": said[0]}
    speaker.report_all(together, "const", "kept", "as enum")
    return {"enum": said}


def _types(values: Iterable[Any], declared: tuple[str, ...] | None) -> str | list[str]:
    kinds = dict.fromkeys(map(type_of, values))
    if "integer" in kinds and ("number" in kinds or (declared is not None and "number" in declared)):
        kinds = dict.fromkeys("number" if kind == "integer" else kind for kind in kinds)
    found = list(kinds)
    return found[0] if len(found) == 1 else found


def accepts_null(said: Mapping[str, Any]) -> bool:
    """Whether null fits a lowered schema, as far as can be seen without following references."""
    if "anyOf" in said:
        return any(map(accepts_null, said["anyOf"]))
    if "const" in said:
        return said["const"] is None
    types = said.get("type", ())
    return "null" in ((types,) if isinstance(types, str) else types) and None in said.get("enum", (None,))
