"""The list of conversations beside the open one: their titles, their order, and the signs of what happens in them."""

import asyncio
import pathlib

import pytest
from playwright.async_api import Route, expect

from ripieno.canisters import UserCanister
from tests.browser.conftest import ServePage, Visit
from tests.browser.steps import asked, begin, button, held, hide, message, say, writing
from tests.support.browsers import Visitor
from tests.support.chats import Reader, Written, chatting
from tests.support.scripted_models import invoke, invokes, says, scripted


async def test_a_conversation_with_a_run_has_a_sign_and_is_the_first(serve_page: ServePage, visitor: Visitor) -> None:
    steps, go = held("One ", "two.")
    page = await begin(visitor, await serve_page(scripted(says("First."), says("Second."), steps)), "About apples")
    await expect(page.locator(".text", has_text="First.")).to_be_visible()
    await page.get_by_role("link", name="New conversation").click()
    await expect(page.get_by_text("What shall we do?")).to_be_visible()
    await say(page, "About pears")
    rows = page.locator(".list a")
    await expect(rows.locator(".title")).to_have_text(["About pears", "About apples"])
    await rows.last.click()
    await expect(page.locator(".text")).to_have_text("First.")
    await say(page, "More.")
    await expect(page.locator(".text").last).to_have_text("One")
    # The sign stays when another one is opened, and goes with the run.
    for text in ("First.", "Second."):
        await expect(page.locator(".text").first).to_have_text(text)
        await expect(rows.locator(".title")).to_have_text(["About apples", "About pears"])
        await expect(rows.first).to_contain_text("running")
        await expect(rows.last).not_to_contain_text("running")
        await rows.last.click()
    go.set()
    await expect(rows.first).not_to_contain_text("running")
    await expect(rows.locator(".title")).to_have_text(["About apples", "About pears"])


@pytest.mark.parametrize("place", ["New conversation", "About apples"])
async def test_who_leaves_before_the_first_message_is_sent_stays_where_they_went(
    serve_page: ServePage, visitor: Visitor, place: str
) -> None:
    page = await begin(visitor, await serve_page(scripted(says("First."), says("Second."))), "About apples")
    await expect(page.locator(".text")).to_have_text("First.")
    await page.get_by_role("link", name="New conversation").click()
    await expect(page.get_by_text("What shall we do?")).to_be_visible()
    asked, go = asyncio.Event(), asyncio.Event()

    async def slow(route: Route) -> None:
        asked.set()
        await go.wait()
        await route.continue_()

    await page.route("**/messages", slow)
    await say(page, "About pears")
    await asked.wait()
    await page.locator(".side").get_by_role("link", name=place).click()
    await expect(page.get_by_text("First." if place == "About apples" else "What shall we do?")).to_be_visible()
    address = page.url
    await message(page).press_sequentially("Of something else.")
    go.set()
    # It is sent, and is in the list; what was typed is still in the place for which it is.
    await expect(page.locator(".list a .title")).to_have_text(["About pears", "About apples"])
    assert page.url == address
    await expect(message(page)).to_have_value("Of something else.")
    await page.get_by_role("link", name="About pears").click()
    await expect(page.locator(".text")).to_have_text("Second.")
    await expect(message(page)).to_have_value("")


async def test_a_first_message_that_cannot_be_sent_is_kept_also_if_the_user_has_left(
    serve_page: ServePage, visitor: Visitor
) -> None:
    page = await begin(visitor, await serve_page(scripted(says("First."))), "About apples")
    await expect(page.locator(".text")).to_have_text("First.")
    await page.get_by_role("link", name="New conversation").click()
    await expect(page.get_by_text("What shall we do?")).to_be_visible()
    asked, go = asyncio.Event(), asyncio.Event()

    async def refused(route: Route) -> None:
        asked.set()
        await go.wait()
        await route.fulfill(status=503, json={"error": {"message": "Full."}})

    visitor.allowed.append("status of 503")
    await page.route("**/messages", refused)
    await say(page, "About pears")
    await asked.wait()
    await page.get_by_role("link", name="About apples").click()
    await expect(page.locator(".text")).to_have_text("First.")
    async with page.expect_response("**/messages"):
        go.set()
    await page.get_by_role("link", name="New conversation").click()
    await expect(message(page)).to_have_value("About pears")


