"""Tools, controls and formats of answers in the words of each wire, and back."""

import dataclasses
import json
from typing import Any

import anthropic.types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

from ripieno.canisters import Controls, SupervisorCanister, UserCanister
from ripieno.canisters.controls import Format
from ripieno.descriptors.control_keys import make_controls
from ripieno.ensembles import Ensemble
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import InputError, NameAbsence, RequestInvalidity
from ripieno.jsonvalues import encode, freeze, thaw
from ripieno.models import Protocol
from ripieno.models.protocols.anthropic import PROTOCOL as ANTHROPIC
from ripieno.models.protocols.gemini import PROTOCOL as GEMINI
from ripieno.models.protocols.openai_chat import PROTOCOL as CHAT
from ripieno.models.protocols.openai_responses import PROTOCOL as RESPONSES
from tests.descriptors.descriptor_examples import read_configuration
from tests.models.protocols import wire_strategies
from tests.models.protocols.sdk_types import GENERATE_CONTENT, model_problems, problems
from tests.support.json_strategies import objects
from tests.support.wire_requests import ENSEMBLE, NO_TOOLS, OFFER, PATH, asked, both, write


@both
def test_tools_are_offered_read_and_offered_again(protocol: Protocol) -> None:
    body = write(protocol, [UserCanister.of("Hi.")], offer=OFFER)
    tools = asked(protocol, body).tools
    assert [(tool.name, tool.exposed, tool.description, tool.hosted) for tool in tools] == [
        ("list_rooms", "list_rooms", "", "caller"),
        ("read_file", "read_file", "Reads a file.", "caller"),
    ]
    assert thaw(tools[1].schema.mapping) == PATH
    again = write(protocol, [UserCanister.of("Hi.")], offer=Offer.of([Ensemble.of("client", tools)]))
    assert json.loads(again) == json.loads(body)
    assert [dict(one) for one in protocol.invocations.prepare_tools(OFFER)] == [
        dict(one) for one in protocol.invocations.prepare_tools([ENSEMBLE])
    ]
    sent = json.loads(body)["tools"]
    sent[-1].pop("cache_control", None)
    assert json.loads(encode(list(protocol.invocations.prepare_tools(OFFER)))) == sent


@both
def test_an_offer_of_nothing_sends_no_tools(protocol: Protocol) -> None:
    hosted = Offer(tuple(invoker for invoker in OFFER.invokers if invoker.hosted == "provider"))
    for offer in (NO_TOOLS, hosted):
        body = json.loads(write(protocol, [UserCanister.of("Hi.")], offer=offer, controls=Controls(tool_choice="auto")))
        assert not {"tools", "tool_choice", "parallel_tool_calls", "toolConfig"} & body.keys()


@both
@given(controls=wire_strategies.controls)
def test_controls_are_read_as_they_were_written(protocol: Protocol, controls: Controls) -> None:
    if protocol is RESPONSES:
        controls = dataclasses.replace(controls, stop=None)  # There is no word for it.
    body = write(protocol, [UserCanister.of("Hi.")], offer=OFFER, controls=controls, sampling=True)
    read = asked(protocol, body, stream=controls.stream).controls
    expected = controls
    if protocol is GEMINI:
        expected = dataclasses.replace(expected, parallel=None)  # There is no word for it.
    if protocol is ANTHROPIC:
        # A number is required there; nobody may call in parallel what nobody may call, and one word is not sent.
        read = dataclasses.replace(read, output_tokens=controls.output_tokens)
        if controls.tool_choice == "none":
            expected = dataclasses.replace(expected, parallel=None)
        elif controls.tool_choice is None and controls.parallel is not None:
            expected = dataclasses.replace(expected, tool_choice="auto")
    assert read == expected


FUNCTION = {"type": "function", "name": "read_file"}
NESTED = {"type": "function", "function": {"name": "read_file"}}
SERIAL = {"type": "auto", "disable_parallel_tool_use": True}
NAMED = {"allowedFunctionNames": ["read_file"]}
ALLOWED = {"mode": "auto", "tools": [FUNCTION]}
REQUIRED = {"mode": "required", "tools": [FUNCTION]}


