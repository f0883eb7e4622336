"""The workspace of a score: prepared according to ``[setup]``, and compared with ``[expect]`` at the end."""

import contextlib
import os
import pathlib
import shlex
import shutil
import sys
from collections.abc import Generator, Mapping

from ripieno.canisters import Conversation
from ripieno.cli.common.scores import differences, read_file
from ripieno.exceptions import InputError, ResourceFault
from ripieno.sandbox import ProcessLimits
from ripieno.sandbox.processes import Completed, LocalSpawner, clean_environment, collect
from ripieno.testing.scores import Score
from ripieno.testing.scores.expectations import Program
from ripieno.testing.scores.templates import fill

#: How many lines of a file are shown.
_SHOWN = 8


@contextlib.contextmanager
def interpreter_in_path(folder: pathlib.Path) -> Generator[None]:
    """Makes ``python`` and ``python3`` this interpreter. Writes a script for the first into ``folder``."""
    script = folder / "python"
    modules = os.environ.get("PYTHONPATH")
    path = f"export PYTHONPATH={shlex.quote(modules)}\n" if modules else ""
    script.write_text(f'#!/bin/sh\n{path}exec {shlex.quote(sys.executable)} "$@"\n', encoding="utf-8")
    script.chmod(0o700)
    before = os.environ.get("PATH", os.defpath)
    os.environ["PATH"] = os.pathsep.join((str(folder), os.path.dirname(sys.executable), before))
    try:
        yield
    finally:
        os.environ["PATH"] = before


async def prepare(score: Score, workspace: pathlib.Path) -> None:
    """Empties and refills the workspace. Errors: ``InputError`` if a program is missing or fails."""
    _fill(workspace, score.setup.files)
    for program in score.setup.programs:
        try:
            done = await _run(program, workspace)
        except ResourceFault as error:
            raise InputError(f"The score {score.name!r} cannot be prepared. {error}") from error
        if done.exit_code != program.exit_code:
            raise InputError(f"{_shown(program)} failed: {done.stderr.text.strip()}")


def _fill(workspace: pathlib.Path, files: Mapping[str, str]) -> None:
    for entry in list(workspace.iterdir()):
        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    for name, text in files.items():
        file = workspace / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


async def examine(score: Score, workspace: pathlib.Path, conversation: Conversation) -> tuple[list[str], list[str]]:
    """The final state of a workspace as lines to show, and the differences from what the score expects."""
    results = score.results(conversation.canisters)
    lines: list[str] = []
    faults = differences(score, workspace, conversation)
    for name in score.expect.files:
        if name not in score.setup.files:
            with contextlib.suppress(OSError, UnicodeDecodeError):
                shown = read_file(workspace / name).strip().splitlines()[:_SHOWN]
                lines += [f"{name}:", *(f"  {line}" for line in shown)]
    for program in score.expect.programs:
        if not (workspace / program.directory).is_dir():
            faults.append(f"{_shown(program)} cannot run: there is no such folder.")
            continue
        done = await _run(program, workspace)
        end = _end(done)
        lines += [f"{_shown(program)}: exit code {done.exit_code}{'' if end else ', no output'}", *end]
        output = done.stdout.text.strip()
        if done.exit_code != program.exit_code:
            faults.append(f"{_shown(program)} ended with exit code {done.exit_code}, not {program.exit_code}.")
        if program.output is not None and output != (wanted := fill(program.output, results).strip()):
            faults.append(f"{_shown(program)} wrote {output!r}, not {wanted!r}.")
    return lines, faults


async def _run(program: Program, workspace: pathlib.Path) -> Completed:
    # With its own home, so that the user's git settings have no effect.
    environment = clean_environment({"HOME": str(workspace.parent), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C.UTF-8"})
    directory = workspace / program.directory
    return await collect(await LocalSpawner().start(program.argv, environment, directory, ProcessLimits()))


def _shown(program: Program) -> str:
    where = "" if program.directory == "." else f" (in {program.directory})"
    return f"$ {shlex.join(program.argv)}{where}"


def _end(done: Completed) -> list[str]:
    """The last two lines of a program's output that have letters or digits."""
    lines = (done.stdout.text or done.stderr.text).splitlines()
    return [f"  {line}" for line in lines if any(map(str.isalnum, line))][-2:]
