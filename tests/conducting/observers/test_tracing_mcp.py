"""A server of the Model Context Protocol is told on behalf of which call it is asked."""

import pathlib

from opentelemetry import trace

from ripieno.canisters.controls import Rules
from ripieno.conducting import conduct
from ripieno.execution import Execution
from tests.conducting.observers.test_tracing import Observed, attributes
from tests.support.scripted_models import invoke, invokes, results_of, says, scripted
from tests.support.toml_ensembles import make_ensemble, server, surround


async def test_the_trace_goes_on_in_the_server(tmp_path: pathlib.Path) -> None:
    observed = Observed()
    connected = make_ensemble(server("trace_context.py"), surround(tmp_path))
    execution = Execution(rules=Rules(approve=("it.trace",)))
    async with connected:
        calls = [invoke(connected.access_invoker("trace").exposed, identifier) for identifier in ("a", "b")]
        run = conduct(
            scripted(invokes(*calls), says()),
            "Go.",
            ensembles=[connected],
            execution=execution,
            watchers=[observed.telemetry],
        )
        conversation = await run
    told = {one.invocation_id: one.text for one in results_of(conversation.canisters)}
    spans = {
        attributes(span)["gen_ai.tool.call.id"]: span
        for span in observed.exporter.get_finished_spans()
        if span.name == "execute_tool it.trace"
    }
    assert set(told) == set(spans) == {"a", "b"}
    for identifier, span in spans.items():
        assert span.context is not None
        trace_id, span_id = trace.format_trace_id(span.context.trace_id), trace.format_span_id(span.context.span_id)
        assert told[identifier].split("-")[1:3] == [trace_id, span_id]
