"""Every parameter that a wire's SDK knows: a server of ours honours it, takes it, or refuses it by its name."""

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

import pytest
from anthropic.resources.beta.messages import AsyncMessages as BetaMessages
from anthropic.resources.messages import AsyncMessages
from google.genai.types import GenerationConfig
from openai.resources.chat.completions import AsyncCompletions
from openai.resources.responses import AsyncResponses

from ripieno.canisters.controls import Format
from ripieno.exceptions import RequestInvalidity
from ripieno.jsonvalues import freeze, is_table
from ripieno.models import Protocol
from ripieno.models.protocol import HostedTool
from ripieno.models.protocols.anthropic import PROTOCOL as ANTHROPIC
from ripieno.models.protocols.gemini import PROTOCOL as GEMINI
from ripieno.models.protocols.openai_chat import PROTOCOL as CHAT
from ripieno.models.protocols.openai_responses import PROTOCOL as RESPONSES

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
FITTING = Format(kind="json_schema", name="place", schema=freeze(SCHEMA), strict=True, description="Where.")
UNNAMED = Format(kind="json_schema", schema=freeze(SCHEMA))
ANY = Format(kind="json_object")
SAID = {"name": "place", "schema": SCHEMA, "strict": True, "description": "Where."}

#: By wire: what a request has besides; what it honours, and how that reads; what it takes; what it refuses.
Row = tuple[str, Any]
#: Controls that both OpenAI wires read by their own names; nothing else changes.
TUNED = {"seed": 0, "presence_penalty": -0.5, "frequency_penalty": 0.0, "logit_bias": {"50256": -100}}
BASE: Mapping[str, dict[str, Any]] = {
    RESPONSES.name: {"model": "m", "input": "Hi.", "tools": [{"type": "function", "name": "f"}]},
    CHAT.name: {"model": "m", "messages": [], "tools": [{"type": "function", "function": {"name": "f"}}]},
    ANTHROPIC.name: {"model": "m", "messages": [], "tools": [{"name": "f", "input_schema": {}}]},
    GEMINI.name: {"model": "m", "contents": [], "tools": [{"functionDeclarations": [{"name": "f"}, {"name": "g"}]}]},
}
HONOURED: Mapping[str, list[tuple[str, Any, dict[str, Any]]]] = {
    RESPONSES.name: [
        ("temperature", 0.5, {"temperature": 0.5}),
        ("top_p", 0.5, {"top_p": 0.5}),
        ("max_output_tokens", 99, {"output_tokens": 99}),
        *((key, value, {key: value}) for key, value in TUNED.items()),
        ("max_tool_calls", 3, {"tool_calls": 3}),
        ("parallel_tool_calls", False, {"parallel": False}),
        ("stream", True, {"stream": True}),
        ("reasoning", {"effort": "minimal", "summary": "auto"}, {"reasoning": "low"}),
        ("text", {"format": {"type": "json_schema", **SAID}, "verbosity": "low"}, {"format": FITTING}),
        ("text", {"format": {"type": "json_object"}}, {"format": ANY}),
        ("text", {"format": {"type": "text"}}, {"format": None}),
        ("tool_choice", "required", {"tool_choice": "required"}),
        ("tool_choice", {"type": "function", "name": "f"}, {"tool_choice": "f"}),
        ("tool_choice", {"type": "function", "function": {"name": "f"}}, {"tool_choice": "f"}),
        ("tool_choice", {"type": "custom", "name": "f"}, {"tool_choice": "f"}),
    ],
    CHAT.name: [
        ("temperature", 0.5, {"temperature": 0.5}),
        ("top_p", 0.5, {"top_p": 0.5}),
        ("max_tokens", 99, {"output_tokens": 99}),
        *((key, value, {key: value}) for key, value in TUNED.items()),
        ("max_completion_tokens", 99, {"output_tokens": 99}),
        *(("logprobs", True, {"logprobs": True}), ("top_logprobs", 3, {"top_logprobs": 3})),
        ("stop", "END", {"stop": ("END",)}),
        ("stop", ["A", "B"], {"stop": ("A", "B")}),
        ("parallel_tool_calls", False, {"parallel": False}),
        ("stream", True, {"stream": True}),
        ("reasoning_effort", "xhigh", {"reasoning": "high"}),
        ("response_format", {"type": "json_schema", "json_schema": SAID}, {"format": FITTING}),
        ("response_format", {"type": "json_object"}, {"format": ANY}),
        ("response_format", {"type": "text"}, {"format": None}),
        ("tool_choice", "none", {"tool_choice": "none"}),
        ("tool_choice", {"type": "function", "function": {"name": "f"}}, {"tool_choice": "f"}),
        ("tool_choice", {"type": "function", "name": "f"}, {"tool_choice": "f"}),
    ],
    ANTHROPIC.name: [
        ("temperature", 0.5, {"temperature": 0.5}),
        ("top_p", 0.5, {"top_p": 0.5}),
        ("max_tokens", 99, {"output_tokens": 99}),
        ("stop_sequences", ["A"], {"stop": ("A",)}),
        ("stream", True, {"stream": True}),
        ("thinking", {"type": "disabled"}, {"reasoning": "none"}),
        ("thinking", {"type": "adaptive"}, {"reasoning": None}),
        ("thinking", {"type": "enabled", "budget_tokens": 2000}, {"reasoning": "low"}),
        ("thinking", {"type": "enabled", "budget_tokens": 10_000}, {"reasoning": "medium"}),
        ("thinking", {"type": "enabled", "budget_tokens": 31_999}, {"reasoning": "high"}),
        ("output_config", {"effort": "max"}, {"reasoning": "high"}),
        ("output_config", {"format": {"type": "json_schema", "schema": SCHEMA}}, {"format": UNNAMED}),
        ("tool_choice", {"type": "any"}, {"tool_choice": "required"}),
        ("tool_choice", {"type": "tool", "name": "f"}, {"tool_choice": "f"}),
        (
            "tool_choice",
            {"type": "auto", "disable_parallel_tool_use": True},
            {"tool_choice": "auto", "parallel": False},
        ),
    ],
    GEMINI.name: [
        ("generationConfig", {"temperature": 0.5, "topP": 0.5}, {"temperature": 0.5, "top_p": 0.5}),
        ("generationConfig", {"maxOutputTokens": 99, "stopSequences": ["A"]}, {"output_tokens": 99, "stop": ("A",)}),
        ("generationConfig", {"seed": 3, "frequencyPenalty": 2}, {"seed": 3, "frequency_penalty": 2}),
        ("generationConfig", {"presence_penalty": 0}, {"presence_penalty": 0}),
        ("generationConfig", {"thinkingConfig": {"thinkingLevel": "LOW"}}, {"reasoning": "low"}),
        ("generationConfig", {"responseMimeType": "application/json"}, {"format": ANY}),
        ("generationConfig", {"response_json_schema": SCHEMA}, {"format": UNNAMED}),
        (
            "generationConfig",
            {"responseSchema": {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}}},
            {"format": UNNAMED},
        ),
        ("generationConfig", {"responseMimeType": "text/plain"}, {"format": None}),
        ("generation_config", {"thinking_config": {"thinking_level": "XHIGH"}}, {"reasoning": "high"}),
        *(
            ("generationConfig", {"thinkingConfig": thinking}, {"reasoning": reasoning})
            for thinking, reasoning in (
                ({"thinkingLevel": "minimal"}, "none"),
                ({"thinkingLevel": "THINKING_LEVEL_UNSPECIFIED"}, None),
                ({"thinkingBudget": -1}, None),
                ({"thinkingBudget": 512}, "low"),
                ({"thinkingBudget": 99999}, "high"),
                ({"includeThoughts": True}, None),
            )
        ),
        *(
            ("tool_config", {"function_calling_config": config}, {"tool_choice": choice, "allowed_tools": allowed})
            for config, choice, allowed in (
                ({}, None, None),
                ({"mode": "MODE_UNSPECIFIED"}, None, None),
                ({"mode": "AUTO"}, "auto", None),
                ({"mode": "NONE"}, "none", None),
                ({"mode": "ANY"}, "required", None),
                ({"mode": "ANY", "allowed_function_names": ["f"]}, "f", None),
                ({"mode": "ANY", "allowedFunctionNames": ["f", "g"]}, "required", ("f", "g")),
                ({"mode": "VALIDATED"}, "auto", None),
                ({"mode": "VALIDATED", "allowedFunctionNames": ["f"]}, "auto", ("f",)),
            )
        ),
    ],
}
TAKEN: Mapping[str, list[Row]] = {
    RESPONSES.name: [
        ("store", False),
        ("store", True),
        ("metadata", {"a": "b"}),
        *((key, "some text") for key in ("user", "safety_identifier", "prompt_cache_key", "service_tier")),
        ("prompt_cache_retention", "24h"),
        ("prompt_cache_options", {"mode": "implicit"}),
        ("stream_options", {"include_obfuscation": False}),
        ("include", ["reasoning.encrypted_content", "web_search_call.results"]),
        ("truncation", "disabled"),
        ("background", False),
        ("background_options", {"completion_window": "2h"}),
        ("context_management", []),
        ("image", {"context_compression": "auto"}),
        ("top_logprobs", 0),
        ("text", {"verbosity": "low"}),
        ("reasoning", {"summary": "auto"}),
        ("client_metadata", {"x": 1}),
        *((key, None) for key in ("instructions", "previous_response_id")),
    ],
    CHAT.name: [
        ("n", 1),
        ("logprobs", False),
        ("top_logprobs", 0),
        *((key, {}) for key in ("metadata", "prompt_cache_options")),
        ("modalities", ["text"]),
        ("function_call", "auto"),
        *(("functions", []), ("seed", None)),
        ("stream_options", {"include_usage": True}),
        ("store", True),
        *((key, "some text") for key in ("user", "safety_identifier", "prompt_cache_key", "service_tier")),
        ("verbosity", "low"),
        ("prompt_cache_retention", "24h"),
        ("min_p", 0.1),
    ],
    ANTHROPIC.name: [
        ("metadata", {"user_id": "u"}),
        ("cache_control", {"type": "ephemeral"}),
        *((key, "some text") for key in ("service_tier", "speed", "user_profile_id", "workspace_id")),
        *((key, "some text") for key in ("billing_policy", "fallback_credit_token")),
        *(("diagnostics", {}), ("betas", ["x"]), ("inference_geo", "global")),
        *((key, []) for key in ("fallbacks", "mcp_servers")),
        ("context_management", {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}),
        ("thinking", {"type": "between_tools"}),
        ("system", "Be brief."),
        ("system", [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]),
    ],
    GEMINI.name: [
        ("safetySettings", [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]),
        ("generationConfig", {"candidateCount": 1, "responseModalities": ["TEXT"]}),
        ("labels", {"a": "b"}),
    ],
}
REFUSED: Mapping[str, list[Row]] = {
    RESPONSES.name: [
        ("previous_response_id", "resp_1"),
        ("conversation", {"id": "conv_1"}),
        ("prompt", {"id": "pmpt_1"}),
        ("background", True),
        ("truncation", "auto"),
        ("context_management", [{"type": "compaction"}]),
        ("image", {"context_compression": "enabled"}),
        ("include", ["everything"]),
        ("include", ["message.output_text.logprobs"]),
        ("include", "everything"),
        ("moderation", {"model": "m"}),
        ("access_programs", {"cyber": "daybreak_red"}),
        ("presence_penalty", "high"),
        ("seed", 1.5),
        ("logit_bias", {"50256": "low"}),
        *(("top_logprobs", 3), ("logprobs", True)),
        ("max_tool_calls", 0),
        ("max_output_tokens", 1.5),
        ("temperature", "hot"),
        ("stream", "yes"),
        ("text", {"format": {"type": "yaml"}}),
        ("text", {"format": {"type": "json_schema"}}),
        ("text", "short"),
        ("reasoning", {"mode": "pro"}),
        ("reasoning", {"effort": "huge"}),
        ("tool_choice", "sometimes"),
        ("tool_choice", {"type": "function", "name": "g"}),
        ("tool_choice", {"type": "function"}),
        ("tool_choice", {"type": "allowed_tools", "mode": "never", "tools": []}),
        ("tool_choice", {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "g"}]}),
        ("input", [{"type": "item_reference", "id": "msg_1"}]),
        ("tools", [{"type": "function", "name": "f"}, {"type": "function", "name": "f"}]),
        ("tools", [{"type": "function", "name": "f", "parameters": {"type": "array"}}]),
        ("tools", [{"type": 7}]),
    ],
    CHAT.name: [
        ("n", 2),
        *((key, "high") for key in ("logprobs", "top_logprobs")),
        *((key, "high") for key in ("presence_penalty", "frequency_penalty", "logit_bias", "seed")),
        ("functions", [{"name": "f"}]),
        ("function_call", {"name": "f"}),
        ("audio", {"voice": "alloy", "format": "mp3"}),
        ("modalities", ["text", "audio"]),
        ("prediction", {"type": "content", "content": "x"}),
        ("web_search_options", {}),
        ("moderation", {"model": "m"}),
        ("response_format", {"type": "xml"}),
        ("tool_choice", {"type": "function", "function": {"name": "g"}}),
        ("tools", [{"type": "custom", "custom": {"name": "f"}}]),
        ("max_tokens", 0),
        ("stop", 7),
    ],
    ANTHROPIC.name: [
        ("top_k", 40),
        ("container", "c"),
        ("thread", {"id": "t"}),
        ("compaction", {"enabled": True}),
        ("context_management", {"edits": [{"type": "compact_20260112"}]}),
        ("fallbacks", [{"model": "x"}]),
        ("inference_geo", "eu"),
        ("thinking", {"type": "sometimes"}),
        ("output_config", {"format": {"type": "json_schema"}}),
        ("tool_choice", {"type": "tool", "name": "g"}),
        ("tool_choice", {"type": "tool"}),
        ("tool_choice", {"type": "magic"}),
        ("mcp_servers", [{"type": "url", "url": "https://example.org"}]),
    ],
    GEMINI.name: [
        ("cachedContent", "cachedContents/x"),
        ("modelArmorConfig", {"promptTemplateName": "x"}),
        ("safetySettings", [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_LOW_AND_ABOVE"}]),
        ("toolConfig", {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["h"]}}),
    ],
}
REFUSED_GENERATION: Mapping[str, Any] = {
    **dict.fromkeys(("candidateCount", "topK", "logprobs"), 3),
    **dict.fromkeys(("seed", "presencePenalty", "frequency_penalty"), "high"),
    **dict.fromkeys(("responseLogprobs", "audioTimestamp"), True),
    **dict.fromkeys(("enableAffectiveDialog", "enableEnhancedCivicAnswers"), True),
    **{key: {} for key in ("speechConfig", "responseFormat", "audioTranscriptionConfig", "translationConfig")},
    **{key: {} for key in ("routingConfig", "modelSelectionConfig")},
    "responseModalities": ["IMAGE"],
    "mediaResolution": "MEDIA_RESOLUTION_LOW",
    "responseMimeType": "text/x.enum",
    "responseJsonSchema": 7,
}
PROTOCOLS = {protocol.name: protocol for protocol in (RESPONSES, CHAT, ANTHROPIC, GEMINI)}
#: Read with the conversation or the tools, or no part of the body at all.
ELSEWHERE = {"self", "model", "input", "messages", "tools", "extra_headers", "extra_query", "extra_body", "timeout"}


