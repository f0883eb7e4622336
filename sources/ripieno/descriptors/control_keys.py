"""The keys of model controls, limits and confirmation rules."""

import dataclasses
from collections.abc import Mapping
from typing import Any, get_args

from ripieno.canisters import Controls
from ripieno.canisters.controls import Format, Limits, Reasoning, Rules
from ripieno.descriptors.reader.keys import UNSET, Key, Table
from ripieno.descriptors.reader.kinds import INVALID, Flag, Free, Kind, Number, Several, Size, Text, refuse
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems, subject
from ripieno.descriptors.rules import FORM, Pattern
from ripieno.exceptions import PatternInvalidity


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CallPattern:
    """A pattern over tools and the arguments of their calls, as it was written."""

    expected: str = 'a pattern such as "io.read_file", "git.*" or "io.write_file(path=docs/**)"'

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if not isinstance(value, str):
            return refuse(self, value, path, problems)
        try:
            pattern = Pattern.parse(value)
        except PatternInvalidity as invalidity:
            problems.add(path, f"{subject(path)}: {invalidity.reason}", invalidity.hint)
            return INVALID
        if any(character.isspace() for character in pattern.tool):
            # It would fit no tool, and so deny nothing.
            return refuse(self, value, path, problems)
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": FORM}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Formats:
    """What answers are held to, as a table that ``Format`` is made of."""

    expected: str = 'a table such as { kind = "json_object" } or { kind = "json_schema", schema = { … } }'

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        read = _FREE.read(value, path, problems)
        if read is INVALID:
            return INVALID
        try:
            format_from(read)
        except (TypeError, ValueError):
            return refuse(self, value, path, problems)
        return read

    def schema(self) -> dict[str, Any]:
        members = {
            "kind": {"enum": ["json_object", "json_schema"], "description": "JSON of any kind, or that fits a schema."},
            "name": {"type": "string", "description": "What a model is told that it is."},
            "description": {"type": "string", "description": "What a model is told about it."},
            "schema": {"type": "object", "description": "The JSON Schema, for the kind json_schema."},
            "strict": {"type": "boolean", "description": "Whether the provider follows the schema exactly."},
        }
        return {"type": "object", "properties": members, "required": ["kind"], "additionalProperties": False}


_FREE = Free()
_FORMAT_KINDS: Mapping[str, tuple[type, ...]] = {
    "kind": (str,),
    "name": (str,),
    "description": (str,),
    "schema": (Mapping,),
    "strict": (bool,),
}


def format_from(table: Mapping[str, Any]) -> Format:
    """The format that a table says. Errors: ``TypeError`` and ``ValueError`` for one that says none."""
    if table.get("kind") not in ("json_object", "json_schema"):
        raise ValueError("A format has the kind json_object or json_schema.")
    for name, value in table.items():
        if name not in _FORMAT_KINDS or not isinstance(value, _FORMAT_KINDS[name]):
            raise TypeError(f"A format has no {name} like that.")
    return Format(**table)


_PATTERNS = Several(item=CallPattern(), items='patterns such as "io.read_file", "git.*" or "io.move(path=docs/**)"')


def _key(of: object, name: str, kind: Kind, documentation: str, example: Any) -> Key:
    default = getattr(of, name)
    return Key(
        name=name,
        kind=kind,
        documentation=documentation,
        default=UNSET if default is None else default,
        example=example,
    )


_CONTROLS, _LIMITS, _RULES = Controls(), Limits(), Rules()

CONTROL_KEYS: tuple[Key, ...] = (
    _key(_CONTROLS, "temperature", Number(minimum=0, maximum=2), "How freely it chooses its words.", 0.2),
    _key(_CONTROLS, "output_tokens", Number(whole=True, minimum=1), "Most tokens of one answer.", 8192),
    _key(_CONTROLS, "top_p", Number(above=0, maximum=1), "Share of the likeliest words to choose from.", 0.9),
    _key(_CONTROLS, "stop", Several(item=Text(blank=True), items="strings"), "Texts that end an answer.", ["END"]),
    _key(_CONTROLS, "reasoning", Text(choices=get_args(Reasoning)), "How much it thinks before it answers.", "low"),
    _key(_CONTROLS, "stream", Flag(), "Whether answers are streamed.", False),
    _key(_CONTROLS, "tool_choice", Text(), "auto, none, required, or the name of one tool.", "required"),
    _key(
        _CONTROLS,
        "allowed_tools",
        Several(item=Text(), items="names that models see"),
        "Tools that may be called, while all stay visible.",
        ["read_file"],
    ),
    _key(_CONTROLS, "parallel", Flag(), "Whether one message may have several calls.", False),
    _key(_CONTROLS, "strict", Flag(), "Whether the provider holds arguments to their schemas.", True),
    _key(_CONTROLS, "format", Formats(), "What the text of an answer is held to: JSON.", {"kind": "json_object"}),
)
LIMIT_KEYS: tuple[Key, ...] = (
    _key(_LIMITS, "turns", Number(whole=True, minimum=1), "Turns of one run.", 50),
    _key(_LIMITS, "calls", Number(whole=True, minimum=0), "Calls of one run.", 200),
    _key(_LIMITS, "wall", Number(above=0, unit="seconds"), "Seconds that one run may take.", 3600),
    _key(_LIMITS, "repeats", Number(whole=True, minimum=1), "Same calls with the same result in one run.", 5),
    _key(_LIMITS, "output", Size(), "How much of any result is kept; left out, each invoker's own.", "32 KiB"),
    _key(_LIMITS, "tokens", Number(whole=True, minimum=1), "Tokens of one run, input and output.", 1_000_000),
    _key(_LIMITS, "spill", Size(), "How much of a result that is too long is kept to be read on.", "64 MiB"),
)
RULE_KEYS: tuple[Key, ...] = (
    _key(_RULES, "approve", _PATTERNS, "What runs unasked.", ["git.commit", "io.write_file(path=docs/**)"]),
    _key(_RULES, "ask", _PATTERNS, "What is always asked.", ["web.*"]),
    _key(_RULES, "deny", _PATTERNS, "What never runs.", ["shell.*"]),
)
CONTROLS = Table(title="controls", documentation="Model controls.", keys=CONTROL_KEYS)
LIMITS = Table(title="[limits]", documentation="How far a run may go.", keys=LIMIT_KEYS)
RULES = Table(
    title="[confirmation]",
    documentation="What may run, over what an effect alone decides. The stricter rule holds.",
    keys=RULE_KEYS,
)


def make_controls(*layers: Mapping[str, Any]) -> Controls:
    """The controls that read tables make together; later ones win."""
    values = _together(layers, CONTROLS)
    if "format" in values:
        values["format"] = format_from(values["format"])
    return Controls(**values)


def make_limits(*layers: Mapping[str, Any]) -> Limits:
    """The limits that read tables make together; later ones win."""
    return Limits(**_together(layers, LIMITS))


def make_rules(table: Mapping[str, Any]) -> Rules:
    """The rules of a read table."""
    return Rules(**table)


def _together(layers: tuple[Mapping[str, Any], ...], table: Table) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for layer in layers:
        values.update((name, value) for name, value in layer.items() if name in table.known)
    return values
