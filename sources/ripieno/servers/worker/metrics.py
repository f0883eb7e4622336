"""The Prometheus metrics of a worker: its runs, dead workers whose runs it gave back, and the queue of all.

It needs the extra ``otel``. Labels have names from a fixed set only.
"""

import contextlib
from collections.abc import Callable, Generator, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, start_http_server
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ripieno.exceptions import InputError
from ripieno.storage.dispatch.contract import QueueInspection

#: The bounds of the seconds of stretches.
_SECONDS = (0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
_STATES = ("queued", "scheduled", "running")


class WorkerMetrics:
    """The metrics of one worker. ``inspect`` looks at the queue at each scrape; it may raise ``InputError``."""

    def __init__(self, inspect: Callable[[], QueueInspection | None]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Queue(inspect))
        self._stretches = Histogram(
            "ripieno_worker_stretch_seconds",
            "Seconds of a run here, until its end, a question or a limit.",
            ["finish"],
            registry=self._registry,
            buckets=_SECONDS,
        )
        self._takeovers = Counter(
            "ripieno_worker_takeovers", "Dead workers whose runs this one gave back.", registry=self._registry
        )

    def end(self, finish: str, seconds: float) -> None:
        """Counts a stretch that has ended, or was given back to the queue (``finish`` is then ``given_back``)."""
        self._stretches.labels(finish).observe(seconds)

    def take_over(self) -> None:
        """Counts a dead worker."""
        self._takeovers.inc()

    @contextlib.contextmanager
    def served(self, host: str, port: int) -> Generator[int, None, None]:
        """Serves them at ``http://host:port/metrics`` in a thread; 0 is any free port. Yields the port.

        Errors: ``InputError`` if that is not possible.
        """
        try:
            server, thread = start_http_server(port, host, self._registry)
        except OSError as error:
            raise InputError(
                f"The metrics cannot be served at {host}:{port} ({error.strerror or error}). Name another port."
            ) from error
        try:
            yield server.server_port
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


class _Queue(Collector):
    def __init__(self, inspect: Callable[[], QueueInspection | None]) -> None:
        self._inspect = inspect

    def collect(self) -> Iterable[Metric]:
        try:
            found = self._inspect() or QueueInspection()
        except InputError:
            # Without a figure: an alert on absence tells a database that is away from an empty queue.
            return
        submissions = GaugeMetricFamily("ripieno_queue_submissions", "Submitted runs of all workers.", labels=["state"])
        for state in _STATES:
            submissions.add_metric([state], getattr(found, state))
        yield submissions
        yield GaugeMetricFamily("ripieno_queue_workers", "Workers that are alive.", value=found.workers)
