"""Shared code of the ensembles that run programs: the operator's grants, and the variables that a model may set.

Grants are in the ensemble's ``[configuration]`` and are read when it connects. Models cannot change them.
"""

import contextlib
import dataclasses
import fnmatch
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from typing import Any

from ripieno.canisters.faults import Change
from ripieno.descriptors.reader.keys import Key, Table
from ripieno.descriptors.reader.kinds import Flag, Several, Text
from ripieno.ensembles import Context, Outcome, Surroundings
from ripieno.exceptions import PermissionFault, TimeoutFault
from ripieno.origins.command.outcomes import StoppedFault, failure, outcome
from ripieno.origins.command.programs import limits_of, run
from ripieno.origins.settings import read_configuration
from ripieno.values import Value

#: Variables that make programs run other programs or change their search. Patterns never match them.
_POWERFUL = (
    *("LD_*", "DYLD_*", "GCONV_PATH", "PATH", "HOME", "TMPDIR", "IFS", "ENV", "SHELL", "PS4", "PROMPT_COMMAND"),
    *("BASH*", "SHELLOPTS", "PYTHON*", "VIRTUAL_ENV", "NODE_*", "npm_config_*", "NPM_CONFIG_*", "PERL*", "RUBY*"),
    *("GIT_*", "SSH_*", "GPG_*", "EDITOR", "VISUAL", "PAGER", "LESS*", "BROWSER", "JAVA_*", "_JAVA_*", "JDK_*"),
    *("CARGO*", "RUST*", "GO*", "CGO_*", "MAKE*", "CC", "CXX", "PYTEST_*", "MYPY*", "*_PROXY", "*_proxy"),
)


class Grants(Value, kw_only=True):
    """The grants. ``environment`` are patterns of the variables that a model may set."""

    environment: tuple[str, ...] = ()
    network: bool = False

    def check(self, variables: Mapping[str, str]) -> Mapping[str, str]:
        """The variables. Errors: ``PermissionFault`` with those that are not granted."""
        refused = sorted(name for name in variables if not self._allows(name))
        if refused:
            known = ", ".join(self.environment) or "none"
            raise PermissionFault(
                f"Variables that may not be set: {', '.join(refused)[:500]}. Allowed: {known}.",
                code="environment",
                suggestion="Leave them out. The operator can allow them: environment = [...] in the configuration.",
            )
        return variables

    def _allows(self, name: str) -> bool:
        if name in self.environment:
            return True
        if any(fnmatch.fnmatchcase(name, one) for one in _POWERFUL):
            return False
        return any(fnmatch.fnmatchcase(name, one) for one in self.environment)


KEYS = Key.rows(
    Grants(),
    (
        "environment",
        Several(item=Text(), items="names of variables", once=True),
        "Variables that a model may set, with * for any part; powerful ones by full name only.",
        ["CI", "DEBUG*"],
    ),
    ("network", Flag(), "Whether its confined programs may use the network.", True),
)
GRANTS = Table("[configuration]", "The permissions of programs.", KEYS)


@contextlib.asynccontextmanager
async def open_programs(configuration: Mapping[str, Any], _: Surroundings) -> AsyncGenerator[Grants, None]:
    """The factory of connections that are grants only."""
    yield Grants(**read_configuration(GRANTS, configuration))


def grants_of(context: Context) -> Grants:
    """The grants of a call's ensemble; none without a connection."""
    return context.connection if isinstance(context.connection, Grants) else Grants()


@contextlib.contextmanager
def without_progress(context: Context) -> Generator[Context, None, None]:
    """The context for a program that only collects facts: its output is not progress of the call."""
    inner = dataclasses.replace(context, progress=_ignore_progress)
    try:
        yield inner
    finally:
        context.sandbox = inner.sandbox


def _ignore_progress(done: float, total: float | None = None, message: str = "") -> None:
    """Reports nothing."""


def changes_of(variables: Mapping[str, str]) -> tuple[Change, ...]:
    """The variables that a call sets for its program, as changes."""
    return tuple(Change.of("EnvVarSet", key=name, value=value) for name, value in variables.items())


async def execute(
    context: Context,
    arguments: Mapping[str, Any],
    argv: Sequence[str],
    *,
    stdin: bytes | None = None,
    command: str | None = None,
) -> Outcome:
    """Runs a program with the ``working_directory`` and ``env`` of a call. ``command`` is as for ``run``.

    Errors: ``ExecutionFault`` with its output if its exit code is not 0; those of ``run`` and ``check``.
    """
    grants = grants_of(context)
    limits = limits_of(context, kept=True)
    output = max(context.invoker.policy.output, context.kept)
    variables = grants.check(arguments.get("env", {}))
    try:
        completed = await run(
            context,
            argv,
            directory=arguments.get("working_directory", "."),
            environment=variables,
            stdin=stdin,
            network=grants.network,
            limits=limits,
            command=command,
        )
    except (TimeoutFault, StoppedFault):
        context.changes.found += changes_of(variables)
        raise
    context.changes.found += changes_of(variables)
    if completed.flooded or completed.exit_code != 0:
        raise failure(argv[0], completed, output)
    return outcome(completed, output)
