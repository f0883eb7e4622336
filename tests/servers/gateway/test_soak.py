"""A soak of two workers: seeded requests of all kinds at once, each with its own answer; then nothing is left."""

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
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from typing import Any

import anthropic
import openai
from prometheus_client import mmap_dict

from ripieno.servers.http.keys import digest_of
from ripieno.servers.http.server import serve
from tests.counts import ATTACK, count
from tests.servers.gateway.soak_requests import (
    ASKED,
    ENSEMBLE,
    KEYS,
    LEAVES,
    LEAVING,
    MARKER,
    MODULE,
    NAMES,
    PATHS,
    SHARES,
    STATUSES,
    Answer,
    Backend,
    Play,
    answer_of,
    exchange,
    request,
    said,
    streamed_of,
)
from tests.servers.gateway.test_metrics import ACTIVE, CALLS, DEPARTURES, REQUESTS, RETRIES, Told
from tests.servers.http.test_workers import Gateway, is_alive
from tests.skips import needs
from tests.support.command_line import PATIENCE, User

pytestmark = needs("/proc", there=sys.platform == "linux")
SEED = 7
PLAYS = count(20_000)
#: Plays at once.
CLIENTS = 24
STRANGE = "a-key-of-nobody"
#: Bytes that may stay in a worker for each request that it has answered: less than a task, a parsed request or an
#: answer takes, so that keeping any of these is found. Measured: about 150.
KEPT = 512


