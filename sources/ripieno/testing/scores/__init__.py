"""Scores: TOML scripts for a rehearsed model, whose answers quote the real results of tools.

::

    [score]
    name = "demo"
    description = "Reads a file and quotes its first line"
    prompt = "What is in README.rst?"       # the user's first message, for the player of the score
    pace = 0.02                             # seconds between streamed pieces, for all turns; default 0
    continues = false                       # a new user message restarts the score; true: it continues

    [[turns]]                               # one answer of the model, in order
    reasoning = "I should look first."      # sent as reasoning, if the wire supports it
    text = "I look around."
    [[turns.calls]]                         # the calls of a turn are made in parallel
    tool = "read_file"                      # the exposed name
    arguments = { path = "READ.ME" }
    label = "readme"                        # the name of its result in later turns

    [[turns]]
    on_error = "readme"                     # played only if that call failed, otherwise skipped
    text = "That failed ({readme.error}), so I try another name."
    [[turns.calls]]
    tool = "read_file"
    arguments = { path = "README.rst" }
    label = "second"

    [[turns]]
    expect = ["second"]                     # must have succeeded; otherwise the answer reports it
    text = "It begins with: {second.line:1}"
    finish = "stop"                         # the default without calls; "invocations" with calls; or length, filter

``ripieno ask -m score:FILE`` plays a score in one process, with your own tools, configuration and workspace.
``ripieno demo --score FILE`` runs it against a rehearsal, over one wire or each (``--protocol all``), in a folder of
its own, with the tools that it names. ``ripieno rehearse FILE`` serves it to other programs. Two more tables have the
preconditions of the demo, and the expectations at the end::

    [setup]                                 # folders under ensembles.paths: relative to the file of the score
    configuration = { ensembles.enabled = ["io"], confirmation.approve = ["io.write_file"] }   # as in a ripieno.toml
    files = { "README.rst" = "Title\\n" }    # of the workspace, by path
    [[setup.programs]]                      # prepare the workspace; the keys are those of [[expect.programs]]
    argv = ["git", "init"]

    [expect]
    finish = "stop"                         # the default; or "terminal", after a tool such as submit
    answer = ["{readme.line:1}"]            # texts in the last answer, or in the submitted "answer"
    results = { readme = "Title" }          # texts in results, by label
    files = { "notes/summary.md" = "{readme.line:1}" }      # texts in files of the workspace
    [[expect.programs]]                     # check the workspace: with your rights, outside of the sandbox
    argv = ["git", "status", "--porcelain"]
    directory = "."                         # beneath the workspace
    exit_code = 0
    output = ""                             # the complete standard output, stripped

Each expectation is one text, or a list of texts that must all be present. ``demo``, ``ask`` and ``resume`` report each
difference, and a turn that could not be played; their exit code is 1. Only ``demo`` runs the programs.

Texts, reasoning, strings in arguments, and expectations quote results: ``{label}`` is the whole text, which for a
command includes the newline at its end, ``{label.line:2}`` one line, ``{label.lines:3}`` the first lines,
``{label.json:/a/0}`` the value at a JSON Pointer, ``{label.error}`` the first line of an error; ``{{`` and ``}}`` are
braces. A missing quotation becomes a note in brackets.

A player keeps no state: the canisters of a request alone determine the next turn, by the number of assistant messages
after the last user canister. After its end, and in a turn that calls a tool that is not offered, a score answers with
a text that says so. Over a wire, an answer reports an estimated token count.
"""

import dataclasses
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ripieno.canisters import Canister, InvocationCanister, ResultCanister
from ripieno.canisters.conversation import assistant_begins, assistant_messages
from ripieno.descriptors.loading import read_toml
from ripieno.descriptors.reader.problems import Problems, Source
from ripieno.exceptions import ConfigurationInvalidity
from ripieno.testing.scores.expectations import Expectations, Setup
from ripieno.testing.scores.player import Answer, follow, play_turn, say, since_prompt
from ripieno.testing.scores.reader import read_score
from ripieno.testing.scores.turns import Turn, check

__all__ = ["Score"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A script for a model. ``read``, ``of`` and ``of_turns`` make and check it."""

    name: str
    turns: tuple[Turn, ...]
    description: str = ""
    prompt: str = ""
    continues: bool = False
    setup: Setup = Setup()  # noqa: RUF009
    expect: Expectations = Expectations()  # noqa: RUF009

    @classmethod
    def read(cls, path: str | pathlib.Path) -> "Score":
        """The score in a TOML file. Errors: ``ConfigurationInvalidity`` with all problems and their positions."""
        document = read_toml(path)
        return cls.of(document.mapping, source=document.source)

    @classmethod
    def of(cls, mapping: Mapping[str, Any], *, source: Source = Source()) -> "Score":  # noqa: B008  frozen
        """The score in a mapping of a file's form. Errors: ``ConfigurationInvalidity``."""
        return cls(**read_score(mapping, source))

    @classmethod
    def of_turns(cls, turns: Sequence[Turn], *, name: str = "score", continues: bool = False) -> "Score":
        """A score of turns. Errors: ``ConfigurationInvalidity``."""
        problems = Problems(Source())
        check(turns, problems)
        if len(problems):
            raise ConfigurationInvalidity(problems.finished())
        return cls(name=name, turns=tuple(turns), continues=continues)

    @property
    def tools(self) -> tuple[str, ...]:
        """The exposed names of the tools that it calls, each once."""
        return tuple(dict.fromkeys(call.tool for turn in self.turns for call in turn.calls))

    def results(self, canisters: Sequence[Canister]) -> Mapping[str, ResultCanister]:
        """The results in these canisters, by the labels of their calls."""
        return follow(self.turns, canisters if self.continues else since_prompt(canisters))[1]

    def answer(self, canisters: Sequence[Canister], tools: Collection[str]) -> Answer:
        """The model's answer to these canisters, if tools with these names are offered."""
        relevant = canisters if self.continues else since_prompt(canisters)
        index, results = follow(self.turns, relevant)
        if index >= len(self.turns):
            played = f"all of its {index} turns are played" if index > 1 else "its only turn is played"
            return say(f"The score {self.name!r} is over: {played}.")
        message = len(assistant_messages(canisters)) + 1
        return play_turn(self.turns[index], index + 1, results, tools, message)

    def halted(self, canisters: Sequence[Canister]) -> bool:
        """Whether the last answer only says why a turn could not be played."""
        begins = [number for number, begins in enumerate(assistant_begins(canisters)) if begins]
        if not begins:
            return False
        made = [one.name for one in canisters[begins[-1] :] if isinstance(one, InvocationCanister)]
        return self.answer(canisters[: begins[-1]], made).halted
