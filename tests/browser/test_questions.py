"""Questions about calls: what is shown, when it can be approved, and what each answer does."""

import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect

from ripieno.ensembles import ServerClaim
from ripieno.toolset.control import ask_user
from tests.browser.conftest import ServePage, Visit
from tests.browser.steps import asked, begin, button, go_to_question, held, message, previewing, question, say, writing
from tests.support.browsers import Visitor, at_centre
from tests.support.chats import Written
from tests.support.scripted_models import invoke, invokes, results_of, says, scripted, tool

LONG = "\n".join(f"line {number}" for number in range(200))


async def approve(page: Page) -> None:
    await expect(button(page, "Approve")).to_be_enabled()
    await button(page, "Approve").click()


async def test_an_approved_call_runs_once(serve_page: ServePage, visitor: Visitor) -> None:
    written = Written()
    page = await asked(visitor, await serve_page(writing(), written.definition))
    await expect(page.locator(".waiting")).to_contain_text("1 waiting")
    await expect(question(page)).to_contain_text("Asked because its effect is write.")
    await expect(question(page).get_by_role("region", name="Arguments")).to_have_text('{\n  "text": "one"\n}')
    await approve(page)
    await expect(page.locator(".text", has_text="Done.")).to_be_visible()
    await expect(question(page)).to_have_count(0)
    await expect(page.locator(".waiting")).to_have_count(0)
    # The focus was in the question, which is gone.
    await expect(message(page)).to_be_focused()
    assert written.texts == ["one"]