class Soak:
    """A gateway under many clients, and what they count."""

    def __init__(self, gateway: Gateway, backend: Backend, chance: random.Random) -> None:
        self.gateway = gateway
        self.backend = backend
        self.chance = chance
        self.number = 0
        self.counted: collections.Counter[tuple[str, int]] = collections.Counter()
        self.hows: collections.Counter[str] = collections.Counter()
        #: How many have left so that it is sure, and how many may as well have had all of it, by wire.
        self.left: collections.Counter[str] = collections.Counter()
        self.late: collections.Counter[str] = collections.Counter()
        self.official: dict[tuple[str, str], Any] = {}

    def choose(self) -> Play:
        """The next of a random mix."""
        chance = self.chance
        leaving = chance.random() * 100 < LEAVING
        how = chance.choice(LEAVES) if leaving else chance.choices(list(SHARES), list(SHARES.values()))[0]
        return self.make(how, official=chance.random() < 0.2)

    def make(self, how: str, *, official: bool = False) -> Play:
        chance = self.chance
        self.number += 1
        wires = list(PATHS)
        if how in ("tool", "mixed"):
            wires.remove("chat")
        if how in ("follow", "steal", "hold"):
            wires = ["responses"]
        streamed = how in ("silent", "begun", "talking", "ending", "hold") or chance.random() < 0.5
        return Play(
            number=self.number,
            how=how,
            wire=chance.choice(wires),
            caller=chance.choice(list(KEYS)),
            streamed=streamed and how != "whole",
            official=official and how not in LEAVES,
            pieces=chance.randrange(1, 6),
        )

    async def play(self, play: Play) -> None:
        """Plays it, and shows that its answer is its own."""
        self.hows[play.how] += 1
        async with asyncio.timeout(PATIENCE):
            if play.how in LEAVES:
                await self.leave(play)
            else:
                await self.ask_for(play)
        assert self.backend.asked.pop(play.marker, 0) == ASKED.get(play.how, 1), play

    async def ask_for(self, play: Play) -> None:
        body, key = play.body, KEYS[play.caller] if play.how != "wrong" else STRANGE
        answer = await self.ask(play, body, key)
        expected = STATUSES.get(play.how, 200)
        assert answer.status == expected, (play, answer)
        assert {*MARKER.findall(answer.whole)} <= {play.marker}, (play, answer)
        if expected != 200:
            assert play.how != "fail" or play.marker in answer.whole, (play, answer)
            return
        assert answer == play.expected, (play, answer)
        if play.how in ("follow", "steal"):
            follow = {"role": "user", "content": f"text {play.marker} 2"}
            body["input"] = [*body["input"], *answer.items, follow]
            thief = next(one for one in KEYS if one != play.caller)
            answer = await self.ask(play, body, KEYS[thief if play.how == "steal" else play.caller])
            wanted = Answer(400) if play.how == "steal" else Answer(200, "".join(said(play.marker, 2)))
            assert answer == wanted, (play, answer)
            assert {*MARKER.findall(answer.whole)} <= {play.marker}, (play, answer)

    async def ask(self, play: Play, body: Mapping[str, Any], key: str) -> Answer:
        official = play.official and play.how != "bad"
        answer = await (self.ask_officially if official else self.ask_raw)(play, body, key)
        self.counted[NAMES[play.wire], answer.status] += 1
        return answer

    async def ask_raw(self, play: Play, body: Mapping[str, Any], key: str) -> Answer:
        data = json.dumps({**body, "stream": play.streamed}).encode()
        if play.how == "bad":
            data = data[: random.Random(play.marker).randrange(len(data))]
        status, text = await exchange(self.gateway.port, request(PATHS[play.wire], data, key))
        if status != 200:
            return Answer(status, whole=text)
        if not play.streamed:
            return answer_of(play.wire, json.loads(text))
        events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
        return streamed_of(play.wire, events)

    async def ask_officially(self, play: Play, body: Mapping[str, Any], key: str) -> Answer:
        client = self.official["anthropic" if play.wire == "messages" else "openai", key]
        kinds = {"responses": "responses", "chat": "chat.completions", "messages": "messages"}
        resource = client
        for name in kinds[play.wire].split("."):
            resource = getattr(resource, name)
        try:
            if not play.streamed:
                return answer_of(play.wire, (await resource.create(**body)).to_dict())
            async with resource.stream(**body) as stream:
                async for event in stream:
                    if event.type == "response.failed":
                        return Answer(502, whole=event.to_json())
                name = {"responses": "response", "chat": "completion", "messages": "message"}[play.wire]
                return answer_of(play.wire, (await getattr(stream, f"get_final_{name}")()).to_dict())
        except (openai.APIError, anthropic.APIError) as error:
            status = getattr(error, "status_code", 200)
            return Answer(502 if status == 200 else status, whole=f"{error} {error.body}")

    async def leave(self, play: Play) -> None:
        """Asks, and hangs up."""
        chance, event = random.Random(play.marker), self.backend.events
        data = json.dumps({**play.body, "stream": play.streamed}).encode()
        key, path = KEYS[play.caller], PATHS[play.wire]
        whole = request(path, data, key, expect=play.how == "body")
        reader, writer = await asyncio.open_connection("127.0.0.1", self.gateway.port)
        writer.write(whole[: chance.randrange(1, len(whole) - len(data) - 3)] if play.how == "head" else whole)
        if play.how == "body":
            await reader.readuntil(b" 100 ")
            writer.write(data[: chance.randrange(len(data))])
        elif play.how == "hold":
            await reader.readuntil(b"response.output_item.done")
        elif play.how != "head":
            await event[play.marker, "begun"].wait()
            if play.how == "begun":
                await reader.readuntil(f"{play.marker} 0. ".encode())
            elif play.how in ("talking", "ending"):
                await reader.read(chance.randrange(1, 3000))
        # Some say good-bye, some are cut off.
        writer.close() if chance.random() < 0.5 else writer.transport.abort()
        if play.how != "head":
            (self.late if play.how == "ending" else self.left)[NAMES[play.wire]] += 1
        if play.how not in ("head", "body"):
            await event[play.marker, "left"].wait()
            del event[play.marker, "begun"], event[play.marker, "left"]

    async def mix(self, plays: Iterable[Play]) -> None:
        """All of these, by so many clients at once."""
        # Loading certificates takes longer than many requests.
        ours: dict[str, Any] = {"max_retries": 0, "http_client": openai.DefaultAsyncHttpxClient(verify=False)}
        theirs: dict[str, Any] = {"max_retries": 0, "http_client": anthropic.DefaultAsyncHttpxClient(verify=False)}
        async with ours["http_client"], theirs["http_client"]:
            url = f"http://127.0.0.1:{self.gateway.port}"
            for key in (*KEYS.values(), STRANGE):
                self.official["openai", key] = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, **ours)
                self.official["anthropic", key] = anthropic.AsyncAnthropic(base_url=url, api_key=key, **theirs)
            todo = iter(plays)

            async def client() -> None:
                for play in todo:
                    await self.play(play)

            async with asyncio.TaskGroup() as group:
                for _ in range(CLIENTS):
                    group.create_task(client())

    @contextlib.asynccontextmanager
    async def only(self, worker: int) -> AsyncGenerator[None, None]:
        """Lets nobody but this worker answer."""
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
                    await self.play(self.make(how))

    async def measure(self) -> dict[int, tuple[int, int]]:
        """Descriptors and KiB of each worker, once nobody is connected to it, and it to nobody."""
        measured: dict[int, tuple[int, int]] = {}
        self.backend.closing = True
        for worker in sorted(self.gateway.workers):
            async with self.only(worker):
                # Each answer is the last on its connection: so all that were kept are used up.
                # Each provider keeps its own.
                hows = itertools.cycle(("text", "again"))
                while self.backend.port in peers_of(worker):
                    await self.play(self.make(next(hows)))
                await until(functools.partial(is_alone, worker))
                measured[worker] = size_of(worker)
        self.backend.closing = False
        return measured

    async def told(self, requests: int) -> Told:
        """What /metrics tells when so many requests have ended: one has a moment after its client has its answer."""
        told: list[Told] = []

        async def look() -> bool:
            status, text = await exchange(self.gateway.port, request("/metrics", None, KEYS["ada"]))
            assert status == 200, text
            told.append(Told(text))
            assert told[-1].one(REQUESTS) <= requests
            return told[-1].one(REQUESTS) == requests and not told[-1].one(ACTIVE)

        deadline = time.monotonic() + PATIENCE
        while not await look():
            assert time.monotonic() < deadline, (requests, told[-1].text)
        return told[-1]


