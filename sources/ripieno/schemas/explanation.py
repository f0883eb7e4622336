"""Explanations of invalid arguments, for a model to read and fix.

The validator's own list of errors is not used for whole arguments: it has no limit, and doubles with each level
if a recursive schema applies itself twice (38 s at depth 20, measured). This module descends only into invalid
parts, uses the compiled subschemas, and stops at ten problems.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jsonschema_rs

from ripieno.exceptions import nearest
from ripieno.jsonvalues import is_table
from ripieno.schemas.description import (
    RANGES,
    Code,
    SchemaProblem,
    beneath,
    constraint,
    cut,
    expectation,
    joined,
    problem_of,
    quoted,
    type_of,
    types_of,
    with_articles,
)
from ripieno.schemas.graph import REFERENCES, Edge, Node
from ripieno.schemas.subschemas import REMAINING, Subschemas, declared_in, parts_of

MAX_PROBLEMS = 10
#: Known names that an unknown one is compared with.
_COMPARED = 300


def explain(subschemas: Subschemas, value: Any, levels: int) -> tuple[SchemaProblem, ...]:
    """The problems of an invalid value, from one to ten. ``levels`` limits the depth."""
    problems: dict[SchemaProblem, None] = {}
    for problem in _Explanation(subschemas).problems(subschemas.root, value, "", levels):
        problems[problem] = None
        if len(problems) == MAX_PROBLEMS:
            break
    return tuple(problems)


class _Explanation:
    """One walk through an invalid value."""

    def __init__(self, subschemas: Subschemas) -> None:
        self._subschemas = subschemas
        #: The first problem of each subschema at each place: a subschema that applies twice is examined once.
        self._seen: dict[tuple[Node, str], SchemaProblem] = {}

    def problems(self, node: Node, value: Any, place: str, levels: int) -> Iterator[SchemaProblem]:
        if known := self._seen.get((node, place)):
            yield known
            return
        for problem in self._found(node, value, place, levels):
            self._seen.setdefault((node, place), problem)
            yield problem
        if (node, place) not in self._seen:
            expected = expectation(node)
            problem = problem_of("invalid_value", place, f"does not fit its schema.{_expected(expected)}", expected)
            self._seen[node, place] = problem
            yield problem

    def _found(self, node: Node, value: Any, place: str, levels: int) -> Iterator[SchemaProblem]:
        if not is_table(node.schema):
            yield problem_of("invalid_value", place, "is not allowed here.", "nothing")
            return
        errors = [] if node.replaced else self._subschemas.assertions(node, value)
        mistyped = [error for error in errors if error.kind.name == "type"]
        for error in mistyped or errors:
            yield _described(error.kind, node, value, place)
        if mistyped or levels <= 0:
            return  # Other problems follow from the wrong type.
        yield from self._in_place(node, value, place, levels - 1)
        for edge in node.edges:
            yield from self._of_parts(node, edge, value, place, levels - 1)

    def _in_place(self, node: Node, value: Any, place: str, levels: int) -> Iterator[SchemaProblem]:
        """The problems of subschemas that apply to the same value."""
        fits = self._subschemas.fits
        for keyword, key, below in node.edges:
            applies = keyword in REFERENCES or keyword == "allOf"
            if keyword in ("then", "else"):
                applies = all(fits(one, value) == (keyword == "then") for one in node.follow("if"))
            elif keyword in ("dependentSchemas", "dependencies"):
                applies = is_table(value) and key in value
            elif keyword == "not" and fits(below, value):
                yield problem_of("invalid_value", place, f"must not be {quoted(value)}.", "something else")
            if applies and not fits(below, value):
                yield from self.problems(below, value, place, levels)
        for keyword in ("anyOf", "oneOf"):
            if alternatives := tuple(node.follow(keyword)):
                yield from self._undecided(keyword, alternatives, value, place, levels)

    def _undecided(
        self, keyword: str, alternatives: Sequence[Node], value: Any, place: str, levels: int
    ) -> Iterator[SchemaProblem]:
        fitting = sum(self._subschemas.fits(one, value) for one in alternatives)
        if fitting:
            if keyword == "oneOf" and fitting > 1:
                yield problem_of("invalid_value", place, f"fits {fitting} forms, but must fit exactly one.", "")
            return
        likely = [one for one in alternatives if _admits(one, type_of(value))]
        if len(likely) > 1 and is_table(value):
            likely = self._most_alike(likely, value)
        if len(likely) == 1:
            yield from self.problems(likely[0], value, place, levels)
            return
        expected = joined(expectation(one) for one in alternatives)
        code: Code = "invalid_value" if likely else "invalid_type"
        yield problem_of(
            code, place, f"must be {with_articles(expected) or 'of an allowed form'}, not {quoted(value)}.", expected
        )

    def _most_alike(self, nodes: Sequence[Node], value: Mapping[str, Any]) -> list[Node]:
        """The most similar forms of an object: by fixed values first, then by names."""

        def likeness(node: Node) -> tuple[int, int]:
            properties = {str(key): below for keyword, key, below in _followed(node).edges if keyword == "properties"}
            given = {key: below for key, below in properties.items() if key in value}
            fixed = [
                self._subschemas.fits(below, value[key])
                for key, below in given.items()
                if is_table(below.schema) and ("const" in below.schema or "enum" in below.schema)
            ]
            return sum(fixed) - fixed.count(False), len(given)

        scores = [likeness(node) for node in nodes]
        return [node for node, score in zip(nodes, scores, strict=True) if score == max(scores)]

    def _of_parts(self, node: Node, edge: Edge, value: Any, place: str, levels: int) -> Iterator[SchemaProblem]:
        """The problems that a keyword's subschema finds in the parts of a value."""
        keyword, key, below = edge
        for part, item in parts_of(self._subschemas, node, keyword, key, value):
            if keyword == "propertyNames":
                if not self._subschemas.fits(below, part):
                    predicate = "has a name that is not allowed."
                    yield problem_of("invalid_value", beneath(place, part), predicate, expectation(below))
            elif below.schema is False and keyword in REMAINING:
                yield _unknown(node, str(part), place)
            elif not self._subschemas.fits(below, item):
                yield from self.problems(below, item, beneath(place, part), levels)


