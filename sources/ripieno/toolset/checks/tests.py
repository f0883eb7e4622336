"""The ensemble ``testing``: runs a project's tests with the project's own tool, and says which failed, and why.

A test that fails is no failure of the tool: the result has counts, failures and the exit code. Only a run that comes
to nothing, such as a tool that cannot start, is a fault.
"""

import contextlib
import dataclasses
import os
import secrets
import shlex
from collections.abc import Callable, Generator, Sequence
from typing import Any

from ripieno.ensembles import Context, Outcome
from ripieno.exceptions import PermissionFault, ResourceFault, ToolFault, ValidationFault
from ripieno.origins.command.outcomes import failure, noted, report, share
from ripieno.origins.command.programs import resolve, surroundings_of, workspace_of
from ripieno.sandbox.capture import Captured
from ripieno.sandbox.processes import Completed
from ripieno.toolset.checks.test_reports import Tally, read_cargo, read_go, read_jest, read_junit
from ripieno.toolset.checks.unittest import command, find_starts, is_for_pytest, read_unittest
from ripieno.toolset.programs.projects import Project, find_program, look_for_program, read_project, run_for_project
from ripieno.toolset.workspace.workspace import Workspace

#: Bytes of a report, and of the output that is told beside the counts.
_REPORT = 32 * 2**20
_OUTPUT = 6 * 1024


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a call wants of a runner. ``report`` is where its report goes, relative to ``directory``."""

    directory: str
    targets: Sequence[str] = ()
    filter: str = ""
    stop: bool = False
    report: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """A way to run tests. ``read`` makes a tally of its report, or of what it wrote."""

    name: str
    fits: Callable[[Project], bool]
    command: Callable[[Context, Wish], list[str]]
    read: Callable[[bytes, Completed], Tally | None]


def _pytest(context: Context, wish: Wish) -> list[str]:
    start = [find_program(context, wish.directory, "pytest")]
    if start == ["pytest"]:
        # An interpreter of the project's own knows the project's packages; a pytest of the system does not.
        python = look_for_program(context, wish.directory, "python3", "python")
        start = [python, "-m", "pytest"] if python is not None and "/" in python else start
    words = [*start, "-q", "--color=no", f"--junit-xml={wish.report}", "--tb=short"]
    words += ["-x"] if wish.stop else []
    words += ["-k", wish.filter] if wish.filter else []
    return [*words, *wish.targets]


def _unittest(context: Context, wish: Wish) -> list[str]:
    return command(context, wish.directory, [*wish.targets], wish.filter, stop=wish.stop)


def _jest(context: Context, wish: Wish) -> list[str]:
    words = [find_program(context, wish.directory, "jest"), "--ci", "--json", f"--outputFile={wish.report}"]
    words += ["--bail"] if wish.stop else []
    words += [f"--testNamePattern={wish.filter}"] if wish.filter else []
    return [*words, *(["--runTestsByPath", *wish.targets] if wish.targets else [])]


def _cargo(context: Context, wish: Wish) -> list[str]:
    words = [find_program(context, wish.directory, "cargo"), "test", "--color=never"]
    words += [] if wish.stop else ["--no-fail-fast"]
    words += [word for target in wish.targets for word in ("--test", target)]
    return [*words, *(["--", wish.filter] if wish.filter else [])]


def _go(context: Context, wish: Wish) -> list[str]:
    words = [find_program(context, wish.directory, "go"), "test", "-json"]
    words += ["-failfast"] if wish.stop else []
    words += [f"-run={wish.filter}"] if wish.filter else []
    return [*words, *(wish.targets or ["./..."])]


def _make(context: Context, wish: Wish) -> list[str]:
    if wish.targets or wish.filter:
        raise ValidationFault("`make test` takes neither targets nor a filter.", suggestion="Leave both out.")
    return [find_program(context, wish.directory, "make"), "test"]


def _npm(context: Context, wish: Wish) -> list[str]:
    if wish.targets or wish.filter:
        raise ValidationFault("`npm test` takes neither targets nor a filter.", suggestion="Leave both out.")
    return [find_program(context, wish.directory, "npm"), "test", "--silent"]


def _read_cargo(_: bytes, done: Completed) -> Tally | None:
    return read_cargo(done.stdout.text)


def _read_go(_: bytes, done: Completed) -> Tally | None:
    return read_go(done.stdout.text)


#: Those of a project's own files come before those that any project may have.
RUNNERS = (
    Runner(
        name="pytest",
        fits=lambda project: project.is_python,
        command=_pytest,
        read=lambda data, _: read_junit(data),
    ),
    Runner(
        name="unittest",
        fits=lambda project: project.is_python,
        command=_unittest,
        read=lambda _, done: read_unittest(done.stderr.text),
    ),
    Runner(
        name="jest",
        fits=lambda project: project.depends_on("jest"),
        command=_jest,
        read=lambda data, _: read_jest(data),
    ),
    Runner(name="cargo", fits=lambda project: project.is_rust, command=_cargo, read=_read_cargo),
    Runner(name="go", fits=lambda project: project.is_go, command=_go, read=_read_go),
    Runner(
        name="npm",
        fits=lambda project: project.script("test") is not None,
        command=_npm,
        read=lambda _, __: None,
    ),
    Runner(name="make", fits=lambda project: "test" in project.targets, command=_make, read=lambda _, __: None),
)


async def run_tests(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Runs the tests of the project in ``directory`` with ``framework``, or with what the project is made for."""
    directory: str = arguments.get("directory", ".")
    runner, others = _choose(context, directory, arguments.get("framework"))
    filter_: str = arguments.get("filter", "")
    targets = [check_target(context, directory, one) for one in arguments.get("targets", [])]
    if filter_.startswith("-"):
        raise PermissionFault(f"The filter {filter_[:200]!r} begins with '-'.", code="argument")
    with _reporting(context) as (path, read):
        wish = Wish(
            directory=directory, targets=targets, filter=filter_, stop=bool(arguments.get("fail_fast")), report=path
        )
        argv = runner.command(context, wish)
        done = await run_for_project(context, argv, directory)
        tally = runner.read(read(), done)
    if done.flooded or done.exit_code < 0 or (tally is None and runner.name not in ("make", "npm")):
        raise failure(shown(context, argv[:1]), done, context.invoker.policy.output)
    stdout, stderr = share(done.stdout, done.stderr, _OUTPUT)
    content: dict[str, Any] = {
        "framework": runner.name,
        "command": shown(context, argv, wish.report),
        "exit_code": done.exit_code,
        "outcome": _say(tally, done.exit_code),
        "seconds": round(done.duration, 2),
        **({} if tally is None else _beneath(context, directory, tally).mapping()),
        **({"also_possible": others} if others else {}),
        **_told(runner.name, stdout, stderr),
        **noted(done),
    }
    return dataclasses.replace(report(done), content=content)


