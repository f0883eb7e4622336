"""What a request does when nobody attacks: addresses, URLs, hosts, bodies, redirects, deadlines, credentials, words."""

import gzip
import ipaddress
import logging
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.exceptions import (
    InputError,
    NetworkFault,
    OutcomeUnknownFault,
    PermissionFault,
    ResourceFault,
    TimeoutFault,
    ToolFault,
)
from ripieno.origins.http.client import HostPattern, Limits, Reach, Request, Wording, parse_url
from ripieno.origins.http.client.addresses import is_local, refuse_address
from ripieno.origins.http.client.connection import _check_peer
from ripieno.storage.redaction import Redactor
from tests.support.raw_http_servers import answer, fetcher, knowing, redirect, web


@pytest.mark.parametrize(
    "text",
    ["127.0.0.1", "127.255.1.2", "10.1.2.3", "172.16.0.1", "172.31.9.9", "192.168.1.1", "::1", "fd12::1", "fc00::1"],
)
def test_private_addresses_are_reached_where_that_is_granted(text: str) -> None:
    for public in ("1.1.1.1", "93.184.216.34", "2606:4700::1111", "2a00:1450:4001::1"):
        assert refuse_address(ipaddress.ip_address(public), local=False) is None
    assert refuse_address(ipaddress.ip_address(text), local=False) is not None
    assert refuse_address(ipaddress.ip_address(text), local=True) is None
    assert is_local(ipaddress.ip_address(text))


@pytest.mark.parametrize(
    "text",
    [
        *("169.254.169.254", "fd00:ec2::254", "168.63.129.16", "100.100.100.200", "169.254.170.2", "fd20:ce::254"),
        *("0.0.0.0", "100.64.0.1", "169.254.1.1", "192.0.0.8", "192.88.99.1", "198.18.0.1", "224.0.0.1", "240.0.0.1"),
        *("255.255.255.255", "::", "::ffff:1.1.1.1", "::127.0.0.1", "::ffff:0:1.1.1.1", "64:ff9b::1.1.1.1"),
        *("64:ff9b:1::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "3fff::1", "fe80::1", "fec0::1", "ff02::1"),
        *("2606:4700::5efe:7f00:1", "2606:4700::200:5efe:7f00:1", "100::1", "5f00::1", "4000::1"),
    ],
)
def test_other_addresses_are_never_reached(text: str) -> None:
    for local in (False, True):
        assert refuse_address(ipaddress.ip_address(text), local=local) is not None


@given(st.ip_addresses())
def test_nothing_that_is_not_global_is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    if refuse_address(address, local=False) is None:
        assert address.is_global
        assert not address.is_multicast


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("https://Example.ORG", "https://example.org/"),
        ("HTTP://a.b:80/x?y=z#w", "http://a.b/x?y=z"),
        ("http://[2606:4700:0::1]:8080/%20", "http://[2606:4700::1]:8080/%20"),
        ("https://a.b:80/", "https://a.b:80/"),
        ("http://1.2.3.4?a", "http://1.2.3.4/?a"),
        ("http://xn--mnchen-3ya.de/", "http://xn--mnchen-3ya.de/"),
    ],
)
def test_a_url_has_one_form(text: str, same: str) -> None:
    url = parse_url(text)
    assert str(url) == same
    assert parse_url(str(url)) == url


@pytest.mark.parametrize(
    ("pattern", "fits", "fits_not"),
    [
        ("a.b", ["http://a.b", "https://a.b"], ["http://x.a.b", "http://a.b:8080", "https://a.b:80", "http://a.bc"]),
        ("*.a.b", ["http://x.a.b", "https://y.x.a.b"], ["http://a.b", "http://xa.b", "http://x.a.b:1"]),
        ("a.b:8080", ["http://a.b:8080", "https://a.b:8080"], ["http://a.b"]),
        ("a.b:*", ["http://a.b:8080", "https://a.b"], ["http://c.b"]),
        ("*", ["http://a.b", "https://1.2.3.4"], ["http://a.b:81"]),
        ("[::1]:8080", ["http://[0:0::1]:8080"], ["http://[::1]", "http://[::2]:8080"]),
        ("127.0.0.1", ["http://127.0.0.1"], ["http://127.0.0.2"]),
    ],
)
def test_a_listed_host_is_that_host(pattern: str, fits: list[str], fits_not: list[str]) -> None:
    host = HostPattern.parse(pattern)
    assert [url for url in (*fits, *fits_not) if host.fits(parse_url(url))] == fits


