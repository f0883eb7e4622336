"""Argument schemas: checked when they are made, compiled when they are first used.

Defaults of a schema, put where arguments leave a property out.

What a schema runs on: its validator, compiled when first asked, and its explanations.

The validator is imported with the first schema: it takes 25 ms.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

from frozendict import frozendict

from ripieno.exceptions import JsonInvalidity, SchemaInvalidity
from ripieno.jsonvalues import FrozenValue, encode, freeze, parse, thaw
from ripieno.schemas.cost import BUDGET, Costs, size_of, weigh
from ripieno.schemas.description import SchemaProblem, problem_of
from ripieno.schemas.graph import IN_PLACE, LEGACY, Graph, Node, is_mapping, is_sequence

#: Property: its default in a tuple, or an empty tuple; and the plan of its own properties.
Plan: TypeAlias = "dict[str, tuple[tuple[Any, ...], Plan]]"


def plan_of(graph: Graph) -> Plan:
    """What to fill in, following references and ``allOf``. Empty when the schema has no defaults."""
    plans: dict[Node, Plan] = {graph.root: {}}
    waiting = [graph.root]
    for node in waiting:
        for name, below in _properties(node):
            if below not in plans:
                plans[below] = {}
                waiting.append(below)
            plans[node].setdefault(name, (_default(below), plans[below]))
    return plans[graph.root]


def fill(plan: Plan, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments with their defaults; the same object when none is missing."""
    filled: dict[str, Any] = {}
    for name, (default, inner) in plan.items():
        if name not in arguments:
            for value in default:
                filled[name] = fill(inner, thaw(value)) if is_mapping(value) else thaw(value)
        elif inner and is_mapping(value := arguments[name]) and (complete := fill(inner, value)) is not value:
            filled[name] = complete
    return {**arguments, **filled} if filled else arguments


def _all(node: Node) -> Iterator[Node]:
    """A subschema, and what holds whenever it does."""
    yield node
    for below in node.follow("$ref", "allOf"):
        yield from _all(below)


def _properties(node: Node) -> Iterator[tuple[str, Node]]:
    for one in _all(node):
        yield from ((str(key), below) for keyword, key, below in one.edges if keyword == "properties")


def _default(node: Node) -> tuple[Any, ...]:
    return next(
        ((one.schema["default"],) for one in _all(node) if is_mapping(one.schema) and "default" in one.schema), ()
    )


_MAX_LEVELS = 32