def _choose(context: Context, directory: str, framework: str | None) -> tuple[Runner, list[str]]:
    project = read_project(context, directory)
    if framework is not None:
        return next(one for one in RUNNERS if one.name == framework), []
    fitting = [one for one in RUNNERS if one.fits(project)]
    if project.is_python:
        # Tests of unittest need nothing that has to be there; pytest runs them, too, where it is.
        uses = bool(find_starts(context, directory))
        left_out = "pytest" if uses and not is_for_pytest(context, project) else "" if uses else "unittest"
        fitting = [one for one in fitting if one.name != left_out]
    if not fitting:
        raise ResourceFault(
            f"Nothing in {directory!r} says how its tests are run.",
            code="no_tests",
            details={"looked_for": ["pyproject.toml", "package.json", "Cargo.toml", "go.mod", "Makefile"]},
            suggestion="Name the directory of the project, or run its tests with bash.",
        )
    return fitting[0], [one.name for one in fitting[1:]]


def check_target(context: Context, directory: str, target: str) -> str:
    """A file or a test in one, beneath the workspace, that no tool takes for an option. Errors: ``ToolFault``."""
    if not target or target.startswith("-") or "\0" in target:
        raise PermissionFault(
            f"{target[:200]!r} is no target: it is empty, or begins with '-'.",
            code="argument",
            suggestion="A path that begins with '-' is written with ./ before it.",
        )
    surroundings = surroundings_of(context)
    workspace = workspace_of(surroundings)
    place = resolve(workspace, directory, os.fspath(surroundings.workspace))
    resolve(workspace, target.split("::", 1)[0], os.fspath(surroundings.workspace), start=place)
    return target


def _beneath(context: Context, directory: str, tally: Tally) -> Tally:
    """The same with files as a call names them: relative to its directory."""
    surroundings = surroundings_of(context)
    place = f"{resolve(workspace_of(surroundings), directory, os.fspath(surroundings.workspace))}/"
    failures = (dataclasses.replace(one, file=one.file and one.file.removeprefix(place)) for one in tally.failures)
    return dataclasses.replace(tally, failures=tuple(failures))


def shown(context: Context, argv: Sequence[str], report: str = "") -> str:
    """A command as a person would write it: paths from the workspace, and nothing of a report that is ours."""
    beneath = f"{workspace_of(surroundings_of(context))}/"
    return shlex.join(word.removeprefix(beneath) for word in argv if not report or report not in word)


@contextlib.contextmanager
def _reporting(context: Context) -> Generator[tuple[str, Callable[[], bytes]], None, None]:
    """A place for a report that the program may write, and what is read of it; it is removed at the end."""
    surroundings = surroundings_of(context)
    sandbox = surroundings.sandbox
    folder = workspace_of(surroundings) if sandbox is None else os.path.realpath(sandbox.temporary)
    name = f".ripieno-{secrets.token_hex(8)}.report"
    path = os.path.join(folder, name)

    def read() -> bytes:
        # The project may have put anything there: only an ordinary file is read, and no more than a bounded part.
        try:
            with Workspace(folder) as room, room.open_file(name) as file:
                return file.read(_REPORT) or b""
        except ToolFault:
            return b""

    try:
        yield path, read
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _say(tally: Tally | None, code: int) -> str:
    if tally is not None and tally.total == 0:
        return "no tests ran"
    return "passed" if code == 0 else "failed"


def _told(name: str, stdout: Captured, stderr: Captured) -> dict[str, str]:
    """What it wrote, beside a report: of lines of JSON nothing that is not in the counts."""
    texts = {"stdout": "" if name == "go" else stdout.text.strip(), "stderr": stderr.text.strip()}
    return {key: text for key, text in texts.items() if text}
