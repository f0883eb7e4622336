"""What a schema runs on: its validator, compiled when first asked, and its explanations.

The validator is imported with the first schema: it takes 25 ms.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ripieno.schemas.costs import BUDGET, Costs, size_of, weigh
from ripieno.schemas.describing import SchemaProblem
from ripieno.schemas.walking import Graph

_MAX_LEVELS = 32


class Machine:
    """Validates and explains. Errors of its making: ``SchemaInvalidity``, for any schema that is not accepted."""

    __slots__ = ("_dialect", "_options", "_pieces", "_schema", "costs", "is_valid")

    def __init__(self, schema: Mapping[str, Any], graph: Graph, dialect: str) -> None:
        from ripieno.schemas.engine import options_of
        from ripieno.schemas.patterns import rate

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
        from ripieno.schemas.engine import compiled

        self.is_valid = compiled(self._schema, self._dialect, self._options).is_valid

    def _compile(self, value: Any) -> bool:
        self._prepare()
        return self.is_valid(value)

    def explain(self, value: Any) -> tuple[SchemaProblem, ...]:
        """Why ``value`` is refused. The more work it makes, the less far this descends."""
        from ripieno.schemas.explaining import explain

        work = max(1, self.costs.whole.times(size_of(value)))
        return explain(self._divided(), value, min(_MAX_LEVELS, max(2, 2 * BUDGET // work)))

    def coerce(self, value: Any) -> Any:
        """What ``value``, which is refused, was meant to be; the same object when nothing of the kind fits."""
        from ripieno.schemas.coercing import coerce

        return coerce(self._divided(), value, self.costs.whole)

    def _divided(self) -> Any:
        from ripieno.schemas.pieces import Pieces

        if self._pieces is None:
            self._pieces = Pieces(self._schema, self._dialect, self._options)
        return self._pieces
