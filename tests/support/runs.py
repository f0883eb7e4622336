"""Follows runs and waits for their tools."""

import asyncio
from typing import Any

from ripieno.canisters import AssistantCanister, Conversation
from ripieno.canisters.controls import Rules
from ripieno.canisters.events import Event
from ripieno.conducting import Run
from tests.support.scripted_models import Blocking

APPROVING = Rules(approve=("mine.*",))


async def follow(run: Run, events: list[Event]) -> None:
    async for event in run:
        events.append(event)


async def collected(run: Run) -> list[Event]:
    events: list[Event] = []
    await follow(run, events)
    return events


def kinds(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


async def running(run: Run, blocking: Blocking) -> "asyncio.Task[Conversation]":
    """A task that awaits the run, after its tool has begun."""

    async def wait() -> Conversation:
        return await run

    task = asyncio.create_task(wait())
    await blocking.began.wait()
    return task


def says_text(text: str) -> Any:
    return AssistantCanister.of(text).content[0]
