"""A soak of two workers: seeded requests of all kinds at once, each with its own answer; then nothing is left.

A request carries a marker that no other one has. Its backend says it, its tools get it, and its answer must hold it.
"""

import asyncio
import collections
import contextlib
import functools
import itertools
import json
import os
import pathlib
import random
import re
import signal
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any

import httpx2
from prometheus_client import mmap_dict

from ripieno.servers.http.keys import digest_of
from ripieno.servers.http.server import serve
from tests.counts import ATTACK, count
from tests.servers.gateway.soak_backend import LEAVES, MARKER, RUN_HERE, Backend, Request, http_request, said
from tests.servers.gateway.test_metrics import ACTIVE, CALLS, DEPARTURES, REQUESTS, RETRIES, Told
from tests.servers.http.test_workers import Gateway, is_alive
from tests.skips import needs
from tests.support.command_line import PATIENCE, User
from tests.support.open_files import open_files

pytestmark = needs("/proc", there=sys.platform == "linux")
SEED = 7
REQUESTED = count(20_000)
#: Requests at once.
CLIENTS = 24
#: Bytes that may stay in a worker for each request that it has answered: less than a task, a parsed request or an
#: answer takes, so that keeping any of these is found. Measured: about 150.
KEPT = 512
KEYS = {"ada": "the-key-of-ada-which-is-long", "bob": "the-key-of-bob-which-is-long"}
PATHS = {"openai-responses": "/v1/responses", "openai-chat": "/v1/chat/completions", "anthropic": "/v1/messages"}
#: What is requested, and how often.
SHARES = {
    "text": 36,
    "calls": 12,
    "tool": 10,
    "mixed": 5,
    "follow": 3,
    "steal": 2,
    "again": 3,
    "fail": 4,
    "cut": 5,
    "bad": 3,
    "odd": 2,
    "wrong": 3,
    "unknown": 2,
}
#: The statuses that are counted; 200 for all others.
STATUSES = {"fail": 502, "cut": 502, "bad": 400, "odd": 400, "wrong": 401, "unknown": 404}
#: The percentage of clients that disconnect. Their requests may have ended before.
LEAVING = 10
#: Requests to the backend; one for all others.
ASKED = {
    **dict.fromkeys(("bad", "odd", "wrong", "unknown", "head", "body"), 0),
    "tool": 2,
    "follow": 3,
    "steal": 2,
    "again": 2,
}
TOOL = """
[[invokers]]
name = "{}"
description = "Gets a marker."
effect = "none"
arguments = {{ type = "object", required = ["marker"], properties.marker.type = "string" }}
"""
ENSEMBLE = '[ensemble]\nname = "soak"\ndescription = "Tools of the soak."\nmodule = "./soaking.py"\n'
MODULE = """
import asyncio, pathlib
NOTES = pathlib.Path(__file__).with_name("notes")

def note(text):
    with NOTES.open("a") as file:
        file.write(text)

async def echo(context, arguments):
    return f"{context.auxdata}:{arguments['marker']}"

async def hold(context, arguments):
    note(f"+{arguments['marker']}\\n")
    try:
        await asyncio.Event().wait()
    finally:
        note(f"-{arguments['marker']}\\n")
"""


