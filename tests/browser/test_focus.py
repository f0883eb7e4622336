"""The focus: when what has it goes away, it stays on the page, and the keys of a question work in its forms."""

import re

from playwright.async_api import expect

from tests.browser.conftest import ServePage, Visit
from tests.browser.steps import asked, begin, button, go_to_question, held, message, question, writing
from tests.support.browsers import Visitor
from tests.support.chats import Written
from tests.support.scripted_models import invoke, invokes, says, scripted


async def test_an_edited_call_that_is_shown_has_the_focus(serve_page: ServePage, visitor: Visitor) -> None:
    written = Written()
    page = await asked(visitor, await serve_page(writing(), written.definition))
    heading = question(page).locator(".asked")
    await page.keyboard.press("e")
    edited = page.get_by_role("textbox", name="Other arguments")
    await expect(edited).to_be_focused()
    await edited.fill('{"text": "other"}')
    await button(page, "Show this call").press("Enter")
    await expect(question(page)).to_contain_text("as edited by you")
    await expect(heading).to_be_focused()
    await expect(button(page, "Approve")).to_be_enabled()
    await page.keyboard.press("Control+Enter")
    await expect(page.locator(".call .state")).to_have_text("done, edited")
    assert written.texts == ["other"]


async def test_the_keys_of_a_question_work_in_its_forms(serve_page: ServePage, visitor: Visitor) -> None:
    written = Written()
    model = scripted(*(invokes(invoke("write", name, text=name)) for name in ("one", "two")), says("Both."))
    page = await asked(visitor, await serve_page(model, written.definition))
    heading = question(page).locator(".asked")
    for key in ("d", "e", "a"):
        await page.keyboard.press(key)
        await expect(button(page, "Back")).to_be_visible()
        # Also outside of the form.
        await heading.focus()
        await page.keyboard.press("Escape")
        await expect(button(page, "Back")).to_have_count(0)
        await expect(heading).to_be_focused()
    await page.keyboard.press("e")
    await page.get_by_role("textbox", name="Other arguments").press("Control+Enter")
    await expect(question(page)).to_contain_text("Nothing has changed.")
    await expect(heading).to_be_focused()
    await page.keyboard.press("e")
    await expect(button(page, "Back")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(heading).to_be_focused()
    await page.keyboard.press("a")
    radio = page.get_by_role("radio", name="exactly these arguments")
    await radio.check()
    await expect(button(page, "Approve and allow")).to_be_enabled()
    await radio.press("Control+Enter")
    await expect(page.locator("[data-question=two]")).to_be_visible()
    await go_to_question(page)
    await page.keyboard.press("d")
    await page.get_by_role("textbox", name="Reason").press("Control+Enter")
    await expect(page.locator(".text", has_text="Both.")).to_be_visible()
    assert written.texts == ["one"]


async def test_stop_leaves_the_focus_in_the_message_field(serve_page: ServePage, visitor: Visitor) -> None:
    steps, _ = held("I begin, and ", "never end.")
    page = await begin(visitor, await serve_page(scripted(steps)))
    await expect(page.locator(".text")).to_have_text("I begin, and")
    await button(page, "Stop").press("Enter")
    await expect(button(page, "Stop")).to_have_count(0)
    await expect(message(page)).to_be_focused()


async def test_the_focus_stays_among_the_approvals(serve_page: ServePage, visitor: Visitor) -> None:
    turns = (invokes(invoke("write", "one", text="one")), says("Written."))
    page = await asked(visitor, await serve_page(scripted(*turns), Written().definition))
    await page.get_by_role("link", name="Approvals").click()
    await expect(page.get_by_role("heading", name="Approvals", level=1)).to_be_visible()
    main = page.get_by_role("main")
    await button(page, "Always approve …").click()
    await expect(button(page, "Approve and allow")).to_be_enabled()
    await button(page, "Approve and allow").press("Enter")
    await expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    await expect(main).to_be_focused()
    await page.get_by_role("button", name=re.compile("Take back")).press("Enter")
    await expect(page.locator("[data-live]")).to_have_text("Taken back.")
    await expect(page.get_by_role("button", name=re.compile("Take back"))).to_have_count(0)
    await expect(main).to_be_focused()


async def test_the_list_that_closes_gives_the_focus_back(serve_page: ServePage, visit: Visit) -> None:
    page = await begin(await visit(viewport={"width": 375, "height": 700}), await serve_page(scripted(says())))
    opener = page.get_by_role("button", name="Conversations and views")
    for way in ("Escape", "Enter"):
        await opener.press("Enter")
        await expect(page.get_by_role("link", name="New conversation")).to_be_focused()
        if way == "Enter":
            await button(page, "Close the list").focus()
        await page.keyboard.press(way)
        await expect(page.get_by_role("link", name="New conversation")).to_be_hidden()
        await expect(opener).to_be_focused()


async def test_a_list_that_is_opened_as_another_view_is_drawn_stays_open(serve_page: ServePage, visit: Visit) -> None:
    visitor = await visit(viewport={"width": 375, "height": 700})
    page = await visitor.open((await serve_page(scripted(says()))).link())
    await page.evaluate("() => (location.hash = '#/approvals')")
    await expect(page.get_by_role("heading", name="Approvals", level=1)).to_be_visible()
    opened = """async () => {
        const drawn = new Promise((done) => new MutationObserver((_, watch) => {
            if (!document.querySelector("#message")) return;
            watch.disconnect();
            document.querySelector("[data-drawer]").click();
            done();
        }).observe(document.body, { subtree: true, childList: true }));
        location.hash = "#/";
        await drawn;
        for (let frame = 0; frame < 3; frame++) await new Promise(requestAnimationFrame);
        await new Promise((go) => setTimeout(go));
        return Boolean(document.querySelector(".drawn"));
    }"""
    assert await page.evaluate(opened)
