"""What the checks of ``check`` and ``doctor`` look at, and what they find: problems, each with its next step."""

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import TypeAlias

from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.cli.common.assembly import make_assembly, say_alert
from ripieno.descriptors import EnsembleDescriptor
from ripieno.descriptors.loading import locate
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import dotted
from ripieno.ensembles import Surroundings
from ripieno.exceptions import Problem


@dataclasses.dataclass(frozen=True, kw_only=True)
class Subject:
    """What is checked: ensembles, and the configuration with which they are loaded."""

    loaded: LoadedConfiguration
    descriptors: tuple[EnsembleDescriptor, ...]

    @functools.cached_property
    def surroundings(self) -> Surroundings:
        """What an assembly of the configuration would lend."""
        return make_assembly(self.loaded, alert=say_alert).surroundings


#: Finds problems, each with a file and a key; their lines are added.
Check: TypeAlias = Callable[[Subject], Iterable[Problem]]


def find_problems(checks: Iterable[Check], subject: Subject) -> tuple[Problem, ...]:
    """What the checks find, with lines."""
    return locate(problem for check in checks for problem in check(subject))


def finding(file: str | None, path: Path, message: str, hint: str, severity: str = "warning") -> Problem:
    """What a check found at a key: what is wrong, and what to do."""
    return Problem(message=message, file=file, key=dotted(path), hint=hint, severity=severity)
