"""Spans and metrics of real runs, in OpenTelemetry's SDK in memory; and the same runs as logs."""

import asyncio
import contextvars
import io
import json
import logging
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.trace import SpanKind, StatusCode

from ripieno.canisters.controls import Limits, Rules
from ripieno.canisters.conversation import Usage
from ripieno.canisters.events import Event, TurnBegan, TurnEnded
from ripieno.conducting import conduct
from ripieno.conducting.observers import conventions
from ripieno.conducting.observers.logs import FIELDS, JsonFormatter, log_runs
from ripieno.conducting.observers.tracing import Telemetry
from ripieno.exceptions import ExecutionFault, ProviderUnreachable
from ripieno.execution import Execution
from ripieno.storage.redaction import HIDDEN
from tests.support.scripted_models import ensemble, invoke, invokes, results_of, says, scripted, tool
from tests.support.toml_ensembles import make_ensemble, server, surround

USED = Usage(input_tokens=100, output_tokens=7, cache_read_tokens=60, reasoning_tokens=3)
SECRET = "the-secret-of-the-house"


class Observed:
    """Telemetry in memory: spans and metric points by name."""

    def __init__(self, *, content: bool = False, secrets: Sequence[str] = ()) -> None:
        self.exporter = InMemorySpanExporter()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.tracer = tracers.get_tracer("test")
        self.telemetry = Telemetry(
            tracer_provider=tracers, meter_provider=MeterProvider([self.reader]), content=content, secrets=secrets
        )

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.exporter.get_finished_spans()}

    @property
    def points(self) -> dict[str, list[Any]]:
        data = self.reader.get_metrics_data()
        assert data is not None
        found = (one for resource in data.resource_metrics for scope in resource.scope_metrics for one in scope.metrics)
        return {metric.name: list(metric.data.data_points) for metric in found}

    async def follow(self, run: Any) -> list[Event]:
        """Forwards the events of a run, as whoever drives it does: in a task of its own."""
        return await asyncio.create_task(self._follow(run))

    async def _follow(self, run: Any) -> list[Event]:
        take = self.telemetry(run.conversation.identifier, run.model.identity)
        events = []
        async for event in run:
            take(event)
            events.append(event)
        return events


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def fail(context: Any, arguments: dict[str, Any]) -> str:
    raise ExecutionFault(f"It broke over {SECRET}.")


def played() -> Any:
    """A run of two turns: two calls that run, one of them fails, one that is denied, and one of no tool."""
    calls = (invoke("look", "a", path=SECRET), invoke("fail", "b"), invoke("burn", "c"), invoke("no_such_tool", "d"))
    model = scripted(invokes(*calls, usage=USED), says(f"I say {SECRET}.", usage=USED))
    tools = ensemble(tool("look"), tool("fail", fail), tool("burn", effect="destructive"))
    return conduct(model, "Go.", ensembles=[tools], execution=Execution(rules=Rules(deny=("mine.burn",))))


async def test_a_run_is_a_tree_of_spans() -> None:
    observed = Observed()
    run = played()
    await observed.follow(run)
    spans = observed.spans
    agent = spans["invoke_agent"]
    assert set(spans) == {"invoke_agent", "chat scripted", "execute_tool mine.look", "execute_tool mine.fail"}
    for name, span in spans.items():
        assert (span.parent is None) == (name == "invoke_agent")
        if span.parent is not None:
            assert span.parent == agent.context
            assert agent.start_time <= span.start_time <= span.end_time <= agent.end_time  # type: ignore[operator]
        assert attributes(span)["gen_ai.conversation.id"] == run.conversation.identifier
    kinds = {name.partition(" ")[0]: span.kind for name, span in spans.items()}
    assert kinds == {"invoke_agent": SpanKind.INTERNAL, "chat": SpanKind.CLIENT, "execute_tool": SpanKind.INTERNAL}
    assert attributes(agent) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "score",
        "gen_ai.request.model": "scripted",
        "gen_ai.conversation.id": run.conversation.identifier,
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 200,
        "gen_ai.usage.output_tokens": 14,
        "gen_ai.usage.cache_read.input_tokens": 120,
        "gen_ai.usage.reasoning.output_tokens": 6,
        "ripieno.turns": 2,
        "ripieno.calls": 2,
    }
    assert agent.status.status_code is StatusCode.UNSET
    refused = {event.attributes["gen_ai.tool.name"]: event.attributes["error.type"] for event in agent.events}  # type: ignore[index]
    assert refused == {"mine.burn": "denied", "no_such_tool": "unknown_tool"}


