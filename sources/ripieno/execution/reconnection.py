"""Before an attempt of a call: waits until a lost connection is restored, and takes the tool over the new one."""

import asyncio
import contextlib

from ripieno.ensembles import Invoker
from ripieno.exceptions import ResourceFault

#: Seconds that an attempt waits for a connection.
_LONGEST = 10.0
#: What makes two invokers the same tool: what the model was shown, and what a person has approved.
_SAME = ("description", "schema", "results", "policy", "presets", "configuration", "origin")


async def restored(invoker: Invoker) -> Invoker:
    """The invoker of the same tool over the present connection; the same one if the connection is not restored.

    Errors: ``ResourceFault`` if the tool is gone or another one.
    """
    await _wait(invoker)
    ensemble = invoker.ensemble
    found = ensemble.invokers.get(invoker.name)
    if found is invoker or ensemble.state != "connected":
        return invoker
    if found is None or any(getattr(found, name) != getattr(invoker, name) for name in _SAME):
        raise ResourceFault(
            f"The tool {invoker.exposed!r} has changed while its server was away; nothing was sent.",
            code="tool_changed",
            suggestion="Read its description again before you call it.",
        )
    return found


async def _wait(invoker: Invoker) -> None:
    """Waits while the connection is being restored."""
    ensemble = invoker.ensemble
    if ensemble.state != "reconnecting":
        return
    changed = asyncio.Event()
    leave = ensemble.watch(changed.set)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST):
                while ensemble.state == "reconnecting":
                    await changed.wait()
                    changed.clear()
    finally:
        leave()
