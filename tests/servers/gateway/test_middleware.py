"""Who comes in through the gateway's door, and how many: real listeners, and clients that write their own bytes."""

import asyncio
import contextlib
import itertools
import json
import resource
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any

import pytest
from frozendict import frozendict
from starlette.types import Receive, Scope, Send

from ripieno.descriptors import GatewayDescriptor
from ripieno.models.protocol import Refusal
from ripieno.servers.gateway.middleware import Guard, Slots
from ripieno.servers.http.connections import Bounds
from ripieno.servers.http.keys import digest_of
from ripieno.servers.http.server import serve
from tests.counts import ATTACK, count

KEY, OTHER = "a-key-of-many-letters", "another-key-of-letters"
JSON = ("Content-Type", "application/json")
Headers = Sequence[tuple[str, str]]


class Application:
    """Notes who comes in, and answers when it is let go, with the name of the caller."""

    def __init__(self) -> None:
        self.entered: list[tuple[str, str]] = []
        self.go = asyncio.Event()
        self.go.set()
        self._news = asyncio.Event()

    async def reach(self, number: int) -> None:
        """Waits until so many have come in."""
        while len(self.entered) < number:
            self._news.clear()
            await self._news.wait()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.entered.append((scope["path"], scope["state"]["caller"]))
        self._news.set()
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        await self.go.wait()
        caller: bytes = scope["state"]["caller"].encode()
        headers = [(b"content-length", b"%d" % len(caller))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": caller})


class Answer:
    def __init__(self, raw: bytes) -> None:
        head, _, self.body = raw.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split(" ")[1])
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}


class Place:
    """A server that is guarded, and its address."""

    def __init__(self, application: Application, url: str) -> None:
        self.application = application
        self.port = int(url.rpartition(":")[2])

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def ask(self, headers: Headers, *, method: str = "POST", path: str = "/v1/responses") -> Answer:
        """The answer to one request, with exactly these headers beside its length."""
        reader, writer = await self.open()
        try:
            lines = "".join(f"{name}: {value}\r\n" for name, value in (*headers, ("Connection", "close")))
            body = "{}" if method == "POST" else ""
            writer.write(f"{method} {path} HTTP/1.1\r\n{lines}Content-Length: {len(body)}\r\n\r\n{body}".encode())
            return Answer(await reader.read())
        finally:
            writer.transport.abort()

    async def post(self, *headers: tuple[str, str], path: str = "/v1/responses") -> Answer:
        """As a client that has nothing strange."""
        return await self.ask([("Host", f"127.0.0.1:{self.port}"), JSON, *headers], path=path)


def refuse(path: str, refusal: Refusal) -> bytes:
    return json.dumps({"path": path, "code": refusal.code, "message": refusal.message}).encode()


def guard(application: Application, **settings: Any) -> Guard:
    chosen = GatewayDescriptor(**settings)
    return Guard(application, chosen, Slots(chosen.concurrency), refuse)


@contextlib.asynccontextmanager
async def guarded(bounds: Bounds | None = None, **settings: Any) -> AsyncGenerator[Place, None]:
    application = Application()
    async with asyncio.timeout(60):
        async with serve(guard(application, **settings), bounds=bounds) as url:
            yield Place(application, url)


def strange_hosts(port: int) -> Iterator[str]:
    """Names that a page could have, and what looks like a name of ours without being one."""
    names = (
        *("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evil-localhost", "xlocalhost", "local"),
        *("localhost.", "127.0.0.1.", "127.0.0.2", "127.1", "0", "0.0.0.0", "[::]", "[::2]", "::1", "[::1", "::1]"),
        *("localhost@evil.example", "evil.example@localhost", "localhost/evil", "localhost#evil", "localhost?evil"),
        *("localhost,evil.example", "evil.example,localhost", "localhost evil.example", "%6cocalhost", "loc\tal"),
        *("localhost:80:80", "[127.0.0.1]", "[localhost]", "http://localhost", "//localhost", "*", "2130706433"),
        *("0x7f.1", "017700000001", "[::ffff:127.0.0.1]", "models.example.or", "xmodels.example.org", "example.org"),
    )
    for name in names:
        for tail in ("", f":{port}", ":80", ":", ":x", ":99999999", ":-1", f":{port}x", f"@:{port}", ":0x50"):
            yield name + tail
    for name in ("localhost", "127.0.0.1", "[::1]", "models.example.org"):
        for tail in (":", ":x", ":123456", ":-1", ":+1", ": 80", ":8 0", ".:80", "\\", "/", "/:80", "..", "%00", "'"):
            yield name + tail


