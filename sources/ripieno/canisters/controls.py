"""What the caller may set: model controls, limits, and rules about what may run."""

import dataclasses
from typing import Literal

from frozendict import frozendict

Finish = Literal[
    "stop", "invocations", "length", "filter", "terminal", "limit", "open", "cancelled", "aborted", "error"
]
Reasoning = Literal["none", "low", "medium", "high"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """What the text of an answer is held to: JSON of any kind, or JSON that fits a schema.

    ``name`` and ``description`` tell the model what it is; ``strict`` asks the provider to follow the schema exactly.
    Wires that have no word for one of these leave it out. Errors: ``ValueError`` for a schema without one.
    """

    kind: Literal["json_object", "json_schema"]
    name: str = ""
    schema: frozendict[str, object] | None = None
    strict: bool | None = None
    description: str = ""

    def __post_init__(self) -> None:
        if (self.kind == "json_schema") != (self.schema is not None):
            raise ValueError("A format has a schema if its kind is json_schema, and none otherwise.")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """Controls of one turn. What is None is left to the provider.

    ``tool_choice`` is ``auto``, ``none``, ``required``, or the exposed name of one tool; the last two hold for
    the first turn of a run, and a model that makes no call all the same is asked once more. ``allowed_tools`` are
    the exposed names that may be called while all stay visible: None allows all, an empty tuple none. ``strict``
    asks the provider to hold arguments to their schemas, as far as it can say them; None is plain. ``format`` is what
    the text of an answer is held to. ``tool_calls`` is how many calls whoever answers may run by itself meanwhile.
    """

    temperature: float | None = None
    output_tokens: int | None = None
    top_p: float | None = None
    stop: tuple[str, ...] | None = None
    reasoning: Reasoning | None = None
    stream: bool = True
    tool_choice: str | None = None
    allowed_tools: tuple[str, ...] | None = None
    parallel: bool | None = None
    strict: bool | None = None
    format: Format | None = None
    tool_calls: int | None = None

    def forced(self) -> bool:
        """Whether the model has no choice but to call a tool."""
        return self.tool_choice not in (None, "auto", "none")

    def relaxed(self) -> "Controls":
        """The same, with the choice of tools left to the model again."""
        return dataclasses.replace(self, tool_choice="auto") if self.forced() else self


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How far a run may go. A limit that is reached refuses further calls; it never raises.

    ``wall`` is in seconds, ``output`` in bytes a result (None: each invoker's own), ``tokens`` counts what the
    provider reports, input and output together; where it reports nothing, an estimate. ``spill`` is in bytes: how much
    of a text that is too long to be shown is kept, to be read on; 0 keeps nothing.
    """

    turns: int = 20
    calls: int = 100
    wall: float = 600.0
    repeats: int = 3
    output: int | None = None
    tokens: int | None = None
    spill: int = 16 * 1024 * 1024


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Patterns over ``ensemble.tool``: what runs unasked, what is always asked, what never runs.

    Where several match, the stricter one holds: ``deny`` before ``ask`` before ``approve``.
    """

    approve: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
