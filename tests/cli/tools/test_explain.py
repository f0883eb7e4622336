"""``ripieno explain``, and what ``ripieno check`` warns of: what is lost of a schema on its way."""

import json

from ripieno.cli.common import exit_codes
from tests.support.command_line import User
from tests.support.users import Call

TAGGED = """
[ensemble]
name = "tagged"
description = "Labels"
[[invokers]]
name = "set_labels"
description = "Sets labels."
effect = "read"
[invokers.invocable]
origin = "command"
argv = ["echo", "{id}"]
[invokers.arguments]
type = "object"
required = ["id"]
[invokers.arguments.properties.id]
type = "string"
minLength = 2
description = "What to label"
[invokers.arguments.properties.labels]
type = "object"
description = "Labels"
properties = { a = { type = "string" } }
additionalProperties = { type = "string" }
"""


def test_it_shows_what_is_sent_and_what_is_lost(call: Call, user: User) -> None:
    user.ensemble("tagged", TAGGED)
    done = call("explain", "tagged.set_labels", "--protocol", "openai-chat", "--strict")
    assert (done.code, done.err) == (0, "")
    assert '"strict": true' in done.out
    lines = done.out.partition("Strict: yes\n")[2].splitlines()
    assert lines[0].split() == ["OUTCOME", "PLACE", "KEYWORD", "HOW"]
    assert [line.split()[:3] for line in lines[1:]] == [
        ["moved", "#/properties/id", "minLength"],
        ["dropped", "#/properties/labels", "additionalProperties"],
    ]
    plain = call("explain", "tagged.set_labels", "--protocol", "anthropic")
    assert plain.out.endswith("All of its schema is sent.\n")


def test_the_wire_is_that_of_the_configured_model(call: Call, user: User) -> None:
    for text, protocol in (("", "openai-chat"), ('[model]\ndefault = "anthropic/m"\n', "anthropic")):
        user.configure(text)
        assert json.loads(call("explain", "io.read_file", "--format", "json").out)["protocol"] == protocol


def test_a_mistake_says_what_to_do(call: Call, user: User) -> None:
    user.ensemble("tagged", TAGGED)
    done = call("explain", "set_labels", "--protocol", "anthropic")
    assert done.code == exit_codes.INPUT
    assert "ripieno explain tagged.set_labels" in done.err


def test_check_names_the_tool_the_count_and_the_command(call: Call, user: User) -> None:
    user.ensemble("tagged", TAGGED)
    user.configure('[model]\ndefault = "openai/m"\n')
    assert "cannot express" not in call("check", "--no-import").out
    user.configure('[model]\ndefault = "openai/m"\nstrict = true\n')
    done = call("check", "--no-import")
    assert done.code == 0
    warnings = [line for line in done.out.splitlines() if "cannot express" in line]
    assert len(warnings) == 1
    assert "1 keyword of the schema of tagged.set_labels" in warnings[0]
    assert "ripieno explain tagged.set_labels --protocol openai-" in done.out


def test_check_warns_of_names_that_a_provider_documents_to_refuse(call: Call, user: User) -> None:
    user.ensemble(
        "tagged", TAGGED.replace("[invokers.arguments.properties.labels]", "[invokers.arguments.properties.x-y]")
    )
    user.configure('[model]\ndefault = "gemini/m"\n')
    done = call("check", "--no-import")
    assert done.code == 0
    assert "gemini cannot express 1 keyword of the schema of tagged.set_labels" in done.out
    done = call("explain", "tagged.set_labels", "--protocol", "gemini")
    assert '"x-y": {' in done.out
    (line,) = [line for line in done.out.splitlines() if "doubtful" in line]
    assert line.split()[:3] == ["doubtful", "#", "properties"]
    assert "'x-y'" in line
