"""Scores: TOML scripts for a rehearsed model, whose answers quote the real results of tools.

The format is in documentation/reference/scores.rst.
"""

import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ripieno.canisters import Canister, InvocationCanister, ResultCanister
from ripieno.canisters.controls import Format
from ripieno.canisters.conversation import assistant_begins, assistant_messages
from ripieno.descriptors.loading import read_toml
from ripieno.descriptors.reader.problems import Problems, Source
from ripieno.exceptions import ConfigurationInvalidity
from ripieno.testing.scores.expectations import Expectations, Setup
from ripieno.testing.scores.player import Answer, check_form, follow, play_turn, say, since_prompt
from ripieno.testing.scores.reader import read_score
from ripieno.testing.scores.turns import Turn, check
from ripieno.values import Value

__all__ = ["Score"]


class Score(Value, kw_only=True):
    """A script for a model. ``read``, ``of`` and ``of_turns`` make and check it."""

    name: str
    turns: tuple[Turn, ...]
    description: str = ""
    prompt: str = ""
    continues: bool = False
    setup: Setup = Setup()
    expect: Expectations = Expectations()

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

    def answer(self, canisters: Sequence[Canister], tools: Collection[str], form: Format | None = None) -> Answer:
        """The model's answer to these canisters, if tools with these names are offered.

        Errors: ``InputError`` for a text that does not have the form that the request asks for.
        """
        relevant = canisters if self.continues else since_prompt(canisters)
        index, results = follow(self.turns, relevant)
        if index >= len(self.turns):
            played = f"all of its {index} turns are played" if index > 1 else "its only turn is played"
            return say(f"The score {self.name!r} is over: {played}.")
        message = len(assistant_messages(canisters)) + 1
        answer = play_turn(self.turns[index], index + 1, results, tools, message)
        check_form(answer, form, index + 1)
        return answer

    def halted(self, canisters: Sequence[Canister]) -> bool:
        """Whether the last answer only says why a turn could not be played."""
        begins = [number for number, begins in enumerate(assistant_begins(canisters)) if begins]
        if not begins:
            return False
        made = [one.name for one in canisters[begins[-1] :] if isinstance(one, InvocationCanister)]
        return self.answer(canisters[: begins[-1]], made).halted
