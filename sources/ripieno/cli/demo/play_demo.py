"""The demo's first play, ``demo``: a file is read and counted, a clock is asked, a note is written."""

import contextlib
import os
import pathlib
import shlex
import shutil
import sys
from collections.abc import Generator

from ripieno.canisters import Conversation
from ripieno.cli.demo.workspace import Findings
from ripieno.exceptions import RipienoError

_FILE = "README.rst"
_NOTE = "notes/summary.md"
_README = """\
Ripieno
=======

In a concerto grosso, the *ripieno* is the full ensemble: everybody who plays. Ripieno lets a language model
play every tool that a program declares: tools are declared in TOML, grouped into ensembles, and offered to any
provider in that provider's own form.
"""


class Tour:
    """A look around: one tool of each kind, each wire, and a mistake that is mended."""

    score = "demo"
    real = "the files, the program wc, the MCP server"
    question = f"What is in {_FILE}?"
    ensembles = ("io", "clock", "count", "attic")
    # One tool is approved, by its name; everything else that writes would ask.
    approve = ("io.write_file",)
    confined = False

    @contextlib.contextmanager
    def surround(self, folder: pathlib.Path, /) -> Generator[None]:
        """Makes ``python``, which the demo's MCP server is started with, mean the interpreter that runs this."""
        own = folder / "bin"
        own.mkdir()
        modules = os.environ.get("PYTHONPATH")
        path = f"export PYTHONPATH={shlex.quote(modules)}\n" if modules else ""
        script = own / "python"
        script.write_text(f'#!/bin/sh\n{path}exec {shlex.quote(sys.executable)} "$@"\n', encoding="utf-8")
        script.chmod(0o700)
        with first_in_path(own):
            yield

    async def prepare(self, workspace: pathlib.Path) -> None:
        """Writes the file that is read."""
        (workspace / _FILE).write_text(_readme(), encoding="utf-8")

    async def look(self, workspace: pathlib.Path, conversation: Conversation) -> Findings:
        """The beginnings of the file and of the note, which the answer and the note must quote."""
        first = (workspace / _FILE).read_text(encoding="utf-8").splitlines()[0]
        try:
            note = (workspace / _NOTE).read_text(encoding="utf-8")
        except OSError as error:
            return Findings(faults=[f"{_NOTE} cannot be read: {error.strerror}."])
        faults = [] if conversation.finish == "stop" else [f"It ended with {conversation.finish!r}."]
        faults += [] if first in conversation.text else [f"The answer does not quote {_FILE}."]
        faults += [] if first in note else [f"{_NOTE} does not quote {_FILE}."]
        lines = [f"\nThe note that it wrote to {_NOTE}:", *(f"  {line}" for line in note.strip().splitlines())]
        return Findings(lines=[*lines, f"The first line of {_FILE}, which it read: {first}"], faults=faults)

    def clear(self, workspace: pathlib.Path) -> None:
        """Removes the note."""
        shutil.rmtree(workspace / pathlib.Path(_NOTE).parent)


@contextlib.contextmanager
def first_in_path(folder: pathlib.Path) -> Generator[None]:
    """Has programs of a folder found before all others."""
    before = os.environ.get("PATH", os.defpath)
    os.environ["PATH"] = f"{folder}{os.pathsep}{before}"
    try:
        yield
    finally:
        os.environ["PATH"] = before


def _readme() -> str:
    """The text of this package's own README, as far as it was installed with one."""
    from importlib import metadata

    with contextlib.suppress(metadata.PackageNotFoundError, RipienoError):
        # The description stands after the headers, as the body of a message does.
        text = metadata.metadata("ripieno").json.get("description")
        if isinstance(text, str) and text.strip():
            return text
    return _README
