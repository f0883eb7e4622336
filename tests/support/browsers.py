"""A real browser for tests, and what each of its pages must not do: report an error, or ask another host."""

import contextlib
import dataclasses
import os
import re
import shutil
from collections.abc import AsyncGenerator, Sequence
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Playwright,
    Request,
    WebError,
    async_playwright,
    expect,
)

from tests.skips import lacking

#: The first has no windows, and needs a third less processor time (measured).
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
#: Milliseconds for what a page should do; a loaded machine may need much more than the usual 20.
PATIENCE = 20_000
#: A name that the browser finds at this machine, as if an attacker's server had changed its address.
REBOUND = "rebound.example"

#: Features of Chromium that are off. Of several such arguments only the last counts: the first lines are Playwright's.
#: The others start processes for each visitor that no page needs (measured: half of a scenario's processor time).
_WITHOUT = (
    "AvoidUnnecessaryBeforeUnloadCheckSync,DestroyProfileOnBrowserClose,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,"
    "LensOverlay,MediaRouter,PaintHolding,ThirdPartyStoragePartitioning,AvoidCorsURLLoaderRestartOnRedirect,"
    "OptimizationHints,NetworkTimeServiceQuerying,AimEnabled,PreconnectToSearch,"
    "WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup,SpareRendererForSitePerProcess"
)

expect.set_options(timeout=PATIENCE)


def installed_chromium() -> str | None:
    """The program of Chromium, if there is one."""
    named = os.environ.get("RIPIENO_CHROMIUM")
    return next(filter(None, map(shutil.which, [named] if named else NAMES)), None)


def find_chromium() -> str:
    """The program of Chromium. Skips the test if there is none."""
    return installed_chromium() or lacking("Chromium is not here: make browser")


async def launch(playwright: Playwright) -> Browser:
    """Starts the browser, without a window."""
    arguments = [f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1", f"--disable-features={_WITHOUT}"]
    # The browser's own sandbox refuses to run for root.
    if os.geteuid() == 0:
        arguments.append("--no-sandbox")
    return await playwright.chromium.launch(executable_path=find_chromium(), args=arguments)


@dataclasses.dataclass  # Playwright adds attributes to the owner of a handler.
class Visitor:
    """A person with a browser of their own: each has its own storage. All of its pages are watched.

    ``origins`` are those that the test itself serves. ``allowed`` are patterns of errors that the test provokes, such
    as ``"status of 409"``: a browser reports each refused request in its console.
    """

    context: BrowserContext
    origins: set[str] = dataclasses.field(default_factory=set)
    allowed: list[str] = dataclasses.field(default_factory=list)
    errors: list[str] = dataclasses.field(default_factory=list)
    requests: list[str] = dataclasses.field(default_factory=list)

    def watch(self) -> None:
        """Begins to note errors and requests of all pages."""
        self.context.on("console", self._note)
        self.context.on("weberror", self._note_error)
        self.context.on("request", self._note_request)

    async def open(self, url: str) -> Page:
        """Opens a link in a new page."""
        self.origins.add(_origin(url))
        page = await self.context.new_page()
        page.set_default_timeout(PATIENCE)
        await page.goto(url)
        return page

    def check(self) -> None:
        """Errors: ``AssertionError`` for an error that was not allowed, and for a request to another host."""
        bad = [one for one in self.errors if not any(re.search(pattern, one) for pattern in self.allowed)]
        assert not bad, f"The browser reported: {bad}"
        foreign = foreign_requests(self.requests, self.origins)
        assert not foreign, f"The page asked other hosts: {foreign}"

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.text} ({message.location.get('url', '')})")

    def _note_error(self, error: WebError) -> None:
        self.errors.append(str(error.error))

    def _note_request(self, request: Request) -> None:
        self.requests.append(request.url)


def foreign_requests(requests: Sequence[str], origins: set[str]) -> list[str]:
    """The requests that went to none of the origins."""
    return [one for one in requests if not one.startswith(("blob:", "data:")) and _origin(one) not in origins]


@contextlib.asynccontextmanager
async def browsing(url: str, *, allowed: Sequence[str] = ()) -> AsyncGenerator[Page, None]:
    """A page of a new browser, which shows the address. ``allowed`` and the errors at the end are a visitor's."""
    async with async_playwright() as playwright:
        browser = await launch(playwright)
        visitor = Visitor(await browser.new_context(), allowed=list(allowed))
        visitor.watch()
        try:
            yield await visitor.open(url)
        finally:
            await browser.close()
    visitor.check()


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


async def at_centre(page: Page, selector: str) -> bool:
    """Whether the element is what a click on its centre would reach: nothing lies above it."""
    box: Any = await page.locator(selector).bounding_box()
    assert box is not None, f"{selector} is not shown"
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    found = (
        "([x, y, selector]) => document.elementFromPoint(x, y)?.closest(selector) === document.querySelector(selector)"
    )
    return bool(await page.evaluate(found, [x, y, selector]))
