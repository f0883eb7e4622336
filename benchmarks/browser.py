"""The page of ``ripieno serve web`` in a real browser: first paint, events, a long conversation, a long output."""

import asyncio
import contextlib
import importlib.util
import pathlib
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TYPE_CHECKING

from benchmarks.measurement import Row
from ripieno.canisters import (
    AssistantCanister,
    Canister,
    Conversation,
    InvocationCanister,
    ResultCanister,
    TextualContent,
    UserCanister,
)
from ripieno.canisters.events import ContentSealed, TextDelta, TurnBegan, TurnEnded
from ripieno.jsonvalues import freeze
from ripieno.models import Model

if TYPE_CHECKING:
    from playwright.async_api import Page

RUNS, MESSAGES, MANY, EVENTS, PACE = 5, 200, 10_000, 500, 0.01
#: The first answer of a log, before and after the server has rendered its Markdown.
SHOWN, RENDERED = ".log .text", ".log .text .prose:not(.plain)"
#: Functions of each page: milliseconds since it began until a frame with an element, and each frame of a text.
SCRIPT = """
globalThis.after = (go) => {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = go;
  port2.postMessage(0);
};
globalThis.painted = (selector) => new Promise((go) => {
  const look = () => {
    if (document.querySelector(selector)) after(() => go(performance.now()));
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
});
globalThis.times = [painted(SHOWN), painted(RENDERED)];
globalThis.frames = [];
globalThis.follow = () => {
  let last = "";
  new MutationObserver(() => {
    const text = document.querySelector(SHOWN)?.textContent.trim().split(" ").pop() ?? "";
    if (text === last) return;
    last = text;
    after(() => frames.push([Number(text), (performance.timeOrigin + performance.now()) / 1000]));
  }).observe(document, { subtree: true, childList: true, characterData: true });
};
""".replace("SHOWN", repr(SHOWN)).replace("RENDERED", repr(RENDERED))


def missing() -> str:
    """What must be installed first, and how; empty if all is here."""
    # The tests' own search for Chromium skips a test.
    if any(importlib.util.find_spec(name) is None for name in ("playwright", "pytest")):
        return "skipped: no Playwright; install it: pip install '.[test]'"
    from tests.support.browsers import installed_chromium

    return "" if installed_chromium() else "skipped: no Chromium; install it: make browser"


@contextlib.asynccontextmanager
async def opened(
    model: Model, history: Sequence[Canister] = (), *, copies: int = 1
) -> AsyncGenerator[tuple["Page", str], None]:
    """A page that has signed in, and the identifier of a recorded conversation that begins with ``history``.

    Of ``copies`` conversations with this history, it is the last one.
    """
    from playwright.async_api import async_playwright
    from tests.support.browsers import launch
    from tests.support.chats import assembled
    from tests.support.web_pages import serving_page

    async with contextlib.AsyncExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        conversations = [Conversation.of([*history, UserCanister.of("Go.")]) for _ in range(copies)]
        if history:
            async with assembled(folder, model) as assembly:
                for one in conversations:
                    await assembly.conduct(one)
        served = await stack.enter_async_context(serving_page(folder, model))
        playwright = await stack.enter_async_context(async_playwright())
        browser = await launch(playwright)
        stack.push_async_callback(browser.close)
        page = await browser.new_page()
        await page.add_init_script(SCRIPT)
        await page.goto(served.link())
        await page.get_by_role("textbox", name="Message").wait_for()
        yield page, conversations[-1].identifier


def says(text: str) -> Model:
    """A model of one answer."""
    from tests.support.scripted_models import says, scripted

    model: Model = scripted(says(text))
    return model


