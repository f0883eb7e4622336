"""The log of a conversation: it follows what is new, and nothing moves away from a person who presses it."""

from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.browser.conftest import ServePage, Visit
from tests.browser.steps import asked, begin, button, held, question, writing
from tests.support.browsers import Visitor
from tests.support.chats import Written
from tests.support.scripted_models import invoke, invokes, scripted, tool

LONG = "\n".join(f"line {number}" for number in range(200))
AT_END = """() => {
    const log = document.querySelector(".log");
    return log.scrollHeight - log.scrollTop - log.clientHeight < 1;
}"""
SIZES = ({"width": 1280, "height": 720}, {"width": 390, "height": 700})


async def scroll(page: Page, distance: int | None) -> int:
    """Scrolls the log to its beginning, or to a distance from its end. Returns the distance when the page has drawn."""
    script = """async (log, distance) => {
        const end = log.scrollHeight - log.clientHeight;
        log.scrollTo(0, distance === null ? 0 : end - distance);
        for (let frame = 0; frame < 3; frame++) await new Promise(requestAnimationFrame);
        return Math.round(end - log.scrollTop);
    }"""
    return int(await page.get_by_role("region", name="Conversation").evaluate(script, distance))


async def test_the_log_stays_where_it_is_near_its_end(serve_page: ServePage, visit: Visit) -> None:
    visitor = await visit(viewport=SIZES[1])
    page = await asked(visitor, await serve_page(writing(LONG), Written().definition))
    assert await scroll(page, None) > 80
    # It was away from its end, so that it is drawn again when it comes near.
    assert await scroll(page, 50) == 50
    await button(page, "Show all of it").click()
    await expect(button(page, "Approve")).to_be_enabled()


@pytest.mark.parametrize("size", SIZES)
async def test_a_question_that_appears_is_seen_from_its_beginning(
    serve_page: ServePage, visit: Visit, size: Any
) -> None:
    page = await asked(await visit(viewport=size), await serve_page(writing(LONG), Written().definition))
    async with page.expect_response("**/events"):
        await page.reload()
    # All that is loaded beside it has come.
    await expect(page).to_have_title("(1) Begin. · ripieno")
    await page.evaluate("() => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))")
    await expect(question(page).get_by_role("heading")).to_be_in_viewport(ratio=1)


async def test_a_press_is_kept_while_the_log_grows(serve_page: ServePage, visitor: Visitor) -> None:
    steps, go = held("I begin.", "\n\nMore." * 100)
    page = await begin(visitor, await serve_page(scripted(invokes(invoke("look")), steps), tool("look")))
    await expect(page.locator(".text")).to_have_text("I begin.")
    await page.locator(".call summary").hover()
    await page.mouse.down()
    go.set()
    await expect(page.locator(".text")).to_contain_text("More.")
    await page.mouse.up()
    await expect(page.locator(".call")).to_have_attribute("open", "")
    # It no longer follows, and there is a way back.
    await button(page, "Newest").click()
    await page.wait_for_function(AT_END)


async def test_the_log_follows_after_the_menu_of_the_browser(serve_page: ServePage, visitor: Visitor) -> None:
    steps, go = held("I begin.", "\n\nMore." * 100)
    page = await begin(visitor, await serve_page(scripted(steps)))
    await page.locator(".text").click(button="right")
    go.set()
    await expect(page.locator(".text")).to_contain_text("More.")
    await page.wait_for_function(AT_END)


async def test_the_log_follows_an_answer_until_a_person_goes_up(serve_page: ServePage, visitor: Visitor) -> None:
    steps, go = held("I begin.\n\n" * 100, "More.\n\n" * 100)
    page = await begin(visitor, await serve_page(scripted(steps)))
    answer, newest = page.locator(".text"), button(page, "Newest")
    await expect(answer).to_contain_text("I begin.")
    await expect(newest).to_have_count(0)
    assert await scroll(page, 300) == 300
    await expect(newest).to_be_visible()
    # Near its end, it follows again when something comes.
    assert await scroll(page, 50) == 50
    go.set()
    await expect(answer).to_contain_text("More.")
    await page.wait_for_function(AT_END)
