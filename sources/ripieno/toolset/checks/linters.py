"""The ensemble ``validation``: a project's linters, type checkers and formatters, with the project's own settings."""

import contextlib
import dataclasses
import hashlib
import os
import re
from collections.abc import Iterable
from typing import Any

from ripieno.canisters.faults import Change
from ripieno.ensembles import Context, Outcome
from ripieno.exceptions import ResourceFault, ToolFault, ValidationFault
from ripieno.origins.command.outcomes import failure, noted, report, share
from ripieno.origins.command.programs import surroundings_of, workspace_of
from ripieno.sandbox.processes import Completed
from ripieno.toolset.checks.checkers import CHECKERS, Checker
from ripieno.toolset.checks.diagnostics import MAX_PROBLEMS, Diagnostic
from ripieno.toolset.checks.tests import check_target, shown, streams
from ripieno.toolset.programs.projects import find_program, look_for_program, read_project, run_for_project
from ripieno.toolset.workspace.workspace import Workspace

#: Bytes of output shown if it has no readable diagnostics.
_OUTPUT = 16 * 1024
#: Bytes of a file that are hashed, and files with reported changes.
_HASHED, _MAX_CHANGES = 10 * 2**20, 500
#: Formatters' lines about a file that they would change.
_WOULD = re.compile(
    r"^(?:Would reformat: |would reformat |\s*--> )?(?P<file>[^\s].{0,4096}?)(?::\d+:\d+)?\s*$", re.MULTILINE
)


async def validate(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Runs the linter or type checker of ``kind``. Problems are a result, not a failure."""
    checker, argv = _choose(context, arguments, check=True)
    done = await run_for_project(context, argv, arguments.get("directory", "."))
    problems = None if checker.read is None else checker.read(done.stdout.text)
    if checker.read is not None and not problems and done.stderr.text:
        # go writes its findings to standard error.
        problems = checker.read(done.stderr.text) or problems
    if done.flooded or done.exit_code < 0 or (checker.read is not None and done.exit_code != 0 and not problems):
        raise failure(shown(context, argv[:1]), done, context.invoker.policy.output)
    return dataclasses.replace(report(done), content=_content(context, checker, argv, done, problems))


async def reformat(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Formats files and reports the changed ones; with ``check``, only reports those that would change."""
    checker, looking = _choose(context, arguments, check=True)
    done = await run_for_project(context, looking, arguments.get("directory", "."))
    directory: str = arguments.get("directory", ".")
    files = [*_existing(context, directory, _WOULD.finditer(f"{done.stdout.text}\n{done.stderr.text}"))]
    if done.flooded or done.exit_code < 0 or (done.exit_code != 0 and not files):
        raise failure(shown(context, looking[:1]), done, context.invoker.policy.output)
    if arguments.get("check", False):
        content = {**_about(context, checker, looking, done), "clean": not files, "would_change": files}
        return dataclasses.replace(report(done), content=content)
    before = _digests(context, directory, files)
    _, argv = _choose(context, arguments, check=False)
    done = await run_for_project(context, argv, arguments.get("directory", "."))
    after = _digests(context, directory, files)
    changed = [file for file in files if before[file] != after[file]]
    if done.flooded or (done.exit_code != 0 and not changed):
        raise failure(shown(context, argv[:1]), done, context.invoker.policy.output)
    content = {**_about(context, checker, argv, done), "changed": changed}
    changes = tuple(_change(directory, file, before[file], after[file]) for file in changed[:_MAX_CHANGES])
    return dataclasses.replace(report(done), content=content, changes=changes)


def _change(directory: str, file: str, before: str | None, after: str | None) -> Change:
    path = os.path.normpath(os.path.join(directory, file))
    return Change.of("FileModified", path=path, before=before, after=after)


def _about(context: Context, checker: Checker, argv: list[str], done: Completed) -> dict[str, Any]:
    """The tool that ran, and its output if it could not do all of its work."""
    about: dict[str, Any] = {"tool": checker.name, "command": shown(context, argv), "exit_code": done.exit_code}
    if done.exit_code not in (0, 1):
        stdout, stderr = share(done.stdout, done.stderr, _OUTPUT)
        about["output"] = f"{stdout.text}\n{stderr.text}".strip()
    return {**about, **noted(done)}


def _choose(context: Context, arguments: dict[str, Any], *, check: bool) -> tuple[Checker, list[str]]:
    """The tool that a project configures, otherwise an installed one, and its command."""
    directory: str = arguments.get("directory", ".")
    kind: str = arguments["kind"]
    project = read_project(context, directory)
    wanted: str | None = arguments.get("tool")
    ones = [
        one for one in CHECKERS if one.kind == kind and (one.fits(project) if wanted is None else one.name == wanted)
    ]
    installed = [one for one in ones if look_for_program(context, directory, one.program) is not None]
    if not installed:
        names = " or ".join(dict.fromkeys(one.name for one in ones))
        why = f"{names} is not installed" if ones else "it has no files of a known language"
        raise ResourceFault(
            f"There is no tool to {kind} {directory!r}: {why}.",
            code="no_tool",
            suggestion="Give the directory of the project, or ask the user to install one.",
        )
    checker = next((one for one in installed if one.is_configured(project)), installed[0])
    targets = [check_target(context, directory, one) for one in arguments.get("paths", [])]
    if targets and checker.default is None:
        raise ValidationFault(f"{checker.name} checks the whole project.", suggestion="Leave paths out.")
    return checker, [find_program(context, directory, checker.program), *checker.command(targets, check=check)]


def _content(
    context: Context, checker: Checker, argv: list[str], done: Completed, problems: list[Diagnostic] | None
) -> dict[str, Any]:
    content: dict[str, Any] = {
        **_about(context, checker, argv, done),
        "clean": done.exit_code == 0 and not problems,
        "seconds": round(done.duration, 2),
    }
    if problems is not None:
        beneath = f"{workspace_of(surroundings_of(context))}/"
        listed = [one.mapping(beneath) for one in problems[:MAX_PROBLEMS]]
        return {**content, "problems": listed, "problems_total": len(problems)}
    return {**content, **streams(*share(done.stdout, done.stderr, _OUTPUT))}


def _existing(context: Context, directory: str, found: Iterable[re.Match[str]]) -> Iterable[str]:
    """The named files that exist beneath the workspace, relative to the directory."""
    beneath = os.path.join(workspace_of(surroundings_of(context)), os.path.normpath(directory))
    with Workspace(surroundings_of(context).workspace) as workspace:
        for name in dict.fromkeys(one["file"].removeprefix(f"{os.path.normpath(beneath)}/") for one in found):
            with contextlib.suppress(ToolFault), workspace.open_file(os.path.join(directory, name)):
                yield name


def _digests(context: Context, directory: str, files: Iterable[str]) -> dict[str, str | None]:
    digests: dict[str, str | None] = {}
    with Workspace(surroundings_of(context).workspace) as workspace:
        for name in files:
            digests[name] = None
            with contextlib.suppress(ToolFault), workspace.open_file(os.path.join(directory, name)) as file:
                digests[name] = f"sha256:{hashlib.sha256(file.read(_HASHED) or b'').hexdigest()}"
    return digests
