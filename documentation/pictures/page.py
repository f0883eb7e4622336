"""Photographs the page of ``ripieno serve web``: ``make pictures`` writes ``page-*.png`` beside this file.

The model is scripted, and the browser, the server and the page are real.
"""

import asyncio
import contextlib
import dataclasses
import pathlib
import sys
import tempfile
from collections.abc import AsyncGenerator
from typing import Any

from playwright.async_api import Page, ViewportSize, async_playwright, expect

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.support.browsers import launch  # noqa: E402
from tests.support.chats import assembled  # noqa: E402
from tests.support.scripted_models import invoke, invokes, says, scripted, tool  # noqa: E402

from ripieno.approvals.presentation import show_change  # noqa: E402
from ripieno.canisters.conversation import Usage  # noqa: E402
from ripieno.ensembles import Definition, Ensemble  # noqa: E402
from ripieno.servers.chat.chat import Chat  # noqa: E402
from ripieno.servers.http.server import serve  # noqa: E402
from ripieno.servers.web.application import create_application  # noqa: E402
from ripieno.servers.web.sessions import Sessions  # noqa: E402

WIDE: ViewportSize = {"width": 1280, "height": 1200}
PHONE: ViewportSize = {"width": 390, "height": 844}
#: What differs from run to run: times, and durations.
SAME = """() => {
  for (const one of document.querySelectorAll("time")) one.textContent = "9:30";
  document.querySelectorAll(".done .took").forEach((one, at) => (one.textContent = at ? "8 ms" : "31 ms"));
}"""
BEFORE = """Install ripieno, then check it::

    pip install ripieno
    ripieno check --old
"""
AFTER = BEFORE.replace(" --old", "")
QUESTION = "Which of our guides still use the old flag? Please correct them."
ANSWER = """One guide still uses it: **install.rst**, in its second command.

```console
$ ripieno check --old
```

I correct this line."""
TITLES = ("Why does the nightly build fail?", "Summary of the release notes", "Words in the glossary")


async def _search(_: Any, __: Any) -> str:
    return "docs/install.rst:4:    ripieno check --old"


async def _read(_: Any, __: Any) -> str:
    return BEFORE


def _tools() -> tuple[Definition, ...]:
    change = show_change("docs/install.rst", BEFORE, AFTER)
    write = dataclasses.replace(tool("replace_text", effect="write"), preview=lambda *_: change)
    return (tool("search_text", _search), tool("read_file", _read), write)


@contextlib.asynccontextmanager
async def served(folder: pathlib.Path) -> AsyncGenerator[str, None]:
    """A link to the page, over a model that searches, reads, answers and wants to write."""
    look = invokes(
        invoke("search_text", pattern="--old", path="docs"),
        invoke("read_file", path="docs/install.rst"),
        usage=Usage(input_tokens=1840, output_tokens=96),
    )
    replace = invoke("replace_text", path="docs/install.rst", old=" --old", new="")
    write = invokes(replace, usage=Usage(input_tokens=2310, output_tokens=180))
    model = scripted(look, [*says(ANSWER)[:-1], *write[1:]])
    async with assembled(folder, model) as assembly:
        assembly.ensembles = (Ensemble.of("io", _tools()),)
        async with Chat(assembly) as chat:
            for title in TITLES:
                await chat.create("", title)
            sessions = Sessions()
            async with serve(create_application(assembly, chat, sessions)) as url:
                yield f"{url}/#code={sessions.make_code()}"


async def photograph(page: Page, name: str) -> None:
    """Writes a picture of a page in which a question waits."""
    await expect(page.get_by_role("button", name="Approve", exact=True)).to_be_enabled()
    await page.get_by_role("heading", name="wants to run").evaluate("(one) => one.blur()")
    await page.evaluate("document.querySelector('.log').scrollTop = 1e6")
    await page.evaluate(SAME)
    await page.screenshot(path=HERE / f"page-{name}.png", animations="disabled")
    print(f"Written: {HERE / f'page-{name}.png'}")


async def main() -> None:
    """Takes all pictures."""
    with tempfile.TemporaryDirectory() as folder:
        async with async_playwright() as playwright, served(pathlib.Path(folder)) as link:
            browser = await launch(playwright)
            context = await browser.new_context(viewport=WIDE, locale="en-GB")
            page = await context.new_page()
            await page.goto(link)
            await page.get_by_role("textbox", name="Message").fill(QUESTION)
            await page.keyboard.press("Enter")
            await photograph(page, "light")
            await page.emulate_media(color_scheme="dark")
            await photograph(page, "dark")
            await page.emulate_media(color_scheme="light")
            await page.set_viewport_size(PHONE)
            await photograph(page, "phone")
            await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