@pytest.mark.parametrize("text", ["", "a.b:", "a.b:0", "a.b:x", "a.b/", "http://a", "*.1.2.3.4", "a.*", "*a.b", "a b"])
def test_what_is_no_host_cannot_be_listed(text: str) -> None:
    with pytest.raises(InputError):
        HostPattern.parse(text)


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        ("text/plain; charset=iso-8859-1", b"\xe9", "é"),
        ("text/plain; charset=unicode_escape", b"\\x41", "\\x41"),
        ("text/html", b"\xef\xbb\xbfa", "a"),
        ("text/plain", b"\xff\xfea\0", "a"),
        ("", b"plain", "plain"),
        ("", b"\x89PNG\0", None),
        ("image/png", b"abc", None),
        ("application/vnd.api+json", b"{}", "{}"),
        ("text/plain", b"\xe9", "é"),
    ],
)
async def test_what_is_text(kind: str, data: bytes, text: str | None) -> None:
    async with web(lambda *_: answer(data, *([f"Content-Type: {kind}"] if kind else []))) as one:
        wording = Wording(fetched=await fetcher().fetch(one.request()))
    assert wording.text == text
    if text is None:
        assert wording.content.endswith(f"{len(data)} bytes, sha256:{__import__('hashlib').sha256(data).hexdigest()}]")


async def test_tls_knows_the_name_and_the_address_is_the_checked_one() -> None:
    async with web(tls=True) as one:
        asking = fetcher(resolver=knowing(good_example=["127.0.0.1"], bad_example=["127.0.0.1"]), tls=True)
        assert (await asking.fetch(Request(url=parse_url(f"https://good.example:{one.port}/")))).body == b"ok"
        assert one.names == ["good.example"]
        assert f"Host: good.example:{one.port}".encode() in one.heads[0]
        with pytest.raises(NetworkFault, match="certificate"):
            await asking.fetch(Request(url=parse_url(f"https://bad.example:{one.port}/")))
        assert len(one.heads) == 1


async def test_https_does_not_become_http() -> None:
    async with web() as plain, web(lambda *_: redirect(f"http://good.example:{plain.port}/"), tls=True) as one:
        asking = fetcher(resolver=knowing(good_example=["127.0.0.1"]), tls=True)
        with pytest.raises(PermissionFault, match="from https to http"):
            await asking.fetch(Request(url=parse_url(f"https://good.example:{one.port}/")))
        assert plain.connections == 0


@pytest.mark.parametrize(
    ("status", "method", "then", "keeps"),
    [
        *((301, "POST", "GET", False), (302, "POST", "GET", False), (303, "POST", "GET", False)),
        *((307, "POST", "POST", True), (308, "PUT", "PUT", True), (303, "PUT", "GET", False)),
        *((302, "PUT", "PUT", True), (303, "HEAD", "HEAD", False), (302, "HEAD", "HEAD", False)),
    ],
)
async def test_what_a_redirect_makes_of_a_request(status: int, method: str, then: str, keeps: bool) -> None:
    def say(head: bytes, _: bytes) -> bytes:
        return redirect("next", status) if b" /a/b " in head else answer()

    body = None if method == "HEAD" else b"data"
    async with web(say) as one:
        headers = (*((("Content-Type", "text/plain"),) if body else ()), ("X-Own", "1"))
        fetched = await fetcher().fetch(one.request("/a/b", method=method, body=body, headers=headers))
    assert one.targets == ["/a/b", "/a/next"]
    assert one.heads[1].startswith(then.encode())
    assert one.bodies[1] == (b"data" if keeps else b"")
    assert (b"content-type" in one.heads[1].lower()) == keeps
    assert b"X-Own" in one.heads[1]
    assert [(hop.status, hop.url.path) for hop in fetched.hops] == [(status, "/a/next")]


async def test_a_redirect_is_followed_five_times_and_only_where_it_is_wanted() -> None:
    async with web(lambda *_: redirect("/on")) as one:
        with pytest.raises(NetworkFault, match="redirected more than 5 times"):
            await fetcher().fetch(one.request())
        assert len(one.heads) == 6
        assert (await fetcher().fetch(one.request(follow=False))).status == 302


def never(*_: bytes) -> None:
    """Says nothing."""


def half_head(*_: bytes) -> list[bytes]:
    return [b"HTTP/1.1 200 OK\r\nA: "]