class Soak:
    """A gateway under many clients, and what they count."""

    def __init__(self, gateway: Gateway, backend: Backend, client: httpx2.AsyncClient) -> None:
        self.gateway = gateway
        self.backend = backend
        self.chance = random.Random(SEED)
        self.client = client
        self.number = 0
        self.counted: collections.Counter[tuple[str, int]] = collections.Counter()
        self.hows: collections.Counter[str] = collections.Counter()
        #: Clients that certainly disconnected, and those that may have had the whole answer, by wire.
        self.left: collections.Counter[str] = collections.Counter()
        self.late: collections.Counter[str] = collections.Counter()

    def choose(self) -> Request:
        """The next of a random mix."""
        leaving = self.chance.random() * 100 < LEAVING
        return self.make(
            self.chance.choice(LEAVES) if leaving else self.chance.choices(list(SHARES), list(SHARES.values()))[0]
        )

    def make(self, how: str) -> Request:
        self.number += 1
        streamed = how in ("silent", "begun", "talking", "ending", "hold") or self.chance.random() < 0.5
        wires = ["openai-responses"] if how in ("calls", "odd", *RUN_HERE) else list(PATHS)
        return Request(
            number=self.number,
            how=how,
            wire=self.chance.choice(wires),
            caller=self.chance.choice(list(KEYS)),
            streamed=streamed and how != "whole",
            pieces=self.chance.randrange(1, 6),
        )

    async def run(self, one: Request) -> None:
        """Sends it, and shows that its answer is its own."""
        self.hows[one.how] += 1
        async with asyncio.timeout(PATIENCE):
            await (self.leave(one) if one.how in LEAVES else self.converse(one))
        assert self.backend.asked.pop(one.marker, 0) == ASKED.get(one.how, 1), one

    async def converse(self, one: Request) -> None:
        body, key = one.body, KEYS[one.caller] if one.how != "wrong" else "a-key-of-nobody"
        status, text, last = await self.ask(one, body, key)
        assert status == STATUSES.get(one.how, 200), (one, text)
        assert one.how != "fail" or one.marker in text, (one, text)
        if status == 200:
            assert all(part in text for part in one.expected), (one, text)
        if one.how in ("follow", "steal"):
            follow = {"role": "user", "content": f"text {one.marker} 2"}
            body["input"] = [*body["input"], *last.get("response", last)["output"], follow]
            thief = next(name for name in KEYS if name != one.caller)
            status, text, _ = await self.ask(one, body, KEYS[thief if one.how == "steal" else one.caller])
            assert status == (400 if one.how == "steal" else 200), (one, text)
            assert all((part in text) == (one.how == "follow") for part in said(one.marker, 2)), (one, text)

    async def ask(self, one: Request, body: dict[str, Any], key: str) -> tuple[int, str, dict[str, Any]]:
        """The status that is counted, the text, and the last event or the whole answer."""
        data = json.dumps(body).encode()
        if one.how == "bad":
            data = data[: random.Random(one.marker).randrange(len(data))]
        headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
        answer = await self.client.post(PATHS[one.wire], content=data, headers=headers)
        status, text, last = answer.status_code, answer.text, {}
        if status == 200:
            events = [line[6:] for line in text.splitlines() if line.startswith("data: {")] if one.streamed else [text]
            last = json.loads(events[-1])
            if last.get("error") or last.get("type") in ("error", "response.failed"):
                status = 502
        assert {*MARKER.findall(text)} <= {one.marker}, (one, text)
        self.counted[one.wire, status] += 1
        return status, text, last

    async def leave(self, one: Request) -> None:
        """Asks, and disconnects."""
        chance, event = random.Random(one.marker), self.backend.events
        data = json.dumps(one.body).encode()
        whole = http_request(PATHS[one.wire], data, KEYS[one.caller], expect=one.how == "body")
        reader, writer = await asyncio.open_connection("127.0.0.1", self.gateway.port)
        writer.write(whole[: chance.randrange(1, len(whole) - len(data) - 3)] if one.how == "head" else whole)
        if one.how == "body":
            await reader.readuntil(b" 100 ")
            writer.write(data[: chance.randrange(len(data))])
        elif one.how == "hold":
            await reader.readuntil(b"response.output_item.done")
        elif one.how != "head":
            await event[one.marker, "begun"].wait()
            if one.how == "begun":
                await reader.readuntil(f"{one.marker} 0. ".encode())
            elif one.how in ("talking", "ending"):
                await reader.read(chance.randrange(1, 3000))
        # Some close the connection, some reset it.
        writer.close() if chance.random() < 0.5 else writer.transport.abort()
        if one.how != "head":
            (self.late if one.how == "ending" else self.left)[one.wire] += 1
        if one.how not in ("head", "body"):
            await event[one.marker, "left"].wait()
            del event[one.marker, "begun"], event[one.marker, "left"]

    async def mix(self, requests: Iterable[Request]) -> None:
        """All of these, by so many clients at once."""
        todo = iter(requests)

        async def client() -> None:
            for one in todo:
                await self.run(one)

        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(client())

    @contextlib.asynccontextmanager
    async def only(self, worker: int) -> AsyncGenerator[None, None]:
        """Lets only this worker answer."""
        others = self.gateway.workers - {worker}
        for other in others:
            os.kill(other, signal.SIGSTOP)
            await until(functools.partial(is_stopped, other))
        try:
            yield
        finally:
            for other in others:
                os.kill(other, signal.SIGCONT)

    async def warm(self) -> None:
        """Each worker has had one of each kind, so that what is made once is made."""
        for worker in self.gateway.workers:
            async with self.only(worker):
                for how in (*SHARES, *LEAVES):
                    await self.run(self.make(how))

    async def measure(self) -> dict[int, tuple[int, int]]:
        """Descriptors and KiB of each worker, when it has no connections."""
        measured: dict[int, tuple[int, int]] = {}
        self.backend.closing = True
        for worker in sorted(self.gateway.workers):
            async with self.only(worker):
                # Each answer is the last on its connection, so all kept connections are used up. Each provider has its
                # own.
                hows = itertools.cycle(("text", "again"))
                while self.backend.port in peers_of(worker):
                    await self.run(self.make(next(hows)))
                await until(functools.partial(is_alone, worker))
                measured[worker] = size_of(worker)
        self.backend.closing = False
        return measured

    async def told(self, requests: int) -> Told:
        """The metrics when so many requests have ended: one ends a moment after its client has its answer."""
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = await self.client.get("/metrics", headers={"authorization": f"Bearer {KEYS['ada']}"})
            told = Told(answer.text)
            assert told.one(REQUESTS) <= requests
            if told.one(REQUESTS) == requests and not told.one(ACTIVE):
                return told
            assert time.monotonic() < deadline, (requests, told.text)


