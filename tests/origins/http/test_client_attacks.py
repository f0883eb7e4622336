"""Requests under attack: odd URLs, redirects, rebinding, parsers that differ, bombs, split headers. Loopback only."""

import functools
import gzip
import itertools
import random
import tracemalloc
import urllib.parse
import zlib
from collections.abc import Callable, Iterator, Sequence

import httpx2
import pytest

from ripieno.exceptions import InputError, NetworkFault, PermissionFault, ResourceFault, ToolFault
from ripieno.origins.http.client import Limits, Request, Url, parse_url
from ripieno.storage.redaction import Redactor
from tests.counts import count
from tests.support.raw_http_servers import answer, canaries, fetcher, knowing, redirect, web, worst

#: Ways to say this machine, or to seem to say another.
HOSTS = (
    *("127.0.0.1", "127.0.0.2", "127.1", "127.0.1", "2130706433", "4294967295", "0", "0.0.0.0", "127.000.000.001"),
    *("0x7f000001", "0x7f.0.0.1", "0x7f.1", "0X7F.0x0.0x0.0x1", "017700000001", "0177.0.0.1", "0177.1", "00000177.1"),
    *("127.0.0.1.", "localhost", "LOCALHOST", "localhost.", "localhost..", ".localhost", "a.localhost", "127.0.0.01"),
    *("0x7f.0.1", "127.0x1", "6425673729", "127.0.0.257", "127.0.0.1.nip.io", "1.0.0.127.in-addr.arpa"),
    *("⑫⑦.0.0.1", "⑫⑦.⓪.⓪.①", "\uff11\uff12\uff17.0.0.1", "127。0。0。1", "127\uff0e0\uff0e0\uff0e1", "١٢٧.0.0.1"),
    *("ⓛocalhost", "loc\u00adalhost"),
    *("%31%32%37.0.0.1", "127%2e0%2e0%2e1", "%6cocalhost", "127.0.0.1%00", "127.0.0.1%20", "local%0ahost"),
    *("[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[::7f00:1]"),
    *("[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[2001:0:7f00:1::80ff:fffe]", "[::ffff:0:127.0.0.1]", "[fe80::1%25lo]"),
    *("[::1%lo]", "[::1%25lo]", "[::1].example.org", "[[::1]]", "[127.0.0.1]", "[v1.127.0.0.1]", "::1", "[::1", "::1]"),
    *("169.254.169.254", "[fd00:ec2::254]", "168.63.129.16", "metadata.google.internal", "[fec0::1]", "224.0.0.1"),
    *("127.0.0.1\t", "127.0.0.1\n", " 127.0.0.1", "127.0.0.1\x00", "127.0.\r\n0.1", "127.0.0.1\u200b", "-127.0.0.1"),
    *("127_0_0_1", "a_b.example", "xn--.", "xn--0", "", ".", "..", "a..b", "a" * 64, ("a" * 60 + ".") * 5),
)
#: What may stand around a host.
FORMS = (
    *("http://{h}:{p}/", "http://{h}:{p}", "HTTP://{h}:{p}/x?y#z", "https://{h}:{p}/", "http://{h}:0{p}/"),
    *("http://example.org@{h}:{p}/", "http://example.org:80@{h}:{p}/", "http://a:b@c@{h}:{p}/", "http://@{h}:{p}/"),
    *("http://{h}:{p}@example.org/", "http://example.org\\@{h}:{p}/", "http://{h}:{p}\\@example.org/", "http:{h}:{p}"),
    *("http:/{h}:{p}/", "http:///{h}:{p}/", "http:\\\\{h}:{p}\\", "//{h}:{p}/", "{h}:{p}", "ftp://{h}:{p}/"),
    *("http://{h}:{p}#@example.org/", "http://{h}:{p}?@example.org/", "http://{h}:{p};a@b.org", "\thttp://{h}:{p}/"),
    *("http://example.org#@{h}:{p}/", "http://[::1]@{h}:{p}/", "gopher://{h}:{p}/_x", "http://{h}:{p}/\r\nX: y"),
    *("file://{h}:{p}/etc/passwd", "http://{h}:+{p}/", "http://{h}: {p}/", "http://{h}:{p}x/", "http://{h}:{p}:80/"),
)


def url_forms(port: int) -> Iterator[str]:
    for form, host in itertools.product(FORMS, HOSTS):
        yield form.format(h=host, p=port)


async def fetched(asking: Callable[[Request], object], text: str) -> str:
    """What became of a URL: ``answered``, or why not."""
    try:
        await asking(Request(url=parse_url(text)))  # type: ignore[misc]
    except InputError:
        return "no URL"
    except ToolFault as fault:
        return fault.code
    return "answered"


