"""`ripieno serve web` as a process: its link, its keys, its log, and conversations that the terminal shares."""

import os
import pathlib
import signal
import stat
from collections.abc import Mapping
from typing import Any

import httpx2
import pytest

from ripieno.cli.serve.web import opened
from tests.support.command_line import User, wait_for

LINK = r"(http://\S+)/#code=(\S+)"
SCORE = '[score]\nname = "hello"\n[[turns]]\ntext = "Hello from the model."\n'
KEY = "a-key-of-sixteen-characters"


def configure(user: User, urls: Mapping[str, str]) -> None:
    """Makes a rehearsed model the default one."""
    url = urls["openai-chat"]
    user.configure(f'[model]\ndefault = "mine/x"\n[providers.mine]\nprotocol = "openai-chat"\nbase_url = "{url}"\n')


def sign_in(url: str, code: str) -> httpx2.Client:
    """A client that has exchanged a code."""
    token = httpx2.post(f"{url}/api/session", json={"code": code}).json()["token"]
    return httpx2.Client(base_url=url, headers={"authorization": f"Bearer {token}"})


def wait_until_idle(client: httpx2.Client, identifier: str) -> dict[str, Any]:
    """Follows a conversation until its run has ended."""
    while True:
        found: dict[str, Any] = client.get(f"/api/chat/conversations/{identifier}").json()
        if found["state"] != "running":
            return found
        with client.stream(
            "GET", f"/api/chat/conversations/{identifier}/events", params={"after": found["position"]}
        ) as events:
            next(line for line in events.iter_lines() if "ConductEnded" in line)


@pytest.fixture
def score(tmp_path: pathlib.Path) -> str:
    file = tmp_path / "score.toml"
    file.write_text(SCORE)
    return str(file)


def test_a_conversation_is_the_same_on_the_page_and_in_the_terminal(user: User, score: str) -> None:
    with user.rehearse(score) as urls:
        configure(user, urls)
        with user.start("serve", "web", "--no-browser", "--port", "0") as process:
            found = wait_for(process, LINK)
            with sign_in(found[1], found[2]) as client:
                identifier = client.post("/api/chat/conversations", json={}).json()["identifier"]
                client.post(f"/api/chat/conversations/{identifier}/messages", json={"text": "Hello."})
                shown = wait_until_idle(client, identifier)
                assert [one["type"] for one in shown["messages"]] == ["user", "assistant"]
                # One of the terminal appears on the page.
                assert user.call("ask", "From the terminal.").returncode == 0
                titles = {one["title"] for one in client.get("/api/chat/conversations").json()["conversations"]}
                assert titles == {"Hello.", "From the terminal."}
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
        assert "Hello." in user.call("journal", "show", identifier[:8]).stdout
        # It has ended, so that it is continued with a message.
        assert "ripieno chat --resume" in user.call("resume", identifier[:8]).stderr


@pytest.mark.parametrize("extra", [(), ("--debug",), ("--log-format", "json", "--debug")], ids=str)
def test_no_token_is_in_the_log(user: User, score: str, extra: tuple[str, ...]) -> None:
    with user.rehearse(score) as urls:
        configure(user, urls)
        with user.start("serve", "web", "--no-browser", "--port", "0", *extra) as process:
            found = wait_for(process, r"(http://[^\s\"\\]+)/#code=([\w-]+)")
            with sign_in(found[1], found[2]) as client:
                token = client.headers["authorization"].partition(" ")[2]
                for path in ("models", "tools", "journal", "journal/none", "chat/usage"):
                    client.get(f"/api/{path}")
                client.post("/api/markdown", content=b"[", headers={"content-type": "application/json"})
                httpx2.post(f"{found[1]}/api/session", json={"code": token})
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
        assert token not in out + err
        # The link, too, is written only once.
        assert found[2] not in out + err
        assert not [file for file in user.state.rglob("*") if file.is_file() and token.encode() in file.read_bytes()]


def test_a_refused_code_offers_one_more_link(user: User, score: str) -> None:
    with user.rehearse(score) as urls:
        configure(user, urls)
        with user.start("serve", "web", "--no-browser", "--port", "0") as process:
            found = wait_for(process, LINK)
            sign_in(found[1], found[2]).close()
            for _ in range(5):
                assert httpx2.post(f"{found[1]}/api/session", json={"code": found[2]}).status_code == 401
            second = wait_for(process, LINK)
            sign_in(second[1], second[2]).close()
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=30)
            assert "#code=" not in err


def test_a_key_opens_the_page_beyond_this_machine(user: User, score: str) -> None:
    refused = user.call("serve", "web", "--host", "0.0.0.0")
    assert "requires a key" in refused.stderr
    with user.rehearse(score) as urls:
        configure(user, urls)
        command = (
            "serve",
            "web",
            "--no-browser",
            "--port",
            "0",
            "--key-variable",
            "WEB_KEY",
            "--allow-host",
            "box.local",
        )
        with user.start(*command, WEB_KEY=KEY) as process:
            found = wait_for(process, LINK)
            for _ in range(2):
                sign_in(found[1], KEY).close()
            assert httpx2.post(f"{found[1]}/api/session", json={"code": KEY[:-1]}).status_code == 401
            names = {name: httpx2.get(found[1], headers={"host": name}).status_code for name in ("box.local", "a.b")}
            assert names == {"box.local": 200, "a.b": 421}
            # A key is exchanged, and is no token itself.
            bearer = {"authorization": f"Bearer {KEY}"}
            assert httpx2.get(f"{found[1]}/api/models", headers=bearer).status_code == 401