def rounds(messages: int) -> list[Canister]:
    """A question, a call, its result and an answer in Markdown, as often as it takes."""
    found: list[Canister] = []
    for number in range(messages // 4):
        name = f"call-{number}"
        result = (TextualContent(text=f"Line {number} of the file.\n" * 5),)
        found += [
            UserCanister.of(f"What is in file {number}?"),
            InvocationCanister(identifier=name, name="read", arguments=freeze({"path": f"{number}.txt"})),
            ResultCanister(invocation_id=name, content=result),
            AssistantCanister.of(f"It has **five** lines, such as `Line {number}`.\n\n- one\n- two\n"),
        ]
    return found


async def page_first_paint() -> list[Row]:
    """From the beginning of a page to the frame with the newest of 200 messages; again with rendered Markdown."""
    what = f"page: first paint, {MESSAGES} messages"
    if why := missing():
        return [Row(what=what, measured=None, budget=500.0, unit="ms", detail=why)]
    async with opened(says("Done."), rounds(MESSAGES - 2)) as (page, identifier):
        await page.evaluate("(to) => { location.hash = to; }", f"#/chat/{identifier}")
        measured: list[tuple[float, float]] = []
        for _ in range(RUNS + 1):
            await page.reload()
            measured.append(tuple(await page.evaluate("Promise.all(times)")))
    first, rendered = map(statistics.median, zip(*measured[1:], strict=True))
    return [
        Row(what=what, measured=first, budget=500.0, unit="ms"),
        Row(what="  with its Markdown", measured=rendered, budget=None, unit="ms"),
    ]


async def page_events() -> list[Row]:
    """From an event, of which there are 100 in a second, to the end of the frame that shows it."""
    what = "page: event to frame, 100/s, 95th percentile"
    if why := missing():
        return [Row(what=what, measured=None, budget=50.0, unit="ms", detail=why)]
    from tests.support.scripted_models import Step, scripted

    begun: list[float] = []

    def due(number: int) -> Callable[[], object]:
        async def wait() -> None:
            # From the first event on, so that delays do not add up.
            first = begun[0] if begun else time.time()
            await asyncio.sleep(max(0.0, first + number * PACE - time.time()))
            begun.append(time.time())

        return wait

    steps: list[Step] = [TurnBegan()]
    for number in range(EVENTS):
        steps += [due(number), TextDelta(f"{number} ")]
    text = "".join(f"{number} " for number in range(EVENTS))
    model = scripted([*steps, ContentSealed(TextualContent(text=text)), TurnEnded(finish="stop")])
    async with opened(model) as (page, _):
        await page.evaluate("follow()")
        await page.get_by_role("textbox", name="Message").fill("Go.")
        await page.get_by_role("textbox", name="Message").press("Enter")
        await page.locator(RENDERED).wait_for()
        frames: list[tuple[int, float]] = await page.evaluate("frames")
    delays = [(next(at for shown, at in frames if shown >= number) - time) * 1e3 for number, time in enumerate(begun)]
    median, worst = statistics.median(delays), max(delays)
    detail = f"median {median:.0f} ms, at most {worst:.0f} ms, {len(frames)} frames of {EVENTS} events"
    percentile = statistics.quantiles(delays, n=20)[-1]
    return [Row(what=what, measured=percentile, budget=50.0, unit="ms", detail=detail)]


async def page_long_conversation() -> list[Row]:
    """From a click on a conversation of 10,000 messages to the frame with the newest of them.

    A server that has just started restores it from the journal first.
    """
    what, first = f"page: open {MANY:,} messages", f"page: open {MANY:,} messages from the journal"
    if why := missing():
        return [Row(what=one, measured=None, budget=500.0, unit="ms", detail=why) for one in (what, first)]
    press = "(link) => { const from = performance.now(); link.click(); return painted(SHOWN)"
    press = press.replace("SHOWN", repr(SHOWN)) + ".then((end) => end - from); }"
    times: list[float] = []
    async with opened(says("Done."), rounds(MANY), copies=RUNS) as (page, _):
        links = page.locator('.list a[href*="#/chat/"]')
        for turn in range(2 * RUNS):
            link = links.nth(turn % RUNS)
            await link.wait_for()
            times.append(await link.evaluate(press))
            await page.get_by_role("link", name="New conversation").click()
            await page.locator(".welcome").wait_for()
    again, restored = statistics.median(times[RUNS:]), statistics.median(times[:RUNS])
    return [
        Row(what=what, measured=again, budget=500.0, unit="ms"),
        Row(what=first, measured=restored, budget=500.0, unit="ms"),
    ]


async def page_long_output() -> list[Row]:
    """Style and layout of 1 MB of output that a person loads; in lines, and in one line."""
    rows: list[Row] = []
    shapes = {"lines": ("x" * 63 + "\n") * 16_384, "one line": "x" * (1024 * 1024)}
    for shape, text in shapes.items():
        what = f"page: layout of 1 MB of output, {shape}"
        if why := missing():
            rows.append(Row(what=what, measured=None, budget=50.0, unit="ms", detail=why))
            continue
        invocation = InvocationCanister(identifier="long", name="read")
        result = ResultCanister(invocation_id="long", content=(TextualContent(text=text),))
        async with opened(says("Done."), [UserCanister.of("Read."), invocation, result]) as (page, identifier):
            await page.evaluate("(to) => { location.hash = to; }", f"#/chat/{identifier}")
            spent = [await _load_output(page) for _ in range(RUNS)]
        shown = f"shown after {statistics.median(one[1] for one in spent):.0f} ms"
        measured = statistics.median(one[0] for one in spent)
        rows.append(Row(what=what, measured=measured, budget=50.0, unit="ms", detail=shown))
    return rows


async def _load_output(page: "Page") -> tuple[float, float]:
    """Loads the whole result of a call: milliseconds of style and layout, and those until it is painted."""
    await page.reload()
    await page.locator(".call summary").click()
    button = page.get_by_role("button", name="Load all of it")
    await button.wait_for()
    session = await page.context.new_cdp_session(page)
    await session.send("Performance.enable")

    async def spent() -> float:
        found = await session.send("Performance.getMetrics")
        return sum(
            float(one["value"]) for one in found["metrics"] if one["name"] in ("LayoutDuration", "RecalcStyleDuration")
        )

    before = await spent()
    press = """(button) => {
      const from = performance.now();
      const output = button.closest('.output');
      button.click();
      return new Promise((go) => {
        const look = () => {
          if (output.textContent.length >= 1e6) after(() => go(performance.now() - from));
          else requestAnimationFrame(look);
        };
        look();
      });
    }"""
    until = float(await button.evaluate(press))
    return (await spent() - before) * 1e3, until
