"""What ``/metrics`` tells: counts and times of requests, of models and of what runs here, in the words of Prometheus.

Every label has a name that the operator gave, or one of a fixed few: nothing that a client or a model wrote.
Where ``PROMETHEUS_MULTIPROC_DIR`` names a folder, all workers write there, and each of them tells the sum of all.
"""

import contextlib
import dataclasses
import functools
import http
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from ripieno.canisters.conversation import NO_USAGE, Usage
from ripieno.canisters.events import ResultReady
from ripieno.conducting.observers import conventions as names
from ripieno.models.protocol import Refusal

#: The folder of all workers. The library reads it when it is imported, and never again.
_FOLDER = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
#: Reasons that the gateway itself gives; a backend's own code could be anything.
_REASONS = frozenset(
    {
        *("conflict", "context_length_exceeded", "invalid_api_key", "misdirected_request", "model_not_found"),
        *("origin_not_allowed", "server_overloaded", "timeout", "tool_failed", "unsupported_media_type"),
    }
)
#: Tools that are told apart. An MCP server may give others each time that it is asked.
_TOOLS = 1000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Ended:
    """What is counted when a request has ended. To find these by their labels takes longer than to count (measured)."""

    count: Callable[[], None]
    measure: Callable[[float], None]
    use: tuple[Callable[[float], None], ...]