class Machine:
    """Validates and explains. Errors of its making: ``SchemaInvalidity``, for any schema that is not accepted."""

    __slots__ = ("_dialect", "_options", "_pieces", "_schema", "costs", "is_valid")

    def __init__(self, schema: Mapping[str, Any], graph: Graph, dialect: str) -> None:
        from ripieno.schemas.regexes import rate
        from ripieno.schemas.validator import options_of

        self._schema = schema
        self._dialect = dialect
        self._options = options_of(graph)
        self._pieces: Any = None
        self.costs: Costs = weigh(graph, rate)
        #: Replaced by the compiled validator's own method.
        self.is_valid: Callable[[Any], bool] = self._compile
        if graph.refers or self._options is not None:
            self._prepare()  # The only schemas that compiling may still refuse.

    def _prepare(self) -> None:
        from ripieno.schemas.validator import compiled

        self.is_valid = compiled(self._schema, self._dialect, self._options).is_valid

    def _compile(self, value: Any) -> bool:
        self._prepare()
        return self.is_valid(value)

    def explain(self, value: Any) -> tuple[SchemaProblem, ...]:
        """Why ``value`` is refused. The more work it makes, the less far this descends."""
        from ripieno.schemas.explanation import explain

        work = max(1, self.costs.whole.times(size_of(value)))
        return explain(self._divided(), value, min(_MAX_LEVELS, max(2, 2 * BUDGET // work)))

    def coerce(self, value: Any) -> Any:
        """What ``value``, which is refused, was meant to be; the same object when nothing of the kind fits."""
        from ripieno.schemas.coercion import coerce

        return coerce(self._divided(), value, self.costs.whole)

    def _divided(self) -> Any:
        from ripieno.schemas.subschemas import Pieces

        if self._pieces is None:
            self._pieces = Pieces(self._schema, self._dialect, self._options)
        return self._pieces


MAX_BYTES = 64 * 1024
MAX_JSON_DEPTH = 64
#: Compiled, a schema takes some ten times its text, but a regular expression up to a megabyte.
_REMEMBERED_BYTES = 4 * 1024

Purpose = Literal["arguments", "results"]


#: What the validator reads as it is.
_READABLE: frozenset[object] = frozenset({dict, frozendict})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Schema:
    """A JSON Schema of arguments or results. Immutable; equal when the text is equal. Make it with ``of``.

    ``mapping`` is the frozen schema, ``encoded`` the same as compact JSON; ``properties`` and ``required`` are the
    names that its root declares.

    Formats are not asserted. Patterns are those of ECMA-262: they match anywhere unless anchored, ``$`` is the very
    end, ``\\d`` is ASCII.
    """

    mapping: frozendict[str, FrozenValue]
    encoded: bytes
    properties: tuple[str, ...]
    required: tuple[str, ...]
    _purpose: Purpose
    _machine: Machine
    _plan: Plan

    @classmethod
    def of(cls, mapping: Mapping[str, Any], *, closed: bool = False) -> "Schema":
        """The schema of an object of arguments; ``closed`` refuses parameters that it does not declare.

        Errors: ``SchemaInvalidity``, with a JSON pointer, for what is no JSON Schema, is not about an object, is of
        an unknown dialect, exceeds the bounds (64 KiB, 32 levels, 2,000 subschemas, 100,000 when unfolded), refers
        outside itself, or has a regular expression that is broken or too large.
        """
        if not is_mapping(mapping):
            raise SchemaInvalidity("A schema is an object.")
        whole = dict(mapping) if "type" in mapping else {"type": "object", **mapping}
        if whole["type"] != "object":
            raise SchemaInvalidity(f"Arguments must be an object, not {str(whole['type'])[:80]}.", pointer="/type")
        if closed and whole.keys().isdisjoint({"additionalProperties", "unevaluatedProperties"}):
            whole[_closing(whole)] = False
        return cls._made(whole, "arguments")

    @classmethod
    def of_results(cls, mapping: Mapping[str, Any]) -> "Schema":
        """The schema of results, which may be of any type. Errors: as ``of``."""
        return cls._made(mapping, "results")

    @staticmethod
    def _made(mapping: Mapping[str, Any], purpose: Purpose) -> "Schema":
        try:
            encoded = encode(mapping)
        except JsonInvalidity as error:
            raise SchemaInvalidity(f"A schema is JSON. {error}") from None
        return _make(encoded, purpose)

    def __repr__(self) -> str:
        return f"<Schema of {', '.join(self.properties) or 'no parameters'}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and (self.encoded, self._purpose) == (other.encoded, other._purpose)

    def __hash__(self) -> int:
        return hash(self.encoded)

    def __reduce__(self) -> tuple[Any, ...]:
        return _make, (self.encoded, self._purpose)

    def validate(self, arguments: Any) -> tuple[SchemaProblem, ...]:
        """What is wrong with the arguments, at most ten problems; empty when they are valid.

        Arguments that would take too long to check, more than about 0.1 s, are a problem too.
        """
        if type(arguments) not in _READABLE:
            arguments = thaw(arguments)
        machine = self._machine
        try:
            if machine.costs.heavy and (problem := _excess(machine.costs, arguments)):
                return (problem,)
            if machine.is_valid(arguments):
                return ()
            encode(arguments)  # Only JSON can be explained.
        except SchemaInvalidity:
            raise
        except (TypeError, ValueError) as error:  # Keys that are no strings, bytes, lone surrogates.
            return (problem_of("invalid_value", "", f"is not JSON. {_reason(arguments, error)}", "JSON"),)
        return machine.explain(arguments)

    def coerce(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """What arguments that are refused were meant to be, where a wire cannot say them as they are.

        Null for a property that is absent, JSON in a text, a list of ``{"key", "value"}`` for a map: each only at a
        place that the schema refuses, and all together only if the schema accepts what they make, which has its
        defaults then. Otherwise the same object.
        """
        plain = thaw(arguments)
        machine = self._machine
        try:
            if machine.costs.heavy and _excess(machine.costs, plain):
                return arguments
            encode(plain)
        except (TypeError, ValueError):
            return arguments
        coerced = machine.coerce(plain)
        if coerced is plain:
            return arguments
        coerced = self.complete(coerced)
        return arguments if self.validate(coerced) else coerced

    def complete(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments with defaults for what they leave out, also in nested objects that they have.

        The same object when nothing is missing.
        """
        return fill(self._plan, arguments) if self._plan else arguments

    def without(self, names: Iterable[str]) -> "Schema":
        """The schema without these properties, required or not. Errors: as ``of``."""
        hidden = frozenset(names)
        whole: dict[str, Any] = dict(self.mapping)
        if is_mapping(properties := whole.get("properties")):
            whole["properties"] = {name: one for name, one in properties.items() if name not in hidden}
        required = [name for name in self.required if name not in hidden]
        if required:
            whole["required"] = required
        else:
            whole.pop("required", None)
        return self._made(whole, self._purpose)


def _make(encoded: bytes, purpose: Purpose) -> Schema:
    """From the text alone. Small schemas are remembered: callers declare the same tools with every request."""
    small = len(encoded) <= _REMEMBERED_BYTES and b'"pattern' not in encoded
    return _remembered(encoded, purpose) if small else _build(encoded, purpose)


def _build(encoded: bytes, purpose: Purpose) -> Schema:
    from ripieno.schemas import validator

    try:
        mapping = freeze(parse(encoded, max_bytes=MAX_BYTES, max_depth=MAX_JSON_DEPTH))
    except JsonInvalidity as error:
        raise SchemaInvalidity(f"The schema is too large. {error}") from None
    if not is_mapping(mapping):
        raise SchemaInvalidity("A schema is an object.")
    dialect = validator.dialect_of(mapping)
    graph = Graph(mapping, dialect=dialect)
    validator.check(mapping)
    properties, required = mapping.get("properties"), mapping.get("required")
    return Schema(
        mapping=frozendict(mapping),
        encoded=encoded,
        properties=tuple(properties) if is_mapping(properties) else (),
        required=tuple(map(str, required)) if is_sequence(required) else (),
        _purpose=purpose,
        _machine=Machine(mapping, graph, dialect),
        _plan=plan_of(graph) if b'"default"' in encoded else {},
    )


_remembered = functools.lru_cache(maxsize=1024)(_build)


def _closing(schema: Mapping[str, Any]) -> str:
    """The keyword that refuses what a root does not declare, in parts of its own or those that it applies."""
    if not any(keyword in schema for keyword in IN_PLACE):
        return "additionalProperties"
    from ripieno.schemas import validator

    if validator.dialect_of(schema) in LEGACY:
        raise SchemaInvalidity(
            "In this dialect a schema with parts cannot be closed as a whole. Say additionalProperties, or declare"
            " draft 2020-12.",
            pointer="/$schema",
        )
    return "unevaluatedProperties"


def _excess(costs: Costs, arguments: Any) -> SchemaProblem | None:
    name = costs.excess(arguments)
    if name is None:
        return None
    return problem_of("out_of_range", name, "is too large to be checked with its schema. Send less at once.", "less")


def _reason(arguments: Any, error: Exception) -> str:
    try:
        encode(arguments)
    except JsonInvalidity as invalidity:
        return str(invalidity)
    return str(error)[:160]
