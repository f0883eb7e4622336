"""The end of a run on the page, when it ends and after a reload."""

from typing import Any

import pytest
from playwright.async_api import expect

from tests.browser.conftest import ServePage
from tests.browser.steps import begin, button, say
from tests.support.browsers import Visitor
from tests.support.scripted_models import invoke, invokes, says, scripted, tool


@pytest.mark.parametrize("finish", ["length", "filter"])
async def test_an_answer_that_is_not_complete_says_so(serve_page: ServePage, visitor: Visitor, finish: Any) -> None:
    page = await begin(visitor, await serve_page(scripted(says("It begins", finish=finish), says("Whole."))))
    for _ in range(2):
        words = f"The run ended with '{finish}': its last answer is not complete."
        await expect(page.locator(".text, .notice")).to_have_text(["It begins", words])
        await page.reload()
    await say(page, "Go on.")
    await expect(page.locator(".text").last).to_have_text("Whole.")
    # What is said of an answer stays with it.
    for _ in range(2):
        await expect(page.locator(".text, .notice")).to_have_text(["It begins", words, "Whole."])
        await page.reload()


async def test_a_run_that_a_terminal_tool_ended_has_its_answer(serve_page: ServePage, visitor: Visitor) -> None:
    model = scripted(invokes(invoke("submit", word="it")), says("More."))
    served = await serve_page(model, tool("submit", terminal=True))
    page = await begin(visitor, served)
    for _ in range(2):
        await expect(page.locator(".column > :last-child")).to_have_class("call done")
        await expect(page.locator(".call .gist")).to_have_text("it")
        await expect(button(page, "Continue")).to_have_count(0)
        await page.reload()
    await say(page, "And now?")
    await expect(page.locator(".text")).to_have_text("More.")
