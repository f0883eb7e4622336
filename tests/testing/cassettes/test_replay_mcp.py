"""A cassette has what was said to servers of the Model Context Protocol and by them, and is played without them."""

import base64
import contextlib
import json
import pathlib
import resource
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import pytest

from ripieno.approvals import Approve
from ripieno.canisters import Conversation
from ripieno.exceptions import InputError
from ripieno.storage.redaction import Redactor
from ripieno.testing import call, turn
from ripieno.testing.cassettes import Recorder, Replay
from ripieno.testing.cassettes.file import read
from ripieno.testing.cassettes.recorder import LIMIT
from ripieno.testing.wires import model_of
from tests.origins.mcp.test_http import at, web
from tests.support.command_line import User
from tests.support.scripted_models import Recording
from tests.support.toml_ensembles import server
from tests.testing.cassettes.test_replay import Answers, same

CANARY = "canary/q8ZkT2vPz81mNc04"
SECRETS = {"HOUSE_TOKEN": CANARY}
CONFIGURATION = {"ensembles": {"enabled": ["it"]}}
#: What carries the messages, the era, and a tool that says its argument, or nothing of it.
CARRIERS = [
    ("stdio", "2026-07-28", "greet"),
    ("stdio", "2025-11-25", "greet"),
    ("http", "2026-07-28", "echo"),
    ("http", "2025-11-25", "echo"),
    ("sse", "2025-11-25", "echo"),
]


@contextlib.contextmanager
def served(user: User, carrier: str, era: str) -> Generator[None, None, None]:
    """The ensemble ``it`` of a server that is given the canary in its environment, or in every header."""
    if carrier == "stdio":
        started = user.workspace.parent / "started"
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        tools = user.workspace.parent / "tools.json"
        tools.write_text(json.dumps([{"name": "greet", "description": "Greets.", "inputSchema": schema}]))
        script, mode = ("well_behaved.py", "") if era > "2026" else ("raw_tools_file.py", str(tools))
        user.ensemble("it", server(script, mode, more=f'TOKEN = "{{env:HOUSE_TOKEN}}"\nSTARTED = "{started}"\n'))
        yield
        assert started.exists() == (script == "raw_tools_file.py")
        started.unlink(missing_ok=True)
        return
    with web(carrier, *(["legacy"] if era < "2026" else [])) as running:
        url = running.url if carrier == "http" else f"http://127.0.0.1:{running.port}/sse"
        more = 'headers = { Authorization = "Bearer {env:HOUSE_TOKEN}" }\n'
        user.ensemble("it", at(url, more))
        yield