def test_without_a_model_it_says_how_to_name_one(user: User) -> None:
    done = user.call("serve", "web", "--no-browser", "--port", "0")
    assert done.returncode == 2
    assert "No model is configured" in done.stderr
    assert "ripieno serve web -m score:FILE" in done.stderr


def test_a_disabled_journal_is_an_error(user: User) -> None:
    user.configure(
        '[journal]\nenabled = false\n[model]\ndefault = "mine/x"\n'
        '[providers.mine]\nprotocol = "openai-chat"\nbase_url = "http://127.0.0.1:9"\n'
    )
    done = user.call("serve", "web", "--no-browser", "--port", "0")
    assert done.returncode == 2
    assert "Set enabled = true under [journal]" in done.stderr


def test_the_file_that_opens_the_browser_is_private(monkeypatch: pytest.MonkeyPatch) -> None:
    pages: list[str] = []
    monkeypatch.setattr("ripieno.cli.serve.web.open_page", pages.append)
    with opened('http://127.0.0.1:1/#code=a"b'):
        path = pathlib.Path(pages[0].removeprefix("file://"))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.stat().st_uid == os.geteuid()
        assert 'url=http://127.0.0.1:1/#code=a&quot;b"' in path.read_text()
        # Other users can read the arguments of a process.
        assert "code=" not in pages[0]
    assert not path.exists()


def test_cassettes_of_the_workspace_are_replayed(user: User, score: str) -> None:
    assert user.call("ask", "-m", f"score:{score}", "--record", "talk.jsonl", "Hello?").returncode == 0
    (user.workspace / "other.jsonl").write_text('{"kind":"else"}\n')
    (user.workspace / "link.jsonl").symlink_to(user.workspace / "talk.jsonl")
    os.mkfifo(user.workspace / "pipe.jsonl")
    (user.workspace / "broken.jsonl").write_text('{"kind":"cassette","version":1}\n{"kind":"nothing"}\n')
    with user.rehearse(score) as urls:
        configure(user, urls)
        with user.start("serve", "web", "--no-browser", "--port", "0") as process:
            found = wait_for(process, LINK)
            with sign_in(found[1], found[2]) as client:
                listed = client.get("/api/cassettes").json()
                assert listed == {"live": False, "cassettes": [{"name": "broken.jsonl"}, {"name": "talk.jsonl"}]}
                replayed = client.get("/api/cassettes/talk.jsonl").json()
                texts = {one["title"]: one["text"] for one in replayed["steps"]}
                assert (replayed["live"], texts["The user says"]) == (False, "Hello?")
                assert texts["The model says"] == "Hello from the model."
                assert client.get("/api/cassettes/broken.jsonl").status_code == 422
                for name in ("other.jsonl", "link.jsonl", "pipe.jsonl", "..%2Fstate%2Fx", "%2Fetc%2Fpasswd"):
                    assert client.get(f"/api/cassettes/{name}").status_code == 404


def test_a_worker_conducts_the_runs_of_the_page(user: User, score: str) -> None:
    with user.rehearse(score) as urls:
        configure(user, urls)
        file = user.configuration / "config.toml"
        file.write_text(file.read_text() + "[durable]\nservers = true\n")
        refused = user.call("serve", "web", "--no-browser", "--port", "0", "--ensemble", "io")
        assert refused.returncode == 2
        assert "--ensemble would narrow nothing" in refused.stderr
        with user.start("serve", "web", "--no-browser", "--port", "0") as process, user.start("work") as worker:
            wait_for(worker, "takes submitted runs")
            found = wait_for(process, LINK)
            with sign_in(found[1], found[2]) as client:
                identifier = client.post("/api/chat/conversations", json={}).json()["identifier"]
                client.post(f"/api/chat/conversations/{identifier}/messages", json={"text": "Hello."})
                shown = wait_until_idle(client, identifier)
                assert [one["type"] for one in shown["messages"]] == ["user", "assistant"]
        # The page may know the end before the queue does.
        assert "Hello." in user.call("runs", "list").stdout


def test_a_score_is_a_model(user: User) -> None:
    (user.workspace / "mine.toml").write_text(
        SCORE.replace("[[", "continues = true\n[[") + '[[turns]]\ntext = "And again."\n'
    )
    with user.start("serve", "web", "--no-browser", "--port", "0", "-m", "score:./mine.toml") as process:
        found = wait_for(process, LINK)
        with sign_in(found[1], found[2]) as client:
            identifier = client.post("/api/chat/conversations", json={}).json()["identifier"]
            for number, text in enumerate(("Hello from the model.", "And again."), 1):
                client.post(f"/api/chat/conversations/{identifier}/messages", json={"text": "Hello."})
                shown = wait_until_idle(client, identifier)
                assert (len(shown["messages"]), shown["messages"][-1]["content"][0]["text"]) == (2 * number, text)
            (model,) = client.get("/api/models").json()["models"]
            assert model == {"name": f"score:{(user.workspace / 'mine.toml').resolve()}", "default": True}
    refused = user.call("serve", "web", "-m", "score:./none.toml")
    assert refused.returncode == 2
    assert "none.toml" in refused.stderr
