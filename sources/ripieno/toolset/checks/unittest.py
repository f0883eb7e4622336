"""Tests of Python's ``unittest``: their detection, their command, and the reading of a run."""

import os
import re

from ripieno.ensembles import Context
from ripieno.exceptions import ToolFault, ValidationFault
from ripieno.origins.command.programs import surroundings_of
from ripieno.toolset.checks.test_reports import Failure, Tally
from ripieno.toolset.programs.projects import Project, find_program, look_for_program
from ripieno.toolset.workspace.workspace import Workspace

#: Folders searched for tests, files of each folder, and bytes of each file.
_FOLDERS, _FILES, _LOOK = (".", "tests", "test"), 50, 64 * 1024
_USES = re.compile(rb"^\s*(?:import|from)\s+unittest\b", re.MULTILINE)
#: Files that only pytest reads.
_SETTINGS = frozenset({"pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "conftest.py"})
_RULE, _LINE = "=" * 70, "-" * 70
_HEAD = re.compile(r"(?P<kind>FAIL|ERROR|UNEXPECTED SUCCESS): (?P<test>\S+) \((?P<place>[^()]*)\)(?P<more>.*)")
_RAN = re.compile(r"^Ran (\d+) tests? in [\d.]+s\n\n(?:OK|FAILED|NO TESTS RAN)(?: \(([^()\n]*)\))?", re.MULTILINE)
#: Fixtures, which are not counted as tests.
_FIXTURES = ("setUpClass", "tearDownClass", "setUpModule", "tearDownModule")


def find_starts(context: Context, directory: str) -> tuple[str, ...]:
    """The directories in which a search for tests must begin: folders that are not packages are searched separately."""
    found: dict[str, None] = {}
    with Workspace(surroundings_of(context).workspace) as workspace:
        for folder in _FOLDERS:
            place = os.path.join(directory, folder)
            try:
                with workspace.open_directory(place) as descriptor:
                    names = os.listdir(descriptor)
            except ToolFault:
                continue
            tests = sorted(name for name in names if name.startswith("test") and name.endswith(".py"))
            if any(_uses(workspace, os.path.join(place, name)) for name in tests[:_FILES]):
                found["." if "__init__.py" in names else folder] = None
    return tuple(found)


def _uses(workspace: Workspace, path: str) -> bool:
    try:
        with workspace.open_file(path) as file:
            return _USES.search(file.read(_LOOK) or b"") is not None
    except ToolFault:
        return False


def is_for_pytest(context: Context, project: Project) -> bool:
    """Whether a Python project is set up for pytest or has it; pytest also runs unittest's tests."""
    if project.files & _SETTINGS or "pytest" in project.python:
        return True
    found = look_for_program(context, project.directory, "pytest")
    if found is None or "/" in found:
        return found is not None
    # The system's pytest lacks the packages of a project with its own interpreter.
    python = look_for_program(context, project.directory, "python3", "python")
    return python is None or "/" not in python


def command(context: Context, directory: str, targets: list[str], filter_: str, *, stop: bool) -> list[str]:
    """The command for the targets, or for all tests found. Errors: ``ToolFault``."""
    words = [find_program(context, directory, "python3", "python"), "-m", "unittest"]
    options = ["--buffer", *(["--failfast"] if stop else []), *(["-k", filter_] if filter_ else [])]
    with Workspace(surroundings_of(context).workspace) as workspace:
        folders = [one for one in targets if _is_directory(workspace, os.path.join(directory, one))]
    if not targets:
        folders = [*find_starts(context, directory)] or ["."]
    if folders and (len(folders) > 1 or len(targets) > 1):
        shown = " and ".join(map(repr, folders))
        raise ValidationFault(
            f"unittest searches one directory at a time, without other targets, but there is {shown}.",
            code="argument",
            suggestion=f"Give one directory as targets, such as [{folders[0]!r}], or files only.",
        )
    if folders:
        return [*words, "discover", *options, *([] if folders == ["."] else ["--start-directory", folders[0]])]
    return [*words, *options, *map(_dotted, targets)]


def _is_directory(workspace: Workspace, path: str) -> bool:
    try:
        with workspace.open_directory(path):
            return True
    except ToolFault:
        return False


def _dotted(target: str) -> str:
    """``tests/test_it.py::Case::test_one`` in unittest's form; other targets unchanged."""
    file, *names = target.split("::")
    if not names:
        return target
    return ".".join([os.path.normpath(file).removesuffix(".py").replace("/", "."), *names])


def read_unittest(text: str) -> Tally | None:
    """The standard error of ``python -m unittest``; None without its end."""
    ends = list(_RAN.finditer(text))
    if not ends:
        return None
    counts = {name.strip(): int(number) for name, number in re.findall(r"([a-z ]+)=(\d+)", ends[-1][2] or "")}
    failures = _failures(text[: ends[-1].start()])
    bad = {one.name.split(" ", 1)[0] for one in failures if not one.name.endswith(_FIXTURES)}
    # As in reports of pytest, an expected failure counts as skipped.
    skipped = counts.get("skipped", 0) + counts.get("expected failures", 0)
    return Tally(
        passed=max(int(ends[-1][1]) - len(bad) - skipped, 0),
        failed=counts.get("failures", 0) + counts.get("unexpected successes", 0),
        errors=counts.get("errors", 0),
        skipped=skipped,
        failures=tuple(failures),
    )


def _failures(text: str) -> list[Failure]:
    found: list[Failure] = []
    for block in text.split(f"{_RULE}\n")[1:]:
        head, _, message = block.partition(f"{_LINE}\n")
        for line in head.splitlines():
            known = _HEAD.fullmatch(line)
            if known is None:
                continue
            text = message.removesuffix(f"{_LINE}\n").strip() or "It passed, but was expected to fail."
            file, number = _place(text)
            found.append(Failure(name=_name(known), message=text, file=file, line=number))
    return found


def _name(known: re.Match[str]) -> str:
    """The full name of a test, with its parameters; interpreters before 3.11 leave its last part out of the place."""
    test, place = known["test"], known["place"].removeprefix("unittest.loader._FailedTest.")
    name = place if place == test or place.endswith(f".{test}") else f"{place}.{test}"
    return f"{name}{known['more']}"


def _place(message: str) -> tuple[str | None, int | None]:
    """The last line of a traceback outside of unittest itself."""
    lines = re.findall(r'^ {2}File "([^"\n]{1,4096})", line (\d{1,7}), in ', message, flags=re.MULTILINE)
    own = [one for one in lines if "/unittest/" not in one[0]]
    return (own[-1][0], int(own[-1][1])) if own else (None, None)
