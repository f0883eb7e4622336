"""Tools that the application itself runs: declared here, called there."""

import contextlib
from collections.abc import AsyncGenerator, Sequence

from ripieno.descriptors import EnsembleDescriptor, InvokerDescriptor
from ripieno.descriptors.policy_keys import CALL_KEYS
from ripieno.descriptors.reader.keys import Table
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems
from ripieno.ensembles import Connected, Surroundings
from ripieno.exceptions import Problem
from ripieno.origins.settings import check_invocables, refuse_connection

_TABLE = Table(title="[invocable]", documentation="A tool that the application runs.", keys=CALL_KEYS)


def _read(_: EnsembleDescriptor, invoker: InvokerDescriptor, path: Path, problems: Problems) -> None:
    _TABLE.read(invoker.invocable.settings, path, problems)


class ClientOrigin:
    """``origin = "client"``: every call is left open for whoever follows the run."""

    name = "client"

    def check(self, descriptor: EnsembleDescriptor) -> Sequence[Problem]:
        return (
            *refuse_connection(self.name, descriptor, "Give each invoker an [invocable] of this origin instead."),
            *check_invocables(self.name, descriptor, _read),
        )

    @contextlib.asynccontextmanager
    async def open(self, descriptor: EnsembleDescriptor, surroundings: Surroundings) -> AsyncGenerator[Connected, None]:  # noqa: ARG002  nothing to open
        yield Connected(bind=lambda _: None, hosted="caller")


ORIGIN = ClientOrigin()
