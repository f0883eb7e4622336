"""OpenTelemetry spans and metrics of runs, made from events. The configuration of its SDK decides where they go.

::

    async with assemble(watchers=[Telemetry()]) as assembly:
        await assembly.conduct("What is in README.rst?")

``invoke_agent`` is a run; it contains a ``chat`` for each answer and an ``execute_tool`` for each call. A call's span
is current while the call runs: the spans of instrumented libraries are inside it, and MCP servers get it
(``traceparent``), since the MCP SDK passes the current span on. Texts, arguments and results are sent only if content
is enabled.
"""

import dataclasses
import functools
import time
from collections.abc import Callable, Iterable, Mapping

from opentelemetry import context as contexts
from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Span, SpanKind, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ripieno.canisters.conversation import NO_USAGE
from ripieno.canisters.events import (
    ArgumentsDelta,
    ConductEnded,
    ConfirmationRequested,
    ContentSealed,
    Event,
    ExecutionBegan,
    InvocationBegan,
    InvocationSealed,
    ReasoningDelta,
    ResultReady,
    TextDelta,
    TurnBegan,
    TurnEnded,
    collect,
)
from ripieno.conducting.observers import conventions as names
from ripieno.conducting.observers.conventions import Attributes
from ripieno.storage.redaction import Redactor

_SCOPE = "ripieno"
_PARENT = TraceContextTextMapPropagator()


