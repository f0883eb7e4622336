"""The turn under way: what a page that is loaded in its middle adds to the conversation."""

from ripieno.canisters.events import ConductEnded, TextDelta, TurnBegan
from ripieno.servers.chat.live_turn import LiveTurn


def test_a_turn_ends_when_the_conversation_has_it() -> None:
    turn = LiveTurn()
    for event in (TurnBegan(), TextDelta("One"), TextDelta(" two")):
        turn.take(event)
    assert turn.mapping() == [{"type": "text", "text": "One two", "sealed": False}]
    # A snapshot between the end of the run and that of its task would have it twice.
    turn.take(ConductEnded(finish="stop", turns=1, calls=0))
    assert turn.mapping() == []
