"""The ensemble ``testing``: runs a project's tests with the project's own tool, and reports the failures.

A failed test is not a failure of the tool: the result has counts, failures and the exit code. Only a run without a
result, such as of a tool that cannot start, is a fault.
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
from ripieno.origins.command.programs import surroundings_of, true_path, workspace_of
from ripieno.sandbox.capture import Captured
from ripieno.sandbox.processes import Completed
from ripieno.toolset.checks.test_reports import Tally, read_cargo, read_go, read_jest, read_junit
from ripieno.toolset.checks.unittest import command, find_starts, is_for_pytest, read_unittest
from ripieno.toolset.programs.projects import (
    Project,
    find_program,
    has_file,
    is_python,
    look_for_program,
    read_project,
    run_for_project,
)
from ripieno.toolset.workspace.workspace import Workspace
from ripieno.values import Value

#: Bytes of a report, and of the output shown beside the counts.
_REPORT = 32 * 2**20
_OUTPUT = 6 * 1024


class TestRequest(Value, kw_only=True):
    """The request of a call to a runner. ``report`` is the path of its report, relative to ``directory``."""

    directory: str
    targets: Sequence[str] = ()
    filter: str = ""
    stop: bool = False
    report: str = ""


class Runner(Value):
    """A way to run tests. ``read`` makes a tally of its report or its output."""

    name: str
    fits: Callable[[Project], bool]
    command: Callable[[Context, TestRequest], list[str]]
    read: Callable[[bytes, Completed], Tally | None]


def _pytest(context: Context, request: TestRequest) -> list[str]:
    start = [find_program(context, request.directory, "pytest")]
    if start == ["pytest"]:
        # The project's own interpreter has the project's packages; the system's pytest does not.
        python = look_for_program(context, request.directory, "python3", "python")
        start = [python, "-m", "pytest"] if python is not None and "/" in python else start
    words = [*start, "-q", "--color=no", f"--junit-xml={request.report}", "--tb=short"]
    words += ["-x"] if request.stop else []
    words += ["-k", request.filter] if request.filter else []
    return [*words, *request.targets]


def _unittest(context: Context, request: TestRequest) -> list[str]:
    return command(context, request.directory, [*request.targets], request.filter, stop=request.stop)


def _jest(context: Context, request: TestRequest) -> list[str]:
    words = [find_program(context, request.directory, "jest"), "--ci", "--json", f"--outputFile={request.report}"]
    words += ["--bail"] if request.stop else []
    words += [f"--testNamePattern={request.filter}"] if request.filter else []
    return [*words, *(["--runTestsByPath", *request.targets] if request.targets else [])]


def _cargo(context: Context, request: TestRequest) -> list[str]:
    words = [find_program(context, request.directory, "cargo"), "test", "--color=never"]
    words += [] if request.stop else ["--no-fail-fast"]
    words += [word for target in request.targets for word in ("--test", target)]
    return [*words, *(["--", request.filter] if request.filter else [])]


def _go(context: Context, request: TestRequest) -> list[str]:
    words = [find_program(context, request.directory, "go"), "test", "-json"]
    words += ["-failfast"] if request.stop else []
    words += [f"-run={request.filter}"] if request.filter else []
    return [*words, *(request.targets or ["./..."])]


def _script(program: str, *options: str) -> Callable[[Context, TestRequest], list[str]]:
    def command(context: Context, request: TestRequest) -> list[str]:
        if request.targets or request.filter:
            raise ValidationFault(f"`{program} test` takes neither targets nor a filter.", suggestion="Leave both out.")
        return [find_program(context, request.directory, program), "test", *options]

    return command


#: Runners of specific project files come before those that any project may have.
RUNNERS = (
    Runner("pytest", is_python, _pytest, lambda data, _: read_junit(data)),
    Runner("unittest", is_python, _unittest, lambda _, done: read_unittest(done.stderr.text)),
    Runner("jest", lambda project: project.depends_on("jest"), _jest, lambda data, _: read_jest(data)),
    Runner("cargo", has_file("Cargo.toml"), _cargo, lambda _, done: read_cargo(done.stdout.text)),
    Runner("go", has_file("go.mod"), _go, lambda _, done: read_go(done.stdout.text)),
    Runner("npm", lambda project: project.script("test") is not None, _script("npm", "--silent"), lambda _, __: None),
    Runner("make", lambda project: "test" in project.targets, _script("make"), lambda _, __: None),
)


async def run_tests(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Runs the tests of the project in ``directory`` with ``framework``, or with the project's own."""
    directory: str = arguments.get("directory", ".")
    runner, others = _choose(context, directory, arguments.get("framework"))
    filter_: str = arguments.get("filter", "")
    targets = [check_target(context, directory, one) for one in arguments.get("targets", [])]
    if filter_.startswith("-"):
        raise PermissionFault(f"The filter {filter_[:200]!r} begins with '-'.", code="argument")
    with _reporting(context) as (path, read):
        request = TestRequest(
            directory=directory, targets=targets, filter=filter_, stop=bool(arguments.get("fail_fast")), report=path
        )
        argv = runner.command(context, request)
        done = await run_for_project(context, argv, directory)
        tally = runner.read(read(), done)
    if done.flooded or done.exit_code < 0 or (tally is None and runner.name not in ("make", "npm")):
        raise failure(shown(context, argv[:1]), done, context.invoker.policy.output)
    stdout, stderr = share(done.stdout, done.stderr, _OUTPUT)
    outcome = "failed" if done.exit_code else "passed"
    content: dict[str, Any] = {
        "framework": runner.name,
        "command": shown(context, argv, request.report),
        "exit_code": done.exit_code,
        "outcome": "no tests ran" if tally is not None and tally.total == 0 else outcome,
        "seconds": round(done.duration, 2),
        **({} if tally is None else _beneath(context, directory, tally).mapping()),
        **({"also_possible": others} if others else {}),
        # go's lines are its report.
        **streams(Captured() if runner.name == "go" else stdout, stderr),
        **noted(done),
    }
    return dataclasses.replace(report(done), content=content)


