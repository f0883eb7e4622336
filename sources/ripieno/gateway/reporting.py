"""Watchers of runs, told of requests that are only translated: as of a run of one turn in which nothing is called."""

import asyncio
import contextlib
import dataclasses
import uuid
from collections.abc import Callable, Iterable, Sequence

from ripieno.canisters.controls import Finish
from ripieno.canisters.conversation import NO_USAGE
from ripieno.canisters.events import Batches, ConductEnded, Event, TurnBegan, TurnEnded
from ripieno.conducting import Watcher


async def reported(batches: Batches, watchers: Sequence[Watcher], model: str) -> Batches:
    """The same events, of which watchers are told first, and of the end after them. ``model`` is ``provider/model``.

    Watchers see what the model said: its own name, and calls that the client does not get.
    """
    identifier = uuid.uuid4().hex
    watching = [watch(identifier, model) for watch in watchers]
    finish: Finish = "error"
    turns, usage = 0, NO_USAGE
    try:
        async with contextlib.aclosing(batches):
            async for batch in batches:
                events = list(batch)
                for event in events:
                    if isinstance(event, TurnBegan):
                        turns = 1
                        event = dataclasses.replace(event, turn=1)  # noqa: PLW2901
                    elif isinstance(event, TurnEnded):
                        finish, usage = event.finish, event.usage
                        event = dataclasses.replace(event, turn=1)  # noqa: PLW2901
                    _tell(watching, event)
                yield events
    except (asyncio.CancelledError, GeneratorExit):
        if finish == "error":
            finish = "cancelled"
        raise
    finally:
        _tell(watching, ConductEnded(finish=finish, turns=turns, calls=0, usage=usage))


def _tell(watching: Iterable[Callable[[Event], None]], event: Event) -> None:
    for watch in watching:
        try:
            watch(event)
        except Exception as error:
            context = {"message": "A watcher of a request failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
