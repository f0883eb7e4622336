"""Attacks on the page's server over real HTTP: other names and sites, forged tokens and codes. None succeeds."""

import asyncio
import secrets

import httpx2
import pytest

from ripieno.servers.web.sessions import CODE_SECONDS, Sessions
from tests.counts import count
from tests.servers.web.conftest import Connect
from tests.support.scripted_models import says, scripted

GETS = [
    *("api/models", "api/tools", "api/journal", "api/journal/x", "api/journal/x/calls", "api/cassettes"),
    *("api/cassettes/x", "api/chat/conversations", "api/chat/conversations/x", "api/chat/conversations/x/events"),
    *("api/chat/questions", "api/chat/usage"),
]
POSTS = [
    *("api/markdown", "api/journal/x/verify", "api/journal/x/fork", "api/chat/conversations"),
    *(f"api/chat/conversations/x/{one}" for one in ("messages", "answers", "results", "stop", "resume")),
]
ROUTES = [*(("GET", one) for one in GETS), *(("POST", one) for one in POSTS)]
OPEN = [("GET", ""), ("GET", "static/page.css"), ("POST", "api/session")]
MODEL = scripted(says("Yes."))


async def ask(
    client: httpx2.AsyncClient, method: str, path: str, headers: dict[str, str] | None = None
) -> httpx2.Response:
    """A request with a harmless body."""
    sent = {"content": b"{}", "headers": {"content-type": "application/json", **(headers or {})}}
    if method == "GET":
        sent = {"headers": headers or {}}
    return await client.request(method, path, **sent)


async def test_other_names_of_the_server_are_refused(connect: Connect) -> None:
    """DNS rebinding: a page of another name reaches this port, and its browser sends that name."""
    async with connect(MODEL) as (served, client):
        for method, path in [*ROUTES, *OPEN]:
            for host in ("evil.example", f"evil.example:{served.port}", "127.0.0.1.evil.example", "", "127.0.0.2"):
                assert (await ask(client, method, path, {"host": host})).status_code == 421, (path, host)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://127.0.0.1:1"},
        {"origin": "https://127.0.0.1"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
    ],
    ids=str,
)
async def test_pages_of_other_ports_and_sites_are_refused(connect: Connect, headers: dict[str, str]) -> None:
    async with connect(MODEL) as (_, client):
        for method, path in [*ROUTES, *OPEN]:
            assert (await ask(client, method, path, headers)).status_code == 403, path


async def test_a_form_of_another_page_is_refused(connect: Connect) -> None:
    """Forms and untyped requests need no permission of this server; their types differ from JSON."""
    async with connect(MODEL) as (_, client):
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "text/json"):
            for method, path in [*ROUTES, *OPEN]:
                if method == "POST":
                    answer = await client.request(method, path, content=b"{}", headers={"content-type": kind})
                    assert answer.status_code == 415, (path, kind)


async def test_a_link_elsewhere_may_open_the_document_only(connect: Connect) -> None:
    opened = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    async with connect(MODEL) as (_, client):
        assert (await ask(client, "GET", "", opened)).status_code == 200
        for method, path in ROUTES:
            if method == "POST":
                assert (await ask(client, method, path, opened)).status_code == 403


async def test_nothing_is_given_without_a_token(connect: Connect) -> None:
    async with connect(MODEL) as (served, client):
        token = client.headers["authorization"].partition(" ")[2]
        code = served.sessions.make_code()
        forged = [
            "",
            "Bearer",
            f"Bearer {code}",
            f"Bearer {token[:-1]}",
            f"Bearer {token}x",
            f"Bearer {token}, Bearer {token}",
            f"Basic {token}",
            f"Bearer {secrets.token_urlsafe(32)}",
        ]
        async with httpx2.AsyncClient(base_url=served.url) as stranger:
            for method, path in ROUTES:
                assert (await ask(stranger, method, path)).status_code == 401, path
                assert (await ask(stranger, method, f"{path}?token={token}")).status_code == 401, path
                cookie = {"cookie": f"token={token}; authorization={token}"}
                assert (await ask(stranger, method, path, cookie)).status_code == 401, path
            for header in forged:
                assert (await ask(stranger, "GET", "api/models", {"authorization": header})).status_code == 401, header
        twice = [("authorization", f"Bearer {token}")] * 2
        async with httpx2.AsyncClient(base_url=served.url, headers=twice) as stranger:
            assert (await ask(stranger, "GET", "api/models")).status_code == 401