async def test_a_question_is_answered_with_keys_that_its_buttons_show(serve_page: ServePage, visitor: Visitor) -> None:
    written = Written()
    model = scripted(*(invokes(invoke("write", name, text=name)) for name in ("one", "two")), says("Done."))
    page = await begin(visitor, await serve_page(model, written.definition))
    heading = page.get_by_role("heading", name="mine.write wants to run")
    await go_to_question(page)
    await expect(button(page, "Deny").locator("kbd")).to_have_text("d")
    # No single key approves.
    for key in ("Enter", " ", "y"):
        await page.keyboard.press(key)
    await page.keyboard.press("a")
    await expect(page.get_by_role("group", name="Approve this call, and allow this, too:")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(heading).to_be_focused()
    await expect(button(page, "Approve")).to_be_enabled()
    assert written.texts == []
    answered = page.locator(f'[data-question="{await page.locator("[data-question]").get_attribute("data-question")}"]')
    await page.keyboard.press("Control+Enter")
    # The next question, whose heading is the same.
    await expect(answered).to_have_count(0)
    await go_to_question(page)
    await expect(heading).to_be_focused()
    await page.keyboard.press("d")
    await expect(page.get_by_label("Reason")).to_be_focused()
    await page.keyboard.type("Once is enough.")
    await page.keyboard.press("Enter")
    await expect(page.locator(".text", has_text="Done.")).to_be_visible()
    assert written.texts == ["one"]
    assert "Once is enough." in str(model.asked[-1])


async def test_the_change_that_was_approved_stays_with_its_call(serve_page: ServePage, visitor: Visitor) -> None:
    change = "--- a\n+++ a\n@@ -1 +1 @@\n-old words\n+new words\n"
    served = await serve_page(writing(), previewing(Written(), lambda _: change))
    page = await asked(visitor, served)
    await approve(page)
    await expect(page.locator(".text", has_text="Done.")).to_be_visible()
    for _ in range(2):
        await page.locator(".call summary").click()
        shown = page.get_by_role("region", name="Approved changes")
        await expect(shown.locator(".removed .line")).to_have_text("old words")
        await expect(shown.locator(".added .line")).to_have_text("new words")
        await page.reload()


async def test_a_long_call_is_approved_only_after_its_end_was_in_view(serve_page: ServePage, visitor: Visitor) -> None:
    page = await asked(visitor, await serve_page(writing(LONG), Written().definition))
    part = question(page).get_by_role("region", name="Arguments")
    await expect(page.get_by_text("Scroll to the end of each part")).to_be_visible()
    await expect(button(page, "Approve")).to_be_disabled()
    await part.evaluate("(one) => one.scrollTo(0, one.scrollHeight / 2)")
    await expect(page.get_by_text("There is more.")).to_be_visible()
    await expect(button(page, "Approve")).to_be_disabled()
    await part.evaluate("(one) => one.scrollTo(0, one.scrollHeight)")
    await expect(button(page, "Approve")).to_be_enabled()


async def test_a_long_call_is_expanded(serve_page: ServePage, visitor: Visitor) -> None:
    written = Written()
    page = await asked(visitor, await serve_page(writing(LONG), written.definition))
    await button(page, "Show all of it").click()
    await expect(question(page).get_by_role("region", name="Arguments")).to_contain_text("line 199")
    await approve(page)
    await expect(page.locator(".call .state")).to_have_text("done")
    assert written.texts == [LONG]


async def test_the_buttons_are_inert_when_a_question_appears(serve_page: ServePage, visitor: Visitor) -> None:
    served = await serve_page(writing(), Written().definition)
    page = await begin(visitor, served)
    await expect(button(page, "Approve")).to_be_enabled()
    # The time of the page stands still, so that half a second passes only when the test says so.
    again = await visitor.context.new_page()
    await again.clock.install(time=0)
    await again.clock.pause_at(1000)
    await again.goto(page.url)
    while not await question(again).count():
        await again.clock.run_for(50)
    await again.clock.run_for(400)
    await question(again).get_by_role("heading").focus()
    await again.keyboard.press("Control+Enter")
    await expect(button(again, "Approve")).to_be_disabled()
    assert not [one for one in visitor.requests if one.endswith("/answers")]
    await again.clock.run_for(600)
    await expect(button(again, "Approve")).to_be_enabled()
    async with again.expect_request("**/answers"):
        await again.keyboard.press("Control+Enter")


async def test_a_denial_has_a_reason(serve_page: ServePage, visitor: Visitor) -> None:
    model, written = writing(answer="As you wish."), Written()
    page = await asked(visitor, await serve_page(model, written.definition))
    await button(page, "Deny").click()
    await expect(page.get_by_role("textbox", name="Reason")).to_be_focused()
    await page.keyboard.type("Write elsewhere.")
    await page.keyboard.press("Enter")
    await expect(page.locator(".text", has_text="As you wish.")).to_be_visible()
    await expect(page.locator(".call .state")).to_have_text("denied")
    (result,) = results_of(model.asked[1][0])
    assert "Write elsewhere." in result.text
    assert written.texts == []


async def test_arguments_are_edited_and_keep_their_digits(serve_page: ServePage, visitor: Visitor) -> None:
    taken: list[Any] = []

    async def count(context: Any, arguments: Mapping[str, Any]) -> str:
        taken.append(arguments["number"])
        return "counted"

    model = scripted(invokes(invoke("count", number=9007199254740993)), says())
    page = await asked(visitor, await serve_page(model, tool("count", count, effect="write")))
    await button(page, "Edit arguments").click()
    field = page.get_by_role("textbox", name="Other arguments")
    await expect(field).to_have_value('{\n  "number": 9007199254740993\n}')
    await field.fill('{"number": }')
    await button(page, "Show this call").click()
    await expect(page.get_by_text("These are no arguments")).to_be_visible()
    await field.fill('{"number": 9007199254740995}')
    await button(page, "Show this call").click()
    await expect(page.get_by_role("region", name="Arguments")).to_contain_text("9007199254740995")
    # It says whose arguments these are, and what the model asked for.
    await expect(question(page)).to_contain_text("Arguments, as edited by you")
    removed = question(page).locator(".difference .removed", has_text='"number": 9007199254740993')
    await expect(removed).to_be_visible()
    assert taken == []
    await button(page, "Approve").click()
    await expect(question(page)).to_have_count(0)
    await expect(page.locator(".call .state")).to_have_text("done, edited")
    assert taken == [9007199254740995]


async def test_lines_in_arguments_are_lines_and_the_json_stays_whole(serve_page: ServePage, visitor: Visitor) -> None:
    text = 'one\n}\ntwo\\\\n" three"\n'
    page = await asked(visitor, await serve_page(writing(text), Written().definition))
    shown = page.get_by_role("region", name="Arguments").locator("pre")
    assert json.loads(await shown.text_content() or "") == {"text": text}
    first, *lines = (await shown.inner_text()).splitlines()
    assert (first, lines[0], lines[-1]) == ("{", '  "text": "one\\n', "}")
    # The end of the string has no line of its own, and its lines are not at the margin, where the JSON's are.
    assert lines[1:-1] == ["}\\n", r'two\\\\n\" three\"\n"']
    assert await shown.locator("span").nth(0).evaluate("one => parseInt(getComputedStyle(one).textIndent)") > 0


async def test_an_edited_call_shows_both_arguments_and_a_wrong_edit_leaves_the_question(
    serve_page: ServePage, visitor: Visitor
) -> None:
    written = Written()
    page = await asked(visitor, await serve_page(writing("one"), written.definition))
    await button(page, "Edit arguments").click()
    field = page.get_by_role("textbox", name="Other arguments")
    visitor.allowed.append("status of 400")
    await field.fill('{"text": 5}')
    await button(page, "Show this call").click()
    await expect(question(page).get_by_role("alert").filter(has_text="text")).to_be_visible()
    await expect(field).to_have_value('{"text": 5}')
    await field.fill('{"text": "two"}')
    await button(page, "Show this call").click()
    await button(page, "Approve").click()
    for _ in range(2):
        await expect(page.locator(".call .state")).to_have_text("done, edited")
        await expect(page.locator(".call .gist")).to_have_text("two")
        await page.locator(".call summary").click()
        await expect(page.locator(".call .inside pre").first).to_contain_text('"two"')
        await expect(page.get_by_text('The model asked for {"text":"one"}')).to_be_visible()
        # After a reload it looks the same.
        await page.reload()
    assert written.texts == ["two"]


async def test_always_asks_no_more(serve_page: ServePage, visitor: Visitor) -> None:
    written = Written()
    turns = [invokes(invoke("write", name, text=name)) for name in ("one", "two")]
    page = await asked(visitor, await serve_page(scripted(*turns, says("Both.")), written.definition))
    await button(page, "Always approve …").click()
    # What it allows is said before it is given.
    way = page.get_by_role("radio", name="Later calls of mine.write with any arguments")
    await expect(way).to_be_checked()
    await expect(question(page)).to_contain_text(
        "in this conversation only, until this program ends or you take it back"
    )
    await expect(button(page, "Approve and allow")).to_be_in_viewport(ratio=1)
    await expect(
        page.get_by_role("radio", name="Later calls of mine.write with exactly these arguments")
    ).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(button(page, "Approve")).to_be_visible()
    assert written.texts == []
    await button(page, "Always approve …").click()
    await button(page, "Approve and allow").click()
    await expect(page.locator(".text", has_text="Both.")).to_be_visible()
    assert written.texts == ["one", "two"]


async def test_always_also_answers_the_other_question_of_the_answer(serve_page: ServePage, visitor: Visitor) -> None:
    written = Written()
    policy = dataclasses.replace(written.definition.policy, writes=("word:{text}",))
    definition = dataclasses.replace(written.definition, policy=policy)
    calls = invokes(*(invoke("write", name, text=name) for name in ("one", "two")))
    page = await begin(visitor, await serve_page(scripted(calls, says()), definition))
    await expect(question(page)).to_have_count(2)
    await button(page, "Always approve …").first.click()
    await button(page, "Approve and allow").click()
    await expect(page.locator(".text", has_text="Done.")).to_be_visible()
    await expect(question(page)).to_have_count(0)
    assert written.texts == ["one", "two"]


@pytest.mark.parametrize("exact", [False, True])
async def test_what_was_allowed_is_listed_and_taken_back(
    serve_page: ServePage, visitor: Visitor, *, exact: bool
) -> None:
    written = Written()
    turns = [invokes(invoke("write", name, text="same")) for name in ("one", "two", "three")]
    model = scripted(*turns[:2], says("Both."), turns[2], says("All."))
    page = await asked(visitor, await serve_page(model, written.definition))
    await button(page, "Always approve …").click()
    if exact:
        await page.get_by_role("radio", name="exactly these").check()
    await button(page, "Approve and allow").click()
    await expect(page.locator(".text", has_text="Both.")).to_be_visible()
    await page.get_by_role("link", name="Approvals").click()
    allowed = page.get_by_role("region", name="Allowed in Begin.")
    await expect(allowed).to_contain_text(f"mine.write with {'exactly these' if exact else 'any'} arguments, since")
    await expect(allowed.get_by_text('"text": "same"')).to_have_count(int(exact))
    await allowed.get_by_role("button", name="Take back").click()
    await expect(allowed).to_have_count(0)
    await expect(page.locator("[data-live]")).to_have_text("Taken back.")
    await page.get_by_role("link", name="Begin.").click()
    await say(page, "Again.")
    await expect(question(page)).to_have_count(1)
    assert written.texts == ["same", "same"]
    await approve(page)
    await expect(page.locator(".text", has_text="All.")).to_be_visible()
    # The journal has both, with the tool and the arguments.
    await page.goto(page.url.replace("#/chat/", "#/journal/"))
    await page.get_by_role("tab", name="Calls").click()
    rows = page.get_by_role("region", name="Allowed without a question").locator("tbody tr")
    arguments = 'exactly {"text":"same"}' if exact else "any"
    for row, what in ((rows.first, "allowed"), (rows.nth(1), "taken back")):
        await expect(row).to_contain_text(what)
        await expect(row).to_contain_text(arguments)


async def test_a_destructive_tool_is_allowed_with_exactly_these_arguments_only(
    serve_page: ServePage, visitor: Visitor
) -> None:
    model = scripted(invokes(invoke("erase", "one", path="a")), says("Done."))
    page = await asked(visitor, await serve_page(model, tool("erase", effect="destructive")))
    await button(page, "Always approve …").click()
    await expect(page.get_by_role("radio")).to_have_count(1)
    await expect(page.get_by_role("radio", name="exactly these arguments")).to_be_checked()


async def test_an_answer_to_what_has_changed_is_refused(serve_page: ServePage, visit: Visit) -> None:
    written = Written()
    change = "--- a\n+++ a\n@@ -0,0 +1,9 @@\n" + "+line\n" * 9
    served = await serve_page(writing("the new text"), previewing(written, lambda _: change))
    visitor = await visit(viewport={"width": 1000, "height": 500})
    page = await asked(visitor, served)
    identifier = page.url.rpartition("/")[2]

    async def stale(route: Route) -> None:
        answer = await route.fetch()
        snapshot = await answer.json()
        for one in snapshot["questions"]:
            one["digest"] = "0" * 64
            one["shown"]["arguments"] = '{"text":"the old text"}'
        await route.fulfill(response=answer, json=snapshot)

    await page.route(re.compile(rf"conversations/{identifier}\?"), stale, times=1)
    await page.reload()
    await expect(question(page)).to_contain_text("the old text")
    visitor.allowed.append("status of 409")
    await approve(page)
    # It is beside the buttons, and in view. The beginning of the question is not, and the pressed button is gone.
    refused = question(page).get_by_role("alert")
    await expect(refused).to_have_text("This call has changed since you saw it. Nothing was approved.")
    await expect(refused).to_be_in_viewport(ratio=1)
    await expect(refused).to_be_focused()
    await expect(question(page).get_by_role("heading")).not_to_be_in_viewport()
    assert await refused.evaluate("(one) => one.previousElementSibling.matches('.answers')")
    await expect(question(page).locator(".changed tr.removed")).to_contain_text("the old text")
    await expect(question(page).locator(".changed tr.added")).to_contain_text("the new text")
    await expect(question(page).locator(".changed tbody tr").nth(1)).to_have_text(
        re.compile(r"^\s*2\s*Effect: write\s*$")
    )
    assert written.texts == []
    await approve(page)
    await expect(question(page)).to_have_count(0)
    await expect(page.locator(".call .state")).to_have_text("done")
    assert written.texts == ["the new text"]


async def test_a_change_that_is_another_one_when_it_is_approved_is_asked_about_again_with_words(
    serve_page: ServePage, visitor: Visitor
) -> None:
    written, lines = Written(), ["one"]
    definition = previewing(written, lambda _: f"--- a\n+++ a\n@@ -0,0 +1 @@\n+{lines[-1]}\n")
    page = await asked(visitor, await serve_page(writing(), definition))
    changes = question(page).get_by_role("region", name="Changes")
    await expect(changes).to_contain_text("one")
    await expect(question(page).get_by_role("alert")).to_have_count(0)
    lines.append("two")
    await approve(page)
    await expect(changes).to_contain_text("two")
    words = question(page).get_by_role("alert")
    await expect(words).to_have_text("This call has changed since you approved it. It has not run.")
    assert await words.evaluate("(one) => one.previousElementSibling.matches('.answers')")
    await expect(question(page).locator(".changed tr.removed")).to_contain_text("one")
    assert written.texts == []
    await approve(page)
    await expect(page.locator(".call .state")).to_have_text("done")
    assert written.texts == ["one"]


async def test_an_approval_of_what_is_not_read_goes_there(serve_page: ServePage, visit: Visit) -> None:
    visitor = await visit(viewport={"width": 1000, "height": 700})
    change = "--- a\n+++ a\n@@ -0,0 +1,99 @@\n" + "+line\n" * 99
    page = await asked(visitor, await serve_page(writing(), previewing(Written(), lambda _: change)))
    part, note = question(page).get_by_role("region", name="Changes"), question(page).get_by_role("note")
    await question(page).locator(".answers").evaluate("(one) => one.scrollIntoView({ block: 'start' })")
    await question(page).locator(".asked").evaluate("(one) => one.focus({ preventScroll: true })")
    await page.keyboard.press("Control+Enter")
    await expect(page.locator("[data-live]")).to_have_text("Scroll to the end of each part, or expand it, to approve.")
    await expect(part).to_be_focused()
    await expect(page.get_by_text("There is more.")).to_be_in_viewport(ratio=1)
    await expect(note).to_be_in_viewport(ratio=1)
    # It is read and approved with keys only.
    await page.keyboard.press("Tab")
    await expect(button(page, "Show all of it")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(part).to_be_focused()
    await expect(button(page, "Approve")).to_be_enabled()
    await page.keyboard.press("Control+Enter")
    await expect(page.locator(".call .state")).to_have_text("done")


async def test_a_question_survives_a_reload(serve_page: ServePage, visitor: Visitor) -> None:
    written = Written()
    page = await asked(visitor, await serve_page(writing(), written.definition))
    await page.reload()
    await expect(question(page)).to_have_count(1)
    await approve(page)
    await expect(page.locator(".call .state")).to_have_text("done")
    assert written.texts == ["one"]


async def test_writing_instead_denies_and_the_page_says_so_before(serve_page: ServePage, visitor: Visitor) -> None:
    model, written = writing(answer="I see."), Written()
    page = await asked(visitor, await serve_page(model, written.definition))
    await expect(message(page)).to_have_accessible_description(
        "If you write instead of answering, each open call is denied with your text as the reason."
    )
    await say(page, "Rather not.")
    await expect(page.locator(".text", has_text="I see.")).to_be_visible()
    await expect(page.locator(".call .state")).to_have_text("denied")
    await expect(question(page)).to_have_count(0)
    assert "Rather not." in results_of(model.asked[1][0])[0].text
    assert written.texts == []


async def test_the_focus_goes_to_a_question(serve_page: ServePage, visitor: Visitor) -> None:
    steps, go = held("I wri", "te.")
    model = scripted([*steps[:-1], *invokes(invoke("write", text="one"))[1:]], says())
    page = await begin(visitor, await serve_page(model, Written().definition))
    await page.get_by_role("region", name="Conversation", exact=True).focus()
    go.set()
    await expect(question(page).locator(".asked")).to_be_focused()


async def test_what_is_typed_when_a_question_appears_is_no_answer(serve_page: ServePage, visitor: Visitor) -> None:
    steps, go = held("I wri", "te.")
    written = Written()
    model = scripted([*steps[:-1], *invokes(invoke("write", text="one"))[1:]], says())
    page = await begin(visitor, await serve_page(model, written.definition))
    await expect(message(page)).to_be_focused()
    go.set()
    announced = page.locator("[data-live]")
    for _ in range(2):
        await expect(question(page)).to_have_count(1)
        await expect(announced).to_contain_text("Asked: may mine.write run? Esc in the message field goes there.")
        # What moves the focus does so in a frame.
        await page.evaluate("() => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))")
        await page.keyboard.type("do not forget the edges")
        await expect(message(page)).to_have_value("do not forget the edges")
        await expect(page.get_by_role("textbox", name="Reason")).to_have_count(0)
        await message(page).fill("")
        # A question that waits already when the page opens does no more.
        await page.reload()
        await expect(message(page)).to_be_focused()
    await expect(question(page)).to_have_count(1)
    await page.keyboard.press("Escape")
    await expect(question(page).locator(".asked")).to_be_focused()
    await page.keyboard.press("d")
    await expect(page.get_by_role("textbox", name="Reason")).to_be_focused()


async def test_the_focus_stays_with_what_is_being_written(serve_page: ServePage, visitor: Visitor) -> None:
    steps, go = held("I wri", "te.")
    model = scripted([*steps[:-1], *invokes(invoke("write", text="one"))[1:]], says())
    page = await begin(visitor, await serve_page(model, Written().definition))
    await message(page).fill("A thought")
    go.set()
    await expect(question(page)).to_have_count(1)
    await expect(message(page)).to_be_focused()
    await expect(message(page)).to_have_value("A thought")


async def test_the_focused_button_is_not_covered(serve_page: ServePage, visit: Visit) -> None:
    served = await serve_page(scripted(invokes(invoke("write", text=LONG))), Written().definition)
    for size in ({"width": 1280, "height": 720}, {"width": 390, "height": 700}):
        page = await asked(await visit(viewport=size), served)
        await button(page, "Show all of it").click()
        await expect(button(page, "Approve")).to_be_enabled()
        await button(page, "Approve").focus()
        assert await at_centre(page, ".question .answers .primary")
        await page.context.close()


async def test_a_claim_and_a_change_come_before_the_arguments(serve_page: ServePage, visitor: Visitor) -> None:
    definition = previewing(Written(), lambda arguments: "--- a\n+++ a\n@@ -1,2 +1,2 @@\n same\n-old\n+new\n")
    claim = ServerClaim(server="elsewhere", description="Only reads, I promise.")
    served = await serve_page(writing(), dataclasses.replace(definition, claim=claim))
    page = await asked(visitor, served)
    text = re.sub(r"\s+", " ", str(await question(page).text_content()))
    order = ["wants to run", "Asked because", "and this is not verified", "Only reads", "It would change", "Arguments"]
    places = [text.index(one) for one in order]
    assert places == sorted(places)
    # The table says by signs and words what is removed and added, not by colours only.
    await expect(question(page).locator("tr.removed")).to_have_text(re.compile(r"2\s*-removed\s*old"))
    await expect(question(page).locator("tr.added")).to_have_text(re.compile(r"2\s*\+added\s*new"))


async def test_a_tool_asks_for_values(serve_page: ServePage, visitor: Visitor) -> None:
    given: list[Any] = []

    async def look(context: Any, arguments: Any) -> str:
        schema = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
        given.append(await context.inquire("Where, and for how long?", schema))
        return "noted"

    page = await asked(visitor, await serve_page(scripted(invokes(invoke("look")), says()), tool("look", look)))
    await expect(question(page)).to_contain_text("Where, and for how long?")
    await expect(question(page)).to_contain_text("not verified")
    await page.get_by_role("textbox", name="city").fill("Rome")
    await page.get_by_role("spinbutton", name="days").fill("3")
    await button(question(page), "Send").click()
    await expect(page.locator(".call .state")).to_have_text("done")
    assert [dict(one) for one in given] == [{"city": "Rome", "days": 3}]


async def test_a_question_with_options_is_answered_with_one_button(serve_page: ServePage, visitor: Visitor) -> None:
    options = ["Keep it", "Delete \u202eit", "x" * 200]
    model = scripted(invokes(invoke("ask_user", question="And the old file?", options=options)), says())
    schema = {"type": "object"}
    page = await asked(visitor, await serve_page(model, tool("ask_user", ask_user, schema=schema)))
    await expect(question(page)).to_contain_text("And the old file?")
    names = await question(page).locator(".answers button").all_text_contents()
    assert names == ["Keep it", "Delete \\u202eit", "x" * 200, "Decline"]
    await button(page, "Delete \\u202eit").click()
    await expect(page.locator(".call .state")).to_have_text("done")
    (result,) = results_of(model.asked[1][0])
    assert result.text == options[1]


async def test_each_of_two_questions_is_answered(serve_page: ServePage, visitor: Visitor) -> None:
    written = Written()
    calls = [invoke("write", name, text=name) for name in ("one", "two")]
    page = await begin(visitor, await serve_page(scripted(invokes(*calls), says("Both.")), written.definition))
    # Two calls that may conflict are asked about one after the other.
    await approve(page)
    await expect(page.locator("[data-question=two]")).to_be_visible()
    await expect(question(page)).to_have_count(1)
    await button(page, "Deny").click()
    await button(page, "Deny this call").click()
    await expect(page.locator(".text", has_text="Both.")).to_be_visible()
    assert written.texts == ["one"]


@pytest.mark.parametrize(("answer", "word"), [("Approve", "approved"), ("Deny", "denied")])
async def test_an_answered_call_says_that_it_waits_for_the_other_answers(
    serve_page: ServePage, visitor: Visitor, answer: str, word: str
) -> None:
    written = Written()
    calls = [invoke("write", name, text=name) for name in ("one", "two")]
    # Calls that do not conflict are asked about together.
    policy = dataclasses.replace(written.definition.policy, writes=("word:{text}",))
    definition = dataclasses.replace(written.definition, policy=policy)
    page = await begin(visitor, await serve_page(scripted(invokes(*calls), says("Done.")), definition))
    first = page.locator('[data-question="one"]')
    await expect(button(first, "Approve")).to_be_enabled()
    await button(first, answer).click()
    if answer == "Deny":
        await button(first, "Deny this call").click()
    states = page.locator(".call .state")
    for _ in range(2):
        await expect(states).to_have_text([f"{word}, waits for the other answers", "waiting"])
        await page.reload()
    await expect(question(page)).to_have_count(1)
    await approve(page)
    await expect(states).to_have_text(["done" if answer == "Approve" else "denied", "done"])
    assert written.texts == (["one", "two"] if answer == "Approve" else ["two"])


async def test_all_approvals_in_one_place(serve_page: ServePage, visitor: Visitor) -> None:
    written = Written()
    page = await asked(visitor, await serve_page(writing(), written.definition))
    await page.get_by_role("link", name="Approvals").click()
    await expect(page.get_by_text("1 question in 1 conversation.")).to_be_visible()
    await expect(page.get_by_role("link", name="Approvals 1 waiting")).to_be_visible()
    await approve(page)
    await expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    await page.get_by_role("link", name="Begin.").click()
    await expect(page.locator(".call .state")).to_have_text("done")
    assert written.texts == ["one"]


async def test_an_answer_in_one_tab_ends_the_question_in_the_other(serve_page: ServePage, visitor: Visitor) -> None:
    one = await asked(visitor, await serve_page(writing(), Written().definition))
    two = await visitor.open(one.url)
    await expect(question(two)).to_have_count(1)
    await approve(one)
    await expect(question(two)).to_have_count(0)
    await expect(two.locator(".call .state")).to_have_text("done")


async def test_no_single_key_approves(serve_page: ServePage, visitor: Visitor) -> None:
    written = Written()
    page = await asked(visitor, await serve_page(writing(), written.definition))
    await expect(button(page, "Approve")).to_be_enabled()
    heading = question(page).locator(".asked")
    keys = [*"abcdefghijklmnopqrstuvwxyz0123456789 ", "Enter", "Escape", "ArrowDown", "Home", "End", "PageDown"]
    for key in keys:
        await heading.focus()
        await page.keyboard.press(key)
        await page.evaluate("document.querySelector('dialog')?.close()")
    await expect(question(page)).to_have_count(1)
    assert written.texts == []
