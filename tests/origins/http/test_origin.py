"""Requests as invocables: what is sent, what can never be, what comes back, and what is wrong with a descriptor."""

import hashlib
import json
import pathlib
import random
import textwrap
import urllib.parse
from typing import Any

import pytest

from ripieno.canisters import AudioContent, DocumentContent, ImageContent
from ripieno.ensembles import Surroundings
from ripieno.exceptions import (
    ConnectionFailure,
    ExecutionFault,
    NetworkFault,
    PermissionFault,
    QuotaFault,
    ResourceFault,
    ToolFault,
    ValidationFault,
)
from tests.counts import count
from tests.support.raw_http_servers import answer, canaries, redirect, web
from tests.support.toml_ensembles import call, check, make_ensemble, surround

SECRET = "open-sesame-0123"


@pytest.fixture
def surroundings(tmp_path: pathlib.Path) -> Surroundings:
    return surround(tmp_path, secrets={"TOKEN": SECRET, "BROKEN": "a\nb: c"})


def tool(url: str, more: str = "", arguments: str = "a = { type = 'string' }", required: str = '["a"]') -> str:
    return f"""
        [ensemble]
        name = "it"
        [[invokers]]
        name = "ask"
        description = "Asks"
        [invokers.arguments]
        type = "object"
        required = {required}
        [invokers.arguments.properties]
        {arguments}
        [invokers.invocable]
        origin = "http"
        url = "{url}"
        {more}
    """


async def ask(text: str, surroundings: Surroundings, **arguments: Any) -> str:
    assert check(text) == []
    async with make_ensemble(text, surroundings) as ensemble:
        result = await call(ensemble, "ask", **arguments)
    assert isinstance(result, str)
    return result


async def test_what_a_server_is_sent(surroundings: Surroundings) -> None:
    arguments = """
        a = { type = 'string' }
        b = { type = 'integer' }
        c = { type = 'array' }
    """
    more = """
        method = "POST"
        query = { units = "{b}", who = "{{{a}}}", key = "{env:TOKEN}" }
        headers = { Authorization = "Bearer {env:TOKEN}", X-B = "{b}", X-A = "a{b}" }
        json = { whole = "{b}", list = "{c}", text = "<{a}>", deep = [{ "a b" = "{a}" }, "{c}", 1, true], "{{" = "{{" }
    """
    async with web(lambda *_: answer(b'{"done": 1}', "Content-Type: application/json")) as one:
        text = tool(f"{one.place}/v1/{{a}}/x-{{a}}.json", more, arguments)
        assert await ask(text, surroundings, a="ä/b c", b=3, c=[1, {}]) == '{"done": 1}'
        assert await ask(text, surroundings, a="z") == '{"done": 1}'
    first, second = one.heads
    assert one.targets[0] == (
        "/v1/%C3%A4%2Fb%20c/x-%C3%A4%2Fb%20c.json?units=3&who=%7B%C3%A4%2Fb%20c%7D&key=open-sesame-0123"
    )
    assert one.targets[1] == "/v1/z/x-z.json?who=%7Bz%7D&key=open-sesame-0123"
    assert f"Authorization: Bearer {SECRET}\r\n".encode() in first
    assert b"X-B: 3\r\n" in first
    assert b"X-B" not in second
    assert b"Content-Type: application/json\r\n" in first
    assert json.loads(one.bodies[0]) == {
        "whole": 3,
        "list": [1, {}],
        "text": "<ä/b c>",
        "deep": [{"a b": "ä/b c"}, [1, {}], 1, True],
        "{{": "{",
    }
    assert json.loads(one.bodies[1]) == {"text": "<z>", "deep": [{"a b": "z"}, 1, True], "{{": "{"}


async def test_a_body_is_text(surroundings: Surroundings) -> None:
    async with web() as one:
        assert await ask(tool(one.place, 'method = "PUT"\nbody = "<{a}>"'), surroundings, a="ä\r\n") == "ok"
    assert (one.targets, one.bodies) == (["/"], ["<ä\r\n>".encode()])
    assert b"Content-Type: text/plain; charset=utf-8" in one.heads[0]