@pytest.mark.parametrize(
    ("fields", "messages", "chat", "responses", "gemini"),
    [
        ({}, None, None, None, None),
        ({"parallel": False}, SERIAL, None, None, None),
        ({"tool_choice": "auto"}, {"type": "auto"}, "auto", "auto", {"mode": "AUTO"}),
        ({"tool_choice": "none"}, {"type": "none"}, "none", "none", {"mode": "NONE"}),
        ({"allowed_tools": ()}, {"type": "none"}, "none", "none", {"mode": "NONE"}),
        ({"tool_choice": "required"}, {"type": "any"}, "required", "required", {"mode": "ANY"}),
        (
            {"tool_choice": "read_file"},
            {"type": "tool", "name": "read_file"},
            NESTED,
            FUNCTION,
            {"mode": "ANY", **NAMED},
        ),
        (
            {"allowed_tools": ("read_file",)},
            None,
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NESTED]}},
            {"type": "allowed_tools", **ALLOWED},
            {"mode": "VALIDATED", **NAMED},
        ),
        (
            {"allowed_tools": ("read_file",), "tool_choice": "required"},
            {"type": "any"},
            {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NESTED]}},
            {"type": "allowed_tools", **REQUIRED},
            {"mode": "ANY", **NAMED},
        ),
    ],
)
def test_the_choice_among_tools_in_the_words_of_each_wire(
    fields: dict[str, Any], messages: Any, chat: Any, responses: Any, gemini: Any
) -> None:
    def choice(protocol: Protocol, **capabilities: bool) -> Any:
        body = json.loads(write(protocol, [], offer=OFFER, controls=Controls(**fields), **capabilities))
        if protocol is GEMINI:
            assert model_problems(body, GENERATE_CONTENT) == []
            return body.get("toolConfig", {}).get("functionCallingConfig")
        assert protocol is not RESPONSES or problems(body, ResponseCreateParamsStreaming) == []
        return body.get("tool_choice")

    wires = (ANTHROPIC, CHAT, RESPONSES, GEMINI)
    assert tuple(choice(one, allowed_tools=True) for one in wires) == (messages, chat, responses, gemini)
    if fields.keys() == {"allowed_tools"} and fields["allowed_tools"]:
        # Where the provider has no word for it, execution alone holds the model to it.
        assert [choice(one, allowed_tools=False) for one in wires] == [None] * 4


def test_strict_is_a_mode_of_gemini() -> None:
    def mode(**fields: Any) -> Any:
        body = json.loads(write(GEMINI, [], offer=OFFER, controls=Controls(strict=True, **fields), strict=True))
        return body["toolConfig"]["functionCallingConfig"]

    assert mode() == mode(tool_choice="auto") == {"mode": "VALIDATED"}
    assert mode(tool_choice="required") == {"mode": "ANY"}


@both
@pytest.mark.parametrize("parallel", [False, True])
def test_where_one_call_comes_at_a_time_no_wire_speaks_of_parallel_ones(protocol: Protocol, parallel: bool) -> None:
    for choice in (None, "auto", "required", "read_file"):
        said, unsaid = (
            json.loads(
                write(
                    protocol,
                    [UserCanister.of("Hi.")],
                    offer=OFFER,
                    controls=Controls(tool_choice=choice, parallel=one),
                    parallel_calls=False,
                )
            )
            for one in (parallel, None)
        )
        assert said == unsaid


@both
def test_controls_that_a_model_does_not_take(protocol: Protocol) -> None:
    with pytest.raises(InputError, match=r"does not support temperature or top_p.*sampling = true"):
        write(protocol, [], controls=Controls(temperature=0.5, top_p=0.5), sampling=False)
    with pytest.raises(InputError, match=r"cannot be forced to call a tool.*tool_choice = true"):
        write(protocol, [], offer=OFFER, controls=Controls(tool_choice="required"), tool_choice=False)
    with pytest.raises(NameAbsence, match=r"no offered tool named 'read_fil'.*'read_file'"):
        write(protocol, [], offer=OFFER, controls=Controls(tool_choice="read_fil"))
    relaxed = json.loads(
        write(protocol, [], offer=OFFER, controls=Controls(tool_choice="required").relaxed(), tool_choice=False)
    )
    choice = relaxed["toolConfig" if protocol is GEMINI else "tool_choice"]
    assert choice in ("auto", {"type": "auto"}, {"functionCallingConfig": {"mode": "AUTO"}})


