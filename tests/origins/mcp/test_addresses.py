"""Addresses that a server names for a sign-in: which of them are asked, by all that their names resolve to."""

import random
from collections.abc import Sequence

import pytest

from ripieno.exceptions import ToolFault
from ripieno.origins.http.client import Resolver
from ripieno.origins.mcp.oauth.named_addresses import fetch_named
from tests.counts import count
from tests.origins.http.test_client_attacks import url_forms
from tests.support.raw_http_servers import canaries, knowing, worst

PUBLIC, OURS = "https://tools.example.org/mcp", "http://127.0.0.1:8000/mcp"
#: Names as an attacker's name server answers.
PLACES = {
    "tools_example_org": ["93.184.216.34"],
    "login_example_org": ["93.184.216.35"],
    "inner_example_org": ["10.1.2.3"],
    "mixed_example_org": ["93.184.216.34", "127.0.0.1"],
    "cloud_example_org": ["168.63.129.16"],
    "localhost": ["127.0.0.1"],
}


async def outcome(url: str, server: str, resolver: Resolver | None = None, *, seconds: float = 0.2) -> str:
    """How a request to a named address ends: ``answered``, or the code of its fault. Public hosts are not there."""
    try:
        await fetch_named("GET", url, (), b"", server=server, seconds=seconds, resolver=resolver or knowing(**PLACES))
    except ToolFault as fault:
        return fault.code
    return "answered"


@pytest.mark.parametrize(
    ("server", "refused", "hosts"),
    [
        (
            PUBLIC,
            True,
            "127.0.0.1 127.1 2130706433 0x7f.1 0x7f.0.0.1 0177.0.0.1 10.0.0.1 169.254.169.254 168.63.129.16 [::1] "
            "[fd00::1] [64:ff9b::7f00:1] [2002:7f00:1::] [::ffff:127.0.0.1] a.localhost localhost inner.example.org "
            "mixed.example.org cloud.example.org",
        ),
        (PUBLIC, False, "login.example.org 8.8.8.8"),
        ("https://inner.example.org/mcp", False, "10.0.0.1 inner.example.org localhost"),
        ("https://inner.example.org/mcp", True, "169.254.169.254 cloud.example.org [64:ff9b::7f00:1]"),
        ("https://mixed.example.org/mcp", True, "127.0.0.1 inner.example.org"),
        (OURS, False, "127.0.0.1 10.0.0.1 login.example.org"),
    ],
)
async def test_where_a_named_address_may_lead(server: str, hosts: str, *, refused: bool) -> None:
    for host in hosts.split():
        # Who is refused is refused at once, also on a busy machine; who is not there is waited for.
        ended = await outcome(f"https://{host}:9/token", server, seconds=30 if refused else 0.2)
        expected = {"url_not_allowed", "address_not_allowed"}
        assert (ended in expected or (refused and ended == "unresolved")) is refused, (host, ended)


@pytest.mark.parametrize(
    ("url", "server", "code"),
    [
        ("http://login.example.org/token", PUBLIC, "url_not_allowed"),
        ("http://127.0.0.1:9/token", PUBLIC, "url_not_allowed"),
        ("http://login.example.org/token", OURS, "url_not_allowed"),
        ("http://127.0.0.1:9/token", OURS, "unreachable"),
        ("http://10.1.2.4:9/token", "http://10.1.2.3/mcp", "url_not_allowed"),
        ("http://127.0.0.2:9/token", "http://127.0.0.2:8/mcp", "unreachable"),
        ("http://tools.example.org:9/token", PUBLIC, "url_not_allowed"),
        ("http://localhost:9/token", OURS, "unreachable"),
    ],
)
async def test_only_this_machine_is_asked_without_tls(url: str, server: str, code: str) -> None:
    assert await outcome(url, server, seconds=30) == code


async def test_no_form_of_a_named_address_leads_to_this_machine() -> None:
    async def rebinding(host: str, port: int) -> Sequence[str]:
        return ["93.184.216.34"] if host == "tools.example.org" else await worst(host, port)

    async with canaries() as (one, *others):
        forms = random.Random(3).sample(list(url_forms(one.port)), count(1500, 20))
        assert "answered" not in {await outcome(form, PUBLIC, rebinding) for form in forms}
        assert "answered" not in {await outcome(form.replace("http:", "https:"), PUBLIC, rebinding) for form in forms}
        assert [web.connections for web in (one, *others)] == [0, 0, 0]
        # A server on this machine may name another port of it.
        assert await outcome(f"http://127.0.0.1:{one.port}/", OURS, seconds=30) == "answered"