async def test_answers_and_calls_say_how_they_went() -> None:
    observed = Observed()
    await observed.follow(played())
    answers = [span for span in observed.exporter.get_finished_spans() if span.name == "chat scripted"]
    assert [attributes(span)["gen_ai.response.finish_reasons"] for span in answers] == [("invocations",), ("stop",)]
    assert [attributes(span)["ripieno.turn"] for span in answers] == [1, 2]
    assert ["gen_ai.response.time_to_first_chunk" in attributes(span) for span in answers] == [False, True]
    good, bad = (observed.spans[f"execute_tool mine.{name}"] for name in ("look", "fail"))
    assert attributes(good)["gen_ai.tool.call.id"] == "a"
    assert "error.type" not in attributes(good)
    assert attributes(bad)["error.type"] == "execution"
    assert (good.status.status_code, bad.status.status_code) == (StatusCode.UNSET, StatusCode.ERROR)
    # The second answer was asked for when the results were there.
    assert answers[1].start_time is not None
    assert bad.end_time is not None
    assert answers[1].start_time >= bad.end_time


async def test_metrics_count_tokens_and_time() -> None:
    observed = Observed()
    await observed.follow(played())
    points = observed.points
    tokens = {
        point.attributes["gen_ai.token.type"]: (point.count, point.sum) for point in points["gen_ai.client.token.usage"]
    }
    assert tokens == {"input": (2, 200), "output": (2, 14)}
    assert [point.count for point in points["gen_ai.client.operation.duration"]] == [2]
    assert [point.count for point in points["gen_ai.client.operation.time_to_first_chunk"]] == [1]
    assert [point.count for point in points["gen_ai.invoke_agent.duration"]] == [1]
    calls = {
        point.attributes["gen_ai.tool.name"]: point.attributes.get("error.type")
        for point in points["gen_ai.execute_tool.duration"]
    }
    assert calls == {"mine.look": None, "mine.fail": "execution"}
    # What would be another series for each conversation or call is in spans only.
    named = {name for group in points.values() for point in group for name in point.attributes}
    assert not named & {"gen_ai.conversation.id", "gen_ai.tool.call.id"}


@pytest.mark.parametrize("content", [False, True])
async def test_content_goes_out_only_when_it_is_wanted(content: bool) -> None:
    observed = Observed(content=content)
    await observed.follow(played())
    everything = "".join(span.to_json() for span in observed.exporter.get_finished_spans())
    assert (SECRET in everything) == content
    if content:
        spans = observed.spans
        assert json.loads(attributes(spans["execute_tool mine.look"])["gen_ai.tool.call.arguments"]) == {"path": SECRET}
        assert attributes(spans["execute_tool mine.look"])["gen_ai.tool.call.result"] == "look"
        said = json.loads(attributes(spans["chat scripted"])["gen_ai.output.messages"])
        assert said == [
            {"role": "assistant", "parts": [{"type": "text", "content": f"I say {SECRET}."}], "finish_reason": "stop"}
        ]


async def test_content_that_goes_out_has_no_secrets() -> None:
    observed = Observed(content=True, secrets=[SECRET])
    await observed.follow(played())
    everything = "".join(span.to_json() for span in observed.exporter.get_finished_spans())
    assert SECRET not in everything
    assert HIDDEN in everything


