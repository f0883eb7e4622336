"""Import of all modules that import the SDK, in one order and one thread.

The SDK's modules import each other in circles. Two threads that begin at different ends find half-initialized modules
(measured: ``ImportError``). So these modules are used only after ``import_sdk``.
"""

import importlib
import threading

from ripieno.ensembles.threads import run_in_thread

_MODULES = (
    "mcp.client.streamable_http",
    "ripieno.origins.mcp.session",
    "ripieno.origins.mcp.transports.lines",
    "ripieno.origins.mcp.transports.sse",
    "ripieno.origins.mcp.oauth.provider",
    "ripieno.origins.mcp.oauth.sign_in",
    # It imports the HTTP client, which the SDK also imports.
    "ripieno.origins.mcp.transports.http",
)
_LOCK = threading.Lock()
_done = threading.Event()


async def import_sdk() -> None:
    """Imports all of these modules. The first call takes most of a second. Errors: those of the import."""
    if not _done.is_set():
        await run_in_thread(_import, patient=False, name="import of mcp")


def _import() -> None:
    with _LOCK:
        for name in _MODULES:
            importlib.import_module(name)
        _done.set()
