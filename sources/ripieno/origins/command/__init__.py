"""The origin ``command``: a program as an argv template, run without a shell and with bounded time and output.

A program without a slash is looked up in the ``PATH`` of its own environment; ``./name`` is a file beneath the
descriptor's folder, never of the workspace. The result is its standard output. If the exit code is not in ``success``,
the call fails, and the model reads both streams.

With ``project = true`` the workspace's own program of that name comes first, such as ``.venv/bin/mypy``. Workspaces are
not trusted, so it is always confined.
"""

import contextlib
import dataclasses
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from frozendict import frozendict

from ripieno.descriptors import EnsembleDescriptor, InvokerDescriptor, Policy
from ripieno.descriptors.reader.alternatives import TemplateText
from ripieno.descriptors.reader.keys import Key, Table
from ripieno.descriptors.reader.kinds import INVALID, Flag, Number, Several
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems
from ripieno.descriptors.templates import ArgvTemplate, Template
from ripieno.ensembles import Connected, Context, Origin, Outcome, Surroundings
from ripieno.ensembles.origin import NeededProgram
from ripieno.ensembles.requirements import find_own_program, own_path
from ripieno.exceptions import Problem
from ripieno.jsonvalues import is_table
from ripieno.origins.command.outcomes import advice, failure, report
from ripieno.origins.command.programs import GRACE, check_code, limits_of, run, true_path
from ripieno.origins.settings import (
    ENVIRONMENT,
    FOLDER,
    Argv,
    add_complaints,
    check_invocables,
    check_program,
    locate_program,
    read_invocable,
    require_variables,
)
from ripieno.sandbox import ProcessLimits
from ripieno.values import Value

#: Bytes of a result reserved for the line about omitted output.
_MARK = 64
PROGRAM = Table(
    "[invocable]",
    "A program, run without a shell.",
    (
        Key(
            "argv",
            Argv(),
            "The program and its arguments; {name} is replaced by an argument. A table with when and "
            "argv adds its argv if the argument is given and not false; one with each adds an element per item. "
            'A relative program such as "./greet.sh" begins at the folder of the ensemble\'s file; for a script of the '
            'workspace, name its interpreter first: "sh", "greet.sh".',
            required=True,
            example=["rg", {"when": "ignore_case", "argv": ["-i"]}, "--", "{pattern}", {"each": "paths"}],
        ),
        Key(
            "directory",
            FOLDER,
            "The folder that it runs in, beneath the workspace. Default: the workspace itself.",
            example="documents",
        ),
        Key(
            "environment",
            ENVIRONMENT,
            "Environment variables in addition to PATH, LANG, TZ, TMPDIR and HOME. Results do not hide their values: "
            "the model reads what the program prints.",
            example={"TOKEN": "{env:TOKEN}"},
        ),
        Key("stdin", TemplateText(), "Its standard input.", example="{text}"),
        Key(
            "success",
            Several(Number(whole=True, minimum=0, maximum=255), "exit codes", once=True),
            "Exit codes that mean success.",
            (0,),
            [0, 1],
        ),
        Key("network", Flag(), "Whether it may use the network when it is confined.", False, True),
        Key(
            "confined",
            Flag(),
            "Whether it is confined like bundled tools; otherwise it has all rights of this program.",
            False,
            True,
        ),
        Key(
            "project",
            Flag(),
            "Whether the project's own program, as in .venv/bin, comes first. Requires confined.",
            False,
            True,
        ),
    ),
)


class Program(Value, kw_only=True):
    """The settings of one invoker. ``folder`` is the descriptor's."""

    argv: ArgvTemplate
    directory: str = "."
    environment: frozendict[str, Template] = frozendict()
    stdin: Template | None = None
    success: tuple[int, ...] = (0,)
    network: bool = False
    confined: bool = False
    project: bool = False
    folder: str | None = None

    def expand(self, arguments: Mapping[str, Any], roots: Sequence[str] = ()) -> list[str]:
        """The argv of a call, with a relative program made absolute. ``roots`` are possible project folders."""
        argv = self.argv.expand(arguments)
        argv[0] = find_own_program(roots, argv[0]) or locate_program(argv[0], self.folder)
        return argv

    def roots(self, context: Context) -> tuple[str, ...]:
        """Possible folders of a project with its own programs, if ``project`` is set. Errors: those of ``resolve``."""
        return tuple(true_path(context, one) for one in (self.directory, ".")) if self.project else ()


