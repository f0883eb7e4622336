"""The views beside the chat: the journal with its calls, forks and checks, and the tools."""

import re
from typing import Any

from playwright.async_api import expect

from ripieno.canisters.conversation import Usage
from ripieno.exceptions import ToolFault
from tests.browser.conftest import ServePage
from tests.browser.steps import begin, button, ended, message, say
from tests.support.browsers import Visitor
from tests.support.scripted_models import invoke, invokes, says, scripted, tool


async def fails(context: Any, arguments: Any) -> str:
    raise ToolFault("There is no such place.")


def looking() -> Any:
    """A model that looks twice, of which one call fails."""
    calls = (invoke("look", "first"), invoke("fail", "second"))
    return scripted(
        invokes(*calls, usage=Usage(input_tokens=1200, output_tokens=30)),
        says("Found the violets.", usage=Usage(input_tokens=1300, output_tokens=40)),
    )


async def recorded(serve_page: ServePage, visitor: Visitor) -> Any:
    """The journal's view of a conversation that has ended."""
    page = await begin(visitor, await serve_page(looking(), tool("look"), tool("fail", fails)), "Where are they?")
    await expect(page.locator(".text", has_text="Found the violets.")).to_be_visible()
    await ended(page)
    await page.get_by_role("link", name="Journal").click()
    await page.locator(".rows a").click()
    await expect(page.locator(".said")).to_contain_text("Where are they?")
    return page


async def test_the_journal_is_listed_and_searched(serve_page: ServePage, visitor: Visitor) -> None:
    page = await begin(visitor, await serve_page(looking(), tool("look"), tool("fail", fails)), "Where are they?")
    await expect(page.locator(".text", has_text="Found the violets.")).to_be_visible()
    await ended(page)
    await page.get_by_role("link", name="Journal").click()
    row = page.locator(".rows a")
    await expect(row).to_have_count(1)
    await expect(row).to_contain_text("Where are they?")
    await expect(row).to_contain_text("2 turns · 2 calls · 2,570 tokens")
    search = page.get_by_role("searchbox", name="Search the journal")
    await search.fill("roses")
    await expect(page.get_by_text("No conversation has these words.")).to_be_visible()
    await search.fill("violets")
    await expect(row).to_have_count(1)
    await expect(row.locator(".match")).to_have_text("Found the violets.")
    await expect(row.locator("mark")).to_have_text("violets")


async def test_a_transcript_is_forked_where_that_is_possible(serve_page: ServePage, visitor: Visitor) -> None:
    page = await recorded(serve_page, visitor)
    await expect(page.locator(".call")).to_have_count(2)
    forks = page.get_by_role("button", name="Fork here")
    await expect(forks.first).to_be_visible()
    original = page.url.rpartition("/")[2]
    await forks.first.click()
    await expect(message(page)).to_be_visible()
    assert original not in page.url
    await expect(page.locator(".said")).to_have_count(1)
    await expect(page.locator(".call")).to_have_count(0)
    await expect(page.get_by_role("heading", level=1)).to_have_text("Where are they? (fork at 1)")
    await say(page, "Another way.")
    await expect(page.locator(".said")).to_have_count(2)
    titles = page.locator(".list a")
    await expect(titles.filter(has_text="(fork at 1)")).to_have_count(1)
    await expect(titles).to_have_count(2)


async def test_calls_are_bars_and_a_table(serve_page: ServePage, visitor: Visitor) -> None:
    page = await recorded(serve_page, visitor)
    await page.get_by_role("tab", name="Calls").click()
    await expect(page.get_by_role("img", name="Timeline of 2 calls; the table below has the same.")).to_be_visible()
    await expect(page.locator(".timeline rect")).to_have_count(2)
    rows = page.get_by_role("region", name="Calls").locator("tbody tr")
    await expect(rows.nth(0)).to_contain_text("done")
    await expect(rows.nth(1)).to_contain_text("failed: execution")
    await page.get_by_role("tab", name="Calls").press("ArrowRight")
    await expect(page.get_by_role("tab", name="Tokens")).to_be_focused()
    await expect(page.locator("tfoot")).to_have_text(re.compile(r"All\s*2,500\s*70"))


async def test_the_journal_is_verified(serve_page: ServePage, visitor: Visitor) -> None:
    page = await recorded(serve_page, visitor)
    await button(page, "Verify").click()
    await expect(page.locator("p.notice")).to_have_text(re.compile(r"Verified \d+ lines, none altered\."))


async def test_a_recorded_conversation_is_opened_as_a_chat(serve_page: ServePage, visitor: Visitor) -> None:
    page = await recorded(serve_page, visitor)
    await page.get_by_role("link", name="Open", exact=True).click()
    await expect(message(page)).to_be_visible()
    await expect(page.locator(".text", has_text="Found the violets.")).to_be_visible()


async def test_tools_and_the_reasons_why_some_are_missing(serve_page: ServePage, visitor: Visitor) -> None:
    page = await visitor.open((await serve_page(looking(), tool("look"), tool("fail", fails))).link())
    await page.get_by_role("link", name="Tools").click()
    mine = page.locator(".ensemble", has=page.get_by_role("heading", name="mine", exact=True))
    await expect(mine).to_contain_text("2 tools")
    await expect(mine.locator(".badge").first).to_have_text("enabled")
    await mine.locator("> summary").click()
    await expect(mine.locator(".tool")).to_have_count(2)
    # What is bundled and not enabled says how to add it.
    await expect(page.locator(".ensemble", has=page.get_by_role("heading", name="git", exact=True))).to_contain_text(
        "git"
    )
    await page.get_by_role("searchbox", name="Search tools").fill("no such tool")
    await expect(page.get_by_text("No tool has these words.")).to_be_visible()


class Recorded:
    """Cassettes of which there is one, with two steps."""

    async def names(self) -> list[str]:
        return ["violets"]

    async def steps(self, name: str) -> list[dict[str, str]]:
        return [
            {"kind": "request", "title": "The model is asked", "text": "Where are they?"},
            {"kind": "answer", "title": "The model answers", "text": "<b>Here.</b>"},
        ]


async def test_a_cassette_is_replayed_step_by_step(serve_page: ServePage, visitor: Visitor) -> None:
    page = await visitor.open((await serve_page(scripted(says()), cassettes=Recorded())).link())
    await page.get_by_role("link", name="Replay").click()
    await page.get_by_role("link", name="violets").click()
    await expect(page.get_by_text("Not live", exact=True)).to_be_visible()
    await expect(page.get_by_text("Where are they?")).to_be_visible()
    await expect(button(page, "Previous")).to_be_disabled()
    await button(page, "Next").click()
    await expect(page.get_by_role("heading", name="The model answers")).to_be_visible()
    await expect(page.get_by_text("<b>Here.</b>")).to_be_visible()
    await expect(button(page, "Next")).to_be_disabled()