NEUTRAL = Controls(presence_penalty=0, frequency_penalty=0, logit_bias=freeze({}), logprobs=False, output_tokens=9)
PENALTIES = {"presence_penalty": 1.5, "frequency_penalty": -0.5}
BIAS = {"50256": -100}
PROBABILITIES: dict[str, Any] = {"logprobs": True, "top_logprobs": 2}


@both
def test_seeds_and_penalties_in_the_words_of_each_wire(protocol: Protocol) -> None:
    """As the SDKs have them; the penalties of the Responses wire are in the OpenResponses specification only."""
    golden: dict[str, Any] = {
        CHAT.name: {"seed": 7, **PENALTIES, "logit_bias": BIAS, **PROBABILITIES},
        RESPONSES.name: PENALTIES,
        GEMINI.name: {"seed": 7, "presencePenalty": 1.5, "frequencyPenalty": -0.5},
        ANTHROPIC.name: {},
    }[protocol.name]
    every: dict[str, Any] = {"seed": 7, **PENALTIES, "logit_bias": BIAS, **PROBABILITIES}
    camel = {"presencePenalty": "presence_penalty", "frequencyPenalty": "frequency_penalty"}
    has = {camel.get(name, name) for name in golden}
    body = json.loads(write(protocol, HI, controls=Controls(**{name: every[name] for name in has})))
    plain = json.loads(write(protocol, HI))
    added = body["generationConfig"] if protocol is GEMINI else {key: body[key] for key in body.keys() - plain.keys()}
    assert added == golden
    for name in every.keys() - has:
        with pytest.raises(
            RequestInvalidity, match=f"wire has no {name} here: leave it out, or use this model"
        ) as caught:
            write(protocol, HI, controls=Controls(**{name: every[name]}))
        assert caught.value.parameter == name
    # What has no effect is refused nowhere.
    write(protocol, HI, controls=NEUTRAL)
    assert protocol is not CHAT or problems(body, CompletionCreateParamsStreaming) == []
    assert protocol is not GEMINI or model_problems(body, GENERATE_CONTENT) == []


def test_seeds_and_penalties_in_a_file() -> None:
    table: dict[str, Any] = {"seed": 7, **PENALTIES, "logit_bias": BIAS}
    descriptor, found = read_configuration({"model": table})
    assert found == ()
    assert descriptor is not None
    assert descriptor.controls == Controls(**table)
    descriptor, found = read_configuration({"model": {"presence_penalty": 3, "logit_bias": {"the": 1}}})
    assert descriptor is None
    assert [problem.key for problem in found] == ["model.presence_penalty", "model.logit_bias.the"]


def test_the_number_of_tokens_has_the_word_that_the_provider_knows() -> None:
    assert json.loads(write(ANTHROPIC, []))["max_tokens"] == 8192
    assert json.loads(write(ANTHROPIC, [], output_tokens=100))["max_tokens"] == 100
    few = Controls(output_tokens=7)
    assert json.loads(write(ANTHROPIC, [], controls=few, output_tokens=100))["max_tokens"] == 7
    assert "max_completion_tokens" not in json.loads(write(CHAT, []))
    assert json.loads(write(CHAT, [], controls=few))["max_completion_tokens"] == 7
    assert json.loads(write(CHAT, [], controls=few, output_tokens_parameter="max_tokens"))["max_tokens"] == 7


# What the text of an answer is held to.

PLACE = freeze({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})
FITTING = Format(kind="json_schema", name="place", schema=PLACE, strict=True, description="Where.")
ANY = Format(kind="json_object")
HI = [UserCanister.of("Hi.")]

formats = st.just(ANY) | st.builds(
    Format,
    kind=st.just("json_schema"),
    name=st.sampled_from(["", "place"]),
    schema=objects.map(freeze),
    strict=st.none() | st.booleans(),
    description=st.sampled_from(["", "Where."]),
)