def test_the_environment_says_whether_content_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
    monkeypatch.delenv(name, raising=False)
    assert Telemetry().clean is None
    monkeypatch.setenv(name, "true")
    assert Telemetry().clean is not None
    assert Telemetry(content=False).clean is None
    assert not conventions.wants_telemetry({"PATH": "/bin"})
    assert conventions.wants_telemetry({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"})
    assert not conventions.wants_telemetry({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "true"})


async def test_a_run_that_fails_ends_all_of_its_spans() -> None:
    observed = Observed()
    lost = [TurnBegan(), ProviderUnreachable("house", "It is gone.")]
    run = conduct(scripted(lost), "Go.")
    with pytest.raises(ProviderUnreachable):
        await observed.follow(run)
    for name in ("invoke_agent", "chat scripted"):
        span = observed.spans[name]
        assert attributes(span)["error.type"] == "error"
        assert span.status.status_code is StatusCode.ERROR
    (point,) = observed.points["gen_ai.client.operation.duration"]
    assert point.attributes["error.type"] == "error"


async def test_a_limit_that_somebody_set_is_no_error() -> None:
    observed = Observed()
    model = scripted(invokes(invoke("look")))
    await observed.follow(conduct(model, "Go.", ensembles=[ensemble(tool("look"))], limits=Limits(turns=1)))
    assert observed.spans["invoke_agent"].status.status_code is StatusCode.UNSET
    assert attributes(observed.spans["invoke_agent"])["gen_ai.response.finish_reasons"] == ("limit",)


async def test_an_answer_that_is_begun_again_leaves_no_span_open() -> None:
    observed = Observed()
    await observed.follow(conduct(scripted([TurnBegan(), *says("Hi.")]), "Go."))
    chats = [span for span in observed.exporter.get_finished_spans() if span.name == "chat scripted"]
    assert [attributes(span).get("error.type") for span in chats] == ["_OTHER", None]


def test_the_model_that_answered_may_be_another_one() -> None:
    observed = Observed()
    take = observed.telemetry("c", "house/small")
    for event in (TurnBegan(model="small-2026-01", turn=1), TurnEnded(finish="stop", reason="end_turn", turn=1)):
        contextvars.copy_context().run(take, event)
    span = observed.spans["chat small"]
    assert attributes(span)["gen_ai.response.model"] == "small-2026-01"
    assert attributes(span)["gen_ai.response.finish_reasons"] == ("end_turn",)
    assert "gen_ai.usage.input_tokens" not in attributes(span)


async def test_a_run_that_nobody_follows_is_watched(lines: io.StringIO) -> None:
    observed = Observed()

    async def look(context: Any, arguments: dict[str, Any]) -> str:
        with observed.tracer.start_as_current_span(f"inner {context.invocation}"):
            return "seen"

    def listen() -> None:
        with observed.tracer.start_as_current_span("asking"):
            pass

    calls = [invoke("look", identifier) for identifier in ("a", "b")]
    model = scripted(invokes(*calls), [listen, *says("Done.", usage=USED)])
    watchers = [observed.telemetry, log_runs]
    await conduct(model, "Go.", ensembles=[ensemble(tool("look", look))], watchers=watchers)
    finished = observed.exporter.get_finished_spans()
    called = {attributes(span)["gen_ai.tool.call.id"]: span for span in finished if "execute_tool" in span.name}
    spans = observed.spans
    for inner, outer in (("inner a", called["a"]), ("inner b", called["b"]), ("asking", spans["invoke_agent"])):
        assert spans[inner].parent == outer.context is not None
    assert not trace.get_current_span().get_span_context().is_valid
    assert len(lines.getvalue().splitlines()) == 8


async def test_a_result_from_the_cache_is_a_call_that_took_no_time() -> None:
    observed = Observed()
    again = tool("look", cache=60.0)
    model = scripted(invokes(invoke("look", "a")), invokes(invoke("look", "b")), says())
    await conduct(model, "Go.", ensembles=[ensemble(again)], watchers=[observed.telemetry])
    calls = [span for span in observed.exporter.get_finished_spans() if span.name == "execute_tool mine.look"]
    assert [attributes(span).get("ripieno.tool.cached") for span in calls] == [None, True]
    assert observed.spans["invoke_agent"].events == ()


def test_every_name_is_one_of_the_conventions() -> None:
    known = {
        value
        for module in (gen_ai_attributes, gen_ai_metrics)
        for name, value in vars(module).items()
        if name.startswith("GEN_AI_") and isinstance(value, str)
    }
    ours = {
        value for name, value in vars(conventions).items() if isinstance(value, str) and value.startswith("gen_ai.")
    }
    # Two metrics are younger than the package of names.
    assert ours - known == {"gen_ai.invoke_agent.duration", "gen_ai.execute_tool.duration"}
    assert len(ours) > 20


def test_it_is_imported_by_nobody_who_does_not_want_it() -> None:
    names = ("conventions", "logs", "tracing")
    modules = [f"ripieno.conducting.observers.{name}" for name in names]
    look = f"import sys, ripieno, ripieno.assembly; print([one for one in {modules} if one in sys.modules])"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("ripieno.runs")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield stream
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


def test_lines_have_the_fields_of_their_run_whoever_reports_its_events(lines: io.StringIO) -> None:
    takes: list[Callable[[Event], None]] = []
    for run in ("one", "two"):
        context = contextvars.copy_context()
        context.run(FIELDS.set, {"run": run})
        takes.append(context.run(log_runs, run, "model"))
    # In the task of the last one, as where records of both are written together.
    for take in takes:
        context.run(take, TurnEnded(finish="stop"))
    told = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [(one["run"], one["conversation"]) for one in told] == [("one", "one"), ("two", "two")] * 2
    assert context[FIELDS] == {"run": "two"}


async def test_a_run_as_json_lines(lines: io.StringIO) -> None:
    run = played()
    take = log_runs(run.conversation.identifier, run.model.identity)
    async for event in run:
        take(event)
    told = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert {one["conversation"] for one in told} == {run.conversation.identifier}
    assert {one["logger"] for one in told} == {"ripieno.runs"}
    errors = {one["tool"]: one["error"] for one in told if "error" in one}
    assert errors == {
        "mine.look": None,
        "mine.fail": "execution",
        "mine.burn": "denied",
        "no_such_tool": "unknown_tool",
    }
    assert [one["turn"] for one in told if "finish" in one] == [1, 2, 2]
    assert [one["input_tokens"] for one in told if "input_tokens" in one] == [100, 100]
    assert SECRET not in lines.getvalue()


def test_an_exception_is_part_of_its_line(lines: io.StringIO) -> None:
    try:
        raise ValueError("no\nmore")
    except ValueError:
        logging.getLogger("ripieno.runs").exception("It %s.", "broke", extra={"tool": "mine.look", "what": object})
    (line,) = lines.getvalue().splitlines()
    told = json.loads(line)
    assert (told["message"], told["level"], told["tool"]) == ("It broke.", "error", "mine.look")
    assert "ValueError: no" in told["exception"]
    assert told["time"].endswith("+00:00")


async def test_the_trace_goes_on_in_an_mcp_server(tmp_path: pathlib.Path) -> None:
    observed = Observed()
    async with make_ensemble(server("well_behaved.py"), surround(tmp_path)) as connected:
        calls = [invoke(connected.access_invoker("trace").exposed, identifier) for identifier in ("a", "b")]
        run = conduct(
            scripted(invokes(*calls), says()),
            "Go.",
            ensembles=[connected],
            execution=Execution(rules=Rules(approve=("it.trace",))),
            watchers=[observed.telemetry],
        )
        parents = {one.invocation_id: one.text.split("-")[1:3] for one in results_of((await run).canisters)}
    spans = [one for one in observed.exporter.get_finished_spans() if one.name == "execute_tool it.trace"]
    contexts = {attributes(span)["gen_ai.tool.call.id"]: span.get_span_context() for span in spans}
    assert parents.keys() == {"a", "b"}
    assert parents == {
        identifier: [trace.format_trace_id(one.trace_id), trace.format_span_id(one.span_id)]
        for identifier, one in contexts.items()
        if one is not None
    }
