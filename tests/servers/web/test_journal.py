"""The journal over the page's API: lists, transcripts, calls, tokens, verification, forks, and other owners."""

import sqlite3

import pytest

from ripieno.approvals.allowances import Allowances
from ripieno.canisters import UserCanister
from ripieno.canisters.contents import TextualContent
from ripieno.canisters.conversation import Usage
from ripieno.canisters.serialization import serialize
from ripieno.execution.context import Circumstances
from ripieno.storage.records import Record
from tests.servers.web.conftest import Connect
from tests.support.chats import Reader
from tests.support.scripted_models import invoke, invokes, says, scripted, tool
from tests.support.web_pages import ServedPage

USAGE = Usage(input_tokens=7, output_tokens=3)


async def converse(served: ServedPage, text: str, owner: str = "") -> str:
    """Says something in a new conversation, and waits for the end of the run."""
    chat = served.chat
    identifier = await chat.create(owner)
    reader = Reader(chat, owner, identifier, (await chat.snapshot(owner, identifier))["position"])
    await chat.say(owner, identifier, UserCanister(content=(TextualContent(text=text),)))
    await reader.until("ConductEnded")
    return identifier


MODEL = (invokes(invoke("look", "one", at="here"), usage=USAGE), says("**Done.**", usage=USAGE))


async def test_a_conversation_is_listed_and_shown(connect: Connect) -> None:
    async with connect(scripted(*MODEL), tool("look")) as (served, client):
        identifier = await converse(served, "Look here.")
        listed = (await client.get("api/journal")).json()
        (one,) = listed["conversations"]
        assert (one["identifier"], one["title"], listed["next"]) == (identifier, "Look here.", None)
        assert (one["turns"], one["calls"], one["caller"], one["finish"]) == (2, 1, "", "stop")
        assert one["tokens"] == {"input": 14, "output": 6}
        shown = (await client.get(f"api/journal/{identifier}")).json()
        kinds = [message["type"] for message in shown["messages"]]
        assert kinds == ["user", "assistant", "invocation", "result", "assistant"]
        assert (shown["place"], shown["more"], shown["count"], shown["chat"]) == (0, False, 5, True)
        # The same messages as in the chat.
        chat = (await client.get(f"api/chat/conversations/{identifier}")).json()
        assert shown["messages"] == chat["messages"]


async def test_the_calls_and_tokens_of_a_conversation(connect: Connect) -> None:
    async with connect(scripted(*MODEL), tool("look")) as (served, client):
        identifier = await converse(served, "Look here.")
        found = (await client.get(f"api/journal/{identifier}/calls")).json()
        (call,) = found["calls"]
        assert (call["name"], call["state"], call["attempts"], call["turn"]) == ("mine.look", "done", 1, 1)
        assert call["start"]
        assert call["seconds"] >= 0
        assert [(one["turn"], one["input"], one["output"]) for one in found["turns"]] == [(1, 7, 3), (2, 7, 3)]


async def test_a_failed_a_denied_and_an_unknown_call_have_their_states(connect: Connect) -> None:
    def fail(context: object, arguments: object) -> str:
        raise RuntimeError("broken")

    calls = invokes(invoke("fails", "one"), invoke("nothing", "two"))
    async with connect(scripted(calls, says("Done.")), tool("fails", fail)) as (served, client):
        identifier = await converse(served, "Go.")
        found = (await client.get(f"api/journal/{identifier}/calls")).json()
        states = {one["invocation"]: one["state"] for one in found["calls"]}
        assert states["one"] == "failed: execution"
        assert states["two"].startswith("failed: ")