@both
@given(form=formats)
def test_a_format_is_read_as_it_was_written(protocol: Protocol, form: Format) -> None:
    read = asked(protocol, write(protocol, HI, controls=Controls(format=form))).controls.format
    expected: Format | None = form
    if form.schema is None and protocol is ANTHROPIC:
        expected = None  # It is an instruction there.
    elif form.schema is not None and protocol in (ANTHROPIC, GEMINI):
        expected = Format(kind="json_schema", schema=form.schema)  # There is no word for the rest.
    elif form.schema is not None and not form.name:
        expected = dataclasses.replace(form, name="answer")  # A name is required there.
    assert read == expected


def test_formats_are_what_the_sdks_say() -> None:
    for form in (FITTING, ANY, Format(kind="json_schema", schema=PLACE)):
        controls = Controls(format=form, output_tokens=9)
        assert problems(json.loads(write(CHAT, HI, controls=controls)), CompletionCreateParamsStreaming) == []
        assert problems(json.loads(write(RESPONSES, HI, controls=controls)), ResponseCreateParamsStreaming) == []
        assert model_problems(json.loads(write(GEMINI, HI, controls=controls)), GENERATE_CONTENT) == []
    streaming = anthropic.types.message_create_params.MessageCreateParamsStreaming
    both_said = json.loads(write(ANTHROPIC, HI, controls=Controls(format=FITTING, reasoning="low")))
    assert problems(both_said, streaming) == []
    assert both_said["output_config"]["effort"] == "low"
    assert both_said["output_config"]["format"]["schema"] == thaw(PLACE)


def test_json_without_a_schema_is_an_instruction_where_the_wire_has_only_schemas() -> None:
    canisters = [SupervisorCanister.of("Be brief."), *HI]
    body = json.loads(write(ANTHROPIC, canisters, controls=Controls(format=ANY)))
    brief, instruction = body["system"]
    assert brief["text"] == "Be brief."
    assert "one JSON object and nothing else" in instruction["text"]
    assert "output_config" not in body


@both
def test_a_model_that_cannot_be_held_to_json_says_so(protocol: Protocol) -> None:
    with pytest.raises(InputError, match=r"does not support JSON output.*json_mode = true"):
        write(protocol, HI, controls=Controls(format=FITTING), json_mode=False)
    assert json.loads(write(protocol, HI, json_mode=False)) == json.loads(write(protocol, HI))


@pytest.mark.parametrize(
    ("table", "form"),
    [
        ({"kind": "json_object"}, ANY),
        ({"kind": "json_schema", "name": "place", "schema": PLACE, "strict": True, "description": "Where."}, FITTING),
    ],
)
def test_a_format_in_a_file(table: Any, form: Format) -> None:
    descriptor, found = read_configuration({"model": {"format": table}})
    assert found == ()
    assert descriptor is not None
    assert descriptor.controls.format == form
    assert make_controls({"format": freeze(table)}, {"temperature": 0.5}) == Controls(format=form, temperature=0.5)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("json", "format must be a table, not the string"),
        ({}, "format lacks kind"),
        ({"kind": "yaml"}, 'kind must be one of "json_object", "json_schema"'),
        ({"kind": "json_schema"}, "format has a schema if its kind is json_schema"),
        ({"kind": "json_object", "schema": {}}, "format has a schema if its kind is json_schema"),
        ({"kind": "json_object", "strict": "yes"}, "strict must be true or false"),
        ({"kind": "json_object", "shape": 1}, "format has no key shape"),
    ],
)
def test_what_is_no_format_in_a_file(table: Any, message: str) -> None:
    descriptor, found = read_configuration({"model": {"format": table}})
    assert descriptor is None
    assert found[0].message.startswith(message)


def test_how_many_calls_may_be_run_meanwhile() -> None:
    body = write(RESPONSES, HI, controls=Controls(tool_calls=3))
    assert json.loads(body)["max_tool_calls"] == 3
    assert asked(RESPONSES, body).controls.tool_calls == 3
