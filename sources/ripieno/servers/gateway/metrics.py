"""The Prometheus metrics at ``/metrics``: counts and times of requests, models and tools that run here.

Labels have names from the operator or a fixed set, never text of a client or a model. If
``PROMETHEUS_MULTIPROC_DIR`` names a folder, all workers write there, and each reports the sum.
"""

import contextlib
import functools
import http
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from ripieno.canisters.conversation import NO_USAGE, Usage
from ripieno.canisters.events import ResultReady
from ripieno.conducting.observers import conventions as names
from ripieno.models.protocol import Refusal

#: The folder of all workers. The library reads the variable once, when it is imported.
_FOLDER = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
#: The gateway's own reasons; a backend's code could be any text.
_REASONS = frozenset(
    {
        *("conflict", "context_length_exceeded", "invalid_api_key", "misdirected_request", "model_not_found"),
        *("origin_not_allowed", "server_overloaded", "timeout", "tool_failed", "unsupported_media_type"),
    }
)
#: The maximum number of tool labels: an MCP server may rename its tools without limit.
_TOOLS = 1000
_Count: TypeAlias = Callable[[], None]
_Measure: TypeAlias = Callable[[float], None]


class Metrics:
    """The metrics of one application. ``openings`` returns how often each provider's breaker has opened."""

    media_type = CONTENT_TYPE_LATEST

    def __init__(self, openings: Callable[[], Mapping[str, int]]) -> None:
        registry = self._registry = CollectorRegistry()
        self._openings = openings
        self._opened: dict[str, int] = {}
        self._tools: set[str] = set()
        whose = (names.PROVIDER, names.REQUEST_MODEL)
        count = functools.partial(_made, Counter, registry)
        measure = functools.partial(_made, Histogram, registry, unit="seconds", buckets=names.DURATION_BUCKETS)
        labels = (names.OPERATION, *whose)
        self._requests = count(names.REQUESTS_METRIC, "Requests that have ended.", (names.WIRE, *whose, names.STATUS))
        self._seconds = measure(
            names.SERVER_DURATION_METRIC, "Seconds of requests, to the last byte.", (*labels, names.ERROR)
        )
        self._first = measure(
            names.SERVER_FIRST_METRIC, "Seconds to the first byte of streams.", labels, buckets=names.FIRST_BUCKETS
        )
        self._tokens = count(names.TOKEN_USAGE_METRIC, "Tokens of requests.", (*labels, names.TOKEN_TYPE))
        self._calls = measure(
            names.TOOL_METRIC, "Seconds of calls that ran here.", (names.OPERATION, names.TOOL, names.ERROR)
        )
        active = Gauge(
            names.spelled(names.ACTIVE_METRIC),
            "Requests in progress.",
            [names.spelled(names.WIRE)],
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._departures = count(
            names.DEPARTURES_METRIC, "Clients that disconnected before the end of their answer.", (names.WIRE,)
        )
        self._refusals = count(names.REFUSALS_METRIC, "Requests that were refused.", (names.REASON,))
        self._retries = count(names.RETRIES_METRIC, "Retries of models.", whose)
        self._breakers = count(names.BREAKERS_METRIC, "Openings of breakers.", (names.PROVIDER,))
        # Cached, because the lookup by labels takes longer than the count (measured).
        self._active: Callable[[str], Gauge] = functools.cache(active.labels)
        self._ended = functools.cache(self._make_ended)
        self._waited = functools.cache(self._make_waited)

    def begin(self, wire: str) -> None:
        """Counts a request that begins."""
        self._active(wire).inc()

    def end(self, wire: str, model: str, status: int, seconds: float, usage: Usage) -> None:
        """Counts a request that has ended. ``model`` is ``provider/model``, or empty if none was asked."""
        self._active(wire).dec()
        count, measure, tokens = self._ended(wire, model, status)
        count()
        measure(seconds)
        if usage is not NO_USAGE:
            use, give = tokens
            use(usage.input_tokens)
            give(usage.output_tokens)

    def end_run(self, wire: str, model: str, usage: Usage) -> None:
        """Counts a background run that has ended: the request that began it has ended before."""
        self._active(wire).dec()
        if usage is not NO_USAGE:
            _, _, (use, give) = self._ended(wire, model, 200)
            use(usage.input_tokens)
            give(usage.output_tokens)

    def count(self, wire: str, status: int) -> None:
        """Counts a request that asks no model."""
        self._requests.labels(wire, *_whose(""), str(status)).inc()

    def wait(self, model: str, seconds: float) -> None:
        """Records the time to the first byte of a stream."""
        self._waited(model)(seconds)

    def run(self, event: ResultReady) -> None:
        """Records a call that has a result, if it ran."""
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
        """Counts a client that left."""
        self._departures.labels(wire).inc()

    def retry(self, model: str) -> None:
        """Counts a retry of a model."""
        self._retries.labels(*_whose(model)).inc()

    def refuse(self, wire: str, refusal: Refusal, *, ended: bool = False) -> None:
        """Counts a refused request; ``ended``: it never began."""
        self._refusals.labels(_reason(refusal)).inc()
        if ended:
            self.count(wire, refusal.status)

    def count_openings(self) -> None:
        """Counts breakers that have opened since the last call."""
        for provider, openings in self._openings().items():
            before = self._opened.get(provider, 0)
            if openings > before:
                self._opened[provider] = openings
                self._breakers.labels(provider).inc(openings - before)

    def text(self) -> bytes:
        """The metrics in the form of Prometheus."""
        if _FOLDER is None:
            return generate_latest(self._registry)
        _forget_dead(pathlib.Path(_FOLDER))
        registry = CollectorRegistry()
        registry.register(_AllWorkers(pathlib.Path(_FOLDER)))
        return generate_latest(registry)

    def _make_ended(self, wire: str, model: str, status: int) -> tuple[_Count, _Measure, tuple[_Measure, ...]]:
        whose = _whose(model)
        count: _Count = self._requests.labels(wire, *whose, str(status)).inc
        measure: _Measure = self._seconds.labels("chat", *whose, str(status) if status >= 400 else "").observe
        # Requests without a model have no tokens.
        kinds = ("input", "output") if model else ()
        return count, measure, tuple(self._tokens.labels("chat", *whose, kind).inc for kind in kinds)

    def _make_waited(self, model: str) -> _Measure:
        waited: _Measure = self._first.labels("chat", *_whose(model)).observe
        return waited


def _made(
    make: Any, registry: CollectorRegistry, name: str, what: str, labels: Sequence[str], *, unit: str = "", **more: Any
) -> Any:
    spelled = [names.spelled(label) for label in labels]
    return make(names.spelled(name, unit), what, spelled, registry=registry, **more)


def _whose(model: str) -> tuple[str, str]:
    provider, _, name = model.partition("/")
    return provider, name


def _reason(refusal: Refusal) -> str:
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
        filled: list[str] = []
        for file in self._folder.glob("*.db"):
            with contextlib.suppress(FileNotFoundError):
                if file.stat().st_size:
                    filled.append(str(file))
        collector: Any = MultiProcessCollector
        merged: Iterable[Metric] = collector.merge(filled)
        return merged


def _forget_dead(folder: pathlib.Path) -> None:
    """Removes the requests in progress of workers that are gone. Their counts stay."""
    for file in folder.glob("gauge_live*_*.db"):
        try:
            os.kill(int(file.stem.rpartition("_")[2]), 0)
        except ProcessLookupError:
            # Another worker may have removed it at the same time.
            file.unlink(missing_ok=True)
        except PermissionError:
            continue
