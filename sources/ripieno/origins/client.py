"""The origin ``client``: tools that are declared here and run by the application."""

import contextlib
from collections.abc import AsyncGenerator, Sequence
from types import MappingProxyType

from ripieno.descriptors import EnsembleDescriptor
from ripieno.descriptors.reader.keys import Table
from ripieno.ensembles import Connected, Origin, Surroundings
from ripieno.exceptions import Problem

_TABLE = Table("[invocable]", "A tool that the application runs.", ())


class ClientOrigin(Origin):
    """``origin = "client"``: every call stays open for the consumer of the run."""

    name = "client"
    tables = MappingProxyType({"invocable": _TABLE})

    def check(self, descriptor: EnsembleDescriptor) -> Sequence[Problem]:
        del descriptor
        return ()

    @contextlib.asynccontextmanager
    async def open(self, descriptor: EnsembleDescriptor, surroundings: Surroundings) -> AsyncGenerator[Connected, None]:
        yield self.at_once(descriptor, surroundings)

    def at_once(self, descriptor: EnsembleDescriptor, surroundings: Surroundings) -> Connected:  # noqa: ARG002
        return Connected(bind=lambda _: None, hosted="caller")


ORIGIN = ClientOrigin()
