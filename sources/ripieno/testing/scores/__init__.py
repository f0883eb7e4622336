"""Scores: TOML scripts that a rehearsed model plays, with answers made of what tools really said.

::

    [score]
    name = "demo"
    description = "Reads a file and says how it begins"
    prompt = "What is in README.rst?"       # what a user would say to begin it; for whoever plays it
    pace = 0.02                             # seconds between streamed pieces, for all turns; 0 when left out
    continues = false                       # a new user message begins the score again; true: it goes on

    [[turns]]                               # one answer of the model, in order
    reasoning = "I should look first."      # shown as reasoning, where the wire has it
    text = "I look around."
    [[turns.calls]]                         # the calls of a turn are made in parallel
    tool = "read_file"                      # the name that models see
    arguments = { path = "READ.ME" }
    label = "readme"                        # what later turns call its result

    [[turns]]
    on_error = "readme"                     # played only when that call failed, otherwise left out
    text = "That failed ({readme.error}), so I try another name."
    [[turns.calls]]
    tool = "read_file"
    arguments = { path = "README.rst" }
    label = "second"

    [[turns]]
    expect = ["second"]                     # must have succeeded; otherwise the answer says so
    text = "It begins with: {second.line:1}"
    finish = "stop"                         # the default without calls; "invocations" with calls; or length, filter

``ripieno demo --score FILE`` runs a score against a rehearsal, over each wire, in a folder of its own. What it begins
with, and what must be true at its end, are two more tables::

    [setup]
    configuration = { ensembles.enabled = ["io"], confirmation.approve = ["io.write_file"] }   # as in a ripieno.toml
    files = { "README.rst" = "Title\\n" }    # of the workspace, by their paths
    [[setup.programs]]                      # prepare the workspace; the keys are those of [[expect.programs]]
    argv = ["git", "init"]

    [expect]
    finish = "stop"                         # the default; or "terminal", after a tool such as submit
    answer = ["{readme.line:1}"]            # texts in the last answer, or in the "answer" of what was submitted
    results = { readme = "Title" }          # texts in results, by their labels
    files = { "notes/summary.md" = "{readme.line:1}" }      # texts in files of the workspace
    [[expect.programs]]                     # look at the workspace: with your rights, outside of the sandbox
    argv = ["git", "status", "--porcelain"]
    directory = "."                         # beneath the workspace
    exit_code = 0
    output = ""                             # the whole standard output, but for space at both ends

One text, or a list of texts, all of which must be there. The command reports each difference, and its exit code is 1.

Texts, reasoning, the strings in arguments and what is expected quote results: ``{label}`` is the whole text,
``{label.line:2}`` one line, ``{label.lines:3}`` the first lines, ``{label.json:/a/0}`` what a JSON Pointer finds in
it, ``{label.error}`` the first line of what went wrong; ``{{`` and ``}}`` are braces. What is missing is named in
brackets.

Playing keeps no state: the canisters of a request alone tell which turn is next, by counting the assistant messages
after the last user canister. Past its end, and where a turn calls a tool that is not offered, a score answers with
a text that says so. Over a wire, an answer reports an estimate of the tokens that it took.
"""

import dataclasses
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ripieno.canisters import Canister, ResultCanister
from ripieno.canisters.conversation import assistant_messages
from ripieno.descriptors.loading import read_toml
from ripieno.descriptors.reader.problems import Problems, Source
from ripieno.exceptions import ConfigurationInvalidity
from ripieno.testing.scores.expectations import Expectations, Program, Setup
from ripieno.testing.scores.player import (
    CHUNK,
    WHOLE,
    Answer,
    callable_names,
    events_of,
    follow,
    perform,
    play_turn,
    say,
    since_prompt,
)
from ripieno.testing.scores.reader import read_score
from ripieno.testing.scores.turns import ModelFinish, ScoredCall, Turn, check

__all__ = [
    "CHUNK",
    "WHOLE",
    "Answer",
    "Expectations",
    "ModelFinish",
    "Program",
    "Score",
    "ScoredCall",
    "Setup",
    "Turn",
    "callable_names",
    "events_of",
    "perform",
]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A script for a model. Made by ``read``, ``of`` or ``of_turns``, which check it."""

    name: str
    turns: tuple[Turn, ...]
    description: str = ""
    prompt: str = ""
    continues: bool = False
    setup: Setup = Setup()  # noqa: RUF009
    expect: Expectations = Expectations()  # noqa: RUF009

    @classmethod
    def read(cls, path: str | pathlib.Path) -> "Score":
        """The score of a TOML file. Errors: ``ConfigurationInvalidity`` with all that is wrong, and where."""
        document = read_toml(path)
        return cls.of(document.mapping, source=document.source)

    @classmethod
    def of(cls, mapping: Mapping[str, Any], *, source: Source = Source()) -> "Score":  # noqa: B008  frozen
        """The score of a mapping that has the form of a file. Errors: ``ConfigurationInvalidity``."""
        return cls(**read_score(mapping, source))

    @classmethod
    def of_turns(cls, turns: Sequence[Turn], *, name: str = "score", continues: bool = False) -> "Score":
        """A score of turns that are made already. Errors: ``ConfigurationInvalidity``."""
        problems = Problems(Source())
        check(turns, problems)
        if len(problems):
            raise ConfigurationInvalidity(problems.finished())
        return cls(name=name, turns=tuple(turns), continues=continues)

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that it calls, each once, by the names that models see."""
        return tuple(dict.fromkeys(call.tool for turn in self.turns for call in turn.calls))

    def results(self, canisters: Sequence[Canister]) -> Mapping[str, ResultCanister]:
        """The results in these canisters, by the labels of their calls."""
        return follow(self.turns, canisters if self.continues else since_prompt(canisters))[1]

    def answer(self, canisters: Sequence[Canister], tools: Collection[str]) -> Answer:
        """What the model answers to these canisters, when tools of these names are offered."""
        heard = canisters if self.continues else since_prompt(canisters)
        index, results = follow(self.turns, heard)
        if index >= len(self.turns):
            played = f"all of its {index} turns are played" if index > 1 else "its only turn is played"
            return say(f"The score {self.name!r} is over: {played}.")
        message = len(assistant_messages(canisters)) + 1
        return play_turn(self.turns[index], index + 1, results, tools, message)