async def until(holds: Callable[[], bool]) -> None:
    """Looks again and again, because another process does not report its state."""
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def is_stopped(worker: int) -> bool:
    return pathlib.Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def is_alone(worker: int) -> bool:
    return not peers_of(worker)


def size_of(worker: int) -> tuple[int, int]:
    """The number of open descriptors, and KiB of memory."""
    folder = pathlib.Path(f"/proc/{worker}")
    (resident,) = re.findall(r"VmRSS:\s+([0-9]+) kB", (folder / "status").read_text())
    return len(list((folder / "fd").iterdir())), int(resident)


def peers_of(worker: int) -> list[int]:
    """The ports to which a process is connected over TCP."""
    links = {*open_files(worker).values()}
    rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ports = [int(row[2].rpartition(":")[2], 16) for row in rows if f"socket:[{row[9]}]" in links]
    return [port for port in ports if port]


def shares_in(folder: pathlib.Path) -> dict[int, float]:
    """How many requests each worker has counted."""
    shares: dict[int, float] = {}
    library: Any = mmap_dict
    for file in folder.glob("*/counter_*.db"):
        read = library.MmapedDict.read_all_values_from_file
        mine = sum(value for key, value, *_ in read(str(file)) if json.loads(key)[1] == REQUESTS)
        shares[int(file.stem.rpartition("_")[2])] = mine
    return shares


def configure(user: User, url: str) -> None:
    provider = f'protocol = "openai-chat"\nbase_url = "{url}/v1"\napi_key = "none"\nbreaker = {{ failures = 0 }}\n'
    keys = "".join(f'{name} = "{digest_of(key)}"\n' for name, key in KEYS.items())
    user.configure(
        f"[providers.house]\n{provider}retries = 0\n[providers.patient]\n{provider}retries = 1\n"
        f'[gateway]\nconcurrency = {2 * CLIENTS}\nmcp = ["soak"]\n'
        f'map = {{ small-1 = "house/small-1", patient = "patient/small-1" }}\n[gateway.keys]\n{keys}'
    )
    text = ENSEMBLE + TOOL.format("echo") + TOOL.format("hold")
    user.ensemble("soak", text).with_name("soaking.py").write_text(MODULE)


