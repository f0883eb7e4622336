"""Imports the rooms that import the SDK: all of them, in one order, in one thread.

The SDK's modules import each other in circles, so that two threads which begin at different ends of one find modules
that are only half there (measured: ``ImportError``). Whoever needs a room waits for this first.
"""

import importlib
import threading

from ripieno.ensembles.threads import run_in_thread

_ROOMS = (
    "mcp.client.streamable_http",
    "ripieno.origins.mcp.session",
    "ripieno.origins.mcp.transports.lines",
    "ripieno.origins.mcp.transports.sse",
    "ripieno.origins.mcp.oauth.authorization",
    "ripieno.origins.mcp.oauth.sign_in",
    # It imports the HTTP client, which the SDK imports too.
    "ripieno.origins.mcp.transports.http",
)
_LOCK = threading.Lock()
_done = threading.Event()


async def import_rooms() -> None:
    """Returns when every room is there. It takes most of a second, once. Errors: those of the import."""
    if not _done.is_set():
        await run_in_thread(_import, patient=False, name="import of mcp")


def _import() -> None:
    with _LOCK:
        for room in _ROOMS:
            importlib.import_module(room)
        _done.set()