def strange_origins(port: int) -> Iterator[str]:
    """Pages that are not of this server."""
    hosts = ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", f"localhost:{port}", "localhost")
    others = (f"127.0.0.1:{port + 1}", "127.0.0.1", f"127.0.0.2:{port}", f"[::1]:{port}", f"user@127.0.0.1:{port}")
    for scheme, host in itertools.product(("http://", "https://", "HTTP://", "file://", "app://", "", "//"), hosts):
        yield scheme + host
    for scheme, host in itertools.product(("http://", "https://"), others):
        yield scheme + host
    right = f"127.0.0.1:{port}"
    yield from ("null", "undefined", "*", " ", right, f"//{right}", f"https://{right}/", f"http://{right}/")
    yield from (f"ws://{right}", f"ftp://{right}", f"http:{right}", f"http:/{right}", f"http:///{right}")
    yield from (f"http://{right} http://evil.example", f"http://evil.example,http://{right}", f"http://{right}.")
    yield from (f"http://{right}x", f"http://{right}#", f"http://{right}?", f"http://{right}\\", f"http://x:{right}")


async def test_no_strange_host_and_no_strange_origin_comes_in() -> None:
    async with guarded(hosts=("models.example.org",)) as place:
        own = f"127.0.0.1:{place.port}"
        forms: list[Headers] = [[("Host", host), JSON] for host in dict.fromkeys(strange_hosts(place.port))]
        forms += [[("Host", own), JSON, ("Origin", origin)] for origin in dict.fromkeys(strange_origins(place.port))]
        good = ("Host", own)
        forms += [
            [JSON],
            [("Host", ""), JSON],
            [good, good, JSON],
            [good, ("Host", "evil.example"), JSON],
            [("Host", "evil.example"), ("X-Forwarded-Host", own), JSON],
            [("Host", "evil.example"), ("Forwarded", f"host={own}"), JSON],
            [("Host", "evil.example"), ("X-Host", own), JSON],
            [good, ("Origin", f"http://{own}"), ("Origin", "http://evil.example"), JSON],
            [good, ("Origin", f"http://{own}"), ("Origin", f"http://{own}"), JSON],
            [good, ("Origin", ""), JSON],
        ]
        assert len(forms) >= 500
        statuses: dict[int, int] = {}
        for form in forms:
            answer = await place.ask(form)
            assert answer.status in (400, 403, 421), form
            assert not [name for name in answer.headers if name.startswith("access-control") or name == "set-cookie"]
            statuses[answer.status] = statuses.get(answer.status, 0) + 1
        assert place.application.entered == []
        assert min(statuses[421], statuses[403]) > 50
        for path in ("/healthz", "/metrics", "/", "//127.0.0.1/", f"http://{own}/v1/responses"):
            assert (await place.ask([("Host", "evil.example"), JSON], path=path)).status == 421
            assert (await place.ask([("Host", "evil.example")], path=path, method="GET")).status == 421
        assert place.application.entered == []


async def test_our_own_names_come_in() -> None:
    async with guarded(hosts=("models.example.org", "fe80::7")) as place:
        own = f"127.0.0.1:{place.port}"
        hosts = (own, "127.0.0.1", "localhost", "LocalHost:1", "[::1]:8080", "[fe80::7]", "Models.Example.ORG:65535")
        for host in hosts:
            assert (await place.ask([("Host", host), JSON])).status == 200, host
        for host, origin in (
            (own, f"http://{own}"),
            (own.upper(), f"HTTP://{own}"),
            ("localhost", "http://localhost:80"),
            ("localhost:443", "https://localhost"),
            ("127.0.0.1:7", "https://models.example.org"),
            ("models.example.org", "https://models.example.org"),
        ):
            assert (await place.ask([("Host", host), ("Origin", origin), JSON])).status == 200, origin
        assert len(place.application.entered) == len(hosts) + 6