async def test_the_title_of_the_tab_says_that_an_answer_runs_and_that_a_question_waits(
    serve_page: ServePage, visitor: Visitor
) -> None:
    steps, go = held("One ", "two.")
    model = scripted(steps, invokes(invoke("write", text="one")), says())
    page = await begin(visitor, await serve_page(model, Written().definition), "About apples")
    await expect(page).to_have_title("… About apples · ripieno")
    # Also while the tab is hidden, in another view, and after a reload.
    await hide(page, True)
    go.set()
    await expect(page).to_have_title("About apples · ripieno")
    await hide(page, False)
    await say(page, "Write.")
    await expect(page).to_have_title("(1) About apples · ripieno")
    await page.get_by_role("link", name="Tools").click()
    await expect(page).to_have_title("(1) Tools · ripieno")
    await page.reload()
    await expect(page).to_have_title("(1) Tools · ripieno")


async def test_the_title_says_that_the_shown_answer_runs_also_while_a_question_waits_elsewhere(
    serve_page: ServePage, visitor: Visitor
) -> None:
    steps, go = held("One ", "two.")
    model = scripted(invokes(invoke("write", text="one")), steps)
    page = await begin(visitor, await serve_page(model, Written().definition), "About apples")
    await expect(page).to_have_title("(1) About apples · ripieno")
    await page.get_by_role("link", name="New conversation").click()
    await expect(page.get_by_text("What shall we do?")).to_be_visible()
    await say(page, "About pears")
    await expect(page).to_have_title("(1) … About pears · ripieno")
    await page.get_by_role("link", name="About apples").click()
    await expect(page).to_have_title("(1) About apples · ripieno")
    go.set()


async def test_what_another_tab_does_is_seen_in_the_list_at_once(serve_page: ServePage, visitor: Visitor) -> None:
    one = await begin(visitor, await serve_page(scripted(says("Hello."))), "About apples")
    await expect(one.locator(".text", has_text="Hello.")).to_be_visible()
    two = await visitor.open(one.url.partition("#")[0])
    row = two.locator(".list a")
    await expect(row).to_contain_text("About apples")
    await button(one, "Rename").click()
    await one.get_by_role("textbox", name="Title").fill("About pears")
    await one.get_by_role("textbox", name="Title").press("Enter")
    await expect(row).to_contain_text("About pears")
    await button(one, "Delete").click()
    await button(one.get_by_role("dialog"), "Delete").click()
    await expect(row).to_have_count(0)


async def test_what_another_process_does_is_seen_in_the_list_with_the_next_look(
    serve_page: ServePage, visitor: Visitor, tmp_path: pathlib.Path
) -> None:
    served = await serve_page(scripted(says("Hello.")))
    await visitor.context.clock.install()
    page = await begin(visitor, served, "About apples")
    await expect(page.locator(".text")).to_have_text("Hello.")
    rows = page.locator(".list a")
    await expect(rows.locator(".title")).to_have_text(["About apples"])
    await expect(page).to_have_title("About apples · ripieno")
    steps, go = held("One ", "two.")
    async with chatting(tmp_path, scripted(steps)) as other:
        identifier = await other.create("")
        reader = Reader(other, "", identifier, await other.position("", identifier))
        await other.say("", identifier, UserCanister.of("About pears"))
        while identifier not in (await served.chat.look(""))["running"]:
            """It is not in the journal yet."""
        await page.clock.run_for(5000)
        await expect(rows.locator(".title")).to_have_text(["About pears", "About apples"])
        await expect(rows.first).to_contain_text("running")
        go.set()
        await reader.until("ConductEnded")
        await page.clock.run_for(5000)
        await expect(rows.first).not_to_contain_text("running")
        await other.rename("", identifier, "About plums")
        await page.clock.run_for(5000)
        await expect(rows.locator(".title")).to_have_text(["About plums", "About apples"])


async def test_a_question_far_down_the_list_makes_no_window_that_scrolls(serve_page: ServePage, visit: Visit) -> None:
    served = await serve_page(writing(), Written().definition)
    page = await asked(await visit(viewport={"width": 1280, "height": 800}), served)
    for _ in range(40):
        await served.chat.create("")
    await page.reload()
    rows = page.locator(".list a")
    await expect(rows).to_have_count(41)
    await expect(rows.last).to_contain_text("waiting")
    await expect(rows.last).not_to_be_in_viewport()
    assert await page.evaluate("document.documentElement.scrollHeight") == 800
