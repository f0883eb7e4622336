"""Who watches a command's runs, by its options and its environment."""

import json
import logging

import click
import pytest

from ripieno.cli.common.observers import LogFormat, logged, observed
from ripieno.conducting import conduct
from ripieno.conducting.observers.tracing import Telemetry
from tests.support.scripted_models import ensemble, invoke, invokes, says, scripted, tool


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_SDK_DISABLED", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER"):
        monkeypatch.delenv(name, raising=False)


async def log(form: LogFormat, *, debug: bool = False) -> None:
    model = scripted(invokes(invoke("look\x1b[2J", "a")), says())
    with observed(form, debug=debug) as watchers:
        await conduct(model, "Go.", ensembles=[ensemble(tool("look"))], watchers=watchers)


async def test_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    await log("json")
    told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [one["message"].split()[-1] for one in told] == [
        *("score/scripted.", "unknown_tool.", "invocations.", "stop.", "stop.")
    ]
    assert logging.getLogger("ripieno").handlers == []
    assert logging.getLogger("ripieno").level == logging.NOTSET


async def test_lines_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    await log("text", debug=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines[1].endswith(r"WARNING look\x1b[2J was refused: unknown_tool.")
    assert len(lines) == 5


def test_the_environment_brings_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    with observed(None) as watchers:
        assert watchers == ()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    with observed(None) as watchers:
        assert [type(one) for one in watchers] == [Telemetry]
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    with observed(None) as watchers:
        assert watchers == ()


def test_the_option_is_one_of_two_words() -> None:
    @click.command()
    @logged
    def command(log: LogFormat | None) -> None:
        raise click.exceptions.Exit(0 if log == "json" else 1)

    assert command.main(["--log-format", "json"], standalone_mode=False) == 0
    assert command.main([], standalone_mode=False) == 1
    with pytest.raises(click.BadParameter):
        command.main(["--log-format", "xml"], standalone_mode=False)