async def test_no_other_site_may_even_ask() -> None:
    async with guarded() as place:
        headers = [("Host", "localhost"), ("Origin", "http://evil.example"), ("Access-Control-Request-Method", "POST")]
        answer = await place.ask(headers, method="OPTIONS")
        assert (answer.status, place.application.entered) == (403, [])
        assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_the_address_that_was_dialled_comes_in_and_no_other() -> None:
    """Behind 0.0.0.0 there are addresses that no setting names."""
    application = Application()
    async with serve(guard(application), host="0.0.0.0") as url:
        place = Place(application, url)
        for address, status in (("127.0.0.9", 200), ("127.0.0.8", 421)):
            reader, writer = await asyncio.open_connection("127.0.0.9", place.port)
            writer.write(f"GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode())
            assert Answer(await reader.read()).status == status
            writer.close()


@pytest.mark.parametrize(
    "types",
    [
        *([], ["text/plain"], ["application/x-www-form-urlencoded"], ["multipart/form-data; boundary=x"]),
        *(["application/jsonx"], ["application/json, text/plain"], ["text/plain; application/json"]),
        *(["application/json", "text/plain"], [""]),
    ],
)
async def test_what_a_form_can_send_is_no_request(types: list[str]) -> None:
    async with guarded() as place:
        answer = await place.ask([("Host", "localhost"), *(("Content-Type", one) for one in types)])
        assert (answer.status, place.application.entered) == (415, [])
        assert json.loads(answer.body)["code"] == "unsupported_media_type"


async def test_json_comes_in_however_it_is_spelled() -> None:
    async with guarded() as place:
        for one in ("application/json", "Application/JSON; charset=utf-8", "application/json ;x=y"):
            assert (await place.ask([("Host", "localhost"), ("Content-Type", one)])).status == 200
        assert (await place.ask([("Host", "localhost")], method="GET")).status == 200


async def test_keys_let_in_and_name_their_callers() -> None:
    keys = frozendict({"laptop": digest_of(KEY), "phone": digest_of(OTHER)})
    async with guarded(keys=keys) as place:
        for header, caller in (
            (("Authorization", f"Bearer {KEY}"), b"laptop"),
            (("x-api-key", KEY), b"laptop"),
            (("x-goog-api-key", OTHER), b"phone"),
        ):
            answer = await place.post(header)
            assert (answer.status, answer.body) == (200, caller)
        entered = len(place.application.entered)
        for wrong in (
            [],
            [("Authorization", f"Bearer {KEY}x")],
            [("Authorization", f"Basic {KEY}")],
            [("x-api-key", KEY), ("x-goog-api-key", OTHER)],
            [("x-api-key", keys["laptop"])],
            [("Cookie", f"key={KEY}")],
        ):
            asked = f"/v1/responses?key={KEY}"
            for path in ("/v1/responses", "/v1/models", "/metrics", asked, "/healthz/../v1/responses"):
                answer = await place.post(*wrong, path=path)
                assert answer.status == 401, (wrong, path)
                assert answer.headers["www-authenticate"] == "Bearer"
                assert answer.headers["content-type"] == "application/json"
                assert json.loads(answer.body)["path"] == path.partition("?")[0]
                assert KEY.encode() not in answer.body
        assert len(place.application.entered) == entered


async def test_who_asks_after_its_health_needs_no_key() -> None:
    async with guarded(keys=frozendict(laptop=digest_of(KEY))) as place:
        for path, status in (("/healthz", 200), ("/healthz/", 401), ("/Healthz", 401), ("//healthz", 401)):
            assert (await place.ask([("Host", "localhost")], method="GET", path=path)).status == status
        assert place.application.entered == [("/healthz", "")]


async def test_without_keys_nobody_has_a_name() -> None:
    async with guarded() as place:
        answer = await place.post(("Authorization", f"Bearer {KEY}"), ("x-api-key", KEY))
        assert (answer.status, answer.body) == (200, b"")


async def test_so_many_requests_at_once_and_no_more() -> None:
    async with guarded(concurrency=3) as place:
        place.application.go.clear()
        running = [asyncio.create_task(place.post()) for _ in range(3)]
        await place.application.reach(3)
        for _ in range(5):
            answer = await place.post()
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert json.loads(answer.body)["code"] == "server_overloaded"
        health = asyncio.create_task(place.ask([("Host", "localhost")], method="GET", path="/healthz"))
        await place.application.reach(4)
        place.application.go.set()
        assert [(await one).status for one in (*running, health)] == [200] * 4
        assert (await place.post()).status == 200


async def test_a_websocket_is_judged_as_a_request() -> None:
    entered: list[str] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        entered.append(scope["type"])

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError

    guarding = guard(application)
    await guarding({"type": "lifespan"}, receive, send)
    await guarding({"type": "websocket", "path": "/", "headers": [(b"host", b"elsewhere.example")]}, receive, send)
    assert (entered, sent[0]["status"]) == (["lifespan"], 421)


HEAD = "GET / HTTP/1.1\r\nHost: localhost\r\n"


async def gone(reader: asyncio.StreamReader) -> bytes:
    """What came until the server hung up."""
    came = b""
    with contextlib.suppress(ConnectionError):
        while more := await reader.read(65536):
            came += more
    return came


@pytest.mark.parametrize("size", [4097, 20_000, 200_000])
async def test_headers_that_are_too_large_are_refused_in_one_piece_and_in_many(size: int) -> None:
    async with guarded(Bounds(header_bytes=4096)) as place:
        whole = f"{HEAD}X-Long: {'x' * size}\r\n\r\n".encode()
        target = f"GET /{'x' * size} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        several = (HEAD + "".join(f"X-{one}: {'x' * 90}\r\n" for one in range(size // 95)) + "\r\n").encode()
        for sent in (whole, target, several):
            reader, writer = await place.open()
            writer.write(sent)
            assert Answer(await gone(reader)).status in (400, 431)
            writer.transport.abort()
        reader, writer = await place.open()
        with contextlib.suppress(ConnectionError):
            for start in range(0, len(whole), 500):
                writer.write(whole[start : start + 500])
                await writer.drain()
                await asyncio.sleep(0)
        assert (await gone(reader))[9:12] in (b"400", b"431", b"")
        writer.transport.abort()
        assert place.application.entered == []
        assert (await place.post(("X-Long", "x" * 3800))).status == 200


async def test_slow_headers_do_not_hold_off_requests() -> None:
    """Whoever only opens connections loses them, those of longest standing first; requests come through meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(20_000, hard), hard))
    number, most = count(5000), count(1000)
    bounds = Bounds(header_bytes=32 * 1024, header_seconds=3, connections=most)
    try:
        async with guarded(bounds) as place:
            alone = await pace(place)
            loris: list[asyncio.Task[bytes]] = []
            writers: list[asyncio.StreamWriter] = []

            async def dribble(writer: asyncio.StreamWriter) -> None:
                while not writer.is_closing():
                    writer.write(b"x-a: b\r\n")
                    await asyncio.sleep(0.5)

            dribbling: list[asyncio.Task[None]] = []
            for _ in range(number):
                reader, writer = await place.open()
                writer.write(HEAD.encode())
                writers.append(writer)
                loris.append(asyncio.create_task(gone(reader)))
                dribbling.append(asyncio.create_task(dribble(writer)))
            among = await pace(place)
            # Beyond the bound they went at once, and the rest when their time was over.
            assert sum(one.done() for one in loris) >= number - most - 100
            assert not any(await asyncio.gather(*loris))
            for one in dribbling:
                one.cancel()
            for writer in writers:
                writer.transport.abort()
            print(f"slowest of 100: {alone * 1000:.1f} ms alone, {among * 1000:.1f} ms among {number} slow ones")
            # A machine that is busy with something else is slow.
            assert not ATTACK or among < max(1.0, 20 * alone)
            assert (await place.post()).status == 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def pace(place: Place) -> float:
    """Seconds of the slowest of a hundred requests, on new connections; all of them come through."""
    slowest = 0.0
    for _ in range(100):
        began = time.perf_counter()
        assert (await place.post()).status == 200
        slowest = max(slowest, time.perf_counter() - began)
    return slowest


async def test_where_all_are_being_answered_the_next_is_told() -> None:
    async with guarded(Bounds(connections=5)) as place:
        place.application.go.clear()
        running = [asyncio.create_task(place.post()) for _ in range(5)]
        await place.application.reach(5)
        for _ in range(3):
            answer = await place.post()
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        crowd = [await place.open() for _ in range(200)]
        place.application.go.set()
        assert [(await one).status for one in running] == [200] * 5
        assert (await place.post()).status == 200
        for _, writer in crowd:
            writer.transport.abort()


async def test_an_idle_connection_makes_room_for_one_that_asks() -> None:
    async with guarded(Bounds(connections=2, idle_seconds=60)) as place:
        idle = []
        for _ in range(2):
            reader, writer = await place.open()
            writer.write(f"{HEAD}\r\n".encode())
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            idle.append((reader, writer))
        assert (await place.post()).status == 200
        assert await gone(idle[0][0]) == b""
        reader, writer = idle[1]
        writer.write(f"{HEAD}\r\n".encode())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        for _, writer in idle:
            writer.transport.abort()