def _read(descriptor: EnsembleDescriptor, invoker: InvokerDescriptor, path: Path, problems: Problems) -> Program | None:
    settings = PROGRAM.read(invoker.invocable.settings, path, problems)
    if settings is INVALID:
        return None
    keys: dict[str, Any] = dict(settings)
    keys.setdefault("confined", not descriptor.own)
    program = Program(**keys, folder=descriptor.folder)
    schema, given = invoker.arguments, invoker.policy.presets
    add_complaints(program.argv.check(schema, given), (*path, "argv"), problems)
    for name, template in program.environment.items():
        add_complaints(template.check(schema, given), (*path, "environment", name), problems)
    if program.stdin is not None:
        add_complaints(program.stdin.check(schema, given), (*path, "stdin"), problems)
    check_program(program.argv.program, descriptor, (*path, "argv", 0), problems)
    if program.project and not program.confined:
        message = "a program of the workspace would run with all rights of this one"
        problems.add((*path, "project"), message, "Set confined = true, or delete project.")
    return program


class CommandOrigin(Origin):
    """``origin = "command"``."""

    name = "command"
    tables = MappingProxyType({"invocable": PROGRAM})

    def check(self, descriptor: EnsembleDescriptor) -> Sequence[Problem]:
        return check_invocables(self.name, descriptor, _read)

    def programs(self, descriptor: EnsembleDescriptor) -> Iterator[NeededProgram]:
        for invoker in descriptor.invokers:
            if invoker.invocable.origin == self.name:
                settings = invoker.invocable.settings
                template, _ = ArgvTemplate.read(settings.get("argv"))
                environment = settings.get("environment")
                if template is not None:
                    yield NeededProgram(
                        argv=(template.program,),
                        key=("argv", 0),
                        invoker=invoker,
                        environment=tuple(map(str, environment)) if is_table(environment) else (),
                    )

    @contextlib.asynccontextmanager
    async def open(self, descriptor: EnsembleDescriptor, surroundings: Surroundings) -> AsyncGenerator[Connected, None]:
        yield self.at_once(descriptor, surroundings)

    def at_once(self, descriptor: EnsembleDescriptor, surroundings: Surroundings) -> Connected:
        def bind(invoker: InvokerDescriptor) -> Runner:
            program = read_invocable(descriptor, invoker, _read)
            require_variables(descriptor.name, program.environment.values(), surroundings)
            return Runner(program, surroundings.secrets, invoker.policy, descriptor.name)

        return Connected(bind=bind)


class Runner:
    """The invocable of one program. ``policy`` sets the output limit and whether it may write."""

    def __init__(self, program: Program, secrets: Mapping[str, str], policy: Policy, ensemble: str) -> None:
        self._program = program
        self._ensemble = ensemble
        self._secrets = secrets
        self._write = not policy.harmless
        self._output = policy.output
        self._limits = ProcessLimits(output_bytes=max(policy.output - _MARK, _MARK), grace=GRACE)

    async def __call__(self, context: Context, arguments: dict[str, Any]) -> Outcome:
        program = self._program
        check_code(context, self._ensemble)
        roots = program.roots(context)
        environment = {"PATH": own_path(roots)} if roots else {}
        environment |= {name: one.text(arguments, self._secrets) for name, one in program.environment.items()}
        completed = await run(
            context,
            program.expand(arguments, roots),
            directory=program.directory,
            environment=environment,
            stdin=None if program.stdin is None else program.stdin.text(arguments).encode(),
            write=self._write,
            network=program.network,
            readable=() if program.folder is None else (program.folder,),
            confined=program.confined,
            limits=self._limits if context.kept <= self._output else limits_of(context, kept=True),
        )
        if completed.flooded or completed.exit_code not in program.success:
            raise failure(
                program.argv.program,
                completed,
                max(self._output, context.kept),
                suggestion=advice(completed, program.success),
            )
        text, wrote = completed.stdout.text, None
        if not text.strip() and completed.stderr.text:
            # Some programs write their results to standard error.
            text, wrote = completed.stderr.text, 0
        return dataclasses.replace(report(completed), content=text, stdout_bytes=wrote)


ORIGIN = CommandOrigin()
