"""Connects ensembles together: all at once, and none of them where something unforeseen ends it."""

import asyncio
from collections.abc import Sequence

from ripieno.ensembles import Ensemble
from ripieno.exceptions import RipienoError


async def connect_all(ensembles: Sequence[Ensemble]) -> list[RipienoError | None]:
    """Connects all at once: for each why it failed, or None. Whatever else ends it leaves none connected."""
    tasks = [asyncio.create_task(ensemble.connect()) for ensemble in ensembles]
    try:
        outcomes: list[RipienoError | None] = []
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if outcome is not None and not isinstance(outcome, RipienoError):
                raise outcome
            outcomes.append(outcome)
    except BaseException:
        await asyncio.gather(*tasks, return_exceptions=True)
        await disconnect_all(ensembles)
        raise
    return outcomes


async def disconnect_all(ensembles: Sequence[Ensemble]) -> None:
    """Disconnects all at once; never raises for what goes wrong on the way."""
    await asyncio.gather(*(ensemble.disconnect() for ensemble in ensembles))
