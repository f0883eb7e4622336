"""The turn under way: what a page that is loaded in its middle adds to the conversation."""

from ripieno.canisters import OpaqueContent, TextualContent
from ripieno.canisters.events import ContentSealed, ReasoningDelta, TextDelta, TurnBegan
from ripieno.jsonvalues import freeze
from ripieno.servers.chat.live_turn import LiveTurn


def test_a_turn_begins_anew() -> None:
    turn = LiveTurn()
    for event in (TurnBegan(), TextDelta("One"), TextDelta(" two")):
        turn.take(event)
    assert turn.mapping() == [{"type": "text", "text": "One two", "sealed": False}]
    turn.take(TurnBegan())
    assert turn.mapping() == []


def test_reasoning_that_is_sealed_after_the_text_has_come_doubles_nothing() -> None:
    turn = LiveTurn()
    kept = OpaqueContent(protocol="openai-chat", kind="reasoning", data=freeze({"reasoning": "Hm."}))
    for event in (ReasoningDelta("Hm."), TextDelta("Yes."), ContentSealed(kept)):
        turn.take(event)
    turn.take(ContentSealed(TextualContent(text="Yes.")))
    assert [(one["type"], one["text"], one["sealed"]) for one in turn.mapping()] == [
        ("reasoning", "Hm.", True),
        ("text", "Yes.", True),
    ]
