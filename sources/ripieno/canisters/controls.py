"""Settings of the caller: model controls, limits, and confirmation rules."""

import dataclasses
from typing import Any, Literal

from frozendict import frozendict

from ripieno.canisters.contents import freeze_fields, tuple_fields
from ripieno.exceptions import UsageError
from ripieno.values import Value

Finish = Literal[
    "stop", "invocations", "length", "filter", "terminal", "limit", "open", "cancelled", "aborted", "error"
]
Reasoning = Literal["none", "low", "medium", "high"]


class Format(Value, kw_only=True):
    """The required form of an answer's text: any JSON, or JSON that fits a schema.

    ``name`` and ``description`` are for the model. ``strict`` asks the provider to follow the schema exactly. A wire
    leaves out what it cannot express. Errors: ``ValueError`` if ``kind`` and ``schema`` do not fit together.
    """

    kind: Literal["json_object", "json_schema"]
    name: str = ""
    schema: frozendict[str, object] | None = None
    strict: bool | None = None
    description: str = ""

    def __post_init__(self) -> None:
        if (self.kind == "json_schema") != (self.schema is not None):
            raise ValueError("A format has a schema if its kind is json_schema, and no schema otherwise.")
        freeze_fields(self, "schema")


class Controls(Value, kw_only=True):
    """Controls of one turn. None means the provider's default.

    ``tool_choice`` is ``auto``, ``none``, ``required``, or the exposed name of one tool. The last two apply to the
    first turn of a run; a model that then makes no call is asked once more, and calls of other tools than a forced
    one are refused. ``allowed_tools`` are the exposed names that may be called, while all stay visible: None allows
    all, an empty tuple none. ``strict`` asks the provider to enforce argument schemas, as far as it can express
    them. ``format`` is the required form of the text. ``tool_calls`` limits the calls that the server may run by
    itself before it answers. ``seed``, the penalties (-2 to 2), ``logit_bias`` (-100 to 100 by token number),
    ``logprobs`` (whether the answer has the probabilities of its tokens) and ``top_logprobs`` (how many more tokens at
    each place) are refused by wires that lack them. Errors: ``UsageError`` for a format of another class.
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
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: frozendict[str, float] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None

    def __post_init__(self) -> None:
        tuple_fields(self, "stop", "allowed_tools")
        form: Any = self.format
        if form is not None and not isinstance(form, Format):
            kind = type(form).__name__
            raise UsageError(f"The control format takes Format, of {__name__}, not {kind}: {form!r:.100}")
        if self.logit_bias is not None:
            freeze_fields(self, "logit_bias")

    def forced(self) -> bool:
        """Whether the model must call a tool."""
        return self.tool_choice not in (None, "auto", "none")

    def forced_tool(self) -> str | None:
        """The one tool that must be called, if there is one."""
        return None if self.tool_choice in (None, "auto", "none", "required") else self.tool_choice

    def callable_names(self) -> tuple[str, ...] | None:
        """The exposed names that may be called with this choice; None for all."""
        forced, allowed = self.forced_tool(), self.allowed_tools
        if self.tool_choice == "none" or (forced is not None and allowed is not None and forced not in allowed):
            return ()
        return allowed if forced is None else (forced,)

    def relaxed(self) -> "Controls":
        """The controls with ``tool_choice`` auto in place of a forced one."""
        return dataclasses.replace(self, tool_choice="auto") if self.forced() else self


class Limits(Value, kw_only=True):
    """Limits of a run. When one is reached, further calls are refused; nothing is raised.

    ``wall`` is in seconds. ``output`` is in bytes for each result (None: each invoker's own). ``tokens`` counts input
    and output as the provider reports them, or an estimate if it reports none. ``spill`` is in bytes: how much of
    a result that is too long to show is stored, to be read later; 0 stores nothing.
    """

    turns: int = 20
    calls: int = 100
    wall: float = 600.0
    repeats: int = 3
    output: int | None = None
    tokens: int | None = None
    spill: int = 16 * 1024 * 1024


class Rules(Value, kw_only=True):
    """Patterns over ``ensemble.tool``. If several match, the strictest applies: ``deny``, then ``ask``, ``approve``."""

    approve: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        tuple_fields(self, "approve", "ask", "deny")
