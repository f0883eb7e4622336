"""A decoder that is fed by hand, and what it has said so far."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ripieno.canisters import Canister, InvocationCanister
from ripieno.canisters.events import Event, InvocationSealed, TurnEnded
from ripieno.exceptions import ProviderFailure
from ripieno.models import Protocol
from ripieno.models.protocol import Decoder, Identifiers, Native

Feed = Callable[[Native], Iterable[Event]]


def outcome(natives: Iterable[Native], decoder: Decoder, feed: Feed | None = None) -> tuple[list[Event], str]:
    """The events of an answer, and the words of its error, if there is one. ``feed`` replaces the decoder's."""
    events: list[Event] = []
    try:
        for native in natives:
            events += (feed or decoder.feed)(native)
        events += decoder.finish()
    except ProviderFailure as error:
        return events, str(error)
    return events, ""


class Listening:
    """The decoder of a wire, and its events."""

    def __init__(self, protocol: Protocol, canisters: Sequence[Canister] = ()) -> None:
        self.decoder = protocol.decoder("house", Identifiers(canisters))
        self.events: list[Event] = []

    def hear(self, *natives: Native) -> "Listening":
        for native in natives:
            self.events.extend(self.decoder.feed(native))
        return self

    def end(self, *last: Native) -> TurnEnded:
        """Ends the answer; its last event."""
        self.hear(*last)
        self.events.extend(self.decoder.finish())
        ended = self.events[-1]
        assert isinstance(ended, TurnEnded)
        return ended

    @property
    def calls(self) -> list[InvocationCanister]:
        return [event.invocation for event in self.events if isinstance(event, InvocationSealed)]

    @property
    def sealed(self) -> list[tuple[str, Any]]:
        """Names and arguments of the calls that are sealed."""
        return [(one.name, dict(one.arguments)) for one in self.calls]

    @property
    def faults(self) -> list[str]:
        """The codes of the faults in sealed calls; empty where there is none."""
        return [one.fault.code if one.fault else "" for one in self.calls]
