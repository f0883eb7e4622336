"""A conversation of 10,000 messages: opening it, showing its end, and one more turn."""

import functools
import statistics
import time
from typing import Any

import aiohttp

from benchmarks import ours
from benchmarks.browser import MANY, rounds
from benchmarks.chats import chatting
from benchmarks.measurement import Row, cpu, server
from ripieno.canisters import Controls, Conversation, UserCanister
from ripieno.canisters.serialization import serialize
from ripieno.conducting import conduct
from ripieno.jsonvalues import canonical
from ripieno.models import Model
from ripieno.storage.records import Record
from ripieno.testing import turn

RUNS, PART, BUDGET = 3, 200, 50.0


async def long_conversation() -> list[Row]:
    """CPU of a server that opens it from its journal, of its newest messages, and of another turn beside its bytes."""
    canisters = [*rounds(MANY), UserCanister.of("Go on.")]
    opened: list[float] = []
    shown: list[float] = []
    async with chatting(ours.scored([turn("Done.")])) as chat:
        for _ in range(RUNS):
            name = await chat.create("ada")
            about: Any = {"conversation": name, "turn": 0, "owner": "ada"}
            said = (
                Record(stage="said", canister=one, details={"place": place}, **about)
                for place, one in enumerate(canisters)
            )
            chat.journal.record([Record(stage="began", **about), *said])
            for times in (opened, shown):
                before = time.process_time()
                await chat.snapshot("ada", name, limit=PART)
                times.append(time.process_time() - before)
    found = {"open it from the journal": opened, "show its newest messages": shown, "another turn": []}
    conversation = Conversation.of(canisters)
    with server() as address:
        model = ours.model(f"{address}/1/v1")
        body = canonical([serialize(one) for one in canisters])
        async with aiohttp.ClientSession() as session:
            for _ in range(RUNS + 1):
                mine = await cpu(functools.partial(_converse, model, conversation))
                wire = await cpu(functools.partial(_post, session, f"{address}/1/v1/chat/completions", body))
                found["another turn"].append(mine - wire)
        await model.provider.transport.close()
    return [
        Row(
            what=f"{MANY:,} messages: {what}",
            measured=statistics.median(seconds[-RUNS:]) * 1e3,
            budget=BUDGET,
            unit="ms",
        )
        for what, seconds in found.items()
    ]


async def _converse(model: Model, conversation: Conversation) -> None:
    playing = ours.ensemble()
    await conduct(model, conversation, ensembles=(playing,), execution=ours.EXECUTION, controls=Controls(stream=False))


async def _post(session: aiohttp.ClientSession, url: str, body: bytes) -> None:
    async with session.post(url, data=body) as response:
        await response.read()