@pytest.mark.parametrize(
    ("kind", "data", "content"),
    [
        ("image/png", b"\x89PNG\0", ImageContent(data=b"\x89PNG\0", mime_type="image/png")),
        ("Audio/WAV; x=y", b"RIFF\0", AudioContent(data=b"RIFF\0", mime_type="audio/wav")),
        ("application/pdf", b"%PDF-", DocumentContent(data=b"%PDF-", mime_type="application/pdf")),
        ("image/svg+xml", b"<svg/>", "<svg/>"),
    ],
)
async def test_an_image_a_sound_and_a_pdf_are_contents(
    kind: str, data: bytes, content: object, surroundings: Surroundings
) -> None:
    async with (
        web(lambda *_: answer(data, f"Content-Type: {kind}")) as one,
        make_ensemble(tool(one.place), surroundings) as ensemble,
    ):
        assert await call(ensemble, "ask", a="") == content


@pytest.mark.parametrize(
    ("kind", "data"), [("application/zip", b"PK\0"), ("image/png", b""), ("image/png", b"\x89" + SECRET.encode())]
)
async def test_other_data_is_described(kind: str, data: bytes, surroundings: Surroundings) -> None:
    async with web(lambda *_: answer(data, f"Content-Type: {kind}")) as one:
        text = await ask(tool(one.place, 'query = { key = "{env:TOKEN}" }'), surroundings, a="")
    assert text == f"[{kind}: {len(data)} bytes, sha256:{hashlib.sha256(data).hexdigest()}]"


async def test_a_status_that_is_no_success_is_a_failure(surroundings: Surroundings) -> None:
    async with web(lambda *_: answer(b"no such city", status="404 Not Found")) as one:
        with pytest.raises(ResourceFault) as raised:
            await ask(tool(one.place), surroundings, a="")
    assert str(raised.value) == "The server answered HTTP 404 Not Found.\nno such city"
    assert raised.value.details == {"status": 404}
    async with web(lambda *_: answer(b"", "Retry-After: 7", status="429 Slow")) as one:
        with pytest.raises(QuotaFault) as quota:
            await ask(tool(one.place), surroundings, a="")
    assert quota.value.suggestion == "Wait 7 s before the next call."
    for status, category in (("403 No", "permission"), ("401 Who", "permission"), ("418 Tea", "execution")):
        async with web(lambda *_, status=status: answer(b"", status=status)) as one:
            with pytest.raises(ToolFault) as other:
                await ask(tool(one.place), surroundings, a="")
        assert other.value.category == category
    assert quota.value.details == {"status": 429, "retry_after": 7}
    for status, details in (("503 Away", {"status": 503, "retry_after": 0}), ("502 Away", {"status": 502})):
        header = ("Retry-After: 0",) if "retry_after" in details else ()
        async with web(lambda *_: answer(b"", *header, status=status)) as one:  # noqa: B023
            with pytest.raises(NetworkFault) as away:
                await ask(tool(one.place), surroundings, a="")
        assert away.value.details == details


async def test_a_redirect_stays_with_the_host(surroundings: Surroundings) -> None:
    async with web() as other:
        ends = (f"http://127.0.0.1:{other.port}/", f"http://localhost:{other.port}/")
        for end in ends:
            async with web(lambda *_: redirect(end)) as one:  # noqa: B023
                more = 'headers = { Authorization = "{env:TOKEN}" }'
                with pytest.raises(PermissionFault, match="not among the allowed hosts"):
                    await ask(tool(one.place, more), surroundings, a="")
        assert other.connections == 0
    async with web(lambda head, _: answer(b"there") if b" /on " in head else redirect("/on")) as one:
        assert await ask(tool(one.place, 'headers = { K = "{env:TOKEN}" }'), surroundings, a="") == "there"
        assert all(SECRET.encode() in head for head in one.heads)


