"""The page for everybody: by keyboard, narrow, without motion, in light and dark, and for a screen reader."""

import dataclasses
import importlib.resources
from typing import Any

import pytest
from playwright.async_api import Page, expect

from ripieno.canisters.events import ReasoningDelta
from tests.browser.conftest import ServePage, Visit
from tests.browser.steps import asked, begin, button, go_to_question, held, message, say, writing
from tests.support.browsers import Visitor, at_centre
from tests.support.chats import Written
from tests.support.scripted_models import invoke, invokes, says, scripted, tool

AXE = (importlib.resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
RICH = """# Title

Some **words**, `code`, [a link](https://example.com/).

```python
x = 1  # a comment
```

|a|b|
|-|-:|
|1|2|

> said"""


#: The address of each view, in which a conversation may be named, and its title.
VIEWS = {
    "approvals": "Approvals",
    "journal": "Journal",
    "journal/{}": "Begin.",
    "tools": "Tools",
    "replay": "Replay",
    "": "New conversation",
}


async def go_to_view(page: Page, place: str, title: str) -> None:
    """Opens a view. Its title is there when it is loaded, and that of the view before until the address has changed."""
    await page.goto(f"{page.url.partition('#')[0]}#/{place}")
    await expect(page.locator(".header h1")).to_have_text(title)


async def violations(page: Page, scheme: str = "light") -> list[Any]:
    """What axe finds on the page: the rule, and the elements. In dark, only what is about colours is another page."""
    rules: Any = RULES if scheme == "light" else {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
    if not await page.evaluate("'axe' in globalThis"):
        await page.evaluate(f"{AXE};0")
    found = await page.evaluate("(rules) => axe.run(document, { runOnly: rules })", rules)
    return [(one["id"], [node["html"][:160] for node in one["nodes"]]) for one in found["violations"]]


async def fill(served_model: Any, serve_page: ServePage, visitor: Visitor) -> Page:
    page = await asked(visitor, await serve_page(served_model, tool("look"), Written().definition))
    await page.locator(".call summary").first.click()
    await expect(page.locator(".text pre")).to_be_visible()
    return page


def rich() -> Any:
    """A model that thinks, writes Markdown, looks at something, and wants to write a long text."""
    calls = [invoke("look", "first"), invoke("write", "second", text="\n".join(map(str, range(99))))]
    return scripted([*says(RICH)[:1], ReasoningDelta("Well."), *says(RICH)[1:-1], *invokes(*calls)[1:]], says())


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
async def test_axe_finds_nothing_in_a_conversation(
    serve_page: ServePage, visit: Visit, scheme: Any, width: int
) -> None:
    visitor = await visit(color_scheme=scheme, viewport={"width": width, "height": 900})
    page = await fill(rich(), serve_page, visitor)
    assert await violations(page, scheme) == []
    await button(page, "Deny").click()
    await expect(page.get_by_role("textbox", name="Reason")).to_be_visible()
    assert await violations(page, scheme) == []


async def test_the_colours_are_chosen_and_stay(serve_page: ServePage, visit: Visit) -> None:
    visitor = await visit(color_scheme="light")
    page = await visitor.open((await serve_page(scripted(says()))).link())

    async def is_dark() -> bool:
        return bool(await page.evaluate("getComputedStyle(document.body).color.match(/\\d+/)[0] > 128"))

    for name, dark in (("as the system", False), ("dark", True), ("light", False), ("dark", True)):
        await button(page, "Keys and colours").click()
        await page.get_by_role("combobox", name="Colours").select_option(name)
        assert await is_dark() == dark
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog")).to_have_count(0)
    assert await violations(page, "dark") == []
    await page.reload()
    await expect(message(page)).to_be_visible()
    assert await is_dark()
    await button(page, "Keys and colours").click()
    await expect(page.get_by_role("combobox", name="Colours")).to_have_value("dark")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing_in_the_other_views(serve_page: ServePage, visit: Visit, scheme: Any) -> None:
    visitor = await visit(color_scheme=scheme)
    page = await fill(rich(), serve_page, visitor)
    identifier = page.url.rpartition("/")[2]
    for place, title in VIEWS.items():
        await go_to_view(page, place.format(identifier), title)
        await expect(page.get_by_text("Loading …")).to_have_count(0)
        assert (title, await violations(page, scheme)) == (title, [])
    await page.keyboard.press("Escape")
    await button(page, "Keys and colours").click()
    assert await violations(page, scheme) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing_before_the_sign_in(serve_page: ServePage, visit: Visit, scheme: Any) -> None:
    visitor = await visit(color_scheme=scheme)
    page = await visitor.open((await serve_page(writing())).url)
    await expect(page.get_by_text("This page needs a new link. Run:")).to_be_visible()
    assert await violations(page, scheme) == []


async def press(page: Page, key: str, name: str) -> None:
    """Presses a key until the element with this text or name has the focus."""
    for _ in range(60):
        await page.keyboard.press(key)
        focused = await page.evaluate(
            "(document.activeElement.ariaLabel ||"
            " document.activeElement.textContent.replace(document.activeElement.querySelector('kbd')?.textContent, ''))"
            ".trim()"
        )
        if focused == name:
            return
    raise AssertionError(f"{name!r} cannot be reached with {key}")


async def test_a_call_is_approved_by_keyboard_only(serve_page: ServePage, visitor: Visitor) -> None:
    written = Written()
    page = await visitor.open((await serve_page(writing(LONG := "\n".join("x" * 99)), written.definition)).link())
    await expect(message(page)).to_be_focused()
    await page.keyboard.type("Write.")
    await page.keyboard.press("Enter")
    await go_to_question(page)
    await press(page, "Tab", "Arguments")
    await page.keyboard.press("End")
    await expect(button(page, "Approve")).to_be_enabled()
    await press(page, "Tab", "Approve")
    assert await at_centre(page, ".question .answers .primary")
    await page.keyboard.press("Enter")
    await expect(page.locator(".call .state")).to_have_text("done")
    assert written.texts == [LONG]


async def test_nothing_is_wider_than_320_pixels(serve_page: ServePage, visit: Visit) -> None:
    visitor = await visit(viewport={"width": 320, "height": 640})
    page = await fill(rich(), serve_page, visitor)
    identifier = page.url.rpartition("/")[2]
    for place, title in {"chat/{}": "Begin.", **VIEWS}.items():
        await go_to_view(page, place.format(identifier), title)
        wide = "[...document.querySelectorAll('#page, .main, .log, .page, .question, .composer, .box')]"
        assert (
            await page.evaluate(
                f"{wide}.filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.className)"
            )
            == []
        )
        assert await page.evaluate("document.documentElement.scrollWidth") == 320


async def test_tools_with_long_names_are_not_wider_than_320_pixels(serve_page: ServePage, visit: Visit) -> None:
    visitor = await visit(viewport={"width": 320, "height": 640})
    long = dataclasses.replace(tool("_".join(["name"] * 12)), description=f"https://example.com/{'a' * 80}")
    page = await visitor.open((await serve_page(scripted(says()), long)).link())
    await page.goto(f"{page.url.partition('#')[0]}#/tools")
    await page.locator(".ensemble > summary").first.click()
    await page.locator(".tool summary").click()
    await expect(page.get_by_role("region", name="Arguments")).to_be_visible()
    assert await page.locator(".page").evaluate("(one) => one.scrollWidth") == 320


async def test_a_low_window_scrolls_as_one_page(serve_page: ServePage, visit: Visit) -> None:
    visitor = await visit(viewport={"width": 320, "height": 256})
    page = await asked(visitor, await serve_page(writing(), Written().definition))
    await expect(button(page, "Approve")).to_be_enabled()
    await button(page, "Approve").focus()
    assert await at_centre(page, ".question .answers .primary")


@pytest.mark.parametrize("size", [(844, 390), (1280, 400), (1280, 300)])
async def test_a_long_list_leaves_the_message_field_in_a_low_window(
    serve_page: ServePage, visit: Visit, size: tuple[int, int]
) -> None:
    width, height = size
    served = await serve_page(scripted(says("\n\n".join(["Line."] * 40))))
    for _ in range(40):
        await served.chat.create("")
    page = await (await visit(viewport={"width": width, "height": height})).open(served.link())
    await expect(page.locator(".list a")).to_have_count(40)
    await expect(message(page)).to_be_in_viewport(ratio=1)
    await say(page, "Begin.")
    await expect(page.locator(".text p")).to_have_count(40)
    box = await page.locator(".side").bounding_box()
    assert box is not None
    assert box["height"] <= height
    # Only in a very low one, the log has too little height of its own.
    if height > 320:
        await expect(message(page)).to_be_in_viewport(ratio=1)
        await expect(page.locator(".text p").last).to_be_in_viewport(ratio=1)
        assert await page.evaluate("document.documentElement.scrollHeight") == height


async def test_the_drawer_scrolls_where_its_list_has_no_height(serve_page: ServePage, visit: Visit) -> None:
    served = await serve_page(scripted())
    for _ in range(40):
        await served.chat.create("")
    page = await (await visit(viewport={"width": 640, "height": 400})).open(served.link())
    await page.get_by_role("button", name="Conversations and views").click()
    rows = page.locator(".list a")
    await expect(rows).to_have_count(40)
    for row in (rows.first, rows.nth(2), page.get_by_role("button", name="Keys and colours"), rows.last):
        await row.scroll_into_view_if_needed()
        await expect(row).to_be_in_viewport(ratio=1)
    list_box = await page.locator(".list").bounding_box()
    assert list_box is not None
    assert list_box["height"] >= 190


async def test_nothing_moves_for_those_who_want_no_motion(serve_page: ServePage, visit: Visit) -> None:
    steps, go = held("One ", "two.")
    visitor = await visit(reduced_motion="reduce")
    page = await begin(visitor, await serve_page(scripted(steps)))
    await expect(page.get_by_text("Working")).to_be_visible()
    assert await page.evaluate("document.getAnimations().length") == 0
    go.set()
    await expect(page.locator(".text")).to_have_text("One two.")


async def test_only_one_polite_region_speaks(serve_page: ServePage, visitor: Visitor) -> None:
    steps, go = held("Half a ", "sentence.")
    page = await begin(
        visitor, await serve_page(scripted(steps, *[invokes(invoke("write", text="one"))]), Written().definition)
    )
    live = page.locator("[data-live]")
    await expect(page.locator(".text")).to_have_text("Half a")
    # Deltas are not read out.
    await expect(live).to_have_text("")
    go.set()
    await expect(live).to_have_text("Done.")
    await say(page, "Write.")
    await expect(live).to_have_text("Asked: may mine.write run? Esc in the message field goes there.")
    assert await page.locator("[aria-live]").count() == 1
    assert await page.locator(".log[aria-live], .log [aria-live], [role=log]").count() == 0


async def test_targets_are_large_enough(serve_page: ServePage, visit: Visit) -> None:
    for width in (1280, 390):
        visitor = await visit(viewport={"width": width, "height": 900})
        page = await fill(rich(), serve_page, visitor)
        small = await page.evaluate(
            "[...document.querySelectorAll('button, select, input, textarea, summary, .list a, .views a, .button')]"
            ".filter((one) => !one.closest('.hidden') && !one.classList.contains('hidden') && one.checkVisibility())"
            ".map((one) => [one.textContent.slice(0, 30), one.getBoundingClientRect()])"
            ".filter(([, box]) => box.width < 24 || box.height < 24).map(([text]) => text)"
        )
        assert small == []


async def test_the_list_is_a_drawer_on_a_phone(serve_page: ServePage, visit: Visit) -> None:
    visitor = await visit(viewport={"width": 390, "height": 800})
    page = await begin(visitor, await serve_page(scripted(says())))
    link = page.get_by_role("link", name="New conversation")
    await expect(link).to_be_hidden()
    await page.get_by_role("button", name="Conversations and views").click()
    await expect(link).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(link).to_be_hidden()
    await page.get_by_role("button", name="Conversations and views").click()
    await page.get_by_role("link", name="Journal").click()
    await expect(link).to_be_hidden()
    await expect(page.get_by_role("heading", name="Journal", level=1)).to_be_visible()


async def test_single_keys_work_outside_fields_and_can_be_switched_off(serve_page: ServePage, visitor: Visitor) -> None:
    page = await begin(visitor, await serve_page(scripted(says("An answer."))), "A question")
    await expect(page.locator(".text")).to_have_text("An answer.")
    await message(page).press("?")
    await expect(message(page)).to_have_value("?")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    log = page.get_by_role("region", name="Conversation", exact=True)
    await log.focus()
    await page.keyboard.press("j")
    await expect(page.locator(".said")).to_be_focused()
    await page.keyboard.press("j")
    await expect(page.locator(".text")).to_be_focused()
    await page.keyboard.press("k")
    await expect(page.locator(".said")).to_be_focused()
    await page.keyboard.press("/")
    await expect(page.get_by_role("searchbox")).to_be_focused()
    await log.focus()
    await page.keyboard.press("?")
    await page.get_by_role("checkbox").uncheck()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(log).to_be_focused()
    await page.keyboard.press("?")
    await page.keyboard.press("j")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(log).to_be_focused()


async def test_enter_sends_but_not_while_composing(serve_page: ServePage, visitor: Visitor) -> None:
    page = await visitor.open((await serve_page(scripted(says()))).link())
    box = message(page)
    await box.fill("にほん")
    await box.dispatch_event("keydown", {"key": "Enter", "isComposing": True, "bubbles": True, "cancelable": True})
    await box.press("Shift+Enter")
    await expect(box).to_have_value("にほん\n")
    await expect(page.locator(".said")).to_have_count(0)
    await box.press("Enter")
    await expect(page.locator(".said")).to_contain_text("にほん")