async def test_forks_begin_only_at_offered_cuts(connect: Connect) -> None:
    async with connect(scripted(*MODEL), tool("look")) as (served, client):
        identifier = await converse(served, "Look here.")
        path = f"api/journal/{identifier}"
        cuts = (await client.get(path)).json()["cuts"]
        assert cuts == [1, 4, 5]
        for at in range(7):
            answer = await client.post(f"{path}/fork", json={"at": at})
            assert (answer.status_code == 200) == (at in cuts), at
        forked = (await client.post(f"{path}/fork", json={"at": 4})).json()["identifier"]
        copy = (await client.get(f"api/chat/conversations/{forked}")).json()
        assert [message["type"] for message in copy["messages"]] == ["user", "assistant", "invocation", "result"]
        # Of a fork of a fork, the title names one place.
        again = (await client.post(f"api/journal/{forked}/fork", json={"at": 1})).json()["identifier"]
        titles = [(await client.get(f"api/journal/{one}")).json()["title"] for one in (forked, again)]
        assert titles == ["Look here. (fork at 4)", "Look here. (fork at 1)"]


@pytest.mark.parametrize("at", ["1", True, 1.5, -1])
async def test_a_fork_needs_a_number(connect: Connect, at: object) -> None:
    async with connect(scripted(*MODEL), tool("look")) as (served, client):
        identifier = await converse(served, "Look here.")
        assert (await client.post(f"api/journal/{identifier}/fork", json={"at": at})).status_code == 400


async def test_a_long_transcript_comes_in_parts(connect: Connect) -> None:
    async with connect(scripted(says("Yes."))) as (served, client):
        said = [UserCanister(content=(TextualContent(text=f"Number {at}."),)) for at in range(250)]
        served.chat.journal.record(
            [Record(stage="began", conversation="long", turn=0)]
            + [Record(stage="said", conversation="long", turn=0, canister=one) for one in said]
        )
        texts: list[str] = []
        before, more = "", True
        while more:
            part = (await client.get(f"api/journal/long{before}")).json()
            texts = [one["content"][0]["text"] for one in part["messages"]] + texts
            before, more = f"?before={part['place']}", part["more"]
        assert texts == [f"Number {at}." for at in range(250)]
        assert serialize(said[0])["content"]


async def test_a_list_comes_in_parts_and_is_searched(connect: Connect) -> None:
    async with connect(scripted(says("Yes."))) as (served, client):
        names = [await converse(served, f"Word{at}x.") for at in range(5)]
        found: list[str] = []
        before, sizes = "", list[int]()
        while not sizes or before:
            part = (await client.get(f"api/journal?limit=2{before}")).json()
            found += [one["identifier"] for one in part["conversations"]]
            sizes.append(len(part["conversations"]))
            before = "" if part["next"] is None else f"&before={part['next']}"
        assert (found, sizes) == (names[::-1], [2, 2, 1])
        (hit,) = (await client.get("api/journal?search=Word3x")).json()["conversations"]
        assert (hit["identifier"], hit["match"]) == (names[3], "Word3x.")
        assert (await client.get("api/journal?search=Nowhere")).json()["conversations"] == []
        assert (await client.get("api/journal?limit=many")).status_code == 400


async def test_what_was_allowed_and_taken_back_is_shown_with_who_and_when(connect: Connect) -> None:
    one = invoke("write", "one", text="a")
    details = {"answer": "approve", "always": True, "exact": True}
    answered = Record(
        stage="answered", conversation="c", turn=1, tool="mine.write", owner="ada", invocation=one, details=details
    )
    scope = Circumstances(conversation="c", turn=1, owner="ada")
    allowances = Allowances()
    allowances.add(scope, allowances.make("mine.write", "write", {"text": "a"}, exact=True))
    (allowance,) = allowances.of("ada")["c"]
    async with connect(scripted(says())) as (served, client):
        served.chat.journal.record([answered, allowance.revocation("ada", "c")])
        found = (await client.get("api/journal/c/calls")).json()["allowed"]
        assert [(each["state"], each["tool"], each["arguments"], each["caller"]) for each in found] == [
            (state, "mine.write", '{"text":"a"}', "ada") for state in ("allowed", "taken back")
        ]
        assert found[0]["at"] <= found[1]["at"]


