"""The tables ``[setup]`` and ``[expect]`` of a score file: preconditions, and expectations at the end."""

from collections.abc import Iterator
from typing import Any

from frozendict import frozendict

from ripieno.descriptors.reader.keys import Key, Table
from ripieno.descriptors.reader.kinds import Free, Named, Number, Several, Text
from ripieno.testing.scores.templates import LABEL, strings_of
from ripieno.values import Value

_TEXT = Text(blank=True)
_TEXTS = Several(item=_TEXT, items="texts", bare=True)
_CODE = Number(whole=True, minimum=0, maximum=255)
_PATH = Text(
    pattern=r"(?!(?:[^/]*/)*\.\.(?:/|$))[^/\x00-\x1f][^\x00-\x1f]*", shape="a relative path beneath the workspace"
)
PROGRAM = Table(
    title="programs",
    documentation="A program that runs in the workspace, outside of the sandbox.",
    keys=(
        Key(name="argv", kind=Several(item=_TEXT, items="arguments"), documentation="Its arguments.", required=True),
        Key(name="directory", kind=_PATH, documentation="Its working directory.", default="."),
        Key(name="exit_code", kind=_CODE, documentation="Its expected exit code.", default=0),
        Key(name="output", kind=_TEXT, documentation="Its expected standard output, stripped.", example="OK"),
    ),
)
_PROGRAMS = Several(item=PROGRAM, items="tables, each with argv")
SETUP = Table(
    title="[setup]",
    documentation="The preconditions of `ripieno demo`.",
    keys=(
        Key(name="configuration", kind=Free(), documentation="Configuration, as in a ripieno.toml."),
        Key(name="files", kind=Named(name=_PATH, kind=_TEXT), documentation="Files of the workspace, by path."),
        Key(name="programs", kind=_PROGRAMS, documentation="Programs that prepare the workspace."),
    ),
)
EXPECT = Table(
    title="[expect]",
    documentation="The expectations at the end. Texts may quote results. Only `ripieno demo` runs the programs.",
    keys=(
        Key(name="finish", kind=Text(), documentation="The conversation's finish.", default="stop", example="terminal"),
        Key(name="answer", kind=_TEXTS, documentation="Texts in the last answer, or in the submitted answer."),
        Key(
            name="results",
            kind=Named(name=Text(pattern=LABEL, shape="a label"), kind=_TEXTS),
            documentation="Texts in results, by label.",
        ),
        Key(name="files", kind=Named(name=_PATH, kind=_TEXTS), documentation="Texts in files, by path."),
        Key(name="programs", kind=_PROGRAMS, documentation="Programs that check the workspace."),
    ),
)


class Program(Value, kw_only=True):
    """A program that runs in the workspace. ``output`` is its complete expected output; None allows any."""

    argv: tuple[str, ...]
    directory: str = "."
    exit_code: int = 0
    output: str | None = None


class Setup(Value, kw_only=True):
    """The preconditions of a score: ``configuration`` as in a ``ripieno.toml``, ``files`` of the workspace."""

    configuration: frozendict[str, Any] = frozendict()
    files: frozendict[str, str] = frozendict()
    programs: tuple[Program, ...] = ()


class Expectations(Value, kw_only=True):
    """The expectations at the end: texts in the answer, in results by label, and in files; outputs of programs."""

    finish: str = "stop"
    answer: tuple[str, ...] = ()
    results: frozendict[str, tuple[str, ...]] = frozendict()
    files: frozendict[str, tuple[str, ...]] = frozendict()
    programs: tuple[Program, ...] = ()

    def texts(self) -> Iterator[str]:
        """Every text that may quote a result, and a quotation of each expected result."""
        yield from strings_of([self.answer, self.results, self.files])
        yield from (program.output or "" for program in self.programs)
        yield from (f"{{{label}}}" for label in self.results)
