"""The tools of a client of the Responses wire: how they are declared, what a model sees of them, what comes back."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.canisters import Canister, Controls, InvocationCanister, OpaqueContent, ResultCanister
from ripieno.descriptors.names import EXPOSED_NAME
from ripieno.ensembles import Ensemble
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import RequestInvalidity
from ripieno.models import Protocol
from ripieno.models.protocol import Asked, HostedTool
from ripieno.models.protocols.anthropic import PROTOCOL as ANTHROPIC
from ripieno.models.protocols.common.tools import hosted_named, hosted_word
from ripieno.models.protocols.gemini import PROTOCOL as GEMINI
from ripieno.models.protocols.openai_chat import PROTOCOL as CHAT
from ripieno.models.protocols.openai_responses import PROTOCOL as RESPONSES
from ripieno.models.protocols.openai_responses.invocations import ClientForm, client_form, declared_in
from tests.support.wire_requests import write

PATH = {"type": "object", "properties": {"path": {"type": "string"}}}
READ = {"type": "function", "name": "read", "description": "Reads.", "parameters": PATH}
PATCH = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Changes files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
}
GIT = {"type": "namespace", "name": "git", "description": "A repository.", "tools": [READ, {**PATCH, "name": "commit"}]}


def parse(*tools: Any, **more: Any) -> Asked:
    return RESPONSES.parse({"model": "m", "input": "Hi.", "tools": list(tools), **more})


def offer_of(asked: Asked) -> Offer:
    return Offer.of([Ensemble.of("client", asked.tools)])


def sent(protocol: Protocol, asked: Asked, **capabilities: Any) -> Any:
    return json.loads(write(protocol, asked.canisters, offer=offer_of(asked), controls=asked.controls, **capabilities))


# Functions.


def test_both_forms_of_a_function_are_one_tool() -> None:
    nested = {"type": "function", "function": {key: value for key, value in READ.items() if key != "type"}}
    flat, other = parse(READ).tools[0], parse(nested).tools[0]
    assert flat == other
    assert (flat.name, flat.exposed, flat.description, flat.hosted) == ("read", "read", "Reads.", "caller")
    assert CHAT.parse({"model": "m", "messages": [], "tools": [READ]}).tools[0] == flat


# Namespaces.


def test_what_stands_in_a_namespace_is_seen_under_a_flat_name() -> None:
    asked = parse(GIT, READ)
    assert [tool.exposed for tool in asked.tools] == ["git__read", "git__commit", "read"]
    form = client_form(asked)
    assert form("git__read") == ClientForm(type="function", name="read", namespace="git")
    assert form("git__commit") == ClientForm(type="custom", name="commit", namespace="git")
    assert form("read") == ClientForm(name="read")
    assert form("of_the_house") == ClientForm(name="of_the_house")
    for protocol in (RESPONSES, CHAT, ANTHROPIC, GEMINI):
        assert b"git__commit" in write(protocol, asked.canisters, offer=offer_of(asked))
    assert {**PATCH, "name": "git__commit"} in sent(RESPONSES, asked)["tools"]


def test_a_namespace_speaks_for_tools_that_say_nothing() -> None:
    asked = parse({**GIT, "tools": [{"type": "function", "name": "log", "parameters": None, "strict": None}]})
    assert asked.tools[0].description == "A repository."


def test_calls_and_choices_have_the_flat_names_too() -> None:
    history = [
        {"type": "function_call", "call_id": "c1", "name": "read", "namespace": "git", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "x"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "commit", "namespace": "git", "input": "all"},
        {"type": "function_call", "call_id": "c3", "name": "gone", "namespace": "old", "arguments": "{}"},
        {"type": "function_call", "call_id": "c4", "name": "read", "arguments": "{}"},
    ]
    asked = parse(GIT, READ, input=history)
    calls = [one for one in asked.canisters if isinstance(one, InvocationCanister)]
    kinds = {one.name: one.kind for one in calls}
    assert kinds == {"git__read": "function", "git__commit": "freeform", "old__gone": "function", "read": "function"}
    # The flat name is whole: nobody is sent half of it beside it.
    assert b"namespace" not in write(RESPONSES, asked.canisters, offer=offer_of(asked))
    chosen = {"type": "function", "name": "read", "namespace": "git"}
    assert parse(GIT, READ, tool_choice=chosen).controls.tool_choice == "git__read"
    # Without its namespace, a name means the plain function, or the only one that has it.
    assert parse(GIT, READ, tool_choice={"type": "function", "name": "read"}).controls.tool_choice == "read"
    assert parse(GIT, tool_choice={"type": "function", "name": "read"}).controls.tool_choice == "git__read"
    other = {**GIT, "name": "svn"}
    undeclared = parse(GIT, other, tool_choice={"type": "function", "name": "read"}).undeclared
    assert "'read', which is not among the tools" in str(undeclared["read"])
    with pytest.raises(RequestInvalidity, match="'look', which is not among the tools"):
        parse(GIT, tool_choice={"type": "function", "name": "look", "namespace": "git"})


def test_a_namespace_of_a_provider_returns_to_it() -> None:
    """None is declared: the provider itself has found the tool."""
    call = {"type": "function_call", "call_id": "c", "name": "read", "namespace": "git", "arguments": "{}"}
    asked = parse(READ, input=[{"role": "user", "content": "Hi."}, call])
    assert sent(RESPONSES, asked)["input"][1] == call


names = st.text("abc_-.é 1", min_size=1, max_size=40)


@given(tools=st.lists(st.tuples(st.just("") | names, names), min_size=1, max_size=8, unique=True))
def test_flat_names_are_legal_different_and_reversible(tools: list[tuple[str, str]]) -> None:
    spaces: dict[str, list[Any]] = {}
    for namespace, name in tools:
        spaces.setdefault(namespace, []).append({"type": "function", "name": name})
    declared = [*spaces.pop("", []), *({"type": "namespace", "name": one, "tools": of} for one, of in spaces.items())]
    asked = parse(*declared)
    exposed = [str(tool.exposed) for tool in asked.tools]
    assert all(EXPOSED_NAME.match(one) for one in exposed)
    assert len(set(exposed)) == len(tools)
    form = client_form(asked)
    assert {(form(one).namespace or "", form(one).name) for one in exposed} == set(tools)
    # They do not depend on the order of what stands before them, and a history has the same.
    history = [
        {"type": "function_call", "call_id": f"c{place}", "name": name, "namespace": namespace, "arguments": "{}"}
        for place, (namespace, name) in enumerate(tools)
    ]
    calls = [one for one in parse(*declared, input=history).canisters if isinstance(one, InvocationCanister)]
    assert {(form(one.name).namespace or "", form(one.name).name) for one in calls} == set(tools)


def test_a_plain_function_keeps_its_name_beside_a_namespace() -> None:
    plain = {"type": "function", "name": "git__read"}
    first, second = parse(GIT, plain), parse(plain, GIT)
    assert {tool.exposed for tool in first.tools} == {tool.exposed for tool in second.tools}
    assert "git__read" in {tool.exposed for tool in first.tools if tool.name == "git__read"}
    (made,) = (one.exposed for one in first.tools if one.exposed and one.exposed.startswith("git__read_"))
    assert client_form(first)(str(made)) == ClientForm(name="read", namespace="git")


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ({"type": "namespace", "tools": []}, r"tools\[0\]"),
        ({"type": "namespace", "name": "n", "tools": {}}, "tools is a list of objects"),
        (
            {"type": "namespace", "name": "n", "tools": [{"type": "namespace", "name": "x"}]},
            "known are function, custom",
        ),
        ({"type": "namespace", "name": "n", "tools": [READ, READ]}, "'n.read': name each once"),
        ({"type": "custom"}, r"A tool has no name: tools\[0\]"),
    ],
)
def test_what_cannot_be_declared(tool: Any, words: str) -> None:
    with pytest.raises(RequestInvalidity, match=words) as caught:
        parse(tool)
    assert (caught.value.parameter or "").startswith("tools")


# Free-form tools.


def test_a_free_form_tool_is_a_function_for_whoever_knows_no_other() -> None:
    history = [
        {"role": "user", "content": "Hi."},
        {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": 'a "b"', "id": "ctc_1"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "done"},
    ]
    asked = parse(PATCH, input=history, tool_choice={"type": "custom", "name": "apply_patch"})
    assert client_form(asked)("apply_patch") == ClientForm(type="custom", name="apply_patch")
    chat = sent(CHAT, asked)
    (function,) = (tool["function"] for tool in chat["tools"])
    assert function["parameters"]["required"] == ["input"]
    assert "lark grammar:\nstart: /.+/" in function["parameters"]["properties"]["input"]["description"]
    (call,) = chat["messages"][1]["tool_calls"]
    made = {"name": "apply_patch", "arguments": '{"input":"a \\"b\\""}'}
    assert call == {"id": "c", "type": "function", "function": made}
    assert chat["tool_choice"] == {"type": "function", "function": {"name": "apply_patch"}}
    # Over the same wire it stays what it is, unless the provider's data says that nobody knows it there.
    own = sent(RESPONSES, asked)
    assert (own["tools"], own["tool_choice"]["type"]) == ([PATCH], "custom")
    assert [item["type"] for item in own["input"][1:]] == ["custom_tool_call", "custom_tool_call_output"]
    only = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "custom", "name": "apply_patch"}]}
    assert sent(RESPONSES, parse(PATCH, tool_choice=only), allowed_tools=True)["tool_choice"] == only
    plain = sent(RESPONSES, asked, custom_tools=False)
    assert (plain["tools"][0]["type"], plain["tool_choice"]["type"]) == ("function", "function")
    assert plain["input"][1:] == [
        {"type": "function_call", "call_id": "c", "name": "apply_patch", "arguments": '{"input":"a \\"b\\""}'},
        {"type": "function_call_output", "call_id": "c", "output": "done"},
    ]


def test_a_provider_of_chat_completions_may_know_free_form_calls() -> None:
    call = InvocationCanister(identifier="c", name="patch", kind="freeform", raw="x")
    canisters: list[Canister] = [call, ResultCanister(invocation_id="c")]
    assert b'"custom":{"name":"patch","input":"x"}' in write(CHAT, canisters, custom_tools=True)
    assert b'"custom"' not in write(CHAT, canisters)
    # The same call, said again: what was kept of it was for somebody else.
    assert b'"custom":{"name":"patch","input":"x"}' in write(CHAT, canisters, custom_tools=True)


# Hosted tools.


@pytest.mark.parametrize(
    "kind",
    [
        *("web_search", "web_search_preview", "file_search", "code_interpreter", "image_generation"),
        *("computer_use_preview", "local_shell", "shell", "apply_patch", "acme:search"),
    ],
)
def test_a_hosted_tool_is_asked_for_and_not_refused(kind: str) -> None:
    asked = parse({"type": kind, "vector_store_ids": ["x"]}, READ)
    assert asked.hosted == (HostedTool(kind=kind),)
    assert [tool.name for tool in asked.tools] == ["read"]
    chosen = parse({"type": kind}, tool_choice={"type": kind}).controls.tool_choice
    assert chosen is not None
    assert hosted_named(chosen) == HostedTool(kind=kind)


def test_servers_are_named_by_their_labels_and_never_by_their_addresses() -> None:
    git = {"type": "mcp", "server_label": "git", "server_url": "https://x", "authorization": "SECRET"}
    asked = parse(git, {**git, "allowed_tools": ["log"]}, {**git, "allowed_tools": {"tool_names": ["log", "show"]}})
    assert asked.hosted == (
        HostedTool(kind="mcp", label="git"),
        HostedTool(kind="mcp", label="git", names=("log",)),
        HostedTool(kind="mcp", label="git", names=("log", "show")),
    )
    with pytest.raises(RequestInvalidity, match="read_only, which is not supported here: name the tools"):
        parse({**git, "allowed_tools": {"read_only": True}})
    with pytest.raises(RequestInvalidity, match="is a list of names"):
        parse({**git, "allowed_tools": "log"})


def test_the_search_of_tools_is_nothing() -> None:
    asked = parse({"type": "tool_search"}, READ)
    assert (len(asked.tools), asked.hosted) == (1, ())


@pytest.mark.parametrize("nested", [False, True])
def test_allowed_tools_of_any_kind(nested: bool) -> None:
    allowed = {
        "mode": "required",
        "tools": [
            {"type": "function", "name": "read"},
            {"type": "function", "function": {"name": "read"}},
            {"type": "custom", "name": "apply_patch"},
            {"type": "namespace", "name": "git"},
            {"type": "mcp", "server_label": "web", "name": "get"},
            {"type": "image_generation"},
        ],
    }
    choice = {"type": "allowed_tools", **({"allowed_tools": allowed} if nested else allowed)}
    web = {"type": "mcp", "server_label": "web"}
    controls = parse(READ, PATCH, GIT, web, {"type": "image_generation"}, tool_choice=choice).controls
    assert controls == Controls(
        stream=False,
        tool_choice="required",
        allowed_tools=(
            *("read", "read", "apply_patch", "git__read", "git__commit"),
            hosted_word(HostedTool(kind="mcp", label="web"), "get"),
            hosted_word(HostedTool(kind="image_generation")),
        ),
    )
    named = hosted_named(hosted_word(HostedTool(kind="mcp", label="web"), "get"))
    assert named == HostedTool(kind="mcp", label="web", names=("get",))
    assert hosted_named("read") is None
    # Chat completions know the same choice, in either form.
    tools = [{"type": "function", "function": {"name": "read"}}]
    said = {"mode": "auto", "tools": tools}
    chat = {"type": "allowed_tools", **({"allowed_tools": said} if nested else said)}
    read = CHAT.parse({"model": "m", "messages": [], "tools": tools, "tool_choice": chat}).controls
    assert (read.tool_choice, read.allowed_tools) == ("auto", ("read",))


# What is remembered.


def test_nothing_of_a_clients_keys_is_kept() -> None:
    asked = parse({"type": "mcp", "server_label": "kept_label", "headers": {"Authorization": "SECRET"}}, READ)
    assert asked.hosted == (HostedTool(kind="mcp", label="kept_label"),)
    cells: Any = declared_in.__closure__
    kept = repr([cell.cell_contents for cell in cells])
    assert "kept_label" in kept
    assert "SECRET" not in kept


def test_many_lists_of_tools_do_not_add_up() -> None:
    def one(number: int, **more: Any) -> Any:
        return {"type": "function", "name": f"f{number}", "description": "x" * 60_000, **more}

    first = parse(one(0)).tools
    assert parse(one(0)).tools is first
    for number in range(1, 80):
        parse(one(number))
    assert parse(one(79)).tools is parse(one(79)).tools
    assert parse(one(0)).tools is not first
    # Regular expressions take much more than their text.
    patterns = {f"p{number}": {"type": "string", "pattern": "x"} for number in range(9)}
    odd = one(0, parameters={"type": "object", "properties": patterns})
    assert parse(odd).tools == parse(odd).tools
    assert parse(odd).tools is not parse(odd).tools


# Conversations.


def test_what_is_wrong_in_a_conversation_is_named_with_its_place() -> None:
    with pytest.raises(RequestInvalidity, match=r"item_reference refers to nothing: send the item") as caught:
        parse(input=[{"role": "user", "content": "Hi."}, {"type": "item_reference", "id": "msg_1"}])
    assert caught.value.parameter == "input[1]"
    with pytest.raises(RequestInvalidity, match="'narrator'") as chat:
        CHAT.parse({"model": "m", "messages": [{"role": "narrator"}]})
    assert chat.value.parameter == "messages"


# What coding agents add to a conversation.


def said(*items: Any, **members: Any) -> Asked:
    return RESPONSES.parse({"model": "m", "input": [*items, {"role": "user", "content": "Go."}], **members})


def added(*tools: Any, name: str = "functions") -> dict[str, Any]:
    return {
        "type": "additional_tools",
        "role": "developer",
        "tools": [{"type": "namespace", "name": name, "tools": tools}],
    }


def function(name: str, description: str = "") -> dict[str, Any]:
    return {"type": "function", "name": name, "description": description, "parameters": {"type": "object"}}


def test_tools_in_the_conversation_are_offered_with_the_others() -> None:
    script = {"type": "custom", "name": "exec", "description": "Runs a script."}
    called = {"type": "custom_tool_call", "call_id": "c", "name": "exec", "namespace": "functions", "input": "1;"}
    output = {"type": "custom_tool_call_output", "call_id": "c", "output": "done"}
    read = said(added(script, function("wait")), called, output, tools=[function("shell")])
    assert [tool.exposed for tool in read.tools] == ["shell", "functions__exec", "functions__wait"]
    # The item itself is nothing that anybody has said, and a call has the name that the model sees.
    assert not any(
        isinstance(one, OpaqueContent) for canister in read.canisters for one in getattr(canister, "content", ())
    )
    (call,) = [one for one in read.canisters if isinstance(one, InvocationCanister)]
    assert call.name == "functions__exec"


def test_tools_that_are_added_again_are_those_that_were_added_last() -> None:
    read = said(added(function("wait"), function("stop")), added(function("wait", "Longer.")))
    assert [(tool.exposed, tool.description) for tool in read.tools] == [("functions__wait", "Longer.")]


def test_a_tool_that_is_declared_twice_is_refused() -> None:
    item = {"type": "additional_tools", "tools": [function("shell")]}
    with pytest.raises(RequestInvalidity, match="shell"):
        said(item, tools=[function("shell")])
    with pytest.raises(RequestInvalidity, match="tools is a list of objects"):
        said({"type": "additional_tools", "tools": "shell"})
