"""Observation of requests: metrics, one log line for each, more with debugging; never contents."""

import importlib.util
import logging
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from starlette.types import Scope

from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.canisters.conversation import NO_USAGE, Usage
from ripieno.canisters.events import Alert, Event, InvocationBegan, InvocationSealed, ResultReady, TurnEnded
from ripieno.descriptors.names import spelled
from ripieno.jsonvalues import canonical
from ripieno.models import Model
from ripieno.models.protocol import Asked, Refusal

_logger = logging.getLogger(__name__)

#: The status of a request whose client left, in logs and metrics only.
LEFT = 499
_PARENT = b"traceparent"
_NOTED = frozenset({Alert, TurnEnded})


class RequestLog:
    """The observation of one request, entered for its duration. This class observes nothing."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The request has ended, and nothing more is sent."""

    def read(self, asked: Asked) -> None:
        """The request was read."""

    def resolve(self, model: Model) -> None:
        """The request has a model."""

    def hear(self, events: Iterable[Event]) -> Iterable[Event]:
        """The next events of the answer, which are returned."""
        return events

    def take(self, event: Event) -> None:
        """An event of the run for the request."""

    def begin(self) -> None:
        """The answer starts to stream."""

    def answer(self) -> None:
        """The answer is complete."""

    def refuse(self, refusal: Refusal) -> None:
        """The request is refused, or its answer ends early."""


UNOBSERVED = RequestLog()


class RequestObserver:
    """Observes the requests of one application.

    ``openings`` returns how often each provider's breaker has opened. ``metrics`` is None without metrics.
    """

    def __init__(self, *, metrics: bool, openings: Callable[[], Mapping[str, int]]) -> None:
        self.metrics: Any = None
        if metrics and is_countable():
            # Imported late: slow, and optional.
            from ripieno.servers.gateway.metrics import Metrics

            self.metrics = Metrics(openings)

    def observe(self, wire: str, scope: Scope) -> RequestLog:
        """The observation of a request over a wire, to be entered."""
        logs = _logger.isEnabledFor(logging.INFO)
        # Without that module, there are no spans that need a parent.
        parented = "opentelemetry.trace" in sys.modules and any(name == _PARENT for name, _ in scope["headers"])
        if self.metrics is None and not logs and not parented:
            return UNOBSERVED
        return _ObservedRequest(wire, scope, self.metrics, parented=parented, logs=logs)

    def refuse(self, wire: str, refusal: Refusal, path: str) -> None:
        """Records a request that was refused before its endpoint. ``wire`` is empty for an unknown path."""
        if self.metrics is not None:
            self.metrics.refuse(wire, refusal, ended=True)
        if _logger.isEnabledFor(logging.INFO):
            _log(
                wire=wire,
                status=refusal.status,
                why=_reason_of(refusal) or ("" if wire else f"nothing at {spelled(path)}"),
            )


def is_countable() -> bool:
    """Whether the extra for metrics is installed."""
    return importlib.util.find_spec("prometheus_client") is not None


