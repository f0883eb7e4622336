"""The tool ``pip``: Python packages in a project's environment, never in the user's or our own."""

import dataclasses
import os
from typing import Any

from ripieno.ensembles import Context, Outcome
from ripieno.ensembles.requirements import find_own_program
from ripieno.exceptions import ResourceFault, ToolFault
from ripieno.origins.command.outcomes import failure, report
from ripieno.origins.command.programs import resolve, run, true_path
from ripieno.toolset.programs.projects import find_program, own_folders

_NAMES = ("python3", "python")
#: Commands that change an environment.
_CHANGING = ("install", "uninstall")
_MAKE = "Create one in the workspace: python3 -m venv .venv"


async def pip(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Runs pip with the interpreter of the project's environment; without one, only commands that change nothing."""
    command: str = arguments["command"]
    argv = [_choose(context, arguments), "-m", "pip", "--disable-pip-version-check", "--no-input", command]
    argv += ["--upgrade"] if arguments.get("upgrade") else []
    argv += [f"--requirement={arguments['requirements']}"] if "requirements" in arguments else []
    argv += [f"--target={true_path(context, arguments['target'])}"] if "target" in arguments else []
    argv += ["--", *arguments.get("packages", [])]
    done = await run(context, argv, environment={"PIP_YES": "1", **own_folders(context, ".")}, network=True)
    output = context.invoker.policy.output
    if done.flooded or done.exit_code != 0:
        lacks = "No module named pip" in done.stderr.text
        hint = (
            "The environment has no pip. Install it with its own python -m ensurepip, or create the environment again."
        )
        raise failure("pip", done, output, suggestion=hint if lacks else None)
    text = done.stdout.text if done.stdout.text.strip() else done.stderr.text
    return dataclasses.replace(report(done), content=text)


def _choose(context: Context, arguments: dict[str, Any]) -> str:
    """The interpreter of the given environment, or the project's; for reading only, also the first in PATH.

    Errors: ``ResourceFault`` without an environment to change; those of ``resolve``.
    """
    workspace = true_path(context, ".")
    changing = arguments["command"] in _CHANGING and "target" not in arguments
    named: str | None = arguments.get("environment")
    if named is not None:
        folder = true_path(context, named)
        found = [os.path.join(folder, "bin", one) for one in _NAMES]
        python = next((one for one in found if os.path.isfile(one) and os.access(one, os.X_OK)), None)
        if python is None or not _is_environment(python, workspace):
            raise ResourceFault(f"{named!r} is not a Python environment.", code="no_environment", suggestion=_MAKE)
        return python
    own = find_own_program((workspace,), *_NAMES)
    if not changing:
        return own or find_program(context, ".", *_NAMES)
    if own is None or not _is_environment(own, workspace):
        raise ResourceFault(
            "The project has no environment in .venv or venv to install into.",
            code="no_environment",
            suggestion=f"{_MAKE}. Or give another one as environment, or a folder as target.",
        )
    return own


def _is_environment(python: str, workspace: str) -> bool:
    """Whether an interpreter is that of a virtual environment in the workspace.

    Without its ``pyvenv.cfg`` it would be the interpreter that it links to.
    """
    folder = os.path.dirname(os.path.dirname(python))
    try:
        return resolve(workspace, folder) != workspace and os.path.isfile(os.path.join(folder, "pyvenv.cfg"))
    except ToolFault:
        return False