@contextlib.contextmanager
def room_for(file: pathlib.Path, size: int) -> Generator[None, None, None]:
    """The file takes so many bytes more, and no others do."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def lines(file: pathlib.Path, *kinds: str) -> list[dict[str, Any]]:
    every = [json.loads(line) for line in file.read_text().splitlines()]
    return [line for line in every if line["kind"] in kinds]


def answered(heard: Sequence[Mapping[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """The requests that were answered, as their method and the answer. Each answer has the id of an open request."""
    waiting: dict[object, str] = {}
    done: list[tuple[str, dict[str, Any]]] = []
    for line in heard:
        message = line["message"]
        assert message["jsonrpc"] == "2.0"
        if line["direction"] == "sent" and "id" in message:
            assert message["id"] not in waiting
            waiting[message["id"]] = message["method"]
        elif line["direction"] == "received" and "method" not in message:
            done.append((waiting.pop(message["id"]), message))
    assert set(waiting.values()) <= {"subscriptions/listen"}
    return done


@pytest.mark.parametrize(("carrier", "era", "tool"), CARRIERS)
async def test_both_directions_are_recorded_and_played_without_the_server(
    user: User, tmp_path: pathlib.Path, carrier: str, era: str, tool: str
) -> None:
    file = tmp_path / "c"
    before, after = Recording(), Recording()
    settings: dict[str, Any] = {
        "workspace": user.workspace,
        "places": user.places,
        "layers": "user",
        "secrets": SECRETS,
    }
    said: list[Conversation] = []
    with served(user, carrier, era), Recorder(file, variables={}) as recording:
        assembly = recording.assemble(CONFIGURATION, confirmer=Answers(Approve()), recorder=before, **settings)
        async with assembly:
            exposed = assembly.access_invoker(f"it.{tool}").exposed
            assert assembly.ensembles[0].connection.protocol == era
            for name in ("Ada", CANARY):
                turns = [turn(calls=[call(exposed, "one", name=name)]), turn("{one}")]
                said.append(await assembly.conduct("Go.", model=model_of(turns)))

    heard = lines(file, "mcp")
    assert {line["ensemble"] for line in heard} == {"it"}
    assert [line["ms"] for line in heard] == sorted(line["ms"] for line in heard)
    answers = answered(heard)
    greeting = ["server/discover"] if era > "2026" else ["server/discover", "initialize"]
    assert [method for method, _ in answers] == [*greeting, "tools/list", "tools/call", "tools/call"]
    sent = [line["message"] for line in heard if line["direction"] == "sent"]
    calls = [one for one in sent if one.get("method") == "tools/call"]
    assert [one["params"]["name"] for one in calls] == [tool, tool]
    assert [one["params"]["arguments"] for one in calls] == [{"name": "Ada"}, {"name": "[hidden]"}]
    results = [answer for method, answer in answers if method == "tools/call"]
    texts = [one["result"]["content"][0]["text"] for one in results]
    assert texts[0] == said[0].text
    assert texts[1] == said[1].text.replace(CANARY, "[hidden]")
    # They stand where they happened: the calls after what the model asked for, and before its results.
    steps = [line for line in lines(file, "mcp", "result") if line.get("message") in [None, *calls, *results]]
    assert [line["kind"] for line in steps] == ["mcp", "mcp", "result"] * 2
    whole = file.read_text()
    assert CANARY not in whole
    assert CANARY[7:] not in whole
    assert base64.b64encode(CANARY.encode()).decode() not in whole

    # The server is gone, and is not started again: the files that name it are still there.
    replay = Replay(file, variables={})
    async with replay.assemble(CONFIGURATION, recorder=after, **settings) as played:
        assert played.ensembles == ()
        assert played.surroundings.tap is None
        assert await played.conduct("Go.") == said[0]
        assert (await played.conduct("Go.")).text == texts[1]
    assert not (tmp_path / "started").exists()
    assert same(after.records[: len(after.records) // 2]) == same(before.records[: len(before.records) // 2])
    assert replay.left == 0


def messages(file: pathlib.Path, *said: Mapping[str, Any], secrets: Sequence[str] = ()) -> list[dict[str, Any]]:
    with Recorder(file, secrets=secrets, variables={}) as recording:
        for message in said:
            recording.tap("it", {"direction": "received", "message": message})
    return lines(file, "mcp")


def test_what_is_long_is_abridged_and_says_so(tmp_path: pathlib.Path) -> None:
    head: dict[str, Any] = {"jsonrpc": "2.0", "id": 7}

    def telling(text: str) -> dict[str, Any]:
        return {**head, "result": {"content": [{"type": "text", "text": text}]}}

    room = LIMIT - len(json.dumps(telling(""), separators=(",", ":")))
    fitting, longer = telling("x" * room), telling("x" * (room + 1))
    dense = {**head, "method": "m" * 300, "params": {str(name): ["a"] * 30 for name in range(LIMIT // 100)}}
    wide = {**head, "params": [[["a" * 150] * 20] * 20] * 20}
    whole, short, thinned, bare = messages(tmp_path / "c", fitting, longer, dense, wide)
    assert whole["message"] == fitting
    assert "abridged" not in whole
    assert short["abridged"] == LIMIT + 1
    assert short["message"] == telling(f"[{room + 1} characters]")
    assert thinned["message"]["method"] == "[300 characters]"
    assert thinned["message"]["params"]["19"] == [*["a"] * 20, "[10 more]"]
    assert list(thinned["message"]["params"])[20:] == ["…"]
    assert thinned["message"]["params"]["…"] == f"[{LIMIT // 100 - 20} more]"
    assert bare["message"] == head


def test_a_secret_is_not_cut_in_two(tmp_path: pathlib.Path) -> None:
    secret = "Q" * 12
    said = [
        {"jsonrpc": "2.0", "id": secret, "result": {"a": "x" * before + secret, "b": "y" * LIMIT}}
        for before in range(180, 210)
    ]
    heard = messages(tmp_path / "c", *said, secrets=[secret])
    assert [line["message"]["id"] for line in heard] == ["[hidden]"] * 30
    assert {line["message"]["result"]["a"].lstrip("x") for line in heard[:9]} == {"[hidden]"}
    assert "Q" not in (tmp_path / "c").read_text()


def test_the_bytes_of_a_resource_are_looked_through() -> None:
    blob = base64.b64encode(f"\x00{CANARY}\x01".encode()).decode()
    hidden = Redactor([CANARY]).value({"resource": {"uri": "file:///a", "blob": blob}})
    assert base64.b64decode(hidden["resource"]["blob"]) == b"\x00[hidden]\x01"


def test_a_file_that_takes_no_more_is_no_failure_of_a_server(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "c"
    recording = Recorder(file, variables={})
    message = {"direction": "sent", "message": {"jsonrpc": "2.0", "method": "one"}}
    with room_for(file, 20):
        recording.tap("it", message)
        with pytest.raises(InputError, match="Cannot continue recording"):
            recording.note("what", "we do")
    recording.close()
    assert read(file).whole
    assert [line.kind for line in read(file).lines] == ["mcp", "note", "end"]
    size = file.stat().st_size
    recording.tap("it", message)
    assert file.stat().st_size == size
