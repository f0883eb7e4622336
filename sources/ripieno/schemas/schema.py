"""``Schema``: checked when it is created, compiled when it is first used; and the defaults of its properties.

The validator is imported with the first schema, since that takes 25 ms.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

from frozendict import frozendict

from ripieno.exceptions import JsonInvalidity, SchemaInvalidity
from ripieno.jsonvalues import FrozenValue, encode, freeze, is_list, is_table, parse, thaw
from ripieno.schemas.cost import BUDGET, Costs, size_of, weigh
from ripieno.schemas.description import SchemaProblem, problem_of
from ripieno.schemas.graph import IN_PLACE, LEGACY, Graph, Node
from ripieno.values import Value

#: For each property, a tuple of its default (empty without one) and the plan of its own properties.
Plan: TypeAlias = "dict[str, tuple[tuple[Any, ...], Plan]]"


def plan_of(graph: Graph) -> Plan:
    """The defaults to fill in, following references and ``allOf``. Empty without defaults."""
    plans: dict[Node, Plan] = {graph.root: {}}
    waiting = [graph.root]
    for node in waiting:
        for one in _all(node):
            for keyword, key, below in one.edges:
                if keyword != "properties":
                    continue
                if below not in plans:
                    plans[below] = {}
                    waiting.append(below)
                schemas = (part.schema for part in _all(below) if is_table(part.schema))
                defaults = tuple(schema["default"] for schema in schemas if "default" in schema)
                plans[node].setdefault(str(key), (defaults[:1], plans[below]))
    return plans[graph.root]


def fill(plan: Plan, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments with their defaults; the same object if none is missing."""
    filled: dict[str, Any] = {}
    for name, (default, inner) in plan.items():
        if name not in arguments:
            for value in default:
                filled[name] = fill(inner, thaw(value)) if is_table(value) else thaw(value)
        elif inner and is_table(value := arguments[name]) and (complete := fill(inner, value)) is not value:
            filled[name] = complete
    return {**arguments, **filled} if filled else arguments


def _all(node: Node) -> Iterator[Node]:
    """A subschema, and those that apply whenever it does."""
    yield node
    for below in node.follow("$ref", "allOf"):
        yield from _all(below)


_MAX_LEVELS = 32


