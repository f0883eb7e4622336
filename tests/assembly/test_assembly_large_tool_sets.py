"""Thousands of tools and megabytes of output, with a model behind each wire."""

import pathlib
import re
import sys
from typing import Any

import pytest

from ripieno.approvals import Approve
from ripieno.assembly import Assembly, assemble
from ripieno.canisters import InvocationCanister
from ripieno.canisters.events import ConfirmationRequested
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import ConfigurationInvalidity
from ripieno.jsonvalues import encode
from ripieno.models import Protocol
from ripieno.models.protocols.anthropic import PROTOCOL as MESSAGES
from ripieno.models.protocols.gemini import PROTOCOL as GEMINI
from ripieno.models.protocols.openai_chat import PROTOCOL as CHAT
from ripieno.models.protocols.openai_responses import PROTOCOL as RESPONSES
from ripieno.servers.http.server import serve
from ripieno.storage.places import Places
from ripieno.testing import call, turn
from ripieno.testing.rehearsal.server import base_url, create_application
from ripieno.testing.scores import Score
from ripieno.testing.wires import model_of
from tests.support.scripted_models import Person, Recording, results_of

LEDGER = """
[ensemble]
name = "ledger"
description = "Accounts of the house"

[defaults]
tool_search = true

[[invokers]]
name = "list_accounts"
description = "Lists accounts with their balances."
effect = "read"
[invokers.invocable]
origin = "command"
argv = ["echo", "cash 40"]

[[invokers]]
name = "book_payment"
description = "Books a payment into an account."
effect = "write"
[invokers.invocable]
origin = "command"
argv = ["echo", "Booked {amount} into", "{account}."]
[invokers.arguments]
type = "object"
required = ["account", "amount"]
[invokers.arguments.properties.account]
type = "string"
description = "Name of the account"
[invokers.arguments.properties.amount]
type = "integer"

[[invokers]]
name = "say_hello"
description = "Says hello."
effect = "none"
tool_search = false
[invokers.invocable]
origin = "command"
argv = ["echo", "Hello"]
"""
SCORE = Score.of_turns(
    [
        turn("Let me see.", calls=[call("search_tools", "found", query="payment into an account")]),
        turn(
            "I call {found.json:/tools/0/name}.",
            calls=[
                call(
                    "call_tool", "booked", name="{found.json:/tools/0/name}", arguments={"account": "cash", "amount": 2}
                )
            ],
            expect=["found"],
        ),
        turn("{booked}", expect=["booked"]),
    ]
)


def loaded(tmp_path: pathlib.Path, ensembles: dict[str, str], tables: dict[str, Any], **more: Any) -> Assembly:
    folder = tmp_path / "ensembles"
    folder.mkdir()
    (tmp_path / "work").mkdir()
    for name, text in ensembles.items():
        (folder / f"{name}.toml").write_text(text)
    enabled = {"paths": [str(folder)], "enabled": [*ensembles, *tables.pop("enabled", ())]}
    places = Places(configuration=tmp_path / "configuration", state=tmp_path / "state")
    return assemble({**tables, "ensembles": enabled}, workspace=tmp_path / "work", places=places, **more)


@pytest.mark.parametrize("protocol", [MESSAGES, CHAT, RESPONSES, GEMINI], ids=lambda one: one.name)
async def test_a_model_behind_each_wire_finds_a_tool_and_calls_it(protocol: Protocol, tmp_path: pathlib.Path) -> None:
    recorder, confirmer = Recording(), Person(Approve())
    async with serve(create_application(SCORE, [protocol])) as url:
        provider = {"protocol": protocol.name, "base_url": base_url(url, protocol), "api_key": "none"}
        assembly = loaded(
            tmp_path, {"ledger": LEDGER}, {"providers": {"house": provider}}, confirmer=confirmer, recorder=recorder
        )
        async with assembly:
            run = assembly.conduct("Book 2 into cash", model="house/small-1")
            asked = [event async for event in run if isinstance(event, ConfirmationRequested)]
            conversation = await run
    assert conversation.text == "Booked 2 into cash.\n"
    # What the model said stands in the conversation, and what was run stands in the records.
    said = [one for one in conversation.canisters if isinstance(one, InvocationCanister)]
    assert [one.name for one in said] == ["search_tools", "call_tool"]
    assert [one.tool for one in asked] == [one.tool for one in confirmer.requests] == ["ledger.book_payment"]
    assert confirmer.requests[0].arguments == {"account": "cash", "amount": 2}
    ran = [one for one in recorder.stages if one[0] in ("started", "finished")]
    assert ran == [
        ("started", "tool_search.search_tools"),
        ("finished", "tool_search.search_tools"),
        ("started", "ledger.book_payment"),
        ("finished", "ledger.book_payment"),
    ]


