"""A session with a server, over the SDK's client. Imports the SDK, which takes most of a second."""

import asyncio
import contextlib
import functools
import importlib.metadata
import logging
from collections.abc import AsyncGenerator, Callable

from mcp import Client
from mcp_types import Implementation
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ripieno.canisters.events import Alert
from ripieno.descriptors import EnsembleDescriptor
from ripieno.ensembles import Connected
from ripieno.ensembles.surroundings import Tap
from ripieno.origins.mcp.calls import ActiveCalls, make_invocable
from ripieno.origins.mcp.discovery import Catalogue, Changes, follow, listening
from ripieno.origins.mcp.peers import Peer
from ripieno.origins.mcp.screening import Screened
from ripieno.origins.mcp.text import clean

# Alerts and faults report a server's errors. Without a handler, Python would write them to standard error.
for _name in ("mcp", "client"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


#: Lines shown from the end of a server's error output.
_SHOWN = 5


class Session:
    """An ensemble's ``connection``. ``protocol`` is the negotiated version."""

    def __init__(self, client: Client, peer: Peer, calls: ActiveCalls) -> None:
        self.session = client.session
        self.peer = peer
        self.calls = calls
        self.protocol = client.protocol_version
        information = client.server_info
        self.name = "" if information is None else clean(f"{information.name} {information.version}")[0]
        self.instructions = clean(self.session.instructions or "")[0]

    def facts(self) -> dict[str, object]:
        """The facts for ``ripieno doctor``."""
        era = "modern" if self.protocol in MODERN_PROTOCOL_VERSIONS else "handshake"
        return {
            "transport": self.peer.carrier,
            "protocol": self.protocol,
            "era": era,
            "server": self.name,
            "complaints": [line for line in self.peer.complaints.splitlines() if line.strip()][-_SHOWN:],
        }


@contextlib.asynccontextmanager
async def open_session(
    peer: Peer, descriptor: EnsembleDescriptor, alert: Callable[[Alert], None], tap: Tap | None = None
) -> AsyncGenerator[Connected, None]:
    """Negotiates either era of the protocol, lists the tools, and follows their changes.

    Entered and left by one task. Errors: those of the SDK.
    """
    catalogue = Catalogue(descriptor, alert)
    transport = Screened(peer, catalogue.screen, tap)
    changes = Changes()
    calls = ActiveCalls()
    client = Client(
        transport,
        mode="auto",
        cache=None,
        client_info=_implementation(),
        message_handler=changes.take_message,
        elicitation_callback=calls.elicit,
    )
    async with client, listening(client, changes):
        definitions = await catalogue.read(client.session)
        following = asyncio.create_task(follow(client, catalogue, changes, alert), name=f"changes of {peer.ensemble}")
        try:
            yield Connected(
                connection=Session(client, peer, calls),
                definitions=definitions,
                bind=lambda invoker: make_invocable(invoker.name),
                subscribe=changes.subscribe,
                left_out=catalogue.left_out,
            )
        finally:
            following.cancel()
            await asyncio.wait((following,))


@functools.cache
def _implementation() -> Implementation:
    try:
        version = importlib.metadata.version("ripieno")
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"  # Run from the sources.
    return Implementation(name="ripieno", version=version)