def rows(table: Mapping[str, list[Any]]) -> list[Any]:
    return [
        pytest.param(PROTOCOLS[name], *row, id=f"{name}-{row[0]}-{place}")
        for name, found in table.items()
        for place, row in enumerate(found)
    ]


@pytest.mark.parametrize(("protocol", "parameter", "value", "fields"), rows(HONOURED))
def test_it_is_honoured(protocol: Protocol, parameter: str, value: Any, fields: dict[str, Any]) -> None:
    plain = protocol.parse(BASE[protocol.name]).controls
    read = protocol.parse({**BASE[protocol.name], parameter: value}).controls
    assert read == dataclasses.replace(plain, **fields)


@pytest.mark.parametrize(("protocol", "parameter", "value"), rows(TAKEN))
def test_it_is_taken_and_changes_no_control(protocol: Protocol, parameter: str, value: Any) -> None:
    plain = protocol.parse(BASE[protocol.name])
    read = protocol.parse({**BASE[protocol.name], parameter: value})
    assert (read.controls, read.tools, read.hosted) == (plain.controls, plain.tools, plain.hosted)
    assert read.native[parameter] == value


@pytest.mark.parametrize(
    ("protocol", "parameter", "value"),
    [*rows(REFUSED), *((GEMINI, "generationConfig", {key: value}) for key, value in REFUSED_GENERATION.items())],
)
def test_it_is_refused_by_its_name(protocol: Protocol, parameter: str, value: Any) -> None:
    def read() -> None:
        # The choice of a tool that the request does not declare is refused later: the gateway may have it.
        for refusal in protocol.parse({**BASE[protocol.name], parameter: value}).undeclared.values():
            raise refusal

    with pytest.raises(RequestInvalidity) as caught:
        read()
    words: set[str] = {parameter}
    if is_table(value):
        words |= set(value)
    # An inner one is named as it is spelt on the wire, whichever spelling came.
    words |= {_camel(word) for word in words}
    assert caught.value.parameter is not None
    assert any(word in caught.value.parameter for word in words)
    assert len(str(caught.value)) > len(parameter)


