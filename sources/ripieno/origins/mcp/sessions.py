"""A session with a server, over the SDK's client. Importing this imports the SDK, which takes most of a second."""

import contextlib
import dataclasses
import importlib.metadata
import logging
from collections.abc import AsyncGenerator, Callable

from mcp import Client
from mcp_types import Implementation

from ripieno.descriptors import EnsembleDescriptor, InvokerDescriptor
from ripieno.ensembles import Invocable
from ripieno.events import Alert
from ripieno.origins.mcp.calling import make_invocable
from ripieno.origins.mcp.cleaning import clean
from ripieno.origins.mcp.discovering import Catalogue
from ripieno.origins.mcp.servers import Server
from ripieno.origins.mcp.transport import Transport

# What a server does wrong is told in alerts and faults. Without a handler, Python would write it to standard error.
logging.getLogger("mcp").addHandler(logging.NullHandler())


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What an ensemble's ``connection`` is. ``protocol`` is the version that was negotiated."""

    client: Client
    server: Server
    protocol: str
    name: str
    instructions: str
    definitions: tuple[InvokerDescriptor, ...]

    @property
    def pid(self) -> int:
        """The number of the server's process, for messages."""
        return self.server.pid

    def bind(self, invoker: InvokerDescriptor) -> Invocable:
        """The invocable of a tool that the server offers."""
        return make_invocable(self.client.session, self.server, invoker.name)


@contextlib.asynccontextmanager
async def open_session(
    server: Server, descriptor: EnsembleDescriptor, alert: Callable[[Alert], None]
) -> AsyncGenerator[Session, None]:
    """Negotiates either era of the protocol, and lists the tools. Entered and left by one task.

    Errors: those of the SDK.
    """
    catalogue = Catalogue(descriptor, alert)
    transport = Transport(server, catalogue.screen)
    async with Client(transport, mode="auto", cache=None, client_info=_implementation()) as client:
        information = client.server_info
        yield Session(
            client=client,
            server=server,
            protocol=client.protocol_version,
            name="" if information is None else clean(f"{information.name} {information.version}")[0],
            instructions=clean(client.session.instructions or "")[0],
            definitions=await catalogue.read(client.session),
        )


def _implementation() -> Implementation:
    try:
        version = importlib.metadata.version("ripieno")
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"  # It is run from its sources.
    return Implementation(name="ripieno", version=version)
