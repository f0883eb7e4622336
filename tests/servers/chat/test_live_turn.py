"""The turn under way: what a page that is loaded in its middle adds to the conversation."""

from ripieno.canisters.events import TextDelta, TurnBegan
from ripieno.servers.chat.live_turn import LiveTurn


def test_a_turn_begins_anew() -> None:
    turn = LiveTurn()
    for event in (TurnBegan(), TextDelta("One"), TextDelta(" two")):
        turn.take(event)
    assert turn.mapping() == [{"type": "text", "text": "One two", "sealed": False}]
    turn.take(TurnBegan())
    assert turn.mapping() == []