def _camel(word: str) -> str:
    first, *others = word.split("_")
    return first + "".join(map(str.capitalize, others))


@pytest.mark.parametrize(
    ("name", "method"),
    [
        (RESPONSES.name, AsyncResponses.create),
        (CHAT.name, AsyncCompletions.create),
        (ANTHROPIC.name, AsyncMessages.create),
        (ANTHROPIC.name, BetaMessages.create),
    ],
)
def test_the_table_has_every_parameter_of_the_sdk(name: str, method: Any) -> None:
    tables = (HONOURED[name], TAKEN[name], REFUSED[name])
    told = {row[0] for table in tables for row in table} | ELSEWHERE
    assert set(inspect.signature(method).parameters) - told == set()


def test_the_table_has_every_parameter_of_the_generation() -> None:
    tables: list[list[Any]] = [HONOURED[GEMINI.name], TAKEN[GEMINI.name]]
    told = {_camel(key) for table in tables for row in table if row[0] == "generationConfig" for key in row[1]}
    told |= {_camel(key) for key in REFUSED_GENERATION}
    assert {_camel(name) for name in GenerationConfig.model_fields} - told == set()


# Tools that somebody else runs.


@pytest.mark.parametrize(
    ("tool", "hosted"),
    [
        ({"type": "web_search_20250305", "name": "web_search"}, HostedTool(kind="web_search", label="web_search")),
        ({"type": "bash_20250124", "name": "bash"}, HostedTool(kind="bash", label="bash")),
        ({"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}, None),
        ({"type": "mcp_toolset", "mcp_server_name": "git"}, HostedTool(kind="mcp", label="git")),
        (
            {
                "type": "mcp_toolset",
                "mcp_server_name": "git",
                "default_config": {"enabled": False},
                "configs": {"log": {"enabled": True}, "push": {"enabled": False}},
            },
            HostedTool(kind="mcp", label="git", names=("log",)),
        ),
    ],
)
def test_tools_of_the_messages_wire_that_a_server_runs(tool: Any, hosted: HostedTool | None) -> None:
    read = ANTHROPIC.parse({"model": "m", "messages": [], "tools": [tool]})
    assert (read.tools, read.hosted) == ((), () if hosted is None else (hosted,))


def test_servers_of_the_messages_wire() -> None:
    servers = [
        {"type": "url", "name": "git", "url": "https://x", "tool_configuration": {"allowed_tools": ["log"]}},
        {"type": "url", "name": "web", "url": "https://y", "authorization_token": "SECRET"},
        {"type": "url", "name": "off", "url": "https://z", "tool_configuration": {"enabled": False}},
        {"type": "url", "name": "set", "url": "https://s"},
    ]
    toolset = {"type": "mcp_toolset", "mcp_server_name": "set"}
    read = ANTHROPIC.parse({"model": "m", "messages": [], "mcp_servers": servers, "tools": [toolset]})
    assert read.hosted == (
        HostedTool(kind="mcp", label="set"),
        HostedTool(kind="mcp", label="git", names=("log",)),
        HostedTool(kind="mcp", label="web"),
    )
    off = {**toolset, "configs": {"push": {"enabled": False}}}
    with pytest.raises(RequestInvalidity, match=r"tools\[0\].*enable the wanted tools"):
        ANTHROPIC.parse({"model": "m", "messages": [], "tools": [off]})


def test_tools_of_other_wires_that_a_server_runs() -> None:
    read = CHAT.parse({"model": "m", "messages": [], "tools": [{"type": "acme:search"}]})
    assert read.hosted == (HostedTool(kind="acme:search"),)
    tools: list[Any] = [{"google_search": {}, "codeExecution": {}}, {"mcpServers": [{"name": "git"}]}]
    assert GEMINI.parse({"model": "m", "contents": [], "tools": tools}).hosted == (
        HostedTool(kind="googleSearch"),
        HostedTool(kind="codeExecution"),
        HostedTool(kind="mcp", label="git"),
    )
