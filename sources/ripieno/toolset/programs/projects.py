"""A project's languages and tools, and its own programs, which come before the system's."""

import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ripieno.ensembles import Context
from ripieno.ensembles.requirements import PROJECT_FOLDERS, find_own_program, has_command, own_path
from ripieno.exceptions import ResourceFault, ToolFault
from ripieno.origins.command.programs import GRACE, run, surroundings_of, true_path
from ripieno.sandbox import ProcessLimits
from ripieno.sandbox.processes import Completed
from ripieno.toolset.programs.foreign_json import table
from ripieno.toolset.programs.settings import grants_of
from ripieno.toolset.workspace.workspace import Workspace
from ripieno.values import Value

#: Bytes read of a file.
_LOOK = 1 << 20
#: Limits for output that is parsed.
_LIMITS = ProcessLimits(output_bytes=8 * 2**20, grace=GRACE)


def find_program(context: Context, directory: str, *names: str) -> str:
    """The first program of these names: of the project in ``directory``, of the workspace, then in PATH.

    Errors: ``ResourceFault`` with the searched places; those of ``resolve``.
    """
    found = look_for_program(context, directory, *names)
    if found is None:
        places = ", ".join(PROJECT_FOLDERS)
        raise ResourceFault(
            f"There is no {' or '.join(map(repr, names))}, neither in {places} nor in PATH.",
            code="no_program",
            suggestion="Install it in the project, or ask the user to.",
        )
    return found


def look_for_program(context: Context, directory: str, *names: str) -> str | None:
    """As ``find_program``; None when there is none."""
    own = find_own_program(_roots(context, directory), *names)
    return own or next((name for name in names if has_command(name)), None)


def own_folders(context: Context, directory: str) -> dict[str, str]:
    """The PATH with the project's own programs first."""
    return {"PATH": own_path(_roots(context, directory))}


async def run_for_project(context: Context, argv: Sequence[str], directory: str) -> Completed:
    """Runs a program for the project in ``directory``, with its own programs first. Errors: those of ``run``."""
    return await run(
        context,
        argv,
        directory=directory,
        environment=own_folders(context, directory),
        network=grants_of(context).network,
        limits=_LIMITS,
    )


def _roots(context: Context, directory: str) -> tuple[str, str]:
    """The possible folders of a project: the directory, then the workspace. Errors: those of ``resolve``."""
    return true_path(context, directory), true_path(context, ".")


class Project(Value, kw_only=True):
    """The files in a project's directory that show its languages and tools.

    ``files`` are all names in it; ``python`` is the ``[tool]`` table of its pyproject.toml, ``node`` its package.json.
    """

    directory: str
    files: frozenset[str] = frozenset()
    python: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    node: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    targets: frozenset[str] = frozenset()

    def depends_on(self, name: str) -> bool:
        """Whether package.json requires a package, or has settings for it."""
        groups = (self.node.get(key) for key in ("dependencies", "devDependencies"))
        return name in self.node or any(name in table(group) for group in groups)

    def script(self, name: str) -> str | None:
        """The command of a script in package.json."""
        command = table(self.node.get("scripts")).get(name)
        return command if isinstance(command, str) and "no test specified" not in command else None


def is_python(project: Project) -> bool:
    """Whether it looks like a Python project."""
    marks = {"pyproject.toml", "setup.py", "setup.cfg", "pytest.ini", "tox.ini", "conftest.py", "requirements.txt"}
    return bool(project.files & marks) or any(name.endswith(".py") for name in project.files)


def has_file(name: str) -> Callable[[Project], bool]:
    """Whether a project has a file of that name."""
    return lambda project: name in project.files


def read_project(context: Context, directory: str) -> Project:
    """The project files of a directory, without unreadable ones. Errors: those of ``Workspace``."""
    with Workspace(surroundings_of(context).workspace) as workspace:
        with workspace.open_directory(directory) as descriptor:
            files = frozenset(os.listdir(descriptor)[:10_000])

        def read(name: str, parse: Callable[[str], Any]) -> Mapping[str, Any]:
            if name not in files:
                return {}
            try:
                with workspace.open_file(os.path.join(directory, name)) as file:
                    value = parse((file.read(_LOOK) or b"").decode())
            except (ToolFault, ValueError, RecursionError):
                return {}
            return table(value)

        tool = read("pyproject.toml", tomllib.loads).get("tool")
        return Project(
            directory=directory,
            files=files,
            python=table(tool),
            node=read("package.json", json.loads),
            targets=frozenset(read("Makefile", _targets)),
        )


def _targets(text: str) -> Mapping[str, Any]:
    return dict.fromkeys(re.findall(r"^([A-Za-z][A-Za-z0-9_.-]{0,63})\s*:(?!=)", text, flags=re.MULTILINE))
