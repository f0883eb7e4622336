"""What the text of an answer is held to, in the words of each wire, and back."""

import dataclasses
import json
from typing import Any

import anthropic.types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

from ripieno.canisters import Controls, UserCanister
from ripieno.canisters.controls import Format
from ripieno.descriptors.configuration import read_configuration
from ripieno.descriptors.control_keys import make_controls
from ripieno.exceptions import InputError
from ripieno.jsonvalues import freeze, thaw
from ripieno.models import Protocol
from ripieno.models.protocols.anthropic import PROTOCOL as ANTHROPIC
from ripieno.models.protocols.gemini import PROTOCOL as GEMINI
from ripieno.models.protocols.openai_chat import PROTOCOL as CHAT
from ripieno.models.protocols.openai_responses import PROTOCOL as RESPONSES
from tests.models.protocols.sdk_types import GENERATE_CONTENT, model_problems, problems
from tests.support.json_strategies import objects
from tests.support.wire_requests import asked, both, write

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
    if protocol is ANTHROPIC and form.schema is None:
        with pytest.raises(InputError, match="does not support JSON without a schema"):
            write(protocol, HI, controls=Controls(format=form))
        return
    read = asked(protocol, write(protocol, HI, controls=Controls(format=form))).controls.format
    expected = form
    if form.schema is not None and protocol in (ANTHROPIC, GEMINI):
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