class Telemetry:
    """A watcher: called with a conversation's identifier and ``provider/model``, returns a function that takes events.

    The providers of tracers and meters default to the global ones. ``content`` sends arguments, results and answers;
    None reads the environment (``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT``). ``secrets`` are redacted in it.
    ``provider_names`` maps our names of providers to those of the conventions, where they differ.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        content: bool | None = None,
        secrets: Iterable[str] = (),
        provider_names: Mapping[str, str] | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.clean = Redactor(secrets).text if (names.wants_content() if content is None else content) else None
        self.provider_names = provider_names or {}
        self.clock = clock
        self.tracer = trace.get_tracer(_SCOPE, tracer_provider=tracer_provider)
        meter = metrics.get_meter(_SCOPE, meter_provider=meter_provider)
        self.tokens = meter.create_histogram(
            names.TOKEN_USAGE_METRIC,
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=names.TOKEN_BUCKETS,
        )

        def durations(name: str, what: str, buckets: tuple[float, ...]) -> metrics.Histogram:
            return meter.create_histogram(name, "s", what, explicit_bucket_boundaries_advisory=buckets)

        self.answers = durations(names.DURATION_METRIC, "GenAI operation duration.", names.DURATION_BUCKETS)
        self.first_chunks = durations(
            names.FIRST_CHUNK_METRIC, "Time to receive the first chunk.", names.DURATION_BUCKETS
        )
        self.runs = durations(names.AGENT_METRIC, "Duration of a whole run.", names.AGENT_BUCKETS)
        self.calls = durations(names.TOOL_METRIC, "Duration of a call.", names.DURATION_BUCKETS)

    def __call__(self, conversation: str, model: str) -> Callable[[Event], None]:
        """Begins the spans of a run, in the task that drives it; returns the function that takes its events."""
        return _Watch(self, conversation, model).take


@dataclasses.dataclass(slots=True)
class _Answer:
    span: Span
    began: int
    attributes: Attributes
    heard: bool = False
    sealed: list[Event] = dataclasses.field(default_factory=list[Event])


class _Watch:
    def __init__(self, telemetry: Telemetry, conversation: str, model: str) -> None:
        self._telemetry = telemetry
        self._identity = model
        self._model = names.of_model(model, telemetry.provider_names)
        self._conversation = conversation
        self._began = self._requested = telemetry.clock()
        attributes: Attributes = {names.OPERATION: "invoke_agent", names.CONVERSATION: conversation, **self._model}
        self._run = telemetry.tracer.start_span("invoke_agent", attributes=attributes, start_time=self._began)
        self._context: Context = trace.set_span_in_context(self._run)
        self._answer: _Answer | None = None
        self._calls: dict[str, tuple[Span, int, str]] = {}

    def take(self, event: Event) -> None:
        """Takes one event."""
        match event:
            case TextDelta() | ReasoningDelta() | InvocationBegan() | ArgumentsDelta():
                if self._answer is not None and not self._answer.heard:
                    self._hear(self._answer)
            case ContentSealed() | InvocationSealed():
                if self._telemetry.clean is not None and self._answer is not None:
                    self._answer.sealed.append(event)
            case TurnBegan():
                self._begin_answer(event)
            case TurnEnded():
                self._end_answer(event)
            case ExecutionBegan():
                self._begin_call(event)
            case ResultReady():
                self._end_call(event)
            case ConfirmationRequested():
                self._run.add_event(
                    "ripieno.confirmation_requested", {names.TOOL: event.tool, "ripieno.tool.effect": event.effect}
                )
            case ConductEnded():
                self._end(event)
            case _:
                pass

    def _begin_answer(self, event: TurnBegan) -> None:
        # The work of the driving task between calls is inside the run's span.
        contexts.attach(self._context)
        if self._answer is not None:
            # A retry, or a fallback to another model.
            self._lose(self._answer, names.OTHER)
        attributes: Attributes = {names.OPERATION: "chat", **self._model}
        if event.model and event.model != self._identity:
            attributes[names.RESPONSE_MODEL] = event.model
        span = self._telemetry.tracer.start_span(
            f"chat {self._model[names.REQUEST_MODEL]}",
            context=self._context,
            kind=SpanKind.CLIENT,
            attributes={**attributes, names.CONVERSATION: self._conversation, "ripieno.turn": event.turn},
            start_time=self._requested,
        )
        self._answer = _Answer(span, self._requested, attributes)

    def _hear(self, answer: _Answer) -> None:
        answer.heard = True
        seconds = (self._telemetry.clock() - answer.began) / 1e9
        answer.span.set_attribute(names.FIRST_CHUNK, seconds)
        self._telemetry.first_chunks.record(seconds, answer.attributes, self._context)

    def _end_answer(self, event: TurnEnded) -> None:
        answer, self._answer = self._answer, None
        contexts.attach(self._context)
        self._requested = now = self._telemetry.clock()
        if answer is None:
            return
        answer.span.set_attribute(names.FINISH, (event.reason or event.finish,))
        if event.usage != NO_USAGE:
            answer.span.set_attributes(names.of_usage(event.usage))
            for kind, count in (("input", event.usage.input_tokens), ("output", event.usage.output_tokens)):
                self._telemetry.tokens.record(count, {**answer.attributes, names.TOKEN_TYPE: kind}, self._context)
        if self._telemetry.clean is not None:
            said = names.messages(collect(answer.sealed), event.finish)
            answer.span.set_attribute(names.OUTPUT_MESSAGES, self._telemetry.clean(said))
        answer.span.end(now)
        self._telemetry.answers.record((now - answer.began) / 1e9, answer.attributes, self._context)

    def _lose(self, answer: _Answer, why: str) -> None:
        self._requested = now = self._telemetry.clock()
        answer.span.set_attribute(names.ERROR, why)
        answer.span.set_status(StatusCode.ERROR)
        answer.span.end(now)
        attributes = {**answer.attributes, names.ERROR: why}
        self._telemetry.answers.record((now - answer.began) / 1e9, attributes, self._context)

    def _start_call(self, event: ExecutionBegan | ResultReady, began: int) -> Span:
        attributes = names.of_call(event, self._telemetry.clean)
        return self._telemetry.tracer.start_span(
            f"execute_tool {event.tool}",
            context=self._context,
            attributes={**attributes, names.CONVERSATION: self._conversation},
            start_time=began,
        )

    def _begin_call(self, event: ExecutionBegan) -> None:
        began = self._telemetry.clock()
        span = self._start_call(event, began)
        self._calls[event.invocation.identifier] = (span, began, event.tool)
        # The call's task, which is created next, copies this context.
        contexts.attach(trace.set_span_in_context(span, self._context))

    def _end_call(self, event: ResultReady) -> None:
        self._requested = now = self._telemetry.clock()
        begun = self._calls.pop(event.invocation.identifier, None)
        if begun is None:
            if event.result.report.cached:
                span = self._start_call(event, now)
                span.set_attributes(names.of_result(event, self._telemetry.clean))
                span.end(now)
            else:
                error = event.result.error
                refusal = {names.TOOL: event.tool, names.TOOL_CALL: event.invocation.identifier}
                refusal[names.ERROR] = error.category if error else names.OTHER
                self._run.add_event("ripieno.call_refused", refusal)
            return
        span, began, tool = begun
        span.set_attributes(names.of_result(event, self._telemetry.clean))
        attributes: Attributes = {names.OPERATION: "execute_tool", names.TOOL: tool}
        if event.result.error is not None:
            attributes[names.ERROR] = event.result.error.category
            span.set_status(StatusCode.ERROR)
        span.end(now)
        self._telemetry.calls.record((now - began) / 1e9, attributes, self._context)

    def _end(self, event: ConductEnded) -> None:
        if self._answer is not None:
            self._lose(self._answer, event.finish)
            self._answer = None
        for span, _, _ in self._calls.values():
            span.set_attribute(names.ERROR, names.OTHER)
            span.end(self._telemetry.clock())
        self._calls.clear()
        attributes: Attributes = {names.OPERATION: "invoke_agent", **self._model}
        ended: Attributes = {names.FINISH: (event.finish,), "ripieno.turns": event.turns, "ripieno.calls": event.calls}
        self._run.set_attributes(ended)
        if event.usage != NO_USAGE:
            self._run.set_attributes(names.of_usage(event.usage))
        if event.finish in names.FAILED:
            attributes[names.ERROR] = event.finish
            self._run.set_attribute(names.ERROR, event.finish)
            self._run.set_status(StatusCode.ERROR)
        now = self._telemetry.clock()
        self._run.end(now)
        self._telemetry.runs.record((now - self._began) / 1e9, attributes, self._context)


def adopt(headers: Iterable[tuple[bytes, bytes]]) -> Callable[[], None]:
    """Makes the span of a request (``traceparent``) the parent of this task's spans; returns the function to undo that.

    If a span is already current, this does nothing. Baggage is ignored: it would be passed on to other servers.
    """
    if trace.get_current_span().get_span_context().is_valid:
        return lambda: None
    carrier = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers if name.startswith(b"trace")}
    return functools.partial(contexts.detach, contexts.attach(_PARENT.extract(carrier)))
