"""Ensembles whose connection is lost, found again, or tells that something else is offered."""

import asyncio

from ripieno.ensembles import Ensemble
from tests.ensembles.fragile_connections import Town, in_virtual_time
from tests.support.scripted_models import Listening


@in_virtual_time
async def test_what_is_lost_is_connected_again_and_offers_what_it_has_then() -> None:
    town, listening = Town(), Listening()
    mine = Ensemble("mine", opener=town, surroundings=listening.surroundings)
    await mine.connect()
    looked = mine.invokers["look"]
    town.offers, town.descriptions = ("look", "keep"), {"look": "Now it looks away."}
    town.shatter()
    await asyncio.sleep(0.1)
    assert mine.state == "reconnecting"
    assert mine.invokers["look"] is looked
    await asyncio.sleep(1)
    assert (mine.state, mine.connection, mine.revision) == ("connected", "connection 2", 2)
    assert list(mine.invokers) == ["keep", "look"]
    assert mine.invokers["look"] is not looked
    await mine.disconnect()
    assert town.opened == town.closed == 2
    lost, regained = listening.messages
    # What was wrong may end with lines of somebody else's: ours come before.
    assert lost == "Ensemble 'mine' lost its connection, and reconnects in 0.5 s: it fell over"
    assert regained == "Ensemble 'mine' has reconnected. New: keep. Gone: find. Changed: look."


@in_virtual_time
async def test_connecting_while_it_waits_is_an_attempt_at_once() -> None:
    town = Town()
    mine = Ensemble("mine", opener=town)
    await mine.connect()
    town.refusals = 99
    town.shatter()
    await asyncio.sleep(20)
    assert mine.state == "reconnecting"
    town.refusals = 0
    began = asyncio.get_running_loop().time()
    await mine.connect()
    assert asyncio.get_running_loop().time() == began
    assert (mine.state, mine.connection) == ("connected", "connection 2")
    await asyncio.sleep(1000)
    await mine.disconnect()
    assert town.opened == town.closed == 2


@in_virtual_time
async def test_a_changed_list_is_the_next_snapshot() -> None:
    town, listening = Town(), Listening()
    mine = Ensemble("mine", opener=town, surroundings=listening.surroundings)
    await mine.connect()
    assert town.changed is not None
    town.changed(town.definitions(["look", "added", "find"]))
    assert (list(mine.invokers), mine.revision, mine.state) == (["added", "find", "look"], 2, "connected")
    town.changed(town.definitions(["find", "look", "added"]))
    await mine.disconnect()
    assert listening.messages == ["Ensemble 'mine' has changed its tools. New: added."]
