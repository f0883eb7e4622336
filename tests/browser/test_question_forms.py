"""The forms of a question on the page: what is written in them, what covers them, and what they leave behind."""

from playwright.async_api import expect

from tests.browser.conftest import ServePage
from tests.browser.steps import asked, button, question
from tests.support.browsers import Visitor
from tests.support.chats import Written
from tests.support.scripted_models import invoke, invokes, says, scripted


async def test_what_is_written_in_a_form_of_a_question_survives_a_reload(
    serve_page: ServePage, visitor: Visitor
) -> None:
    written = Written()
    calls = invokes(*(invoke("write", name, text=name) for name in ("one", "two")))
    page = await asked(visitor, await serve_page(scripted(calls, says("Done.")), written.definition))
    edited = page.get_by_role("textbox", name="Other arguments")
    reason = page.get_by_role("textbox", name="Reason")
    await button(page, "Edit arguments").click()
    await edited.fill('{"text": "other"}')
    await button(page, "Show this call").click()
    await expect(question(page)).to_contain_text("as edited by you")
    # The form is open again, so that the call of the model is not approved by mistake.
    await page.reload()
    await expect(edited).to_have_value('{"text": "other"}')
    await expect(button(page, "Approve")).to_have_count(0)
    await button(page, "Show this call").click()
    await button(page, "Approve").click()
    # An answered question leaves nothing, and the next one, with the same tool, gets nothing.
    await expect(page.locator("[data-question=two]")).to_be_visible()
    kept = "Object.values(sessionStorage).filter((text) => /other|Elsewhere/.test(text))"
    assert await page.evaluate(kept) == []
    await button(page, "Deny").click()
    await expect(reason).to_have_value("")
    await reason.fill("Elsewhere.")
    await page.reload()
    await expect(reason).to_have_value("Elsewhere.")
    await button(page, "Deny this call").click()
    await expect(page.locator(".text", has_text="Done.")).to_be_visible()
    assert await page.evaluate(kept) == []
    assert written.texts == ["other"]
