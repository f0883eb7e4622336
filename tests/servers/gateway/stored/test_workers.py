"""Background responses that workers answer: they survive their gateway, and any gateway shows and cancels them."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.command_line import PATIENCE, User, wait_for
from tests.support.openresponses_checker import StreamChecker
from tests.support.postgresql import address_of_schema

SCORE = """
[score]
name = "gate"
[[turns]]
text = "I wait."
[[turns.calls]]
tool = "gate"
label = "gate"
arguments = {}
[[turns]]
text = "It is {gate}."
"""
TOOLS = """
[ensemble]
name = "gates"
description = "Waits."
module = "./gates.py"
[[invokers]]
name = "gate"
description = "Waits."
effect = "read"
timeout = 300
"""
MODULE = """
from ripieno.ensembles.threads import run_in_thread

async def gate(context, arguments):
    def wait():
        with open({begun!r}, "ab") as file:
            file.write(b"x")
        with open({pipe!r}, "rb") as file:
            return file.read().decode()
    # The thread does not keep the process from ending.
    return await run_in_thread(wait, patient=False)
"""
SETTINGS = """
[providers.house]
protocol = "openai-chat"
base_url = "{url}"
[ensembles]
enabled = ["gates"]
[gateway]
models = ["house/small"]
ensembles = ["gates"]
secret = "a secret of sixteen bytes or more"
[gateway.store]
[durable]
servers = true
[journal]
enabled = true
"""


class Site:
    """A user with gateways and a worker, and a tool that waits."""

    def __init__(self, user: User, variables: dict[str, str]) -> None:
        self.user = user
        self.variables = variables
        self.pipe = user.workspace.parent / "pipe"
        self.begun = user.workspace.parent / "begun"
        os.mkfifo(self.pipe)

    def start(self, *command: str) -> contextlib.AbstractContextManager[subprocess.Popen[str]]:
        return self.user.start(*command, **self.variables)

    @contextlib.contextmanager
    def gateway(self) -> Iterator[tuple[int, subprocess.Popen[str]]]:
        with self.start("serve", "responses", "--port", "0") as process:
            found = wait_for(process, r"Serving .* at http://[^/]*:([0-9]+)/v1, until Ctrl-C")
            yield int(found[1]), process

    @contextlib.contextmanager
    def worker(self) -> Iterator[subprocess.Popen[str]]:
        with self.start("work") as process:
            wait_for(process, "takes submitted runs")
            yield process

    def wait_until_begun(self) -> None:
        """Returns when the tool waits."""
        until = time.monotonic() + PATIENCE
        while not self.begun.exists():
            assert time.monotonic() < until
            time.sleep(0.02)  # Another process creates it.

    def open(self) -> None:
        """Lets the tool go on."""
        self.pipe.write_text("open")

    def open_soon(self) -> None:
        """Lets the tool go on as soon as it waits."""
        threading.Thread(target=self.open, daemon=True).start()


@pytest.fixture(params=["sqlite", "postgresql"])
def site(user: User, request: pytest.FixtureRequest) -> Iterator[Site]:
    (user.workspace / "gate.toml").write_text(SCORE)
    variables: dict[str, str] = {}
    with user.rehearse("gate.toml") as urls:
        settings = SETTINGS.format(url=urls["openai-chat"])
        if request.param == "postgresql":
            variables["JOURNAL_URL"] = address_of_schema(request.getfixturevalue("postgresql_server"))
            settings += 'url = "{env:JOURNAL_URL}"\n'
        user.configure(settings)
        found = Site(user, variables)
        folder = user.ensemble("gates", TOOLS).parent
        (folder / "gates.py").write_text(MODULE.format(begun=str(found.begun), pipe=str(found.pipe)))
        yield found


def ask(port: int, method: str, path: str, body: Any = None) -> Any:
    """The answer to a request: JSON, or the bytes of a stream."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        given = None if body is None else json.dumps(body)
        connection.request(method, path, given, {"content-type": "application/json"})
        answer = connection.getresponse()
        said = answer.read()
        assert answer.status == 200, said
        streamed = answer.headers["content-type"].startswith("text/event-stream")
        return said.replace(b": working\n\n", b"") if streamed else json.loads(said)


def ended(port: int, identifier: str) -> Any:
    """The response at its end, by polling as clients do."""
    until = time.monotonic() + PATIENCE
    while (found := ask(port, "GET", f"/v1/responses/{identifier}"))["status"] in ("queued", "in_progress"):
        assert time.monotonic() < until, found
        time.sleep(0.05)  # Between polls.
    return found


def texts(response: Any) -> list[str]:
    """The texts of the messages of a response."""
    messages = (one for one in response["output"] if one["type"] == "message")
    return ["".join(part["text"] for part in one["content"]) for one in messages]


BODY = {"model": "small", "input": "Go.", "background": True}