class Metrics:
    """The counts of one application. ``openings`` tells how often the breaker of each provider has opened so far."""

    media_type = CONTENT_TYPE_LATEST

    def __init__(self, openings: Callable[[], Mapping[str, int]]) -> None:
        registry = self._registry = CollectorRegistry()
        self._openings = openings
        self._opened: dict[str, int] = {}
        self._tools: set[str] = set()
        whose = (names.PROVIDER, names.REQUEST_MODEL)
        count = functools.partial(_made, Counter, registry)
        measure = functools.partial(_made, Histogram, registry)
        self._requests = count(names.REQUESTS_METRIC, "Requests that have ended.", (names.WIRE, *whose, names.STATUS))
        self._seconds = measure(
            names.SERVER_DURATION_METRIC,
            "Seconds of requests, to the last byte.",
            (names.OPERATION, *whose, names.ERROR),
            unit="seconds",
            buckets=names.DURATION_BUCKETS,
        )
        self._first = measure(
            names.SERVER_FIRST_METRIC,
            "Seconds to the first byte of streams.",
            (names.OPERATION, *whose),
            unit="seconds",
            buckets=names.FIRST_BUCKETS,
        )
        self._tokens = count(
            names.TOKEN_USAGE_METRIC, "Tokens of requests.", (names.OPERATION, *whose, names.TOKEN_TYPE)
        )
        self._calls = measure(
            names.TOOL_METRIC,
            "Seconds of calls that ran here.",
            (names.OPERATION, names.TOOL, names.ERROR),
            unit="seconds",
            buckets=names.DURATION_BUCKETS,
        )
        active = Gauge(
            names.spelled(names.ACTIVE_METRIC),
            "Requests under way.",
            [names.spelled(names.WIRE)],
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._departures = count(names.DEPARTURES_METRIC, "Clients that left before their answer.", (names.WIRE,))
        self._refusals = count(names.REFUSALS_METRIC, "Requests that were refused.", (names.REASON,))
        self._retries = count(names.RETRIES_METRIC, "Times that a model was asked again.", whose)
        self._breakers = count(names.BREAKERS_METRIC, "Times that an endpoint was left alone.", (names.PROVIDER,))
        self._active: Callable[[str], Gauge] = functools.cache(active.labels)
        self._ended = functools.cache(self._make_ended)
        self._waited = functools.cache(self._make_waited)

    def begin(self, wire: str) -> None:
        """A request has come."""
        self._active(wire).inc()

    def end(self, wire: str, model: str, status: int, seconds: float, usage: Usage) -> None:
        """It has ended. ``model`` is ``provider/model``, or nothing where none was asked."""
        self._active(wire).dec()
        ended = self._ended(wire, model, status)
        ended.count()
        ended.measure(seconds)
        if usage is not NO_USAGE:
            use, give = ended.use
            use(usage.input_tokens)
            give(usage.output_tokens)

    def wait(self, model: str, seconds: float) -> None:
        """The first byte of a stream has left."""
        self._waited(model)(seconds)

    def run(self, event: ResultReady) -> None:
        """A call has its result; one that did not run is not counted."""
        report, error = event.result.report, event.result.error
        if not report.attempts:
            return
        tool = event.tool
        if tool not in self._tools:
            if len(self._tools) >= _TOOLS:
                tool = names.OTHER
            self._tools.add(tool)
        self._calls.labels("execute_tool", tool, error.category if error else "").observe(report.duration_ms / 1000)

    def depart(self, wire: str) -> None:
        """A client has left."""
        self._departures.labels(wire).inc()

    def retry(self, model: str) -> None:
        """A model is asked again."""
        self._retries.labels(*_whose(model)).inc()

    def refuse(self, wire: str, refusal: Refusal, *, ended: bool = False) -> None:
        """A request was refused; ``ended`` where it never began."""
        self._refusals.labels(_reason(refusal)).inc()
        if ended:
            self._requests.labels(wire, *_whose(""), str(refusal.status)).inc()

    def count_openings(self) -> None:
        """Looks which endpoints are left alone that were not before."""
        for provider, openings in self._openings().items():
            before = self._opened.get(provider, 0)
            if openings > before:
                self._opened[provider] = openings
                self._breakers.labels(provider).inc(openings - before)

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        if _FOLDER is None:
            return generate_latest(self._registry)
        _forget_dead(pathlib.Path(_FOLDER))
        registry = CollectorRegistry()
        registry.register(_AllWorkers(pathlib.Path(_FOLDER)))
        return generate_latest(registry)

    def _make_ended(self, wire: str, model: str, status: int) -> _Ended:
        whose = _whose(model)
        tokens = functools.partial(self._tokens.labels, "chat", *whose)
        return _Ended(
            count=self._requests.labels(wire, *whose, str(status)).inc,
            measure=self._seconds.labels("chat", *whose, str(status) if status >= 400 else "").observe,
            # Without a model there are none, and nothing is told of them.
            use=tuple(tokens(kind).inc for kind in ("input", "output") if model),
        )

    def _make_waited(self, model: str) -> Callable[[float], None]:
        waited: Histogram = self._first.labels("chat", *_whose(model))
        return waited.observe


def _made(
    make: Any, registry: CollectorRegistry, name: str, what: str, labels: Sequence[str], *, unit: str = "", **more: Any
) -> Any:
    spelled = [names.spelled(label) for label in labels]
    return make(names.spelled(name, unit), what, spelled, registry=registry, **more)


def _whose(model: str) -> tuple[str, str]:
    provider, _, name = model.partition("/")
    return provider, name


def _reason(refusal: Refusal) -> str:
    """One of a fixed few."""
    if refusal.code in _REASONS:
        return refusal.code
    try:
        return http.HTTPStatus(refusal.status).name.lower()
    except ValueError:
        return names.OTHER


class _AllWorkers(Collector):
    """The samples of all workers. A file is empty for a moment when a worker makes it, and cannot be read then."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder

    def collect(self) -> Iterable[Metric]:
        collector: Any = MultiProcessCollector
        merged: Iterable[Metric] = collector.merge(list(self._filled()))
        return merged

    def _filled(self) -> Iterator[str]:
        for file in self._folder.glob("*.db"):
            with contextlib.suppress(FileNotFoundError):
                if file.stat().st_size:
                    yield str(file)


def _forget_dead(folder: pathlib.Path) -> None:
    """Workers that are gone have no requests under way; what they had counted stays."""
    for file in folder.glob("gauge_live*_*.db"):
        try:
            os.kill(int(file.stem.rpartition("_")[2]), 0)
        except ProcessLookupError:
            # Another worker may have seen it at the same time.
            file.unlink(missing_ok=True)
        except PermissionError:
            continue
