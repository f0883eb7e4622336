"""What decoders of all wires have in common: how an answer is heard, how it is refused, and how it is cut short."""

import abc
from collections.abc import Callable, Iterable

from ripieno.canisters.controls import Finish
from ripieno.canisters.events import Event
from ripieno.exceptions import ProviderRefusal, WireInvalidity
from ripieno.models.protocol import Identifiers, Native
from ripieno.models.transport.errors import judge, message_of
from ripieno.models.transport.sse import DONE


class AnswerDecoder(abc.ABC):
    """One answer, native event by native event. A wire says what each of them means, and what the end does."""

    def __init__(self, provider: str, identifiers: Identifiers) -> None:
        #: Whether anybody looks at text and arguments before they are sealed. Reasoning has no other common form.
        self.deltas = True
        self._provider = provider
        self._identifiers = identifiers
        #: The provider's own word for why the answer ended.
        self._reason: str | None = None
        #: What one native event has become.
        self._events: list[Event] = []

    def feed(self, native: Native) -> Iterable[Event]:
        """The events of one native event. Errors: ``ProviderRefusal``, ``WireInvalidity``."""
        return self._guarded(self._read, native)

    def finish(self) -> Iterable[Event]:
        """The last events. Errors: as ``feed``."""
        return self._guarded(self._end, DONE)

    def _guarded(self, read: Callable[[Native], list[Event]], native: Native) -> list[Event]:
        """Servers send anything: a shape that the wire does not allow becomes an error with a name, here for all."""
        try:
            return read(native)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            kind = native.get("type") or native.get("object") or "event"
            raise WireInvalidity(self._provider, f"It sent a {kind!r} that cannot be read ({error!r}).") from error

    def play(self, native: Native) -> Iterable[Event]:
        """All events of a whole answer. Errors: as ``feed``."""
        return [*self.feed(native), *self.finish()]

    def refused(self, native: Native, otherwise: str = "It sent an error.") -> ProviderRefusal:
        """The error that a native event is, in the provider's own words; ``otherwise`` where it has none."""
        category, retryable = judge(native)
        return ProviderRefusal(
            self._provider, message_of(native) or otherwise, body=native, category=category, retryable=retryable
        )

    def _why_cut(self, finish: Finish) -> str | None:
        """Why what is not complete at the end was cut off; None at an end that cuts nothing."""
        return f"the answer ended with {self._reason!r}" if finish in ("length", "filter") else None

    @abc.abstractmethod
    def _read(self, native: Native) -> list[Event]:
        """The events of one native event, which may have any shape."""

    @abc.abstractmethod
    def _end(self, _: Native) -> list[Event]:
        """The last events, with ``TurnEnded`` after all."""