async def until(holds: Callable[[], bool]) -> None:
    """Looks again and again: what is looked at is another process, which tells nobody."""
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def is_stopped(worker: int) -> bool:
    return pathlib.Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def is_alone(worker: int) -> bool:
    return not peers_of(worker)


def size_of(worker: int) -> tuple[int, int]:
    """How many descriptors are open there, and KiB of memory."""
    folder = pathlib.Path(f"/proc/{worker}")
    (resident,) = re.findall(r"VmRSS:\s+([0-9]+) kB", (folder / "status").read_text())
    return len(list((folder / "fd").iterdir())), int(resident)


def peers_of(worker: int) -> list[int]:
    """The ports to which a process is connected over TCP."""
    links: set[str] = set()
    for path in pathlib.Path(f"/proc/{worker}/fd").iterdir():
        with contextlib.suppress(OSError):
            links.add(str(path.readlink()))
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


async def test_a_soak_of_two_workers(user: User) -> None:
    backend = Backend()
    async with serve(backend) as url:
        backend.port = int(url.rpartition(":")[2])
        await soak(user, backend, url)


def configure(user: User, url: str) -> None:
    provider = f'protocol = "openai-chat"\nbase_url = "{url}/v1"\napi_key = "none"\nbreaker = {{ failures = 0 }}\n'
    keys = "".join(f'{name} = "{digest_of(key)}"\n' for name, key in KEYS.items())
    user.configure(
        f"[providers.house]\n{provider}retries = 0\n[providers.patient]\n{provider}retries = 1\n"
        '[gateway]\nmcp = ["soak"]\nmap = { small-1 = "house/small-1", patient = "patient/small-1" }\n'
        f"[gateway.keys]\n{keys}"
    )
    user.ensemble("soak", ENSEMBLE).with_name("soaking.py").write_text(MODULE)


async def soak(user: User, backend: Backend, url: str) -> None:
    configure(user, url)
    folder = user.workspace.with_name("temporary")
    folder.mkdir()
    # Without a buffer, whatever is written in two pieces shows among the lines of the other worker.
    settings = {"TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"}
    with user.start("serve", "responses", "--port", "0", "--workers", "2", **settings) as process:
        gateway = Gateway(process)
        heard: list[str] = []
        stderr: Any = process.stderr
        hearing = threading.Thread(target=lambda: heard.append(stderr.read()))
        hearing.start()
        one = Soak(gateway, backend, random.Random(SEED))
        workers = gateway.workers
        began = time.monotonic()
        await one.warm()
        plays = [one.choose() for _ in range(PLAYS)]
        first, rest = plays[: PLAYS // 5], plays[PLAYS // 5 :]
        await one.mix(first)
        before = await one.measure()
        await one.mix(rest)
        after = await one.measure()
        print(one.number, "requests in", f"{time.monotonic() - began:.1f} s:", dict(one.hows))
        print("descriptors and KiB of each worker, before and after:", before, after)
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
        # Whoever runs it is told of each failure of the backend, without a word of it.
        assert last == "The server has ended."
        assert not [line for line in warned if not line.startswith("! ripieno.servers.gateway.errors: house: ")]
        assert not MARKER.search("".join(warned))
        assert not any(is_alive(worker) for worker in workers)
    notes = (user.configuration / "ensembles" / "notes").read_text().split()
    # Whoever left while a tool ran has ended it.
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
    shares = shares_in(folder)
    print("statuses:", statuses, "shares of the workers:", shares)
    for wire in NAMES.values():
        gone, answered = statuses.pop((wire, 499), 0), statuses.pop((wire, 200))
        # Who leaves near the end may have left too late.
        assert one.left[wire] <= gone <= one.left[wire] + one.late[wire]
        assert gone + answered == one.left[wire] + one.late[wire] + one.counted.pop((wire, 200))
        assert told.one(DEPARTURES, ripieno_wire=wire) == gone
    assert statuses == one.counted
    assert told.one(ACTIVE) == 0
    assert told.one(RETRIES) == one.hows["again"]
    ran = sum(one.hows[how] for how in ("tool", "mixed", "follow", "steal"))
    assert told.one(f"{CALLS}_count", gen_ai_tool_name="soak.echo", error_type="") == ran
    assert shares.keys() == one.gateway.workers
    assert min(shares.values()) > 0
    assert sum(shares.values()) == total
