"""Invocables that are programs: an argv with places for arguments, run without a shell and with everything bounded.

A program without a slash is looked for in the ``PATH`` of what the program gets as its environment; ``./name`` is a
file beneath the descriptor's folder, never one of the workspace. Its standard output is the result. When the exit
code is none of ``success``, the call fails, and the model reads what was written to both streams.
"""

import asyncio
import contextlib
import dataclasses
import pathlib
import signal
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from frozendict import frozendict

from ripieno.descriptors import EnsembleDescriptor, InvokerDescriptor, Path, Problems
from ripieno.descriptors.keys import Key, Table
from ripieno.descriptors.kinds import INVALID, Number, Several
from ripieno.descriptors.policy import CALL_KEYS
from ripieno.ensembles import Connected, Context, Outcome, Surroundings
from ripieno.exceptions import ExecutionFault, PermissionFault, Problem
from ripieno.origins.settings import (
    ENVIRONMENT,
    FOLDER,
    Argv,
    TemplateText,
    add_complaints,
    check_invocables,
    check_program,
    locate_program,
    read_invocable,
    refuse_connection,
    require_variables,
)
from ripieno.processes import Completed, Process, ProcessLimits, clean_environment, collect
from ripieno.results import shorten
from ripieno.templates import ArgvTemplate, Template

