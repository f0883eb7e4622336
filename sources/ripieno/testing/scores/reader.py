"""The tables of a score file, and the turns in them."""

from collections.abc import Mapping
from typing import Any, get_args

from frozendict import frozendict

from ripieno.descriptors.reader.keys import Key, Table, description_key
from ripieno.descriptors.reader.kinds import Flag, Free, Number, Several, Text
from ripieno.descriptors.reader.problems import Problems, Source
from ripieno.exceptions import ConfigurationInvalidity
from ripieno.testing.scores.expectations import EXPECT, SETUP, Expectations, Program, Setup
from ripieno.testing.scores.templates import LABEL
from ripieno.testing.scores.turns import ModelFinish, ScoredCall, Turn, check

_LABEL = Text(pattern=LABEL, shape="a label of letters, digits, _ and -, beginning with a letter")
_PACE = Number(minimum=0, maximum=60, unit="seconds")

HEADER = Table(
    title="[score]",
    documentation="The score as a whole.",
    keys=(
        Key(name="name", kind=Text(), documentation="Its name.", required=True, example="demo"),
        description_key("Its purpose, for people.", "Reads a file and quotes its first line"),
        Key(
            name="prompt",
            kind=Text(blank=True),
            documentation="The user's first message.",
            default="",
            example="What is in README.rst?",
        ),
        Key(
            name="continues",
            kind=Flag(),
            documentation="Whether a new user message continues with the next turn, instead of restarting.",
            default=False,
            example=True,
        ),
        Key(
            name="pace",
            kind=_PACE,
            documentation="Seconds between streamed pieces, for turns without their own.",
            default=0,
            example=0.02,
        ),
    ),
)
CALL = Table(
    title="[[turns.calls]]",
    documentation="One call. The calls of a turn are made in parallel.",
    keys=(
        Key(
            name="tool",
            kind=Text(pattern=r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}", shape="the name of a tool as models see it"),
            documentation="The tool, by its exposed name.",
            required=True,
            example="read_file",
        ),
        Key(
            name="arguments",
            kind=Free(),
            documentation="Its arguments; strings in them may quote earlier results.",
            default=frozendict(),
            example={"path": "README.rst"},
        ),
        Key(name="label", kind=_LABEL, documentation="The name of its result in later turns.", example="readme"),
    ),
    elsewhere=frozendict({"text": "[[turns]]", "expect": "[[turns]]", "on_error": "[[turns]]"}),
)
TURN = Table(
    title="[[turns]]",
    documentation="One answer of the model. Turns are played in order.",
    keys=(
        Key(
            name="text",
            kind=Text(blank=True),
            documentation="Its text, which may quote earlier results.",
            default="",
            example="It begins with: {readme.line:1}",
        ),
        Key(
            name="reasoning",
            kind=Text(blank=True),
            documentation="Sent as reasoning, if the wire supports it.",
            default="",
            example="I should look first.",
        ),
        Key(
            name="calls",
            kind=Several(item=CALL, items="tables, each with a tool"),
            documentation=CALL.documentation,
            default=(),
        ),
        Key(
            name="expect",
            kind=Several(item=_LABEL, items="labels"),
            documentation="Calls that must have succeeded; otherwise the answer reports which did not.",
            default=(),
            example=["readme"],
        ),
        Key(name="on_error", kind=_LABEL, documentation="Play this turn only if that call failed.", example="readme"),
        Key(
            name="finish",
            kind=Text(choices=get_args(ModelFinish)),
            documentation='The finish of the answer; by default "invocations" with calls, and "stop" without.',
            example="length",
        ),
        Key(name="pace", kind=_PACE, documentation="Seconds between streamed pieces.", example=0.02),
    ),
    elsewhere=frozendict({"tool": "[[turns.calls]]", "arguments": "[[turns.calls]]", "label": "[[turns.calls]]"}),
)
SCORE = Table(
    title="a score's file",
    documentation="One score.",
    keys=(
        Key(name="score", kind=HEADER, documentation=HEADER.documentation, required=True),
        Key(name="setup", kind=SETUP, documentation=SETUP.documentation),
        Key(name="expect", kind=EXPECT, documentation=EXPECT.documentation),
        Key(
            name="turns",
            kind=Several(item=TURN, items="tables, one for each answer"),
            documentation=TURN.documentation,
            required=True,
        ),
    ),
)


def read_score(mapping: Mapping[str, Any], source: Source) -> dict[str, Any]:
    """The fields of a score. Errors: ``ConfigurationInvalidity`` with all problems."""
    problems = Problems(source)
    parts = SCORE.read(mapping, (), problems)
    turns: tuple[Turn, ...] = ()
    header: dict[str, Any] = {}
    setup, expect = Setup(), Expectations()
    if not len(problems):
        header = dict(parts["score"])
        pace = header.pop("pace", 0)
        turns = tuple(_turn({"pace": pace, **keys}) for keys in parts["turns"])
        for number, keys in enumerate(parts["turns"]):
            if not keys.keys() & {"text", "reasoning", "calls"}:
                problems.add(("turns", number), "this turn has no text and no calls", "Add text or calls.")
        setup, expect = Setup(**_part(parts, "setup")), Expectations(**_part(parts, "expect"))
        check(turns, problems, expect.texts())
    if len(problems):
        raise ConfigurationInvalidity(problems.finished())
    return {**header, "turns": turns, "setup": setup, "expect": expect}


def _part(parts: Mapping[str, Any], name: str) -> dict[str, Any]:
    fields = dict(parts.get(name, ()))
    return {**fields, "programs": tuple(Program(**one) for one in fields.get("programs", ()))}


def _turn(keys: Mapping[str, Any]) -> Turn:
    fields = dict(keys)
    fields["calls"] = tuple(ScoredCall(**call) for call in fields.pop("calls", ()))
    return Turn(**fields)