def test_it_survives_the_gateway(site: Site) -> None:
    with site.worker():
        with site.gateway() as (port, process):
            conversation = ask(port, "POST", "/v1/conversations", {})["id"]
            queued = ask(port, "POST", "/v1/responses", {**BODY, "conversation": conversation})
            assert (queued["status"], queued["background"], queued["output"]) == ("queued", True, [])
            site.wait_until_begun()
            process.kill()
        with site.gateway() as (port, _):
            running = ask(port, "GET", f"/v1/responses/{queued['id']}")
            assert running["status"] == "in_progress"
            with pytest.raises(AssertionError, match="conversation_locked"):
                ask(port, "POST", "/v1/responses", {"model": "small", "input": "Now.", "conversation": conversation})
            site.open()
            response = ended(port, queued["id"])
            assert response["status"] == "completed"
            assert texts(response) == ["I wait.", "It is open."]
            items = ask(port, "GET", f"/v1/conversations/{conversation}/items?order=asc")["data"]
            assert [one["type"] for one in items][:2] == ["message", "message"]
            assert items[0]["content"][0]["text"] == "Go."
            assert "It is open." in json.dumps(items[-1])


def test_a_person_may_watch_its_run(site: Site) -> None:
    with site.gateway() as (port, _):
        queued = ask(port, "POST", "/v1/responses", BODY)
        with site.start("runs", "watch", queued["id"]) as process:
            wait_for(process, f"background response of a gateway.* GET /v1/responses/{queued['id']}\n")
            wait_for(process, "No worker that answers background responses is alive.")
            with site.worker():
                site.open_soon()
                _, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, err) == (0, "It has ended: stop.\n")


def test_a_stream_goes_on_at_another_gateway(site: Site) -> None:
    with site.worker(), site.gateway() as (other, _):
        with site.gateway() as (port, process):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
            headers = {"content-type": "application/json"}
            connection.request("POST", "/v1/responses", json.dumps({**BODY, "stream": True}), headers)
            answer = connection.getresponse()
            seen = b""
            while seen.count(b"\n\n") < 4:
                seen += answer.readline().replace(b": working\n", b"")
            process.kill()
            connection.close()
        seen = seen[: seen.rindex(b"\n\n") + 2]
        pieces = [one for one in seen.split(b"\n\n") if one]
        last = json.loads(pieces[-1].partition(b"data: ")[2])["sequence_number"]
        identifier = json.loads(pieces[0].partition(b"data: ")[2])["response"]["id"]
        site.wait_until_begun()
        site.open()
        path = f"/v1/responses/{identifier}?stream=true"
        rest = ask(other, "GET", f"{path}&starting_after={last}")
        whole = ask(other, "GET", path)
        assert b"\n\n".join(pieces) + b"\n\n" + rest == whole
        checker = StreamChecker()
        checker.write(whole)
        assert texts(checker.end().response) == ["I wait.", "It is open."]


def test_it_is_cancelled_at_another_gateway(site: Site) -> None:
    with site.gateway() as (port, _), site.gateway() as (other, _):
        # No worker has taken it.
        queued = ask(port, "POST", "/v1/responses", BODY)
        assert ask(other, "POST", f"/v1/responses/{queued['id']}/cancel")["status"] == "cancelled"
        with site.worker():
            running = ask(port, "POST", "/v1/responses", BODY)
            site.wait_until_begun()
            assert ask(other, "POST", f"/v1/responses/{running['id']}/cancel")["status"] == "cancelled"
            assert ask(port, "GET", f"/v1/responses/{queued['id']}")["status"] == "cancelled"
            deleted = ask(other, "DELETE", f"/v1/responses/{running['id']}")
            assert deleted["deleted"] is True


def test_the_end_of_its_worker_is_the_reason(site: Site) -> None:
    with site.gateway() as (port, _):
        with site.start("work", "--grace", "0") as process:
            wait_for(process, "takes submitted runs")
            running = ask(port, "POST", "/v1/responses", BODY)
            site.wait_until_begun()
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
        failed = ask(port, "GET", f"/v1/responses/{running['id']}")
        assert (failed["status"], failed["error"]["code"]) == ("failed", "server_ending")
        assert "failed" in site.user.run("runs", "list", **site.variables).stdout


def test_a_worker_without_a_gateway_leaves_it_to_another(site: Site) -> None:
    path = site.user.configuration / "config.toml"
    text = path.read_text()
    site.user.configure(text.replace("servers = true\n", ""))
    with site.worker():
        site.user.configure(text)
        with site.gateway() as (port, _):
            queued = ask(port, "POST", "/v1/responses", BODY)
            # The worker takes what comes after it.
            submit = ("submit", "--anywhere", "--watch", "-m", "house/small", "Go.")
            site.open_soon()
            assert site.user.run(*submit, **site.variables).stdout.endswith("It is open.\n")
            assert ask(port, "GET", f"/v1/responses/{queued['id']}")["status"] == "queued"
            with site.worker():
                site.open_soon()
                assert texts(ended(port, queued["id"]))[-1] == "It is open."