#: Bytes of a result that the line about what was left out may take.
_MARK = 64
PROGRAM = Table(
    title="[invocable]",
    documentation="A program, run without a shell.",
    keys=(
        Key(
            name="argv",
            kind=Argv(),
            documentation="The program and its arguments; {name} is the place of an argument.",
            required=True,
            example=["rg", "--json", "--", "{pattern}", "{path}"],
        ),
        Key(
            name="directory",
            kind=FOLDER,
            documentation="The folder that it runs in, beneath the workspace; left out, the workspace itself.",
            example="documents",
        ),
        Key(
            name="environment",
            kind=ENVIRONMENT,
            documentation="Variables that it gets beside PATH, LANG, TZ, TMPDIR and HOME.",
            example={"TOKEN": "{env:TOKEN}"},
        ),
        Key(name="stdin", kind=TemplateText(), documentation="What it reads from standard input.", example="{text}"),
        Key(
            name="success",
            kind=Several(item=Number(whole=True, minimum=0, maximum=255), items="exit codes", once=True),
            documentation="Exit codes that are no failure.",
            default=(0,),
            example=[0, 1],
        ),
        *CALL_KEYS,
    ),
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The settings of one invoker. ``folder`` is where its own files are."""

    argv: ArgvTemplate
    directory: str = "."
    environment: frozendict[str, Template] = frozendict()  # noqa: RUF009
    stdin: Template | None = None
    success: tuple[int, ...] = (0,)
    folder: str | None = None

    def expand(self, arguments: Mapping[str, Any]) -> list[str]:
        """The argv of a call; a relative program is made absolute."""
        argv = self.argv.expand(arguments)
        argv[0] = locate_program(argv[0], self.folder)
        return argv


def _read(descriptor: EnsembleDescriptor, invoker: InvokerDescriptor, path: Path, problems: Problems) -> Program | None:
    before = len(problems)
    settings = PROGRAM.read(invoker.invocable.settings, path, problems)
    if settings is INVALID:
        return None
    program = Program(**settings, folder=descriptor.folder)
    schema, given = invoker.arguments, invoker.policy.presets
    add_complaints(program.argv.check(schema, given), (*path, "argv"), problems)
    for name, template in program.environment.items():
        add_complaints(template.check(schema, given), (*path, "environment", name), problems)
    if program.stdin is not None:
        add_complaints(program.stdin.check(schema, given), (*path, "stdin"), problems)
    check_program(program.argv.program, descriptor, (*path, "argv", 0), problems)
    return program if len(problems) == before else None


class CommandOrigin:
    """``origin = "command"``."""

    name = "command"

    def check(self, descriptor: EnsembleDescriptor) -> Sequence[Problem]:
        return (
            *refuse_connection(self.name, descriptor, "Delete [connection]; a program starts when it is called."),
            *check_invocables(self.name, descriptor, _read),
        )

    @contextlib.asynccontextmanager
    async def open(self, descriptor: EnsembleDescriptor, surroundings: Surroundings) -> AsyncGenerator[Connected, None]:
        def bind(invoker: InvokerDescriptor) -> Runner:
            program = read_invocable(descriptor, invoker, _read)
            require_variables(descriptor.name, program.environment.values(), surroundings)
            return Runner(program, surroundings, output=invoker.policy.output)

        yield Connected(bind=bind)


class Runner:
    """The invocable of one program. ``output`` is how many bytes of each stream are kept."""

    def __init__(self, program: Program, surroundings: Surroundings, *, output: int) -> None:
        self._program = program
        self._surroundings = surroundings
        self._output = output
        self._limits = ProcessLimits(output_bytes=max(output - _MARK, _MARK))

    async def __call__(self, _: Context, arguments: dict[str, Any]) -> Outcome:
        program, secrets = self._program, self._surroundings.secrets
        argv = program.expand(arguments)
        environment = {name: template.text(arguments, secrets) for name, template in program.environment.items()}
        stdin = None if program.stdin is None else program.stdin.text(arguments).encode()
        process = await self._surroundings.spawner.start(
            argv, clean_environment(environment), self._directory(), self._limits, pipe_stdin=stdin is not None
        )
        completed = await _complete(process, stdin)
        if completed.flooded or completed.exit_code not in program.success:
            raise self._fault(program.argv.program, completed)
        text = completed.stdout.text
        if not text.strip():
            # Some programs say what they did where others only complain.
            text = completed.stderr.text or text
        return Outcome(
            content=text,
            exit_code=completed.exit_code,
            stdout_truncated=completed.stdout.truncated,
            stderr_truncated=completed.stderr.truncated,
            total_bytes=completed.stdout.total_bytes + completed.stderr.total_bytes,
        )

    def _directory(self) -> pathlib.Path:
        workspace = self._surroundings.workspace.resolve()
        directory = (workspace / self._program.directory).resolve()
        if not directory.is_relative_to(workspace):
            raise PermissionFault(f"The directory {self._program.directory} leads out of the workspace, by a link.")
        return directory

    def _fault(self, program: str, completed: Completed) -> ExecutionFault:
        half = self._output // 2
        stdout, stderr = (
            stream.text if stream.total_bytes <= half else shorten(stream.text, half)
            for stream in (completed.stdout, completed.stderr)
        )
        parts = [_ending(program, completed), stdout.rstrip()]
        if stderr.strip():
            parts.append(f"--- standard error ---\n{stderr.rstrip()}")
        return ExecutionFault(
            "\n".join(part for part in parts if part),
            code="output_flood" if completed.flooded else "exit_code",
            details={"exit_code": completed.exit_code, "stdout": stdout, "stderr": stderr},
        )


async def _complete(process: Process, stdin: bytes | None) -> Completed:
    """Feeds a process and waits for it. It is gone when this returns or raises."""
    async with process, asyncio.TaskGroup() as group:
        if stdin is not None:
            group.create_task(_feed(process, stdin))
        return await collect(process)


async def _feed(process: Process, data: bytes) -> None:
    if process.stdin is not None:
        # A program need not read what it is given.
        with contextlib.suppress(BrokenPipeError):
            await process.stdin.write(data)
        process.stdin.close()


def _ending(program: str, completed: Completed) -> str:
    if completed.flooded:
        total = completed.stdout.total_bytes + completed.stderr.total_bytes
        return f"{program!r} wrote {total // 2**20} MiB and did not stop, so it was ended."
    if completed.exit_code < 0:
        number = -completed.exit_code
        name = signal.Signals(number).name if number in signal.valid_signals() else str(number)
        return f"{program!r} was ended by the signal {name}."
    return f"{program!r} ended with exit code {completed.exit_code}."


ORIGIN = CommandOrigin()
