"""Who watches a command's runs, by its options and its environment."""

import pytest

from ripieno.cli.common.observers import observed
from ripieno.conducting.observers.tracing import Telemetry


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_SDK_DISABLED", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER"):
        monkeypatch.delenv(name, raising=False)


def test_the_environment_brings_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    with observed(None) as watchers:
        assert watchers == ()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    with observed(None) as watchers:
        assert [type(one) for one in watchers] == [Telemetry]
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    with observed(None) as watchers:
        assert watchers == ()