def _choose(context: Context, directory: str, framework: str | None) -> tuple[Runner, list[str]]:
    project = read_project(context, directory)
    if framework is not None:
        return next(one for one in RUNNERS if one.name == framework), []
    fitting = [one for one in RUNNERS if one.fits(project)]
    if is_python(project):
        # unittest is always installed; pytest, if installed, runs its tests, too.
        uses = bool(find_starts(context, directory))
        left_out = "pytest" if uses and not is_for_pytest(context, project) else "" if uses else "unittest"
        fitting = [one for one in fitting if one.name != left_out]
    if not fitting:
        raise ResourceFault(
            f"No file in {directory!r} shows how its tests are run.",
            code="no_tests",
            details={"looked_for": ["pyproject.toml", "package.json", "Cargo.toml", "go.mod", "Makefile"]},
            suggestion="Give the directory of the project, or run its tests with bash.",
        )
    return fitting[0], [one.name for one in fitting[1:]]


def check_target(context: Context, directory: str, target: str) -> str:
    """A file or a test in one, beneath the workspace, that cannot be read as an option. Errors: ``ToolFault``."""
    if not target or target.startswith("-") or "\0" in target:
        raise PermissionFault(
            f"{target[:200]!r} is not a target: it is empty, or begins with '-'.",
            code="argument",
            suggestion="Write ./ before a path that begins with '-'.",
        )
    true_path(context, target.split("::", 1)[0], start=true_path(context, directory))
    return target


def _beneath(context: Context, directory: str, tally: Tally) -> Tally:
    """The tally with files relative to the directory of the call."""
    place = f"{true_path(context, directory)}/"
    failures = (dataclasses.replace(one, file=one.file and one.file.removeprefix(place)) for one in tally.failures)
    return dataclasses.replace(tally, failures=tuple(failures))


def shown(context: Context, argv: Sequence[str], report: str = "") -> str:
    """A command for messages: with paths relative to the workspace, and without our report option."""
    beneath = f"{workspace_of(surroundings_of(context))}/"
    return shlex.join(word.removeprefix(beneath) for word in argv if not report or report not in word)


@contextlib.contextmanager
def _reporting(context: Context) -> Generator[tuple[str, Callable[[], bytes]], None, None]:
    """A path for a report that the program may write, and a function that reads it; removed at the end."""
    surroundings = surroundings_of(context)
    sandbox = surroundings.sandbox
    stack = contextlib.ExitStack()
    if sandbox is None:
        folder = workspace_of(surroundings)
    else:
        folder = stack.enter_context(sandbox.homes.use((context.owner, context.conversation))).temporary
    name = f".ripieno-{secrets.token_hex(8)}.report"
    path = os.path.join(folder, name)

    def read() -> bytes:
        # The project may have put anything there: only a bounded part of an ordinary file is read.
        try:
            with Workspace(folder) as workspace, workspace.open_file(name) as file:
                return file.read(_REPORT) or b""
        except ToolFault:
            return b""

    with stack:
        try:
            yield path, read
        finally:
            with contextlib.suppress(OSError):
                os.unlink(path)


def streams(stdout: Captured, stderr: Captured) -> dict[str, str]:
    """The output beside a report, without empty streams."""
    texts = {"stdout": stdout.text.strip(), "stderr": stderr.text.strip()}
    return {key: text for key, text in texts.items() if text}