def _described(kind: jsonschema_rs.ValidationErrorKind, node: Node, value: Any, place: str) -> SchemaProblem:
    details = kind.as_dict()
    if kind.name == "required":
        name = str(details["property"])
        expected = next((expectation(below) for _, key, below in node.edges if key == name), "")
        predicate = f"is required but missing.{_expected(expected)}"
        return problem_of("missing_required", beneath(place, name), predicate, expected)
    if kind.name == "type":
        expected = " or ".join(types_of(node.schema)) if "enum" in node.schema else expectation(node)
        return problem_of(
            "invalid_type",
            place,
            f"must be {with_articles(expected)}, not {with_articles(type_of(value))}: {quoted(value)}.",
            expected,
        )
    if kind.name in RANGES:
        expected, predicate = RANGES[kind.name](details["limit"], value)
        return problem_of("out_of_range", place, f"{predicate}.", expected)
    expected = constraint(kind.name, node.schema.get(kind.name))
    predicate = f"must be {expected}, not {quoted(value)}." if expected else "does not fit its schema."
    return problem_of("invalid_value", place, predicate, expected)


def _expected(expected: str) -> str:
    return f" Expected: {expected}." if expected else ""


def _unknown(node: Node, name: str, place: str) -> SchemaProblem:
    known = tuple(declared_in(node, everywhere="unevaluatedProperties" in node.schema)[0])[:_COMPARED]
    near = nearest(name[:80], known)
    expected = near[0] if near else cut(", ".join(known))
    if near:
        advice = f"Did you mean `{beneath(place, near[0])}`?"
    else:
        advice = f"Known: {expected}." if known else "No parameter is known here."
    return problem_of("unknown_parameter", beneath(place, name), f"is unknown. {advice}", expected)


def _followed(node: Node) -> Node:
    """The target of a subschema that only refers; otherwise the subschema itself."""
    while (below := next(node.follow(*REFERENCES), None)) is not None and "properties" not in node.schema:
        node = below
    return node


def _admits(node: Node, kind: str) -> bool:
    schema = _followed(node).schema
    types = types_of(schema) if is_table(schema) else ()
    return schema is not False and (not types or kind in types or (kind == "integer" and "number" in types))
