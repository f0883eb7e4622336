"""The names of OpenTelemetry's conventions for generative AI, and the attributes of events and results.

The conventions are in development and change; only this module has their names. Spans: ``invoke_agent``, ``chat``,
``execute_tool``. Names outside the conventions begin with ``ripieno.``.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ripieno.canisters import AssistantCanister, Canister, InvocationCanister, ResultCanister
from ripieno.canisters.contents import text_of
from ripieno.canisters.conversation import Usage
from ripieno.canisters.events import ExecutionBegan, ResultReady
from ripieno.jsonvalues import canonical, thaw
from ripieno.models.model import SCRIPTED

Attributes = dict[str, str | bool | int | float | tuple[str, ...]]

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
CONVERSATION = "gen_ai.conversation.id"
FINISH = "gen_ai.response.finish_reasons"
FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
TOKEN_TYPE = "gen_ai.token.type"
TOOL = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_CALL = "gen_ai.tool.call.id"
ERROR = "error.type"
STATUS = "http.response.status_code"
#: Content, which is sent only on request.
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"

TOKEN_USAGE_METRIC = "gen_ai.client.token.usage"
DURATION_METRIC = "gen_ai.client.operation.duration"
FIRST_CHUNK_METRIC = "gen_ai.client.operation.time_to_first_chunk"
AGENT_METRIC = "gen_ai.invoke_agent.duration"
TOOL_METRIC = "gen_ai.execute_tool.duration"
#: The bucket boundaries that the conventions recommend. They have none for calls, which use those of requests.
TOKEN_BUCKETS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
DURATION_BUCKETS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
AGENT_BUCKETS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6)

#: The metrics of a model server.
SERVER_DURATION_METRIC = "gen_ai.server.request.duration"
SERVER_FIRST_METRIC = "gen_ai.server.time_to_first_token"
FIRST_BUCKETS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
#: Names outside the conventions.
REQUESTS_METRIC = "ripieno.gateway.requests"
ACTIVE_METRIC = "ripieno.gateway.active_requests"
DEPARTURES_METRIC = "ripieno.gateway.departures"
REFUSALS_METRIC = "ripieno.gateway.refusals"
RETRIES_METRIC = "ripieno.gateway.retries"
BREAKERS_METRIC = "ripieno.gateway.breaker_openings"
WIRE = "ripieno.wire"
REASON = "ripieno.refusal.reason"

#: Redacts a text.
Clean = Callable[[str], str]
#: The variable that makes all instrumentations of generative AI send content.
_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
#: The finishes of a run that are errors; all others were requested, or are limits that were set.
FAILED = ("error", "aborted")
OTHER = "_OTHER"


def wants_content(environment: Mapping[str, str] | None = None) -> bool:
    """Whether the environment requests content."""
    variables = os.environ if environment is None else environment
    return variables.get(_CONTENT, "").strip().lower() in ("true", "1", "span_only", "span_and_event")


def wants_telemetry(environment: Mapping[str, str] | None = None) -> bool:
    """Whether the environment configures OpenTelemetry's SDK to export traces or metrics."""
    variables = os.environ if environment is None else environment
    if variables.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    return any(name.startswith(("OTEL_EXPORTER_", "OTEL_TRACES_", "OTEL_METRICS_")) for name in variables)


def spelled(name: str, unit: str = "") -> str:
    """A name in the form of Prometheus, with the unit by OpenTelemetry's rules for it."""
    return "_".join(filter(None, (name.replace(".", "_"), unit)))


def of_model(identity: str, names: Mapping[str, str]) -> Attributes:
    """Provider and model of an identity. ``names`` maps our names of providers to others."""
    provider, _, model = identity.partition(":" if identity.startswith(f"{SCRIPTED}:") else "/")
    return {PROVIDER: names.get(provider, provider), REQUEST_MODEL: model or provider}


def of_usage(usage: Usage) -> Attributes:
    """The tokens of a usage. Those of caches and of reasoning are present if they are not 0."""
    attributes: Attributes = {INPUT_TOKENS: usage.input_tokens, OUTPUT_TOKENS: usage.output_tokens}
    further = {
        CACHE_READ_TOKENS: usage.cache_read_tokens,
        CACHE_WRITE_TOKENS: usage.cache_write_tokens,
        REASONING_TOKENS: usage.reasoning_tokens,
    }
    return attributes | {name: count for name, count in further.items() if count}


def of_call(event: ExecutionBegan | ResultReady, clean: Clean | None) -> Attributes:
    """The attributes of a call. Its name is the identity ``ensemble.tool``, not the exposed name.

    ``clean`` redacts its arguments; with None they are left out.
    """
    attributes: Attributes = {
        OPERATION: "execute_tool",
        TOOL: event.tool,
        TOOL_TYPE: "function",
        TOOL_CALL: event.invocation.identifier,
    }
    if event.early:
        attributes["ripieno.tool.early"] = True
    if clean is not None:
        attributes[TOOL_ARGUMENTS] = clean(canonical(event.invocation.arguments).decode())
    return attributes


def of_result(event: ResultReady, clean: Clean | None) -> Attributes:
    """The attributes of a result. ``clean`` redacts its text; with None it is left out."""
    result, report = event.result, event.result.report
    attributes: Attributes = {"ripieno.tool.attempts": report.attempts}
    if report.cached:
        attributes["ripieno.tool.cached"] = True
    if report.sandbox is not None:
        attributes["ripieno.tool.sandbox"] = report.sandbox
    if event.discarded:
        attributes["ripieno.tool.discarded"] = True
    if result.error is not None:
        attributes[ERROR] = result.error.category
    if clean is not None:
        attributes[TOOL_RESULT] = clean(result.text)
    return attributes


def messages(canisters: Iterable[Canister], finish: str) -> str:
    """The assistant's message in the form of the conventions: JSON of ``{"role", "parts", "finish_reason"}``."""
    parts: list[dict[str, Any]] = []
    for canister in canisters:
        if isinstance(canister, AssistantCanister) and canister.text:
            parts.append({"type": "text", "content": text_of(canister.content)})
        elif isinstance(canister, InvocationCanister):
            arguments = thaw(canister.arguments)
            parts.append(
                {"type": "tool_call", "id": canister.identifier, "name": canister.name, "arguments": arguments}
            )
        elif isinstance(canister, ResultCanister):
            parts.append({"type": "tool_call_response", "id": canister.invocation_id, "result": canister.text})
    return canonical([{"role": "assistant", "parts": parts, "finish_reason": finish}]).decode()