async def test_no_form_of_a_url_leads_to_this_machine() -> None:
    async with canaries() as (one, *others):
        forms = random.Random(1).sample(list(url_forms(one.port)), count(1500, 20))
        for resolver in (worst, knowing()):
            strict = fetcher("*:*", local=False, resolver=resolver)
            outcomes = [await fetched(strict.fetch, form) for form in forms]
            assert "answered" not in outcomes
            assert {"no URL", "address_not_allowed"} <= set(outcomes) or resolver is not worst
        # Where this machine is granted, only the listed host is reached, however another is written.
        narrow = fetcher("allowed.example:*", local=True)
        assert "answered" not in [await fetched(narrow.fetch, form) for form in forms]
        assert [web.connections for web in (one, *others)] == [0, 0, 0]
        # That they listen is known as well.
        assert await fetched(fetcher("*:*").fetch, f"{one.place}/") == "answered"
        assert one.connections == 1


CHARACTERS = "abzAZ019-._~%@:/\\?#[] \t\r\n\0'\"<>|^`{}!$&()*+,;=éßİ⑫。\uff0e\u200b\u202e\uff0f\u2100"


def hostnames(many: int) -> Iterator[str]:
    chance = random.Random(2)
    labels = ["a", "example", "xn--mnchen-3ya", "b-c", "0", "9a", "x" * 63, "1.2.3.4", "org", "[::1]", "[2606:4700::1]"]
    for _ in range(many):
        host = ".".join(chance.choices(labels, k=chance.randint(1, 4)))
        for _ in range(chance.choice([0, 0, 1, 1, 2, 3])):
            at = chance.randint(0, len(host))
            host = host[:at] + chance.choice(CHARACTERS) + host[at + chance.randint(0, 1) :]
        yield host


