"""A message that is written during a run: it is sent when the run ends, or taken back."""

import pathlib
from typing import Any

from playwright.async_api import Page, expect

from ripieno.canisters import UserCanister
from tests.browser.conftest import ServePage, Visit
from tests.browser.steps import begin, button, held, hide, message, say
from tests.support.browsers import Visitor
from tests.support.chats import Written, chatting
from tests.support.scripted_models import Blocking, invoke, invokes, says, scripted, tool
from tests.support.web_pages import serving_page


def queued(page: Page) -> Any:
    """The bar with the message that waits."""
    return page.get_by_role("status").filter(has_text="Sent when the run ends:")


async def test_it_is_sent_when_the_run_ends(serve_page: ServePage, visitor: Visitor) -> None:
    steps, go = held("I begin, and ", "end.")
    model = scripted(steps, says("Then that."))
    page = await begin(visitor, await serve_page(model))
    await expect(page.locator(".text")).to_have_text("I begin, and")
    await say(page, "And then?")
    await say(page, "And after that?")
    await expect(queued(page)).to_contain_text("And then?")
    await expect(message(page)).to_have_value("")
    await expect(page.locator(".said")).to_have_count(1)
    go.set()
    await expect(page.locator(".said").nth(1)).to_contain_text("And then?\n\nAnd after that?")
    await expect(page.locator(".text", has_text="Then that.")).to_be_visible()
    await expect(queued(page)).to_have_count(0)
    await page.reload()
    await expect(page.locator(".said")).to_have_count(2)
    await expect(message(page)).to_have_value("")


async def test_it_is_sent_when_the_run_of_another_process_ends(visitor: Visitor, tmp_path: pathlib.Path) -> None:
    """The page shows what that process adds, while its run goes on."""
    blocking = Blocking()
    calling = scripted(invokes(invoke("look", "one")), says("Looked."))
    async with (
        serving_page(tmp_path, scripted(says("Hello."), says("Then that."))) as served,
        chatting(tmp_path, calling, tool("look", blocking)) as other,
    ):
        page = await begin(visitor, served)
        await expect(page.locator(".text")).to_have_text("Hello.")
        await other.say("", page.url.rpartition("/")[2], UserCanister.of("Look."))
        await expect(page.locator(".said").nth(1)).to_contain_text("Look.")
        await expect(page.locator(".call")).to_be_visible()
        # Only that process can stop it.
        await expect(button(page, "Stop")).to_have_count(0)
        await say(page, "And then?")
        await expect(queued(page)).to_contain_text("And then?")
        blocking.go.set()
        await expect(page.locator(".text", has_text="Looked.")).to_be_visible()
        await expect(page.locator(".text", has_text="Then that.")).to_be_visible()
        await expect(page.locator(".said")).to_have_count(3)
        await expect(queued(page)).to_have_count(0)
        await page.close()


async def test_it_is_taken_back_and_stays_through_a_reload(serve_page: ServePage, visitor: Visitor) -> None:
    steps, go = held("I begin, and ", "end.")
    page = await begin(visitor, await serve_page(scripted(steps)))
    await say(page, "And then?")
    await message(page).fill("No.")
    await button(page, "Take back").click()
    await expect(queued(page)).to_have_count(0)
    await expect(message(page)).to_have_value("And then?\n\nNo.")
    await expect(message(page)).to_be_focused()
    await message(page).press("Enter")
    await expect(queued(page)).to_have_count(1)
    await page.reload()
    # Nothing is sent by a page that does not show it.
    await expect(message(page)).to_have_value("And then?\n\nNo.")
    go.set()
    await expect(page.locator(".text")).to_have_text("I begin, and end.")
    await expect(page.locator(".said")).to_have_count(1)


async def test_it_comes_back_when_the_run_is_stopped(serve_page: ServePage, visitor: Visitor) -> None:
    steps, _ = held("I begin, and ", "never end.")
    page = await begin(visitor, await serve_page(scripted(steps)))
    await say(page, "And then?")
    await expect(queued(page)).to_be_visible()
    await button(page, "Stop").click()
    await expect(page.locator(".notice", has_text="Stopped.")).to_be_visible()
    await expect(queued(page)).to_have_count(0)
    await expect(message(page)).to_have_value("And then?")
    await expect(page.locator(".said")).to_have_count(1)


async def test_it_is_sent_from_a_hidden_tab(serve_page: ServePage, visit: Visit) -> None:
    steps, go = held("I begin, and ", "end.")
    model = scripted(steps, says("Then that."))
    page = await begin(await visit(), await serve_page(model))
    await say(page, "And then?")
    await expect(queued(page)).to_be_visible()
    await hide(page, True)
    async with page.expect_request("**/messages"):
        go.set()


async def test_it_waits_for_the_answers_to_questions(serve_page: ServePage, visitor: Visitor) -> None:
    written = Written()
    steps, go = held("I look, and ", "write.")
    calls = invokes(invoke("write", "one", text="one"))
    model = scripted([*steps[:-1], *calls[1:]], says("Written."), says("Then that."))
    page = await begin(visitor, await serve_page(model, written.definition))
    await say(page, "And then?")
    go.set()
    await expect(page.locator(".question")).to_have_count(1)
    await expect(queued(page)).to_be_visible()
    assert written.texts == []
    await button(page, "Approve").click()
    await expect(page.locator(".text", has_text="Written.")).to_be_visible()
    await expect(page.locator(".said").nth(1)).to_contain_text("And then?")
    await expect(page.locator(".text", has_text="Then that.")).to_be_visible()
    assert written.texts == ["one"]


async def test_the_page_says_that_the_run_waits_for_the_answer_to_its_question(
    serve_page: ServePage, visitor: Visitor
) -> None:
    async def look(context: Any, arguments: Any) -> str:
        schema = {"type": "object", "properties": {"city": {"type": "string"}}}
        return str(await context.inquire("Where?", schema))

    model = scripted(invokes(invoke("look")), says("Looked."), says("Then that."))
    page = await begin(visitor, await serve_page(model, tool("look", look)))
    await expect(message(page)).to_have_accessible_description("The run waits for your answer.")
    await say(page, "And then?")
    await expect(queued(page)).to_be_visible()
    await page.get_by_role("textbox", name="city").fill("Rome")
    await button(page.locator(".question"), "Send").click()
    await expect(page.locator(".text", has_text="Then that.")).to_be_visible()
    await expect(message(page)).to_have_accessible_description("")
