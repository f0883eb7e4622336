"""The list of conversations beside the open one: their titles, their order, and the signs of what happens in them."""

from playwright.async_api import expect

from tests.browser.conftest import ServePage
from tests.browser.steps import begin, button, held, hide, say
from tests.support.browsers import Visitor
from tests.support.chats import Written
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
