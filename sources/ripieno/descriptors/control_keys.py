"""The keys of model controls, limits and confirmation rules."""

from collections.abc import Mapping
from typing import Any, get_args

from ripieno.canisters import Controls
from ripieno.canisters.controls import Format, Limits, Reasoning, Rules
from ripieno.descriptors.reader.keys import Key, Table
from ripieno.descriptors.reader.kinds import COUNT, INVALID, Flag, Free, Named, Number, Several, Size, Text, refuse
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems, subject
from ripieno.descriptors.rules import FORM, Pattern
from ripieno.exceptions import PatternInvalidity
from ripieno.values import Value


class CallPattern(Value, kw_only=True):
    """A pattern over tools and arguments, stored as written."""

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
            # It would match no tool, and so deny nothing.
            return refuse(self, value, path, problems)
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": FORM}


class FormatTable(Table):
    """The table of a format of answers."""

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        read = Table.read(self, value, path, problems)
        if read is not INVALID and (read["kind"] == "json_schema") != ("schema" in read):
            hint = 'Write kind = "json_schema" with a schema, or kind = "json_object" without one.'
            problems.add(path, f"{subject(path)} has a schema if its kind is json_schema, and none otherwise", hint)
            return INVALID
        return read


FORMAT = FormatTable(
    "format",
    "The required form of the text of an answer: JSON.",
    (
        Key(
            "kind",
            Text(choices=("json_object", "json_schema")),
            "Any JSON, or JSON that fits a schema.",
            example="json_object",
            required=True,
        ),
        Key("name", Text(blank=True), "A name for the model.", example="place"),
        Key("description", Text(blank=True), "A description for the model.", example="A city and its country"),
        Key("schema", Free(), "The JSON Schema, for the kind json_schema.", example={"type": "object"}),
        Key("strict", Flag(), "Whether the provider follows the schema exactly.", example=True),
    ),
)
_PATTERNS = Several(CallPattern(), 'patterns such as "io.read_file", "git.*" or "io.move(path=docs/**)"')


_CONTROLS, _LIMITS, _RULES = Controls(), Limits(), Rules()

CONTROL_KEYS: tuple[Key, ...] = Key.rows(
    _CONTROLS,
    ("temperature", Number(minimum=0, maximum=2), "The randomness of the output.", 0.2),
    ("output_tokens", COUNT, "The most tokens of one answer.", 8192),
    ("top_p", Number(above=0, maximum=1), "The share of the most probable tokens to sample from.", 0.9),
    ("seed", Number(whole=True), "The seed of random choices, where the wire has one.", 7),
    ("presence_penalty", Number(minimum=-2, maximum=2), "A penalty for tokens that the text already has.", 0.5),
    ("frequency_penalty", Number(minimum=-2, maximum=2), "A penalty for tokens, by their number in the text.", 0.5),
    (
        "logit_bias",
        Named(Text(pattern="[0-9]+", shape="the number of a token"), Number(minimum=-100, maximum=100)),
        "Added to the weights of tokens, by their numbers.",
        {"50256": -100},
    ),
    ("stop", Several(Text(blank=True), "strings"), "Texts that end an answer.", ["END"]),
    ("reasoning", Text(choices=get_args(Reasoning)), "The amount of reasoning before an answer.", "low"),
    ("stream", Flag(), "Whether answers are streamed.", False),
    ("tool_choice", Text(), "auto, none, required, or the name of one tool.", "required"),
    ("allowed_tools", Several(Text(), "exposed names"), "Tools that may be called; all stay visible.", ["read_file"]),
    ("parallel", Flag(), "Whether one message may have several calls.", False),
    ("strict", Flag(), "Whether the provider enforces argument schemas.", True),
    ("format", FORMAT, FORMAT.documentation, {"kind": "json_object"}),
)
LIMIT_KEYS: tuple[Key, ...] = Key.rows(
    _LIMITS,
    ("turns", COUNT, "Turns of one run.", 50),
    ("calls", Number(whole=True, minimum=0), "Calls of one run.", 200),
    ("wall", Number(above=0, unit="seconds"), "Seconds that one run may take.", 3600),
    ("repeats", COUNT, "Equal calls with equal results that one run may have.", 5),
    ("output", Size(), "How much of a result is kept. If absent, each invoker decides.", "32 KiB"),
    ("tokens", COUNT, "Tokens of one run, input and output.", 1_000_000),
    ("spill", Size(), "How much of a result that is too long is stored, to be read later.", "64 MiB"),
)
RULE_KEYS: tuple[Key, ...] = Key.rows(
    _RULES,
    ("approve", _PATTERNS, "Calls that run without a question.", ["git.commit", "io.write_file(path=docs/**)"]),
    ("ask", _PATTERNS, "Calls that need a confirmation.", ["web.*"]),
    ("deny", _PATTERNS, "Calls that never run.", ["shell.*"]),
)
CONTROLS = Table("controls", "Model controls.", CONTROL_KEYS)
LIMITS = Table("[limits]", "Limits of a run.", LIMIT_KEYS)
RULES = Table(
    "[confirmation]", "Rules about calls, beyond what their effect decides. The strictest applies.", RULE_KEYS
)


def make_controls(*layers: Mapping[str, Any]) -> Controls:
    """The controls of read tables; later ones win."""
    values = _merged(layers, CONTROLS)
    if "format" in values:
        values["format"] = Format(**values["format"])
    return Controls(**values)


def make_limits(*layers: Mapping[str, Any]) -> Limits:
    """The limits of read tables; later ones win."""
    return Limits(**_merged(layers, LIMITS))


def _merged(layers: tuple[Mapping[str, Any], ...], table: Table) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for layer in layers:
        values.update((name, value) for name, value in layer.items() if name in table.known)
    return values