async def test_forged_codes_sign_in_nobody(connect: Connect) -> None:
    async with connect(MODEL) as (served, client):
        code = served.sessions.make_code()
        tries = [secrets.token_urlsafe(32) for _ in range(count(1000))]
        tries += ["", " ", code[:-1], f"{code} ", code.swapcase(), f"\x00{code}"]
        for one in tries:
            assert (await client.post("api/session", json={"code": one})).status_code == 401
        for wrong in ({}, {"code": None}, {"code": [code]}, {"code": True}):
            assert (await client.post("api/session", json=wrong)).status_code == 400
        assert (await client.post("api/session", json={"code": code})).status_code == 200


async def test_a_code_is_used_once_even_at_the_same_time(connect: Connect) -> None:
    async with connect(MODEL) as (served, client):
        code = served.sessions.make_code()
        answers = await asyncio.gather(*(client.post("api/session", json={"code": code}) for _ in range(10)))
        assert sorted(one.status_code for one in answers) == [200, *[401] * 9]
        assert len(served.refused) == 9


async def test_every_answer_has_the_safe_headers(connect: Connect) -> None:
    async with connect(MODEL) as (served, client):
        answers = [await ask(client, method, path) for method, path in [*ROUTES, *OPEN]]
        answers += [await ask(client, "GET", "api/models", {"host": "evil.example"})]
        answers += [await ask(client, "GET", "api/models", {"origin": "null"})]
        answers += [await client.get("nothing"), await client.delete("api/models")]
        identifier = await served.chat.create("")
        async with client.stream("GET", f"api/chat/conversations/{identifier}/events") as stream:
            answers.append(stream)
        for answer in answers:
            headers = answer.headers
            assert "frame-ancestors 'none'" in headers["content-security-policy"] or (
                headers["content-security-policy"] == "default-src 'none'; sandbox"
            )
            assert headers["x-frame-options"] == "DENY"
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            # Browsers keep the files of the page, which are the same for all, and nothing else.
            public = answer.request.url.path == "/" or answer.request.url.path.startswith("/static/")
            assert headers["cache-control"] == ("no-cache" if public and answer.is_success else "no-store")
            assert headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"
            assert not {"access-control-allow-origin", "set-cookie", "server"} & set(headers)


@pytest.mark.parametrize(
    "name",
    ["index.html", "../index.html", "%2e%2e/index.html", "..%2fpages.py", "/etc/passwd", "vendor", "vendor/", ""],
)
async def test_only_files_of_the_page_are_served(connect: Connect, name: str) -> None:
    async with connect(MODEL) as (served, _):
        # Not by a client that would shorten the path.
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(f"GET /static/{name} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n".encode())
        assert (await reader.read()).startswith(b"HTTP/1.1 404")
        writer.close()
        await writer.wait_closed()


def test_a_code_expires() -> None:
    now = 0.0
    sessions = Sessions(clock=lambda: now)
    early, late = sessions.make_code(), sessions.make_code()
    now = CODE_SECONDS - 1
    assert sessions.exchange(early)
    now = CODE_SECONDS
    assert not sessions.has_code
    assert sessions.exchange(late) is None


def test_the_oldest_sign_in_ends_when_there_are_many() -> None:
    sessions = Sessions()
    tokens = [sessions.exchange(sessions.make_code("ada")) for _ in range(101)]
    owners = [sessions.owner_of([(b"authorization", f"Bearer {one}".encode())]) for one in tokens]
    assert owners == [None, *["ada"] * 100]


async def test_a_refused_page_learns_nothing_of_conversations(connect: Connect) -> None:
    async with connect(MODEL) as (served, _):
        identifier = await served.chat.create("", "Secret title")
        async with httpx2.AsyncClient(base_url=served.url) as stranger:
            known = await stranger.get(f"api/chat/conversations/{identifier}")
            unknown = await stranger.get("api/chat/conversations/none")
            assert known.content == unknown.content


def test_sessions_have_no_readable_codes() -> None:
    sessions = Sessions()
    code = sessions.make_code()
    token = sessions.exchange(sessions.make_code())
    assert token is not None
    kept = repr([sessions.__dict__])
    assert code not in kept
    assert token not in kept
