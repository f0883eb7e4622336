"""Calls of every entry point in the journal: their arguments, results, decisions and callers."""

import asyncio
import contextlib
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import pytest
from frozendict import frozendict

from ripieno.approvals import DeferredConfirmer
from ripieno.assembly import assemble
from ripieno.canisters import AssistantCanister, InvocationCanister, ResultCanister, UserCanister
from ripieno.conducting.resume import resumable
from ripieno.exceptions import InputError
from ripieno.execution import Circumstances
from ripieno.models.protocols.openai_chat import PROTOCOL
from ripieno.servers.http.keys import digest_of
from ripieno.storage.journal import Journal
from ripieno.storage.records import Record
from ripieno.testing import call, turn
from ripieno.testing.scores import Score
from tests.cli.conversations.test_ask import serving
from tests.documentation.test_gateway import KEY, ask
from tests.servers.mcp.test_stdio import call as request
from tests.servers.mcp.test_stdio import greet, receive, send
from tests.support.command_line import PATIENCE, User, wait_for
from tests.support.databases import paused_in
from tests.support.hosted_runs import Counted, asks, staged
from tests.support.scripted_models import ensemble, invokes, says, scripted, tool
from tests.support.scripted_models import invoke as invoke_call

SECRET = "xoxb-a-secret-of-the-user"
READ, WRITE = {"path": "notes.txt"}, {"path": "new.txt", "content": SECRET}
EntryPoint: TypeAlias = Callable[[User, Sequence[str]], None]


def invoke(user: User, options: Sequence[str]) -> None:
    for name, arguments in (("read_file", READ), ("write_file", WRITE)):
        pairs = (f"{key}={value}" for key, value in arguments.items())
        user.call("invoke", f"io.{name}", *pairs, *options, SERVICE_TOKEN=SECRET)


def serve_mcp(user: User, options: Sequence[str]) -> None:
    with user.start("serve", "mcp", "-e", "io", *options, SERVICE_TOKEN=SECRET) as process:
        greet(process)
        for number, (name, arguments) in enumerate((("read_file", READ), ("write_file", WRITE))):
            send(process, request(number, name, **arguments))
            receive(process)
        process.communicate(timeout=PATIENCE)


def serve_responses(user: User, options: Sequence[str]) -> None:
    calls = [call("read_file", "seen", **READ), call("write_file", "lost", **WRITE)]
    with serving(Score.of_turns([turn(calls=calls), turn("Done.")]), PROTOCOL) as url:
        user.configure(
            f'[providers.house]\nprotocol = "openai-chat"\nbase_url = "{url}"\n'
            f'[gateway.keys]\nlaptop = "{digest_of(KEY)}"\n'
        )
        words = ("serve", "responses", "--port", "0", "-m", "house/small", "-e", "io", *options)
        with user.start(*words, SERVICE_TOKEN=SECRET) as process:
            port = int(wait_for(process, r"Serving .* at http://[^/]*:([0-9]+)/v1")[1])
            said = [("user", "Before."), ("assistant", "Earlier."), ("user", "Now.")]
            history = [{"role": role, "content": text} for role, text in said]
            ask(port, key=KEY, model="small", input=history)
            process.terminate()
            process.communicate(timeout=PATIENCE)


def embed(user: User, options: Sequence[str]) -> None:
    async def run() -> None:
        configuration = {"ensembles": {"enabled": ["io"]}, "journal": {"enabled": not options}}
        secrets = {"SERVICE_TOKEN": SECRET}
        async with assemble(configuration, workspace=user.workspace, places=user.places, secrets=secrets) as assembly:
            for number, (name, arguments) in enumerate((("read_file", READ), ("write_file", WRITE))):
                one = InvocationCanister(identifier=f"call_{number}", name=name, arguments=frozendict(arguments))
                scope = Circumstances(conversation="embedded", owner="ada")
                await assembly.execution.execute(one, ensembles=assembly.ensembles, circumstances=scope)

    asyncio.run(run())


@contextlib.contextmanager
def opened(user: User) -> Iterator[Journal]:
    path = user.state / "journal.sqlite3"
    assert path.exists()
    with Journal(path) as journal:
        yield journal


def records(journal: Journal) -> list[Record]:
    return [record for line in journal.lines() if (record := line.record) is not None]