def half_body(*_: bytes) -> list[bytes]:
    return [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"]


def packed_half(*_: bytes) -> list[bytes]:
    data = gzip.compress(b"a" * 1000, mtime=0)[:-9]
    return [b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 99\r\n\r\n" + data]


@pytest.mark.parametrize(
    ("say", "code"),
    [(never, "first_byte"), (half_head, "first_byte"), (half_body, "between"), (packed_half, "between")],
)
async def test_a_slow_server_is_left(say: Callable[..., list[bytes] | None], code: str) -> None:
    limits = Limits(first_byte=0.2, between=0.2)
    async with web(say) as one:
        with pytest.raises(TimeoutFault) as raised:
            await fetcher(limits=limits).fetch(one.request())
        with pytest.raises(OutcomeUnknownFault) as unknown:
            await fetcher(limits=limits).fetch(one.request(method="POST", body=b"x"))
    assert raised.value.code == unknown.value.code == code


async def test_a_server_that_always_says_a_little_is_left_in_the_end() -> None:
    class Drops(list[bytes]):
        def __iter__(self):  # type: ignore[no-untyped-def]
            yield b"HTTP/1.1 200 OK\r\n\r\n"
            while True:
                yield b"x"

    async with web(lambda *_: Drops()) as one:
        with pytest.raises((TimeoutFault, ResourceFault)):
            await fetcher(limits=Limits(whole=0.3)).fetch(one.request())


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz",
        b"HTTP/1.1 200 OK\r\nA: " + b"a" * 200_000 + b"\r\n\r\n",
        answer(b"none", "Content-Encoding: gzip"),
        answer(gzip.compress(b"whole" * 99, mtime=0)[:-9], "Content-Encoding: gzip"),
        answer(b"x", "Content-Encoding: br"),
        answer(b"x", "Content-Encoding: gzip, gzip"),
        redirect("http://\\\\evil/"),
        redirect("http://a@b/"),
    ],
)
async def test_a_broken_answer_is_a_fault(said: bytes) -> None:
    async with web(lambda *_: said) as one:
        with pytest.raises(NetworkFault):
            await fetcher().fetch(one.request())


async def test_nobody_there_is_a_fault_and_nothing_was_done() -> None:
    async with web() as one:
        pass
    for method in ("GET", "POST"):
        with pytest.raises(NetworkFault, match="cannot be connected to"):
            await fetcher().fetch(one.request(method=method))


async def test_another_address_of_a_name_is_tried() -> None:
    async with web(host="127.0.0.2") as one:
        asking = fetcher(resolver=knowing(a_b=["127.0.0.9", "127.0.0.2"]))
        assert (await asking.fetch(Request(url=parse_url(f"http://a.b:{one.port}/")))).body == b"ok"


async def test_the_other_side_is_compared_with_what_was_checked() -> None:
    class Stream:
        closed = False

        def get_extra_info(self, _: str) -> tuple[str, int]:
            return ("127.0.0.9", 80)

        async def aclose(self) -> None:
            self.closed = True

    stream, url = Stream(), parse_url("http://a.b/")
    with pytest.raises(PermissionFault, match=r"led to 127\.0\.0\.9"):
        await _check_peer(stream, url, ipaddress.ip_address("127.0.0.1"), Reach(local=True))
    assert stream.closed
    with pytest.raises(PermissionFault, match="an address of this machine"):
        await _check_peer(stream, url, ipaddress.ip_address("127.0.0.9"), Reach())


async def test_secrets_are_said_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    secret = 'p"ss/wörd+1234'
    caplog.set_level(logging.DEBUG)

    def say(head: bytes, _: bytes) -> bytes:
        said = head.split(b"\r\n")[0] + b" " + next(line for line in head.split(b"\r\n") if b"Key" in line)
        return answer(said + b' {"a": "p\\"ss/w\xc3\xb6rd+1234"}', f"ETag: {said.decode('latin-1')}")

    async with web(say) as one:
        request = one.request(
            "/?k=p%22ss%2Fw%C3%B6rd%2B1234",
            credentials={one.place: (("Key", "key-abcdefgh"),)},
            redactor=Redactor((secret, "key-abcdefgh")),
        )
        fetched = await fetcher().fetch(request)
    wording = Wording(fetched=fetched, redactor=request.redactor)
    assert b"key-abcdefgh" in one.heads[0]
    assert wording.leaks()
    said = wording.head + wording.content + caplog.text + repr(request)
    assert said.count("[hidden]") >= 5
    for form in ("key-abcdefgh", "rd+1234", "rd%2B1234", "p%22ss"):
        assert form not in said
    async with web(lambda *_: redirect("http://[key-abcdefgh]/")) as one:
        with pytest.raises(ToolFault) as raised:
            await fetcher().fetch(one.request(redactor=Redactor(("key-abcdefgh",))))
        assert "key-abcdefgh" not in repr(raised.value) + str(raised.value.__cause__) + str(raised.value.__context__)
