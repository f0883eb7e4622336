"""The forms of a question on the page: what is written in them, what covers them, and what they leave behind."""

import asyncio
import dataclasses
import re
from typing import Any

from playwright.async_api import Route, expect

from ripieno.canisters import UserCanister
from ripieno.ensembles import Context, Definition
from ripieno.schemas import Schema
from tests.browser.conftest import ServePage, Visit
from tests.browser.steps import asked, begin, button, ended, go_to_question, previewing, question, writing
from tests.support.browsers import Visitor, at_centre
from tests.support.chats import Written
from tests.support.scripted_models import invoke, invokes, says, scripted, tool


class Booked:
    """A tool that asks for values, and notes those that it gets."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    async def __call__(self, context: Context, arguments: dict[str, Any]) -> str:
        properties = {
            "guests": {"type": "integer", "minimum": 1, "maximum": 8},
            "name": {"type": "string", "minLength": 3},
        }
        self.values.append(await context.inquire("For whom?", {"type": "object", "properties": properties}))
        return "booked"

    @property
    def definition(self) -> Definition:
        return tool("book", self)


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
    # The request may end after what follows from it is drawn.
    forgotten = "() => !Object.values(sessionStorage).some((text) => /other|Elsewhere/.test(text))"
    await page.wait_for_function(forgotten)
    await button(page, "Deny").click()
    await expect(reason).to_have_value("")
    await reason.fill("Elsewhere.")
    await page.reload()
    await expect(reason).to_have_value("Elsewhere.")
    await button(page, "Deny this call").click()
    await expect(page.locator(".text", has_text="Done.")).to_be_visible()
    await page.wait_for_function(forgotten)
    assert written.texts == ["other"]


async def test_nothing_covers_the_buttons_of_a_question(serve_page: ServePage, visit: Visit) -> None:
    change = "--- a\n+++ a\n@@ -1,2 +1,2 @@\n-old\n-words\n+new\n+lines\n"
    definition = previewing(Written(), lambda _: change)
    policy = dataclasses.replace(definition.policy, writes=("word:{text}",))
    calls = invokes(*(invoke("write", name, text=name) for name in ("one", "two")))
    served = await serve_page(scripted(calls), dataclasses.replace(definition, policy=policy))
    page = await begin(await visit(viewport={"width": 1200, "height": 800}), served)
    await expect(question(page)).to_have_count(2)
    await go_to_question(page)
    # The end of the log is out of view, and each button is scrolled to where it is just in view.
    log = page.get_by_role("region", name="Conversation")
    for key in ("Control+Enter", "d", "e", "a"):
        shortcut = f'[data-question=one] [aria-keyshortcuts="{key}"]'
        await page.locator(shortcut).evaluate("(one) => one.scrollIntoView({ block: 'end' })")
        assert await log.evaluate("(one) => one.scrollHeight - one.scrollTop - one.clientHeight") >= 80
        await page.evaluate("() => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))")
        assert await at_centre(page, shortcut)


async def test_after_an_edit_the_difference_of_the_arguments_is_shown(serve_page: ServePage, visitor: Visitor) -> None:
    definition = previewing(Written(), lambda arguments: f"--- a\n+++ a\n@@ -0,0 +1 @@\n+{arguments['text']}\n")
    page = await asked(visitor, await serve_page(writing(), definition))
    await button(page, "Edit arguments").click()
    await page.get_by_role("textbox", name="Other arguments").fill('{"text": "two"}')
    await button(page, "Show this call").click()
    # The change itself is above, and not once more as the difference of two differences.
    await expect(question(page).get_by_role("region", name="Changes").locator(".added .line")).to_have_text("two")
    changed = question(page).locator(".changed tr:not(.hidden *)")
    lines = [("1", "", "{"), ("2", "-removed", '  "text": "one"'), ("2", "+added", '  "text": "two"'), ("3", "", "}")]
    await expect(changed).to_have_count(len(lines))
    for row, cells in zip(await changed.all(), lines, strict=True):
        assert [await cell.text_content() for cell in await row.locator("td").all()] == list(cells)


async def test_arguments_that_are_left_as_they_are_are_not_edited(serve_page: ServePage, visitor: Visitor) -> None:
    written = Written()
    properties = {"text": {"type": "string"}, "mode": {"type": "string", "default": "new"}}
    schema = Schema.of({"type": "object", "properties": properties, "required": ["text"]})
    page = await asked(visitor, await serve_page(writing(), dataclasses.replace(written.definition, schema=schema)))
    await button(page, "Edit arguments").click()
    # The form has the defaults, too, as they run.
    await expect(page.get_by_role("textbox", name="Other arguments")).to_have_value(re.compile('"mode": "new"'))
    await button(page, "Show this call").click()
    await expect(question(page).get_by_text("Nothing has changed.")).to_be_visible()
    await button(page, "Approve").click()
    await expect(page.locator(".call .state")).to_have_text("done")
    await expect(page.locator(".call .gist")).to_have_text("one")
    assert written.texts == ["one"]


async def test_the_line_of_a_denied_call_reads_as_a_sentence(serve_page: ServePage, visitor: Visitor) -> None:
    page = await asked(visitor, await serve_page(writing(), Written().definition))
    await button(page, "Deny").click()
    await button(page, "Deny this call").click()
    await expect(page.locator(".call .gist")).to_have_text("The call of 'write' was denied, one")
    # The journal counts it, too, although it did not run.
    await ended(page)
    await page.get_by_role("link", name="Journal").click()
    await expect(page.locator(".rows a")).to_contain_text("2 turns · 0 calls · 1 not run")


async def test_values_that_a_tool_would_not_get_leave_its_form_as_it_is(
    serve_page: ServePage, visitor: Visitor
) -> None:
    booked = Booked()
    model = scripted(invokes(invoke("book", "one")), says("Done."))
    page = await asked(visitor, await serve_page(model, booked.definition))
    guests, name = page.get_by_role("spinbutton", name="guests"), page.get_by_role("textbox", name="name")
    await guests.fill("99")
    await name.fill("Al")
    await button(question(page), "Send").click()
    # The browser says what is wrong with a number, and nothing is sent.
    await expect(guests).to_be_focused()
    assert await guests.evaluate("(one) => one.validity.rangeOverflow")
    await expect(question(page).get_by_role("alert")).to_have_count(0)
    # The server says what is wrong with a text.
    await guests.fill("8")
    visitor.allowed.append("status of 400")
    await button(question(page), "Send").click()
    await expect(question(page).get_by_role("alert")).to_contain_text("`name` must have at least 3 characters")
    await expect(guests).to_have_value("8")
    await expect(name).to_have_value("Al")
    assert booked.values == []
    await name.fill("Alba")
    await button(question(page), "Send").click()
    await expect(page.locator(".text", has_text="Done.")).to_be_visible()
    assert [dict(one) for one in booked.values] == [{"guests": 8, "name": "Alba"}]


async def test_what_is_written_in_a_form_of_a_tool_survives_a_reload_and_another_conversation(
    serve_page: ServePage, visitor: Visitor
) -> None:
    booked = Booked()
    model = scripted(invokes(invoke("book", "one")), invokes(invoke("book", "two")), says("Done."))
    page = await asked(visitor, await serve_page(model, booked.definition))
    guests, name = page.get_by_role("spinbutton", name="guests"), page.get_by_role("textbox", name="name")
    await guests.fill("3")
    await name.fill("Alba")
    await page.reload()
    await expect(guests).to_have_value("3")
    await expect(name).to_have_value("Alba")
    await page.get_by_role("link", name="New conversation").click()
    await expect(question(page)).to_have_count(0)
    await page.get_by_role("link", name="Begin.").click()
    await expect(name).to_have_value("Alba")
    await button(question(page), "Send").click()
    # The same question once more begins empty.
    await expect(page.locator("[data-question=two]")).to_be_visible()
    await expect(guests).to_have_value("")
    await expect(name).to_have_value("")
    await page.wait_for_function("() => !Object.values(sessionStorage).some((text) => text.includes('Alba'))")
    await button(page, "Decline").click()
    await expect(page.locator(".text", has_text="Done.")).to_be_visible()
    assert [one and dict(one) for one in booked.values] == [{"guests": 3, "name": "Alba"}, None]


async def test_the_first_form_of_a_tool_opens_with_its_heading(serve_page: ServePage, visit: Visit) -> None:
    visitor, go = await visit(viewport={"width": 1000, "height": 420}), asyncio.Event()

    async def slow(route: Route) -> None:
        await go.wait()
        await route.continue_()

    await visitor.context.route("**/form.js", slow)
    steps = [*says("\n\n".join(["Line."] * 40))[:-1], *invokes(invoke("book", "one"))[1:]]
    page = await begin(visitor, await serve_page(scripted(steps), Booked().definition))
    heading = question(page).locator(".asked")
    await expect(heading).to_be_in_viewport(ratio=1)
    go.set()
    await expect(page.get_by_role("textbox", name="name")).to_be_visible()
    await page.evaluate("() => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))")
    await expect(heading).to_be_in_viewport(ratio=1)


async def test_a_result_that_is_written_for_a_client_survives_a_reload(serve_page: ServePage, visitor: Visitor) -> None:
    served = await serve_page(scripted(invokes(invoke("measure", "one"))))
    page = await visitor.open(served.link())
    identifier = await served.chat.create("")
    await page.goto(f"{served.url}#/chat/{identifier}")
    declared = served.chat.declared([tool("measure")])
    await served.chat.say("", identifier, UserCanister.of("Measure."), tools=declared)
    result = page.get_by_role("textbox", name="Result")
    await result.fill("Two metres.")
    await page.reload()
    await expect(result).to_have_value("Two metres.")