async def test_many_calls_come_in_parts(connect: Connect) -> None:
    async with connect(scripted(says("Yes."))) as (served, client):
        calls = [invoke("look", f"call-{number}") for number in range(1100)]
        records = [
            Record(stage="started", conversation="many", turn=0, tool="mine.look", invocation=one) for one in calls
        ]
        used = {"model": "house/small", "usage": {"input_tokens": 7, "output_tokens": 3}}
        turns = [Record(stage="turned", conversation="many", turn=turn, details=used) for turn in range(1, 602)]
        served.chat.journal.record(records + turns)
        parts = [(await client.get(f"api/journal/many/calls?part={part}")).json() for part in range(4)]
        assert [[len(part["calls"]), len(part["turns"]), part["more"]] for part in parts] == [
            [500, 500, True],
            [500, 101, True],
            [100, 0, False],
            [0, 0, False],
        ]
        shown = [one["invocation"] for part in parts for one in part["calls"]]
        assert shown == [one.identifier for one in calls]
        assert all((part["count"], part["tokens"]) == (1100, {"input": 4207, "output": 1803}) for part in parts)
        # A part that is kept in memory does not outlive another line.
        served.chat.journal.record(turns[:1])
        found = (await client.get("api/journal/many/calls")).json()
        assert found["tokens"] == {"input": 4214, "output": 1806}


async def test_an_altered_line_is_found(connect: Connect) -> None:
    async with connect(scripted(says("Yes."))) as (served, client):
        identifier = await converse(served, "Hello.")
        path = f"api/journal/{identifier}/verify"
        assert (await client.post(path, json={})).json()["valid"] is True
        with sqlite3.connect(served.chat.journal.name) as file:
            file.execute("UPDATE lines SET body = replace(body, 'Hello.', 'Hullo.') WHERE stage = 'said'")
        file.close()
        found = (await client.post(path, json={})).json()
        assert found["valid"] is False
        assert found["message"].startswith("Line ")


async def test_owners_see_only_their_own(connect: Connect) -> None:
    async with connect(scripted(*MODEL), tool("look")) as (served, client):
        ours, hers = await converse(served, "Mine."), await converse(served, "Hers.", "ada")
        unknown = (await client.get("api/journal/none")).json()
        ada = served.headers("ada")
        listed = (await client.get("api/journal?owner=", headers=ada)).json()["conversations"]
        assert [one["identifier"] for one in listed] == [hers]
        assert (await client.get("api/journal?search=Mine", headers=ada)).json()["conversations"] == []
        for method, rest in (("GET", ""), ("GET", "/calls"), ("POST", "/verify"), ("POST", "/fork")):
            answer = await client.request(
                method, f"api/journal/{ours}{rest}", headers=ada, json={} if method == "POST" else None
            )
            assert (answer.status_code, answer.json()) == (404, unknown), rest
        # The person of this machine reads the whole file, as on the command line, and continues only their own.
        everyone = (await client.get("api/journal")).json()["conversations"]
        assert [one["caller"] for one in everyone] == ["ada", ""]
        shown = (await client.get(f"api/journal/{hers}")).json()
        assert (shown["chat"], shown["cuts"]) == (False, [])
        assert (await client.post(f"api/journal/{hers}/fork", json={})).status_code == 404


async def test_calls_without_a_model_are_no_conversations(connect: Connect) -> None:
    async with connect(scripted(says("Yes."))) as (served, client):
        call = invoke("look", "one")
        served.chat.journal.record(
            [Record(stage="started", conversation="alone", turn=0, tool="mine.look", invocation=call)]
        )
        assert (await client.get("api/chat/conversations")).json()["conversations"] == []
        (one,) = (await client.get("api/journal")).json()["conversations"]
        assert (one["title"], one["finish"]) == ("(call of mine.look)", "")
        (shown,) = (await client.get("api/journal/alone/calls")).json()["calls"]
        assert shown["state"] == "failed: outcome unknown"