async def test_a_name_that_leads_home_needs_consent(surroundings: Surroundings, tmp_path: pathlib.Path) -> None:
    async with web() as one:
        assert await ask(tool(f"http://localhost:{one.port}/"), surroundings, a="") == "ok"
        text = tool(f"http://localhost.localhost:{one.port}/")
        # Not every system's resolver knows names beneath localhost.
        with pytest.raises((PermissionFault, NetworkFault)) as raised:
            await ask(text, surroundings, a="")
        assert "local = true" in (raised.value.suggestion or "") or raised.value.code == "unresolved"
        assert one.connections == 1


NASTY = (
    *("..", ".", "../..", "%2e%2e", "%252e%252e", "..%2f..", "..\\", "/", "//evil.example", "\\\\evil.example", "?a=b"),
    *("#x", "@evil.example", ":80", "a/../../b", "%00", "\0", "\r\nX: y", "{a}", "{env:TOKEN}", "http://evil.example/"),
    *("\uff0e\uff0e", "%", "%2", "%zz", ";", "&", "=", "+", " ", "é", "\u202e", "\ud800", "", "..;", ".%2e", "%2e."),
    "a" * 3000,
    *("%c0%ae%c0%ae", "..%c0%af", "%5c..", "..%5c", "a%2f..%2f..", "\t", "\n", "*", "~", "$(x)", "'", '"', "<", "|"),
)


async def test_no_value_leaves_its_place(surroundings: Surroundings) -> None:
    """Neither the beginning of the path, nor the number of its segments, nor the names of the query ever change."""
    chance = random.Random(7)
    arguments = "a.type = 'string'\nb.type = 'string'"
    sent = refused = 0
    async with web() as one, canaries() as traps:
        more = 'query = { q = "{b}" }\nheaders = { X-C = "c" }'
        text = tool(f"{one.place}/v1/{{a}}/x{{b}}/end", more, arguments, '["a", "b"]')
        assert check(text) == []
        async with make_ensemble(text, surroundings) as ensemble:
            for number in range(count(2000)):
                a, b = (
                    "".join(chance.choices(NASTY, k=chance.choice((1, 1, 1, 2, 3)))).replace(
                        "evil.example", "127.0.0.1"
                    )
                    for _ in range(2)
                )
                if number % 3 == 0:
                    a = f"{a}:{traps[0].port}/"
                one.heads.clear()
                try:
                    await call(ensemble, "ask", a=a, b=b)
                except ValidationFault:
                    refused += 1
                    assert one.heads == []
                    continue
                sent += 1
                (target,) = one.targets
                path, _, query = target.partition("?")
                assert path.startswith("/v1/")
                assert path.endswith("/end")
                assert path.split("/")[3].startswith("x")
                assert path.count("/") == 4
                decoded = path
                for _ in range(3):
                    decoded = urllib.parse.unquote(decoded)
                    assert not {".", ".."} & set(decoded.replace("\\", "/").split("/"))
                assert urllib.parse.parse_qsl(query, keep_blank_values=True) == [("q", b)]
                assert b"\r\nX: y" not in one.heads[0]
        assert [trap.connections for trap in traps] == [0, 0, 0]
    assert sent > count(2000) // 10
    assert refused > count(2000) // 10


async def test_no_value_splits_a_header(surroundings: Surroundings) -> None:
    async with web() as one:
        text = tool(one.place, 'headers = { X-A = "{a}" }')
        for value in ("a\r\nX-B: c", "a\nb", "\r", "a\0", "é", "\x7f", " a", "a "):
            with pytest.raises(ToolFault):
                await ask(text, surroundings, a=value)
        assert one.heads == []
        with pytest.raises(ConnectionFailure, match="BROKEN has characters"):
            await ask(tool(one.place, 'headers = { X-A = "{env:BROKEN}" }'), surroundings, a="")
        assert one.heads == []