class CompiledSchema:
    """A validator with its explanations. Errors: ``SchemaInvalidity`` for a schema that is not accepted."""

    __slots__ = ("_dialect", "_options", "_schema", "_subschemas", "costs", "is_valid")

    def __init__(self, schema: Mapping[str, Any], graph: Graph, dialect: str) -> None:
        from ripieno.schemas.regexes import rate
        from ripieno.schemas.validator import options_of

        self._schema = schema
        self._dialect = dialect
        self._options = options_of(graph)
        self._subschemas: Any = None
        self.costs: Costs = weigh(graph, rate)
        #: Replaced by the compiled validator's own method.
        self.is_valid: Callable[[Any], bool] = self._compile
        if graph.refers or self._options is not None:
            self._prepare()  # Compilation can refuse only these schemas.

    def _prepare(self) -> None:
        from ripieno.schemas.validator import compiled

        self.is_valid = compiled(self._schema, self._dialect, self._options).is_valid

    def _compile(self, value: Any) -> bool:
        self._prepare()
        return self.is_valid(value)

    def explain(self, value: Any) -> tuple[SchemaProblem, ...]:
        """The problems of a refused value. The more work it takes, the fewer levels are examined."""
        from ripieno.schemas.explanation import explain

        work = max(1, self.costs.whole.times(size_of(value)))
        return explain(self._parts(), value, min(_MAX_LEVELS, max(2, 2 * BUDGET // work)))

    def coerce(self, value: Any) -> Any:
        """The accepted form of a refused value; the same object if there is none."""
        from ripieno.schemas.coercion import coerce

        return coerce(self._parts(), value, self.costs.whole)

    def _parts(self) -> Any:
        from ripieno.schemas.subschemas import Subschemas

        if self._subschemas is None:
            self._subschemas = Subschemas(self._schema, self._dialect, self._options)
        return self._subschemas


MAX_BYTES = 64 * 1024
MAX_JSON_DEPTH = 64
#: A compiled schema takes some ten times the size of its text, but a regular expression up to 1.5 MiB.
_REMEMBERED_BYTES = 4 * 1024

Purpose = Literal["arguments", "results"]


#: Types that the validator reads without conversion.
_READABLE: frozenset[object] = frozenset({dict, frozendict})


class Schema(Value, kw_only=True, eq=False):
    """A JSON Schema of arguments or results. Immutable; equal if the text is equal. Create it with ``of``.

    ``mapping`` is the frozen schema, ``encoded`` is its compact JSON; ``properties`` and ``required`` are the names
    that its root declares. Formats are not asserted. Patterns are those of ECMA-262: they match anywhere unless
    anchored, ``$`` is the very end, ``\\d`` is ASCII.
    """

    mapping: frozendict[str, FrozenValue]
    encoded: bytes
    properties: tuple[str, ...]
    required: tuple[str, ...]
    _purpose: Purpose
    _compiled: CompiledSchema
    _plan: Plan

    @classmethod
    def of(cls, mapping: Mapping[str, Any], *, closed: bool = False) -> "Schema":
        """The schema of an object of arguments; ``closed`` refuses undeclared parameters.

        Errors: ``SchemaInvalidity``, with a JSON pointer, for a mapping that is no JSON Schema of an object, has an
        unknown dialect, exceeds the bounds (64 KiB, 32 levels, 2,000 subschemas, 100,000 when unfolded), refers
        outside itself, or has a regular expression that is broken or too large.
        """
        if not is_table(mapping):
            raise SchemaInvalidity("A schema must be an object.")
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
            raise SchemaInvalidity(f"A schema must be JSON. {error}") from None
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
        """The problems of the arguments, at most ten; empty if they are valid.

        Arguments whose validation would take more than about 0.1 s are a problem too.
        """
        if type(arguments) not in _READABLE:
            arguments = thaw(arguments)
        compiled = self._compiled
        try:
            if compiled.costs.heavy and (problem := _excess(compiled.costs, arguments)):
                return (problem,)
            if compiled.is_valid(arguments):
                return ()
            encode(arguments)  # Only JSON can be explained.
        except SchemaInvalidity:
            raise
        except (TypeError, ValueError) as error:  # Keys that are not strings, bytes, lone surrogates.
            return (problem_of("invalid_value", "", f"is not JSON. {_reason(arguments, error)}", "JSON"),)
        return compiled.explain(arguments)

    def coerce(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Refused arguments converted to the form that the schema accepts, with defaults; or the same object.

        Null becomes an absent property, a text its JSON, a list of ``{"key", "value"}`` a map: each only at a refused
        place, and only if the schema accepts the whole result.
        """
        plain = thaw(arguments)
        compiled = self._compiled
        try:
            if compiled.costs.heavy and _excess(compiled.costs, plain):
                return arguments
            encode(plain)
        except (TypeError, ValueError):
            return arguments
        coerced = compiled.coerce(plain)
        if coerced is plain:
            return arguments
        coerced = self.complete(coerced)
        return arguments if self.validate(coerced) else coerced

    def complete(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments with defaults, also in nested objects; the same object if nothing is missing."""
        return fill(self._plan, arguments) if self._plan else arguments

    def without(self, names: Iterable[str]) -> "Schema":
        """The schema without these properties, required or not. Errors: as ``of``."""
        hidden = frozenset(names)
        whole: dict[str, Any] = dict(self.mapping)
        if is_table(properties := whole.get("properties")):
            whole["properties"] = {name: one for name, one in properties.items() if name not in hidden}
        whole["required"] = [name for name in self.required if name not in hidden]
        if not whole["required"]:
            del whole["required"]
        return self._made(whole, self._purpose)


def _make(encoded: bytes, purpose: Purpose) -> Schema:
    """The schema of a text. Small ones are cached: callers declare the same tools with every request."""
    small = len(encoded) <= _REMEMBERED_BYTES and b'"pattern' not in encoded
    return _remembered(encoded, purpose) if small else _build(encoded, purpose)


def _build(encoded: bytes, purpose: Purpose) -> Schema:
    from ripieno.schemas import validator

    try:
        mapping = freeze(parse(encoded, max_bytes=MAX_BYTES, max_depth=MAX_JSON_DEPTH))
    except JsonInvalidity as error:
        raise SchemaInvalidity(f"The schema is too large. {error}") from None
    if not is_table(mapping):
        raise SchemaInvalidity("A schema must be an object.")
    dialect = validator.dialect_of(mapping)
    graph = Graph(mapping, dialect=dialect)
    validator.check(mapping)
    properties, required = mapping.get("properties"), mapping.get("required")
    return Schema(
        mapping=frozendict(mapping),
        encoded=encoded,
        properties=tuple(properties) if is_table(properties) else (),
        required=tuple(map(str, required)) if is_list(required) else (),
        _purpose=purpose,
        _compiled=CompiledSchema(mapping, graph, dialect),
        _plan=plan_of(graph) if b'"default"' in encoded else {},
    )


_remembered = functools.lru_cache(maxsize=1024)(_build)


def _closing(schema: Mapping[str, Any]) -> str:
    """The keyword that refuses undeclared properties of a root, with or without subschemas in place."""
    if not any(keyword in schema for keyword in IN_PLACE):
        return "additionalProperties"
    from ripieno.schemas import validator

    if validator.dialect_of(schema) in LEGACY:
        raise SchemaInvalidity(
            "In this dialect a schema with allOf, anyOf or the like cannot be closed. Add additionalProperties, or"
            " declare draft 2020-12.",
            pointer="/$schema",
        )
    return "unevaluatedProperties"


def _excess(costs: Costs, arguments: Any) -> SchemaProblem | None:
    name = costs.excess(arguments)
    if name is None:
        return None
    return problem_of("out_of_range", name, "is too large to be validated. Send less at once.", "less")


def _reason(arguments: Any, error: Exception) -> str:
    try:
        encode(arguments)
    except JsonInvalidity as invalidity:
        return str(invalidity)
    return str(error)[:160]
