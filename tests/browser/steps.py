"""What a person does on the page, and the models and tools of scenarios."""

import asyncio
import dataclasses
import re
from collections.abc import Callable
from typing import Any

from playwright.async_api import Locator, Page, expect

from ripieno.canisters import TextualContent
from ripieno.canisters.events import ContentSealed, TextDelta, TurnBegan, TurnEnded
from ripieno.ensembles import Definition
from ripieno.models import Model
from tests.support.browsers import Visitor
from tests.support.chats import Written
from tests.support.scripted_models import Step, invoke, invokes, says, scripted
from tests.support.web_pages import ServedPage


def message(page: Page) -> Locator:
    """The field for a message."""
    return page.get_by_role("textbox", name="Message")


async def say(page: Page, text: str) -> None:
    """Sends a message."""
    await message(page).fill(text)
    await message(page).press("Enter")


async def begin(visitor: Visitor, served: ServedPage, text: str = "Begin.", owner: str = "") -> Page:
    """Signs in, and begins a conversation with a message."""
    page = await visitor.open(served.link(owner))
    await say(page, text)
    await expect(page).to_have_url(re.compile("#/chat/"))
    # Its title comes with the message, and says that it is drawn: before that, a message would not wait for the run.
    await expect(page.locator(".header h1")).to_have_text(re.compile("^(?!New conversation$)."))
    return page


async def ended(page: Page) -> None:
    """Waits for the end of the run, when the journal has all of it. Its last text is drawn before."""
    await expect(button(page, "Stop")).to_have_count(0)


def question(page: Page) -> Locator:
    """The open questions."""
    return page.locator(".question")


def button(place: Page | Locator, name: str) -> Locator:
    """A button with exactly this name."""
    return place.get_by_role("button", name=name, exact=True)


async def asked(visitor: Visitor, served: ServedPage, owner: str = "") -> Page:
    """Signs in, and begins a conversation in which a call waits."""
    page = await begin(visitor, served, owner=owner)
    await go_to_question(page)
    return page


async def go_to_question(page: Page) -> None:
    """Moves the focus from the message to the first question, which scrolls: a click before that could miss."""
    await expect(question(page).first).to_be_visible()
    await message(page).press("Escape")
    await expect(question(page).locator(".asked").first).to_be_focused()


async def hide(page: Page, hidden: bool) -> None:
    """Makes the page believe that its tab is hidden or shown."""
    await page.evaluate(
        "(hidden) => { Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden });"
        " document.dispatchEvent(new Event('visibilitychange')); }",
        hidden,
    )


def writing(text: str = "one", answer: str = "Done.") -> Model:
    """A model that wants to write, and then says that it is done."""
    return scripted(invokes(invoke("write", "first", text=text)), says(answer))


def held(*parts: str) -> tuple[list[Step], asyncio.Event]:
    """A turn that says the first part, waits for the event, and says the rest."""
    go = asyncio.Event()
    text = "".join(parts)
    steps: list[Step] = [TurnBegan(), TextDelta(parts[0]), go.wait, *(TextDelta(part) for part in parts[1:])]
    return [*steps, ContentSealed(TextualContent(text=text)), TurnEnded(finish="stop")], go


def previewing(written: Written, change: Callable[[Any], str]) -> Definition:
    """The tool that writes, with a preview of its changes."""
    return dataclasses.replace(written.definition, preview=lambda context, arguments: change(arguments))