class _ObservedRequest(RequestLog):
    """A request with metrics, a log line or a span."""

    __slots__ = (
        "_alerted",
        "_began",
        "_debugs",
        "_end",
        "_logs",
        "_metrics",
        "_model",
        "_parented",
        "_reason_of",
        "_scope",
        "_status",
        "_usage",
        "_wire",
    )

    def __init__(self, wire: str, scope: Scope, metrics: Any, *, parented: bool, logs: bool) -> None:
        self._wire = wire
        self._scope = scope
        self._metrics = metrics
        self._parented = parented
        self._logs = logs
        self._debugs = logs and _logger.isEnabledFor(logging.DEBUG)
        self._began = time.perf_counter()
        self._model = ""
        self._status = LEFT
        self._reason_of = ""
        self._usage: Usage = NO_USAGE
        self._alerted = False
        self._end: Callable[[], None] | None = None

    def __enter__(self) -> Self:
        if self._metrics is not None:
            self._metrics.begin(self._wire)
        if self._parented:
            from ripieno.conducting.observers.tracing import adopt

            self._end = adopt(self._scope["headers"])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        seconds = time.perf_counter() - self._began
        if kind is not None:
            # An unexpected error, or the end of the server: the client has not left.
            self._status = 500
        if self._end is not None:
            self._end()
        if self._metrics is not None:
            self._count(self._metrics, seconds)
        if self._logs:
            _log(
                wire=self._wire,
                model=self._model,
                status=self._status,
                seconds=seconds,
                usage=self._usage,
                caller=self._scope.get("state", {}).get("caller", ""),
                why=self._reason_of,
            )

    def read(self, asked: Asked) -> None:
        if self._debugs:
            _log_history(asked)

    def resolve(self, model: Model) -> None:
        self._model = model.identity

    def hear(self, events: Iterable[Event]) -> Iterable[Event]:
        batch = events if isinstance(events, list) else list(events)
        # Alerts come alone, and the end of a turn comes last: other events are skipped for speed.
        if batch and type(batch[-1]) in _NOTED:
            self._note(batch[-1])
        if self._debugs:
            for event in batch:
                _log_call(event)
        return batch

    def take(self, event: Event) -> None:
        if isinstance(event, TurnEnded):
            # Replaced by the sum at the end of the answer, if that arrives.
            self._usage += event.usage
        elif self._metrics is not None and isinstance(event, ResultReady):
            self._metrics.run(event)

    def begin(self) -> None:
        if self._metrics is not None:
            self._metrics.wait(self._model, time.perf_counter() - self._began)

    def answer(self) -> None:
        if self._status == LEFT:
            self._status = 200

    def refuse(self, refusal: Refusal) -> None:
        self._status = refusal.status
        self._reason_of = _reason_of(refusal)
        if self._metrics is not None:
            self._metrics.refuse(self._wire, refusal)

    def _note(self, event: Event) -> None:
        if isinstance(event, TurnEnded):
            self._usage = event.usage
        elif isinstance(event, Alert):
            self._alerted = True
            if self._metrics is not None and "attempt" in event.details:
                self._metrics.retry(self._model)

    def _count(self, metrics: Any, seconds: float) -> None:
        metrics.end(self._wire, self._model, self._status, seconds, self._usage)
        if self._status == LEFT:
            metrics.depart(self._wire)
        if self._alerted or self._status >= 500:
            metrics.count_openings()


def _reason_of(refusal: Refusal) -> str:
    """The code and parameter of a refusal. The message could quote the client."""
    return ", ".join(spelled(one) for one in (refusal.code, refusal.parameter) if one)


def _log(
    *,
    wire: str,
    status: int,
    model: str = "",
    seconds: float = 0.0,
    usage: Usage = NO_USAGE,
    caller: str = "",
    why: str = "",
) -> None:
    """Logs one line for a request. All names in it are the operator's, except ``why`` it was refused."""
    milliseconds = round(seconds * 1000)
    fields = {
        "wire": wire,
        "model": model,
        "status": status,
        "milliseconds": milliseconds,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "caller": caller,
        "reason": why,
    }
    _logger.log(
        logging.WARNING if status >= 500 else logging.INFO,
        "%s %s: %d%s in %d ms, %d tokens in, %d out%s.",
        *(
            wire or "-",
            model or "-",
            status,
            f" ({why})" if why else "",
            milliseconds,
            usage.input_tokens,
            usage.output_tokens,
        ),
        f", for {caller}" if caller else "",
        extra=fields,
    )


def _log_history(asked: Asked) -> None:
    for canister in asked.canisters:
        if isinstance(canister, InvocationCanister):
            fields = {"tool": spelled(canister.name), "invocation": spelled(canister.identifier)}
            _logger.debug("The input has the call %s (%s).", *fields.values(), extra=fields)
        elif isinstance(canister, ResultCanister):
            fields = {"invocation": spelled(canister.invocation_id)}
            _logger.debug("The input has a result of %s.", *fields.values(), extra=fields)


def _log_call(event: Event) -> None:
    if isinstance(event, InvocationBegan):
        fields: dict[str, Any] = {"tool": spelled(event.name), "index": event.index}
        _logger.debug("The call %s begins (index %d).", *fields.values(), extra=fields)
    elif isinstance(event, InvocationSealed):
        call = event.invocation
        size = len(canonical(call.arguments) if call.raw is None else call.raw.encode("utf-8", "replace"))
        fields = {"tool": spelled(call.name), "index": event.index, "bytes": size}
        _logger.debug("The call %s is complete (index %d, %d bytes of arguments).", *fields.values(), extra=fields)
