"""The demo's play ``repair``: a repository is cloned, its bug is found and mended, and the repository is looked at.

What is looked at is the repository, by git and by its tests, run here and not by the tools that were played.
"""

import contextlib
import os
import pathlib
import shutil
import sys
from typing import Any

from ripieno.canisters import Conversation
from ripieno.cli.demo.play_demo import first_in_path
from ripieno.cli.demo.workspace import Findings
from ripieno.descriptors.loading import read_toml
from ripieno.ensembles.requirements import has_command
from ripieno.exceptions import InputError
from ripieno.sandbox import ProcessLimits
from ripieno.sandbox.processes import Completed, LocalSpawner, clean_environment, collect
from ripieno.toolset import DATA

_ORIGIN, _CLONE = "upstream", "metronome"
_TESTS = ("python3", "-m", "unittest")
_NOBODY = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "LC_ALL": "C.UTF-8",
    **{f"GIT_{who}_NAME": "Somebody" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "somebody@localhost" for who in ("AUTHOR", "COMMITTER")},
}


class Repair:
    """An agent's work on a repository, from clone to commit."""

    score = "repair"
    real = "git, the search, the edit, the tests, the commit"
    question = None
    ensembles = ("git", "execution", "search", "file_read", "file_write", "control")
    # What changes something, each by its name; everything else that does would ask.
    approve = ("git.git_clone", "execution.run_command", "file_write.edit_file", "git.git_commit")
    confined = True

    def __init__(self) -> None:
        self._repository: dict[str, Any] = dict(read_toml(DATA / "demo" / "repair" / "repository.toml").mapping)

    def surround(self, _: pathlib.Path, /) -> contextlib.AbstractContextManager[None]:
        """Makes ``python3`` mean the interpreter that runs this, where it has that name."""
        return first_in_path(pathlib.Path(sys.executable).parent)

    async def prepare(self, workspace: pathlib.Path) -> None:
        """Makes the repository with the bug. Errors: ``InputError`` without git."""
        if not has_command("git"):
            raise InputError("The score 'repair' is about a repository, and there is no git in PATH. Install it.")
        origin = workspace / _ORIGIN
        for name, text in self._repository["files"].items():
            file = origin / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        for words in (
            ("-c", "init.defaultBranch=main", "init", "--quiet", "--template="),
            ("add", "--all"),
            ("commit", "--quiet", f"--message={self._repository['message']}"),
        ):
            done = await _run(origin, "git", *words)
            if done.exit_code != 0:
                raise InputError(f"git could not make the repository: {done.stderr.text.strip()}")

    async def look(self, workspace: pathlib.Path, conversation: Conversation) -> Findings:
        """One commit more, of one file; nothing left to commit; tests that pass, and failed before; an answer."""
        clone, origin = workspace / _CLONE, workspace / _ORIGIN
        if not clone.is_dir():
            return Findings(faults=[f"There is no {_CLONE}: nothing was cloned."])
        log = await _lines(clone, "log", "--format=%h %an: %s")
        older = await _lines(origin, "log", "--format=%h %an: %s")
        changed = await _lines(clone, "diff", "--name-only", "--no-ext-diff", "HEAD~1", "HEAD") if len(log) > 1 else []
        left = await _lines(clone, "status", "--porcelain")
        before, after = await _run(origin, *_TESTS), await _run(clone, *_TESTS)
        answer = str(conversation.submission.arguments.get("answer", "")) if conversation.submission else ""
        wrong = {
            f"There is not one commit over those of {_ORIGIN}.": log[1:] != older,
            f"What was committed is not {self._repository['bug']} alone: {changed}.": (
                changed != [self._repository["bug"]]
            ),
            f"There is something left to commit: {left}.": bool(left),
            f"The tests of {_ORIGIN} do not fail, so there was nothing to mend.": before.exit_code != 1,
            f"The tests of {_CLONE} do not pass: {_verdict(after)}.": after.exit_code != 0,
            f"Nothing was submitted; it ended with {conversation.finish!r}.": conversation.finish != "terminal",
            "What was submitted does not name the commit.": not log or log[0].partition(" ")[0] not in answer,
        }
        lines = [
            f"\nThe repository {_CLONE}, looked at afterwards by git and by its tests:",
            *(f"  {line}" for line in log),
            f"  changed: {', '.join(changed)}; left to commit: {', '.join(left) or 'nothing'}",
            f"  tests of {_ORIGIN}: {_verdict(before)}",
            f"  tests of {_CLONE}: {_verdict(after)}",
            f"It submitted: {answer}",
        ]
        return Findings(lines=lines, faults=[text for text, is_wrong in wrong.items() if is_wrong])

    def clear(self, workspace: pathlib.Path) -> None:
        """Removes the clone."""
        shutil.rmtree(workspace / _CLONE)


async def _run(folder: pathlib.Path, *argv: str) -> Completed:
    # A folder that is no repository must not pass for part of one above it.
    ceiling = os.fspath(folder.parent)
    environment = clean_environment({**_NOBODY, "GIT_CEILING_DIRECTORIES": ceiling, "PYTHONDONTWRITEBYTECODE": "1"})
    return await collect(await LocalSpawner().start(argv, environment, folder, ProcessLimits()))


async def _lines(folder: pathlib.Path, *words: str) -> list[str]:
    done = await _run(folder, "git", "--no-pager", *words)
    return done.stdout.text.splitlines()


def _verdict(done: Completed) -> str:
    """The last line of what unittest wrote, and how many tests it ran."""
    lines = [line for line in done.stderr.text.splitlines() if line.strip()]
    ran = next((line.partition(" in ")[0] for line in reversed(lines) if line.startswith("Ran ")), "Ran none")
    return f"{lines[-1] if lines else 'they said nothing'} ({ran.lower()})"
