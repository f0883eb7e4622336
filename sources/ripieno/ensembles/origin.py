"""What an origin is, and what it gives while it is open: the contract that plugins write to.

What an invocable gives back, where a plain value does not say enough.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from frozendict import frozendict

from ripieno.canisters.faults import Change
from ripieno.descriptors import EnsembleDescriptor, InvokerDescriptor
from ripieno.descriptors.policies import Hosted
from ripieno.ensembles.ensemble import Foresight, Invocable
from ripieno.ensembles.surroundings import Surroundings
from ripieno.exceptions import Problem


def _nothing(descriptor: InvokerDescriptor) -> Foresight | None:
    """Nothing can tell what calls would change."""
    del descriptor
    return None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """What an origin gives while it is open.

    ``definitions`` are those that it discovered; ``bind`` makes the invocable of a declared or discovered one.
    ``subscribe`` takes a function that is told all definitions whenever they have changed, as long as it is open.
    ``foresee`` gives what says of its calls what they would change, where there is something that can.
    ``left_out`` has what it found and does not give: names, and why. It may change together with the definitions.
    """

    connection: Any = None
    definitions: tuple[InvokerDescriptor, ...] = ()
    bind: Callable[[InvokerDescriptor], Invocable | None]
    subscribe: Callable[[Callable[[tuple[InvokerDescriptor, ...]], None]], None] | None = None
    hosted: Hosted = "here"
    foresee: Callable[[InvokerDescriptor], Foresight | None] = _nothing
    left_out: Mapping[str, str] = dataclasses.field(default_factory=frozendict[str, str])


class Origin(Protocol):
    """A kind of place that invokers come from. Plugins write these."""

    @property
    def name(self) -> str:
        """What ``origin = "…"`` says."""
        ...

    def check(self, descriptor: EnsembleDescriptor) -> Sequence[Problem]:
        """What is wrong with the parts of a descriptor that are this origin's. Imports nothing, does no I/O."""
        ...

    def open(
        self, descriptor: EnsembleDescriptor, surroundings: Surroundings
    ) -> AbstractAsyncContextManager[Connected]:
        """Connects, and disconnects at the end. Entered and left by one task."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an invocable may return when its content alone does not say enough.

    ``content`` is a string, JSON, a content, or a sequence of contents. Sizes are in bytes. ``sandbox`` is the name of
    the one that a program ran in.
    """

    content: object = ""
    exit_code: int | None = None
    changes: tuple[Change, ...] = ()
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    total_bytes: int | None = None
    sandbox: str | None = None