@pytest.mark.parametrize(
    ("enter", "caller"),
    [(invoke, ""), (serve_mcp, "test "), (serve_responses, "laptop"), (embed, "ada")],
    ids=["invoke", "serve mcp", "serve responses", "assemble"],
)
def test_every_entry_point_records_its_calls_with_decisions_and_callers(
    user: User, enter: EntryPoint, caller: str
) -> None:
    (user.workspace / "notes.txt").write_text("alpha\n")
    enter(user, ["--no-journal"])
    assert not (user.state / "journal.sqlite3").exists()
    enter(user, [])
    with opened(user) as journal:
        found = {(one.tool, one.stage): one for one in records(journal) if one.invocation is not None}
        assert set(found) == {("io.read_file", one) for one in ("started", "finished")} | {
            ("io.write_file", one) for one in ("asked", "answered", "refused")
        }
        started, finished = found["io.read_file", "started"], found["io.read_file", "finished"]
        assert started.invocation is not None
        assert started.invocation.arguments == READ
        assert started.details == {"allowed": "its effect is read"}
        assert finished.result is not None
        assert finished.result.text == "alpha\n"
        refused = found["io.write_file", "refused"]
        assert refused.result is not None
        assert refused.result.error is not None
        assert refused.result.error.category == "denied"
        assert found["io.write_file", "answered"].details["answer"] == "deny"
        assert all(one.owner.startswith(caller) and bool(one.owner) == bool(caller) for one in found.values())
        assert journal.verify() is None
    whole = b"".join(one.read_bytes() for one in user.state.rglob("*") if one.is_file() and "journal" in one.name)
    assert SECRET.encode() not in whole
    assert b"[secret " in whole


def test_a_gateway_records_what_a_request_adds_to_its_history(user: User) -> None:
    (user.workspace / "notes.txt").write_text("alpha\n")
    serve_responses(user, [])
    with opened(user) as journal:
        (summary,) = journal.conversations()
        assert (summary.words, summary.owner, summary.conducted) == ("Now.", "laptop", True)
        restored = journal.restore(summary.identifier)
        assert restored.missing == 2
        assert isinstance(restored.conversation.canisters[0], UserCanister)
    shown = user.call("journal", "show").stdout
    assert "began: house/small, for laptop" in shown
    assert "Before." not in shown
    forked = user.call("journal", "fork", summary.identifier)
    assert (forked.returncode, "first 2 messages" in forked.stderr) == (2, True)
    resumed = user.call("resume")
    assert resumed.returncode == 2, resumed.stderr
    assert "waits or was interrupted. To start one: ripieno ask" in resumed.stderr


def test_what_happened_while_the_model_answered_is_shown_in_its_order(user: User) -> None:
    (user.workspace / "notes.txt").write_text("alpha\n")
    calls = [call("read_file", "wrong", file="notes.txt"), call("read_file", "seen", **READ)]
    with serving(Score.of_turns([turn("I look.", calls=calls), turn("Done.")]), PROTOCOL) as url:
        user.configure(f'[providers.house]\nprotocol = "openai-chat"\nbase_url = "{url}"\n')
        assert user.call("ask", "-m", "house/small", "--tools", "io.*", "Read it.").returncode == 0
    shown = user.call("journal", "show").stdout
    steps = re.findall(r"^(?:  - \S+  (\w+)|(\d+)  (\w+ ?\w*))", shown, re.MULTILINE)
    found = [stage or f"{number} {what}" for stage, number, what in steps]
    assert found.index("refused") < found.index("turned") < found.index("7 assistant")
    # The second call may start or end before the answer does; the times show it.
    times = re.findall(r"^  - (\S+)", shown, re.MULTILINE)
    assert times == sorted(times)
    found.remove("turned")
    assert found == [
        "began",
        "1 user",
        "2 assistant",
        "3 call read_file",
        "4 call read_file",
        "refused",
        "5 result of",
        "started",
        "finished",
        "6 result of",
        "7 assistant",
        "turned",
        "ended",
    ]


async def test_a_waiting_conversation_of_a_gateway_goes_on_with_its_whole_history(tmp_path: pathlib.Path) -> None:
    write = Counted()
    model = scripted(invokes(invoke_call("write", "w", n=1)), says("Done."))
    history = (UserCanister.of("Before."), AssistantCanister.of("Earlier."), UserCanister.of("Now."))
    settings: dict[str, Any] = {"configuration": {"journal": {"enabled": True}}, "absent": "defer"}
    tools = ensemble(tool("write", write, effect="write"))
    async with staged(tmp_path, tools, confirmer=DeferredConfirmer(), **settings) as played:
        await played.answer(model, asks(*history), shows=False)
        (paused,) = paused_in(tmp_path / "state").all()
        with Journal(tmp_path / "state" / "journal.sqlite3") as journal:
            with pytest.raises(InputError, match="first 2 messages"):
                resumable(journal, paused.identifier)
            conversation = resumable(journal, paused.identifier, paused).conversation
            assert conversation.canisters == paused.conversation.canisters
            # Another process has run the call and was killed: the call is not repeated.
            started = Record(stage="started", conversation=paused.identifier, turn=2, invocation=conversation.open[0])
            journal.record([started])
            conversation = resumable(journal, paused.identifier, paused).conversation
    assert conversation.canisters[:3] == history
    assert [type(one) for one in conversation.canisters[-2:]] == [InvocationCanister, ResultCanister]
    assert write.runs == []