async def test_what_is_checked_is_what_is_connected_to() -> None:
    asked: list[str] = []

    async def resolver(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"]

    differences: list[tuple[str, object]] = []
    accepted = 0
    async with web() as one:
        asking = fetcher("*:*", resolver=resolver)
        for host in hostnames(count(2000)):
            try:
                url = parse_url(f"http://{host}:{one.port}/")
            except InputError:
                continue
            accepted += 1
            text = str(url)
            others = urllib.parse.urlsplit(text).hostname, httpx2.URL(text).raw_host.decode().strip("[]")
            if any(other != url.host.name for other in others) or parse_url(text) != url:
                differences.append((host, others))
            if url.host.address is not None or url.port != one.port:
                continue
            asked.clear()
            one.heads.clear()
            try:
                await asking.fetch(Request(url=url))
            except ToolFault as fault:
                differences.append((host, fault))
            if asked != [url.host.name] or f"\r\nHost: {url.authority}\r\n".encode() not in one.heads[0]:
                differences.append((host, asked))
    assert differences == []
    assert accepted > count(2000) // 10


async def test_a_name_that_changes_its_address_is_resolved_once() -> None:
    """The first answer to each request is the good one, every further answer is a canary; and some are not allowed."""
    chance = random.Random(3)
    mixed = [["127.0.0.1", "169.254.169.254"], ["169.254.169.254", "127.0.0.1"], ["127.0.0.1", "::ffff:127.0.0.2"]]
    async with canaries() as (good, *canary):
        for number in range(count(1000)):
            answers = iter([["127.0.0.1"] if number % 2 else chance.choice(mixed)])
            asked = 0

            async def resolver(host: str, port: int) -> Sequence[str]:
                nonlocal asked
                asked += 1
                return next(answers, ["127.0.0.2", "::1"])  # noqa: B023

            asking = fetcher("flip.example:*", resolver=resolver)
            outcome = await fetched(asking.fetch, f"http://flip.example:{good.port}/")
            assert outcome == ("answered" if number % 2 else "address_not_allowed")
            assert asked == 1
        assert good.connections == count(1000) // 2
        assert [one.connections for one in canary] == [0, 0]


async def test_redirects_lead_nowhere_else_and_tell_no_credentials() -> None:
    """Chains of up to eight hops over two listed hosts, which end at a place that nobody may reach."""
    chance = random.Random(4)
    secret = "sesame-open-0123456789"
    chains: dict[str, list[bytes]] = {}

    def say(head: bytes, _: bytes) -> bytes:
        key = head.split(b" ")[1].decode().strip("/").partition("/")[0]
        return chains[key].pop(0)

    resolver = knowing(good_example=["127.0.0.1"], other_example=["127.0.0.1"], internal_example=["127.0.0.1"])
    bomb = gzip.compress(bytes(10**6))
    async with web(say) as first, web(say) as second, canaries() as traps:
        asking = fetcher(f"good.example:{first.port}", f"other.example:{second.port}", resolver=resolver)
        ends = [
            *(f"http://{host}:{traps[0].port}/" for host in ("127.0.0.1", "localhost", "internal.example", "[::1]")),
            *(f"//2130706433:{traps[0].port}/", f"http://good.example@127.0.0.1:{traps[0].port}/"),
            *(f"http://good.example:{traps[0].port}/", f"\t{traps[0].place}/", "http://169.254.169.254/"),
            *(f"http:\\\\127.0.0.1:{traps[0].port}", "file:///etc/passwd", "gopher://127.0.0.1/"),
        ]
        for number in range(count(200, 60)):
            key, length = f"k{number}", chance.randint(0, 8)
            places = (f"http://good.example:{first.port}/{key}/", f"http://other.example:{second.port}/{key}/")
            hops = [chance.choice(places) for _ in range(length)]
            more = ("Content-Encoding: gzip",) if chance.random() < 0.3 else ()
            chains[key] = [
                redirect(hop, chance.choice((301, 302, 303, 307, 308)), *more, body=bomb if more else b"")
                for hop in (*hops, chance.choice(ends))
            ]
            with pytest.raises((PermissionFault, NetworkFault)):
                await asking.fetch(
                    Request(
                        url=parse_url(places[0]),
                        headers=(("Authorization", f"Bearer {secret}"), ("Cookie", secret), ("X-Api-Key", secret)),
                        credentials={f"http://good.example:{first.port}": (("X-Own", secret),)},
                        redactor=Redactor((secret,)),
                    )
                )
            assert len(chains[key]) == max(0, length + 1 - 6)
        assert [trap.connections for trap in traps] == [0, 0, 0]
        assert [head for head in second.heads if secret.encode() in head] == []
        # What was configured for the first is sent there each time; what was given with the request not after it left.
        assert all(b"X-Own: " + secret.encode() in head for head in first.heads)
        assert second.heads


@functools.cache
def large_gzip() -> bytes:
    """64 MiB of zeros, packed."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join([*(deflate.compress(bytes(2**20)) for _ in range(64)), deflate.flush()])


#: Bodies that are small on the wire and large unpacked, and how they are said to be packed.
BOMBS: tuple[tuple[Callable[[], bytes], str], ...] = (
    *((large_gzip, encoding) for encoding in ("gzip", "br", "zstd", "x-gzip")),
    (lambda: large_gzip()[: len(large_gzip()) // 2], "GZIP"),
    (lambda: gzip.compress(bytes(2**20)) * 64, "gzip"),
    (lambda: gzip.compress(b"") * 5000, "gzip"),
    (lambda: gzip.compress(large_gzip()), "gzip, gzip"),
    (lambda: zlib.compress(bytes(2**26)), "deflate"),
)


@pytest.mark.parametrize("kind", range(len(BOMBS)))
async def test_a_bomb_takes_no_memory(kind: int) -> None:
    """Each kind as an answer, as a failure and as a redirect, whole and in pieces."""
    make, encoding = BOMBS[kind]
    body = make()
    statuses = ("200 OK", "500 No", "302 Elsewhere", "200 OK", "404 No", "307 Elsewhere")
    for number in range(count(6)):
        status = statuses[(number + kind) % 6]
        more = ("Location: /on",) if status.startswith("3") else ()
        said = answer(body, f"Content-Encoding: {encoding}", *more, status=status)
        async with web(lambda *_: said) as one:  # noqa: B023
            tracemalloc.start()
            try:
                with pytest.raises((NetworkFault, ResourceFault)):
                    await fetcher(limits=Limits(size=2**20)).fetch(one.request())
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
        assert peak < 8 * 2**20


async def test_many_members_are_one_body() -> None:
    data = b"".join(gzip.compress(bytes([number]) * 70_000) for number in range(9)) + bytes(512)
    async with web(lambda *_: answer(data, "Content-Encoding: gzip")) as one:
        answered = await fetcher().fetch(one.request())
    assert answered.body == b"".join(bytes([number]) * 70_000 for number in range(9))


REQUEST = "\r\n\r\nGET /x HTTP/1.1\r\nHost: x\r\n\r\n"
SPLITS = ("\r\n", "\n", "\r", "\0", "\x0b", "\x85", "\u2028", "é", REQUEST, "\x7f", "\x1b")


async def test_no_value_splits_a_request() -> None:
    chance = random.Random(5)
    async with web() as one:
        for _ in range(count(1000)):
            split = chance.choice(SPLITS)
            bad = f"{chance.choice(('', 'a'))}{split}{chance.choice(('', 'Injected: yes', ' b'))}"
            places = ((("X-A", bad),), ((f"X-A{bad}", "b"),), (("X-A", "b"), ("x-a", "c")), ())
            headers = chance.choice(places)
            with pytest.raises((InputError, ToolFault)):
                await fetcher().fetch(one.request("/" if headers else f"/{bad}", headers=headers))
        for name in (
            *("Host", "content-LENGTH", "Transfer-Encoding", "Connection", "TE", "Upgrade", "Proxy-Authorization"),
            *("A B", "", "A:", "Ä", "A_B"),
        ):
            with pytest.raises(ToolFault):
                await fetcher().fetch(one.request(headers=((name, "1"),)))
        assert one.connections == 0


def test_every_url_that_is_taken_is_written_as_it_was_read() -> None:
    chance = random.Random(6)
    taken: list[Url] = []
    for _ in range(count(20_000)):
        text = "http://a.b/" + "".join(chance.choices("abc/.?&=%20{}<> \\\"é'()", k=chance.randint(0, 12)))
        try:
            taken.append(parse_url(text))
        except InputError:
            continue
    assert len(taken) > 10
    assert all(url.target.isascii() and url.target.isprintable() and " " not in url.target for url in taken)
    assert all(parse_url(str(url)) == url for url in taken)
