"""Workers of the gateway: real processes that share a port, are replaced when they are lost, and end together."""

import contextlib
import http.client
import http.server
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from tests.skips import needs
from tests.support.command_line import PATIENCE, User

pytestmark = needs("/proc", there=sys.platform == "linux")
MESSAGE = {"role": "assistant", "content": "Here I am."}
ANSWER = {
    "id": "c1",
    "object": "chat.completion",
    "created": 0,
    "model": "small-1",
    "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}


class Backend:
    """A model that answers when it is let go."""

    def __init__(self) -> None:
        self.asked = threading.Semaphore(0)
        self.go = threading.Event()
        self.go.set()
        backend = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                backend.asked.release()
                backend.go.wait(PATIENCE)
                body = json.dumps(ANSWER).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def close(self) -> None:
        self.go.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@contextlib.contextmanager
def configured(user: User) -> Iterator[Backend]:
    """A model that answers when it is let go, and is the default one of this user."""
    one = Backend()
    user.configure(
        '[model]\ndefault = "house/small-1"\n[providers.house]\nprotocol = "openai-chat"\napi_key = "none"\n'
        f'base_url = "http://127.0.0.1:{one.server.server_port}/v1"\n'
        "[providers.house.capabilities]\nstreaming = false\n"
    )
    try:
        yield one
    finally:
        one.close()


@pytest.fixture
def backend(user: User) -> Iterator[Backend]:
    with configured(user) as one:
        yield one


class Gateway:
    """A gateway as a process, and what it says."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said = ""
        self.port = int(self.wait_for(r"at http://127\.0\.0\.1:([0-9]+)/v1, until Ctrl-C\.")[1])

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Reads until it has said that, and forgets what came before."""
        assert self.process.stderr is not None
        while (found := re.search(pattern, self.said)) is None:
            line = self.process.stderr.readline()
            assert line, f"It has ended: {self.said}"
            self.said += line
        self.said = self.said[found.end() :]
        return found

    @property
    def workers(self) -> set[int]:
        return children(self.process.pid)

    def ask(self, *, path: str = "/healthz", body: str | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.request("GET" if body is None else "POST", path, body, {"content-type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()

    def play(self) -> tuple[int, bytes]:
        return self.ask(path="/v1/responses", body='{"model": "small-1", "input": "Are you there?"}')

    def wait_until_it_listens_no_more(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                socket.create_connection(("127.0.0.1", self.port)).close()

    def end(self, number: int = signal.SIGTERM) -> str:
        """Ends it, well; what it said last."""
        self.process.send_signal(number)
        assert self.process.wait(PATIENCE) == 0
        assert self.process.stderr is not None
        return self.said + self.process.stderr.read()


@contextlib.contextmanager
def serving(user: User, *arguments: str) -> Iterator[Gateway]:
    with user.start("serve", "responses", "--port", "0", *arguments) as process:
        yield Gateway(process)


def children(pid: int) -> set[int]:
    """The processes whose parent that is."""
    found: set[int] = set()
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
            if int(parent) == pid and state != "Z":
                found.add(int(path.parent.name))
    return found


def wait_until_gone(pids: set[int]) -> None:
    """Returns when none of these processes is there; the time limit of tests ends what does not end."""
    deadline = time.monotonic() + PATIENCE
    while any(is_alive(pid) for pid in pids):
        assert time.monotonic() < deadline, pids
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_worker_is_small(user: User, backend: Backend) -> None:
    with serving(user, "--workers", "2") as gateway:
        assert {gateway.play()[0] for _ in range(10)} == {200}
        for worker in gateway.workers:
            status = pathlib.Path(f"/proc/{worker}/status").read_text()
            found = re.search(r"VmRSS:\s+([0-9]+) kB", status)
            assert found is not None
            print(f"{int(found[1]) / 1024:.0f} MiB")
            assert int(found[1]) < 120 * 1000
        gateway.end()


def test_a_worker_that_is_killed_is_replaced(user: User, backend: Backend) -> None:
    with serving(user, "--workers", "2", "--log-format", "json") as gateway:
        for _ in range(2):
            before = gateway.workers
            lost = min(before)
            os.kill(lost, signal.SIGKILL)
            warning = r'"level": "warning", "logger": "ripieno\.cli", "message": "'
            gateway.wait_for(
                rf"{warning}A worker \(process {lost}\) was killed by signal 9\. Another one starts in [0-9.]+ s\."
            )
            while len(gateway.workers) < 2:
                assert gateway.ask()[0] == 200
            assert lost not in gateway.workers
        assert gateway.play()[0] == 200
        gateway.end()


def test_workers_end_with_their_parent(user: User, backend: Backend) -> None:
    with serving(user, "--workers", "3") as gateway:
        workers = gateway.workers
        assert len(workers) == 3
        gateway.process.kill()
        assert gateway.process.wait(PATIENCE) == -signal.SIGKILL
        wait_until_gone(workers)
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", gateway.port))


@pytest.mark.parametrize(("workers", "number"), [("1", signal.SIGTERM), ("2", signal.SIGINT), ("2", signal.SIGHUP)])
def test_an_open_answer_is_given_to_its_end(user: User, backend: Backend, workers: str, number: int) -> None:
    with serving(user, "--workers", workers, "--grace", "50") as gateway:
        processes = gateway.workers
        backend.go.clear()
        came: list[tuple[int, bytes]] = []
        asking = threading.Thread(target=lambda: came.append(gateway.play()))
        asking.start()
        assert backend.asked.acquire(timeout=PATIENCE)
        # As a terminal does: all of the group are told.
        os.killpg(gateway.process.pid, number)
        gateway.wait_until_it_listens_no_more()
        assert not came
        backend.go.set()
        asking.join()
        assert came[0][0] == 200
        assert b"Here I am." in came[0][1]
        assert gateway.process.wait(PATIENCE) == 0
        assert gateway.process.stderr is not None
        # After a moment it reports that it waits.
        assert re.fullmatch(
            r"(Ending: open answers have 50 s.*\n)?The server has ended.\n", gateway.process.stderr.read()
        )
        assert not any(is_alive(one) for one in processes)


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("count", [1, 2])
def test_an_answer_without_end_is_cut(user: User, backend: Backend, twice: bool, count: int) -> None:
    """When its grace is over, or when somebody insists."""
    with serving(user, "--workers", str(count), "--grace", "600" if twice else "0.5") as gateway:
        workers = gateway.workers if count > 1 else set()
        backend.go.clear()
        came: list[Exception | tuple[int, bytes]] = []

        def ask() -> None:
            try:
                came.append(gateway.play())
            except (OSError, http.client.HTTPException) as error:
                came.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        assert backend.asked.acquire(timeout=PATIENCE)
        gateway.process.send_signal(signal.SIGTERM)
        if twice:
            # Until it has heard the first one.
            gateway.wait_until_it_listens_no_more()
            gateway.wait_for(r"Ending: open answers have 600 s\. Another signal ends them at once\.\n")
            gateway.process.send_signal(signal.SIGINT)
        assert gateway.process.wait(PATIENCE) == (128 + signal.SIGINT if twice else 0)
        asking.join()
        said = gateway.said + gateway.process.stderr.read()
        assert ("Open answers were cut off." in said) == twice
        assert ("Ending: open answers have 0.5 s." in said) != twice
        assert "Traceback" not in said
        (answer,) = came
        if twice:
            assert isinstance(answer, Exception)
        else:
            assert isinstance(answer, tuple)
            assert (answer[0], json.loads(answer[1])["error"]["code"]) == (503, "server_ending")
        assert not any(is_alive(worker) for worker in workers)


def test_what_is_wrong_with_all_is_said_once(user: User, backend: Backend) -> None:
    done = user.run("serve", "responses", "--port", "0", "--workers", "3", "--model", "garden/small-1")
    assert done.returncode == 2
    assert done.stderr.count("garden") == 1
    assert "Serving" not in done.stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for command in (["responses", "--workers", "2"], ["web", "--no-browser"], ["mcp", "--transport", "http"]):
            done = user.run("serve", *command, "--port", port)
            assert done.returncode == 2
            assert (
                f"Cannot listen on 127.0.0.1, port {port}: the port is in use. Choose another: --port N" in done.stderr
            )


SCRIPT = """
import os, signal, socket, sys, threading, time
from ripieno.servers.http.workers import Place, Workers

def say(text):
    os.write(1, (text + "\\n").encode())

listener = socket.create_server(("127.0.0.1", 0))
workers = Workers(int(sys.argv[2]), listener, grace=1, complete=lambda: say("complete"), lost=say, ending=lambda: None)
if sys.argv[1] == "thread":
    threading.Thread(target=time.sleep, args=(60,), daemon=True, name="sleeper").start()
place = workers.run()
if isinstance(place, int):
    say(f"all gone: {place}")
    sys.exit(place)
if sys.argv[1] == "early":
    sys.exit(7)
place.tell()
if sys.argv[1] == "late":
    time.sleep(0.05)
    sys.exit(7)
if sys.argv[1] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say("deaf")
time.sleep(600)
"""


def test_one_that_is_lost_before_it_works_ends_all(user: User) -> None:
    with user.python("-c", SCRIPT, "early", "2") as process:
        assert process.wait(PATIENCE) == 7
        assert process.stdout is not None
        assert process.stdout.read() == "all gone: 7\n"


def test_those_that_keep_getting_lost_are_replaced_more_and_more_slowly(user: User) -> None:
    with user.python("-c", SCRIPT, "late", "1") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "complete\n"
        pauses: list[float] = []
        for _ in range(4):
            found = re.search(r"ended with exit code 7\. Another one starts in ([0-9.]+) s", process.stdout.readline())
            assert found is not None
            pauses.append(float(found[1]))
        assert pauses == [0.1, 0.2, 0.4, 0.8]
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def test_who_does_not_end_is_killed(user: User) -> None:
    with user.python("-c", SCRIPT, "deaf", "2") as process:
        assert process.stdout is not None
        said = sorted(process.stdout.readline() for _ in range(3))
        assert said == ["complete\n", "deaf\n", "deaf\n"]
        workers = children(process.pid)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        assert time.monotonic() - began >= 1
        assert not any(is_alive(worker) for worker in workers)


def test_where_threads_run_nobody_is_forked(user: User) -> None:
    with user.python("-c", SCRIPT, "thread", "2") as process:
        assert process.wait(PATIENCE) == 1
        assert process.stderr is not None
        assert "threads run: sleeper." in process.stderr.read()