async def test_what_an_agent_does_not_have_is_neither_found_nor_called(tmp_path: pathlib.Path) -> None:
    agents = {"clerk": {"tools": ["ledger.list_accounts"]}}
    model = model_of(
        [
            turn("", calls=[call("search_tools", "found", query="payment account")]),
            turn("", calls=[call("call_tool", "booked", name="book_payment")]),
            turn("{found.json:/tools/0/name}; {booked.error}"),
        ]
    )
    async with loaded(tmp_path, {"ledger": LEDGER}, {"agents": agents}) as assembly:
        conversation = await assembly.conduct("Book", agent="clerk", model=model)
    assert conversation.text.startswith("list_accounts; ")
    assert "There is no tool named 'book_payment'" in conversation.text


def test_a_configuration_that_cannot_be_is_refused(tmp_path: pathlib.Path) -> None:
    places = Places(configuration=tmp_path, state=tmp_path / "state")
    for wrong in ({"search_over": -1}, {"search_over": "many"}, {"serch_over": 3}):
        failures = assemble({"tools": wrong}, places=places).loaded.failures
        assert isinstance(failures[0], ConfigurationInvalidity)
        assert "search_over" in str(failures[0])


def thousand(name: str, first: int) -> str:
    """An ensemble of a thousand tools; a file of all would be refused."""
    lines = [f'[ensemble]\nname = "{name}"\ndescription = "A lot"\n[defaults]\neffect = "none"\n']
    for at in range(first, first + 1_000):
        lines.append(
            f'[[invokers]]\nname = "tool_{at}"\ndescription = "Makes the number {at} out of a word{at % 89}."\n'
            f'[invokers.invocable]\norigin = "command"\nargv = ["echo", "{at}"]\n'
        )
    return "\n".join(lines)


async def test_five_thousand_tools_make_no_larger_request_than_none(tmp_path: pathlib.Path) -> None:
    many = {f"many_{at}": thousand(f"many_{at}", at * 1_000) for at in range(5)}
    tables = {"tools": {"search_over": 50}, "enabled": ["io"]}
    async with loaded(tmp_path, many, tables) as assembly:
        offer = Offer.of(assembly.ensembles)
        # All that can be searchable is, the tools of io as well.
        assert offer.names == ("search_tools", "call_tool")
        assert len(offer.searchable) == 5_003
        assert sum(len(encode(CHAT.invocations.definition_of(one))) for one in offer.invokers) < 3_000
        model = model_of(
            [
                turn("", calls=[call("search_tools", "found", query="number 4321")]),
                turn("", calls=[call("call_tool", "it", name="{found.json:/tools/0/name}")]),
                turn("{it}"),
            ]
        )
        conversation = await assembly.conduct("Make it", model=model)
        assert conversation.text == "4321\n"


# Output that is too long.

SPEAKER = f"""
[ensemble]
name = "speaker"
[[invokers]]
name = "count"
description = "Counts."
effect = "read"
output = "4 KiB"
[invokers.invocable]
origin = "command"
argv = [{sys.executable!r}, "-c", "for n in range(200000): print('number', n)"]
"""


async def test_a_program_that_says_a_lot_is_read_on(tmp_path: pathlib.Path) -> None:
    tables = {"enabled": ["outputs"]}
    whole = "".join(f"number {number}\n" for number in range(200_000))
    async with loaded(tmp_path, {"speaker": SPEAKER}, tables) as assembly:
        conversation = await assembly.conduct("Count", model=model_of([turn("", calls=[call("count")]), turn("Done")]))
        (said,) = results_of(conversation.canisters)
        assert len(said.text) < 5_000
        assert said.text.endswith("number 199999\n")
        assert said.report.stdout_truncated
        assert said.report.total_bytes == len(whole)
        handle = re.search(r'handle="([^"]+)"', said.text)
        assert handle is not None
        model = model_of(
            [
                turn("", calls=[call("read_output", "page", handle=handle[1], offset=1_000_000, limit=100)]),
                turn("{page}", calls=[call("read_output", "lines", handle=handle[1], pattern="r 77777$")]),
                turn("{lines.line:1}"),
            ]
        )
        conversation = await assembly.conduct(conversation.say("Read on"), model=model)
        results = results_of(conversation.canisters)
        assert results[1].text.startswith(whole[1_000_000:1_000_100])
        assert conversation.text.endswith(": number 77777")
        # Nobody else reads it.
        other = await assembly.conduct("Read", model=model)
        assert all(one.error is not None for one in results_of(other.canisters))
    kept = [path for path in (tmp_path / "state" / "outputs").rglob("*") if path.is_file()]
    assert [path.read_text() for path in kept] == [whole]


async def test_without_the_tool_that_reads_on_nothing_is_kept(tmp_path: pathlib.Path) -> None:
    async with loaded(tmp_path, {"speaker": SPEAKER}, {}) as assembly:
        conversation = await assembly.conduct("Count", model=model_of([turn("", calls=[call("count")]), turn("Done")]))
    (said,) = results_of(conversation.canisters)
    assert "bytes left out" in said.text
    assert "read_output" not in said.text
    assert not (tmp_path / "state" / "outputs").exists()