async def test_what_a_server_says_again_is_hidden(surroundings: Surroundings) -> None:
    async with web(lambda head, _: answer(head + json.dumps(SECRET).encode())) as one:
        more = 'query = { k = "{env:TOKEN}" }\nheaders = { Authorization = "Bearer {env:TOKEN}" }'
        said = await ask(tool(one.place, more), surroundings, a="")
        assert SECRET.encode() in one.heads[0]
        assert SECRET not in said
        assert said.count("[hidden]") == 3
    async with web(lambda head, _: answer(head, status=f"500 {SECRET}")) as one:
        with pytest.raises(ExecutionFault) as raised:
            await ask(tool(one.place, more), surroundings, a="")
    assert SECRET not in repr(raised.value) + str(raised.value.details)


async def test_a_missing_variable_is_told_at_the_start(surroundings: Surroundings) -> None:
    text = tool("https://a.example/", 'headers = { Authorization = "{env:MISSING}" }')
    with pytest.raises(ConnectionFailure, match="the variable MISSING is not set"):
        async with make_ensemble(text, surroundings):
            pass


@pytest.mark.parametrize(
    ("url", "more", "message"),
    [
        ("ftp://a.b/", "", "not a URL that begins with http"),
        ("http://{a}.b/", "", "an argument cannot set the scheme, the host or the port"),
        ("http://a.b:{a}/", "", "an argument cannot set"),
        ("{a}", "", "not a URL"),
        ("http://a.b/?q={a}", "", "under query"),
        ("http://a.b/#x", "", "under query"),
        ("http://a@b/", "", "user or a password"),
        ("http://0x7f.1/", "", "looks like an address"),
        ("http://169.254.169.254/{a}", "", "a cloud gives credentials; it is never contacted"),
        ("http://a.b/../{a}", "", "is relative"),
        ("http://a.b/%2e%2e/{a}", "", "is relative"),
        ("http://a.b/%2{a}", "", "must be percent-encoded"),
        ("http://a.b/a b", "", "must be percent-encoded"),
        ("http://a.b/{env:TOKEN}", "", "variables are not allowed here"),
        ("http://a.b/{b}", "", "'b' is not an argument"),
        ("http://a.b/{o}", "", "'o' may be absent"),
        ("http://a.b/", 'method = "CONNECT"', "must be one of"),
        ("http://a.b/", 'query = { q = "{b}" }', "'b' is not an argument"),
        ("http://a.b/", 'headers = { Host = "x" }', "set by the connection itself"),
        ("http://a.b/", 'headers = { Content-Length = "1" }', "set by the connection itself"),
        ("http://a.b/", 'headers = { "A B" = "1" }', "must be the name of a header"),
        ("http://a.b/", 'headers = { A = "x\\ny" }', "has invalid characters"),
        ("http://a.b/", 'body = "{a}"', "a GET has no body"),
        ("http://a.b/", 'method = "post"\nbody = "{a}"', "must be one of"),
        ("http://a.b/", 'method = "POST"\nbody = "raw {o}"', "Make it required, or give it a default."),
        ("http://a.b/", 'method = "POST"\nbody = "{a}"\njson = "{a}"', "body and json are both set"),
        ("http://a.b/", 'method = "POST"\nbody = "{env:TOKEN}"', "variables are not allowed here"),
        ("http://a.b/", 'method = "POST"\njson = ["{env:TOKEN}"]', "variables are not allowed here"),
        ("http://a.b/", 'method = "POST"\njson = { b = ["{b}"] }', "'b' is not an argument"),
        ("http://a.b/", 'urls = "x"', "has no key urls"),
        ("http://a.b/", "local = 1", "must be true or false"),
    ],
)
def test_what_is_wrong_with_a_descriptor(url: str, more: str, message: str) -> None:
    problems = check(tool(url, more, "a.type = 'string'\no.type = 'string'"))
    assert len(problems) == 1
    assert message in problems[0].message + (problems[0].hint or "")
    assert (problems[0].key or "").startswith("invokers[0].invocable")


def test_the_example_of_the_guide_is_right() -> None:
    page = (pathlib.Path(__file__).parents[3] / "documentation" / "tutorials" / "ask-the-web.rst").read_text()
    block = page.split(".. code-block:: toml\n\n")[1].split("\n\nPut the name")[0]
    assert check(textwrap.dedent(block)) == []
