"""Observation of requests: metrics, one log line for each, more with debugging; never contents."""

import dataclasses
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

    def observe(self, wire: str, scope: Scope, *, background: bool = False) -> RequestLog:
        """The observation of a request over a wire, or of a background run that one has begun, to be entered."""
        logs = _logger.isEnabledFor(logging.INFO)
        # Without that module, there are no spans that need a parent.
        parented = "opentelemetry.trace" in sys.modules and any(name == _PARENT for name, _ in scope["headers"])
        if self.metrics is None and not logs and not parented:
            return UNOBSERVED
        debugs = logs and _logger.isEnabledFor(logging.DEBUG)
        return _ObservedRequest(wire, scope, self.metrics, background, parented, logs, debugs)

    def note(self, wire: str, route: str, scope: Scope, seconds: float, refusal: Refusal | None) -> None:
        """Records a request to a ``route`` of what is stored, which asks no model."""
        status = 200 if refusal is None else refusal.status
        if self.metrics is not None:
            if refusal is None or status == LEFT:
                self.metrics.count(wire, status)
            else:
                self.metrics.refuse(wire, refusal, ended=True)
        if _logger.isEnabledFor(logging.INFO):
            why = "" if refusal is None else _reason_of(refusal)
            _log(wire, status, why, route=route, seconds=seconds, caller=_caller_in(scope))

    def refuse(self, wire: str, refusal: Refusal, path: str) -> None:
        """Records a request that was refused before its endpoint. ``wire`` is empty for an unknown path."""
        if self.metrics is not None:
            self.metrics.refuse(wire, refusal, ended=True)
        if _logger.isEnabledFor(logging.INFO):
            why = _reason_of(refusal) or ("" if wire else f"nothing at {spelled(path)}")
            _log(wire, refusal.status, why)


def is_countable() -> bool:
    """Whether the extra for metrics is installed."""
    return importlib.util.find_spec("prometheus_client") is not None


@dataclasses.dataclass(slots=True, eq=False)
class _ObservedRequest(RequestLog):
    """A request with metrics, a log line or a span. A ``background`` run is no request of its own."""

    wire: str
    scope: Scope
    metrics: Any
    background: bool
    parented: bool
    logs: bool
    debugs: bool
    began: float = dataclasses.field(default_factory=time.perf_counter)
    model: str = ""
    status: int = LEFT
    reason: str = ""
    usage: Usage = NO_USAGE
    alerted: bool = False
    end: Callable[[], None] | None = None

    def __enter__(self) -> Self:
        if self.metrics is not None:
            self.metrics.begin(self.wire)
        if self.parented:
            from ripieno.conducting.observers.tracing import adopt

            self.end = adopt(self.scope["headers"])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        seconds = time.perf_counter() - self.began
        if kind is not None:
            # An unexpected error, or the end of the server: the client has not left.
            self.status = 500
        if self.end is not None:
            self.end()
        if self.metrics is not None:
            if self.background:
                self.metrics.end_run(self.wire, self.model, self.usage)
            else:
                self.metrics.end(self.wire, self.model, self.status, seconds, self.usage)
                if self.status == LEFT:
                    self.metrics.depart(self.wire)
            if self.alerted or self.status >= 500:
                self.metrics.count_openings()
        if self.logs:
            if self.background and self.status == LEFT:
                # It was cancelled; or its response was lost, or could not be stored, which has lines of its own.
                self.reason = "ended early"
            caller = _caller_in(self.scope)
            more: dict[str, Any] = {"model": self.model, "seconds": seconds, "usage": self.usage, "caller": caller}
            _log(self.wire, self.status, self.reason, **more)

    def read(self, asked: Asked) -> None:
        if self.debugs:
            _log_history(asked)

    def resolve(self, model: Model) -> None:
        self.model = model.identity

    def hear(self, events: Iterable[Event]) -> Iterable[Event]:
        batch = events if isinstance(events, list) else list(events)
        # Alerts come alone, and the end of a turn comes last: other events are skipped for speed.
        last = batch[-1] if batch else None
        if isinstance(last, TurnEnded):
            self.usage = last.usage
        elif isinstance(last, Alert):
            self.alerted = True
            if self.metrics is not None and "attempt" in last.details:
                self.metrics.retry(self.model)
        if self.debugs:
            for event in batch:
                _log_call(event)
        return batch

    def take(self, event: Event) -> None:
        if isinstance(event, TurnEnded):
            # Replaced by the sum at the end of the answer, if that arrives.
            self.usage += event.usage
        elif self.metrics is not None and isinstance(event, ResultReady):
            self.metrics.run(event)

    def begin(self) -> None:
        if self.metrics is not None and not self.background:
            self.metrics.wait(self.model, time.perf_counter() - self.began)

    def answer(self) -> None:
        if self.status == LEFT:
            self.status = 200

    def refuse(self, refusal: Refusal) -> None:
        self.status = refusal.status
        self.reason = _reason_of(refusal)
        if self.metrics is not None:
            self.metrics.refuse(self.wire, refusal)


def _reason_of(refusal: Refusal) -> str:
    """The code and parameter of a refusal. The message could quote the client."""
    return ", ".join(spelled(one) for one in (refusal.code, refusal.parameter) if one)


def _caller_in(scope: Scope) -> str:
    return str(scope.get("state", {}).get("caller", ""))


def _log(
    wire: str,
    status: int,
    why: str,
    *,
    model: str = "",
    route: str = "",
    seconds: float = 0,
    usage: Usage = NO_USAGE,
    caller: str = "",
) -> None:
    """Logs one line for a request. All names in it are the operator's, except ``why`` it was refused."""
    milliseconds = round(seconds * 1000)
    fields = {
        "wire": wire,
        "model": model,
        "route": route,
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
        *(wire or "-", model or route or "-", status, f" ({why})" if why else "", milliseconds),
        *(usage.input_tokens, usage.output_tokens, f", for {caller}" if caller else ""),
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