async def test_a_soak_of_two_workers(user: User) -> None:
    backend = Backend()
    folder = user.workspace.with_name("temporary")
    folder.mkdir()
    # Without a buffer, whatever is written in two pieces shows among the lines of the other worker.
    settings = {"TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"}
    async with contextlib.AsyncExitStack() as stack:
        url = await stack.enter_async_context(serve(backend))
        backend.port = int(url.rpartition(":")[2])
        configure(user, url)
        process = stack.enter_context(user.start("serve", "responses", "--port", "0", "--workers", "2", **settings))
        gateway = Gateway(process)
        heard: list[str] = []
        stderr: Any = process.stderr
        hearing = threading.Thread(target=lambda: heard.append(stderr.read()))
        hearing.start()
        # Each request has its own connection, as the workers share these.
        limits = httpx2.Limits(max_keepalive_connections=0)
        client = httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{gateway.port}", limits=limits, timeout=None, verify=False, trust_env=False
        )
        one = Soak(gateway, backend, await stack.enter_async_context(client))
        workers = gateway.workers
        await one.warm()
        requests = [one.choose() for _ in range(REQUESTED)]
        first, rest = requests[: REQUESTED // 5], requests[REQUESTED // 5 :]
        await one.mix(first)
        before = await one.measure()
        await one.mix(rest)
        after = await one.measure()
        await check_counts(one, folder)
        assert not backend.open
        assert not backend.asked
        assert len(workers) == 2
        assert gateway.workers == workers == {*before} == {*after}
        for worker in workers:
            assert after[worker][0] == before[worker][0]
            grown = (after[worker][1] - before[worker][1]) * 1024
            assert not ATTACK or grown < KEPT * len(rest) / len(workers), f"{grown} bytes"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        hearing.join()
        *warned, last = "".join(heard).splitlines()
        # The operator sees each failure of the backend, without its text.
        assert last == "The server has ended."
        # A busy machine needs a moment to end, which is reported.
        usual = ("! ripieno.servers.http.errors: house: ", "Ending: open answers have ")
        assert not [line for line in warned if not line.startswith(usual)]
        assert not MARKER.search("".join(warned))
        assert not any(is_alive(worker) for worker in workers)
    notes = (user.configuration / "ensembles" / "notes").read_text().split()
    # A client that disconnects while a tool runs cancels it.
    assert sorted(line[1:] for line in notes if line[0] == "+") == sorted(line[1:] for line in notes if line[0] == "-")


async def check_counts(one: Soak, folder: pathlib.Path) -> None:
    """All workers together have counted what the clients have."""
    certain, late = sum(one.left.values()), sum(one.late.values())
    total = sum(one.counted.values()) + certain + late
    told = await one.told(total)
    statuses = {
        (wire, int(status)): int(value)
        for (wire, status), value in told.values(REQUESTS, "ripieno_wire", "http_response_status_code").items()
    }
    for wire in PATHS:
        gone, answered = statuses.pop((wire, 499), 0), statuses.pop((wire, 200))
        # A client that disconnects near the end may have had the whole answer.
        assert one.left[wire] <= gone <= one.left[wire] + one.late[wire]
        assert gone + answered == one.left[wire] + one.late[wire] + one.counted.pop((wire, 200))
        assert told.one(DEPARTURES, ripieno_wire=wire) == gone
    assert statuses == one.counted
    assert told.one(RETRIES) == one.hows["again"]
    ran = sum(one.hows[how] for how in ("tool", "mixed", "follow", "steal"))
    assert told.one(f"{CALLS}_count", gen_ai_tool_name="soak.echo", error_type="") == ran
    shares = shares_in(folder)
    assert shares.keys() == one.gateway.workers
    assert min(shares.values()) > 0
    assert sum(shares.values()) == total
