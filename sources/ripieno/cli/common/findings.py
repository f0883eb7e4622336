"""The input and output of the checks that ``check`` and ``doctor`` run."""

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
    """The ensembles to check, and the configuration that loads them."""

    loaded: LoadedConfiguration
    descriptors: tuple[EnsembleDescriptor, ...]

    @functools.cached_property
    def surroundings(self) -> Surroundings:
        """The surroundings that an assembly of the configuration would have."""
        return make_assembly(self.loaded, alert=say_alert).surroundings


#: Finds problems, each with a file and a key; their lines are added.
Check: TypeAlias = Callable[[Subject], Iterable[Problem]]


def find_problems(checks: Iterable[Check], subject: Subject) -> tuple[Problem, ...]:
    """The problems that the checks find, with line numbers."""
    return locate(problem for check in checks for problem in check(subject))


def finding(file: str | None, path: Path, message: str, hint: str, severity: str = "warning") -> Problem:
    """A problem at a key: a message, and a hint with the next step."""
    return Problem(message=message, file=file, key=dotted(path), hint=hint, severity=severity)
