"""Tests of Python's own module ``unittest``: where a project has them, how they are run, and what is read of a run."""

import os
import re

from ripieno.ensembles import Context
from ripieno.exceptions import ToolFault, ValidationFault
from ripieno.origins.command.programs import surroundings_of
from ripieno.toolset.checks.test_reports import Failure, Tally
from ripieno.toolset.programs.projects import Project, find_program, look_for_program
from ripieno.toolset.workspace.workspace import Workspace

#: Where tests are looked for, how many files of each folder, and bytes of each.
_FOLDERS, _FILES, _LOOK = (".", "tests", "test"), 50, 64 * 1024
_USES = re.compile(rb"^\s*(?:import|from)\s+unittest\b", re.MULTILINE)
#: Files that only pytest reads.
_SETTINGS = frozenset({"pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "conftest.py"})
_RULE, _LINE = "=" * 70, "-" * 70
_HEAD = re.compile(r"(?P<kind>FAIL|ERROR|UNEXPECTED SUCCESS): (?P<test>\S+) \((?P<place>[^()]*)\)(?P<more>.*)")
_RAN = re.compile(r"^Ran (\d+) tests? in [\d.]+s\n\n(?:OK|FAILED|NO TESTS RAN)(?: \(([^()\n]*)\))?", re.MULTILINE)
#: What is no test itself, and not counted among them.
_FIXTURES = ("setUpClass", "tearDownClass", "setUpModule", "tearDownModule")


def find_starts(context: Context, directory: str) -> tuple[str, ...]:
    """The directories at which a search for tests has to begin: folders that are no packages are searched alone."""
    found: dict[str, None] = {}
    with Workspace(surroundings_of(context).workspace) as room:
        for folder in _FOLDERS:
            place = os.path.join(directory, folder)
            try:
                with room.open_directory(place) as descriptor:
                    names = os.listdir(descriptor)
            except ToolFault:
                continue
            tests = sorted(name for name in names if name.startswith("test") and name.endswith(".py"))
            if any(_uses(room, os.path.join(place, name)) for name in tests[:_FILES]):
                found["." if "__init__.py" in names else folder] = None
    return tuple(found)


def _uses(room: Workspace, path: str) -> bool:
    try:
        with room.open_file(path) as file:
            return _USES.search(file.read(_LOOK) or b"") is not None
    except ToolFault:
        return False


def is_for_pytest(context: Context, project: Project) -> bool:
    """Whether a project of Python is set up for pytest, or has it: it runs tests of unittest as well."""
    if project.files & _SETTINGS or "pytest" in project.python:
        return True
    found = look_for_program(context, project.directory, "pytest")
    if found is None or "/" in found:
        return found is not None
    # One of the system's does not know the packages of a project that has an interpreter of its own.
    python = look_for_program(context, project.directory, "python3", "python")
    return python is None or "/" not in python


def command(context: Context, directory: str, targets: list[str], filter_: str, *, stop: bool) -> list[str]:
    """How tests are run: those of the targets, else all that are found. Errors: ``ToolFault``."""
    words = [find_program(context, directory, "python3", "python"), "-m", "unittest"]
    options = ["--buffer", *(["--failfast"] if stop else []), *(["-k", filter_] if filter_ else [])]
    with Workspace(surroundings_of(context).workspace) as room:
        folders = [one for one in targets if _is_directory(room, os.path.join(directory, one))]
    if not targets:
        folders = [*find_starts(context, directory)] or ["."]
    if folders and (len(folders) > 1 or len(targets) > 1):
        shown = " and ".join(map(repr, folders))
        raise ValidationFault(
            f"unittest searches one directory at a time, alone, and there is {shown}.",
            code="argument",
            suggestion=f"Give one directory as targets, such as [{folders[0]!r}], or files only.",
        )
    if folders:
        return [*words, "discover", *options, *([] if folders == ["."] else ["--start-directory", folders[0]])]
    return [*words, *options, *map(_dotted, targets)]


def _is_directory(room: Workspace, path: str) -> bool:
    try:
        with room.open_directory(path):
            return True
    except ToolFault:
        return False


def _dotted(target: str) -> str:
    """``tests/test_it.py::Case::test_one``, as pytest has it, as unittest has it; other targets as they are."""
    file, *names = target.split("::")
    if not names:
        return target
    return ".".join([os.path.normpath(file).removesuffix(".py").replace("/", "."), *names])


def read_unittest(text: str) -> Tally | None:
    """What ``python -m unittest`` writes to standard error; None when it has no end."""
    ends = list(_RAN.finditer(text))
    if not ends:
        return None
    counts = {name.strip(): int(number) for name, number in re.findall(r"([a-z ]+)=(\d+)", ends[-1][2] or "")}
    failures = _failures(text[: ends[-1].start()])
    bad = {one.name.split(" ", 1)[0] for one in failures if not one.name.endswith(_FIXTURES)}
    # As in reports of pytest, a failure that was expected counts as left out.
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
            said = message.removesuffix(f"{_LINE}\n").strip() or "It passed, and was expected to fail."
            file, number = _place(said)
            found.append(Failure(name=_name(known), message=said, file=file, line=number))
    return found


def _name(known: re.Match[str]) -> str:
    """The whole name of a test, with its parameters; interpreters before 3.11 leave its last part out of the place."""
    test, place = known["test"], known["place"].removeprefix("unittest.loader._FailedTest.")
    whole = place if place == test or place.endswith(f".{test}") else f"{place}.{test}"
    return f"{whole}{known['more']}"


def _place(message: str) -> tuple[str | None, int | None]:
    """The last line of a traceback that is not of unittest itself."""
    lines = re.findall(r'^ {2}File "([^"\n]{1,4096})", line (\d{1,7}), in ', message, flags=re.MULTILINE)
    own = [one for one in lines if "/unittest/" not in one[0]]
    return (own[-1][0], int(own[-1][1])) if own else (None, None)
