"""The base class of all wires' decoders: errors, refusals and cut-off answers."""

import abc
from collections.abc import Callable, Iterable, Mapping

from frozendict import frozendict

from ripieno.canisters.controls import Finish
from ripieno.canisters.events import Alert, Event
from ripieno.descriptors.names import spelled
from ripieno.exceptions import ProviderRefusal, WireInvalidity
from ripieno.models.protocol import Identifiers, Native
from ripieno.models.transport.errors import judge, message_of
from ripieno.models.transport.sse import DONE


class AnswerDecoder(abc.ABC):
    """Decodes one answer, native event by native event. A wire defines the meaning of each event and of the end."""

    def __init__(self, provider: str, identifiers: Identifiers) -> None:
        #: Whether deltas of text and arguments are needed. Deltas of reasoning are always made.
        self.deltas = True
        self._provider = provider
        self._identifiers = identifiers
        #: The provider's own word for the end of the answer.
        self._reason: str | None = None
        #: The events of the current native event.
        self._events: list[Event] = []

    def feed(self, native: Native) -> Iterable[Event]:
        """The events of one native event. Errors: ``ProviderRefusal``, ``WireInvalidity``."""
        return self._guarded(self._read, native)

    def finish(self) -> Iterable[Event]:
        """The last events. Errors: as ``feed``."""
        return self._guarded(self._end, DONE)

    def _guarded(self, read: Callable[[Native], list[Event]], native: Native) -> list[Event]:
        """Turns the exceptions of a malformed native event into ``WireInvalidity``, for all wires."""
        try:
            return read(native)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            kind = native.get("type") or native.get("object") or "event"
            raise WireInvalidity(self._provider, f"It sent a {kind!r} that cannot be read ({error!r}).") from error

    def play(self, native: Native) -> Iterable[Event]:
        """All events of a complete answer, which is not fed. Errors: as ``feed``."""
        return [*self._guarded(self._read, native), *self.finish()]

    def refused(self, native: Native, otherwise: str = "It sent an error.") -> ProviderRefusal:
        """The error in a native event, with the provider's message or ``otherwise``."""
        category, retryable = judge(native)
        return ProviderRefusal(
            self._provider, message_of(native) or otherwise, body=native, category=category, retryable=retryable
        )

    def _finish_of(self, reason: str, known: Mapping[str, Finish], *, calls: int) -> Finish:
        """The finish by the provider's reason. With an unknown reason the calls, if any, run, and an alert says so."""
        finish = known.get(reason)
        if finish is not None or not calls:
            return finish or "stop"
        if self._identifiers.reports(("unknown reason", reason)):
            shown = spelled(reason)
            message = f"{self._provider} ended its answer with the unknown reason {shown!r}; its calls are run."
            self._events.append(Alert(message=message, details=frozendict(reason=shown)))
        return "invocations"

    def _why_cut(self, finish: Finish) -> str | None:
        """Why an incomplete call was cut off; None if the end cuts nothing."""
        return f"the answer ended with {self._reason!r}" if finish in ("length", "filter") else None

    @abc.abstractmethod
    def _read(self, native: Native) -> list[Event]:
        """The events of one native event, which may have any shape."""

    @abc.abstractmethod
    def _end(self, _: Native) -> list[Event]:
        """The last events, with ``TurnEnded`` after all."""
