"""Retries of a model after transient failures, as long as nothing of its answer was handed on."""

import asyncio
import contextlib
import random
from collections.abc import Callable

from frozendict import frozendict

from ripieno.canisters.events import Alert, Batches, Event, TurnBegan
from ripieno.descriptors import RetryPolicy
from ripieno.exceptions import ProviderFailure


def says_something(event: Event) -> bool:
    """Whether an event is part of the model's answer; after it, a retry would repeat content."""
    return not isinstance(event, Alert | TurnBegan)


async def persist(attempt: Callable[[], Batches], retry: RetryPolicy, identity: str) -> Batches:
    """The events of the first attempt that succeeds, in the batches in which they came.

    An ``Alert`` with the provider's message precedes each further attempt. ``TurnBegan`` is held back until the model
    answers, and gets its ``identity``: a turn begins once. Errors: ``ProviderFailure`` of the last attempt, or of an
    attempt that had handed something on.
    """
    failed = 0
    while True:
        held: list[Event] | None = []
        try:
            async with contextlib.aclosing(attempt()) as batches:
                async for batch in batches:
                    if held is None:
                        yield batch
                        continue
                    held += batch
                    if any(map(says_something, held)):
                        yield _named(held, identity)
                        held = None
            if held:
                yield _named(held, identity)
            return
        except ProviderFailure as error:
            if held is None or any(map(says_something, held)):
                if held:
                    yield _named(held, identity)
                raise
            failed += 1
            seconds = retry.pause(failed, error.after, random.random()) if error.retryable else None
            if seconds is None:
                raise
            alert = Alert(
                message=f"{identity} will be retried in {seconds:.2g} s ({failed} of {retry.max_retries}): "
                f"{error.reason}",
                details=frozendict({"category": error.category, "attempt": failed, "seconds": seconds}),
            )
        yield (alert,)
        await asyncio.sleep(seconds)


def _named(events: list[Event], identity: str) -> list[Event]:
    return [TurnBegan(model=identity, turn=one.turn) if isinstance(one, TurnBegan) else one for one in events]
