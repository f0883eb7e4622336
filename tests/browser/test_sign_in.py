"""A browser signs in with a link, once; and says a first message."""

import pytest
from playwright.async_api import expect

from ripieno.cli.serve.web import opened
from tests.browser.conftest import ServePage, Visit
from tests.support.browsers import Visitor
from tests.support.scripted_models import says, scripted


async def test_a_link_signs_in_and_leaves_no_trace(serve_page: ServePage, visitor: Visitor) -> None:
    served = await serve_page(scripted(says("Hello.")))
    link = served.link()
    page = await visitor.open(link)
    await expect(page.get_by_role("textbox", name="Message")).to_be_visible()
    code = link.partition("=")[2]
    assert code not in page.url
    assert await page.evaluate("document.cookie") == ""
    # Neither the code nor the token is sent in an address.
    token = await page.evaluate("Object.values(sessionStorage).find((one) => one.length > 40)")
    assert token
    assert not [one for one in visitor.requests if code in one.partition("#")[0] or token in one]
    # It is signed in after a reload.
    await page.reload()
    await expect(page.get_by_role("textbox", name="Message")).to_be_visible()


async def test_a_link_signs_in_one_browser_only(serve_page: ServePage, visit: Visit) -> None:
    served = await serve_page(scripted(says("Hello.")))
    link = served.link()
    first, second = await visit(), await visit()
    page = await first.open(link)
    await expect(page.get_by_role("textbox", name="Message")).to_be_visible()
    second.allowed.append("status of 401")
    refused = await second.open(link)
    await expect(refused.get_by_text("This link is not valid, was used, or has expired")).to_be_visible()
    await expect(refused.get_by_text("ripieno serve web", exact=True)).to_be_visible()
    assert served.refused == [None]
    assert (await second.context.cookies(), await first.context.cookies()) == ([], [])


async def test_a_page_without_a_session_says_how_a_running_server_gives_a_new_link(
    serve_page: ServePage, visit: Visit
) -> None:
    served = await serve_page(scripted(says("Hello.")))
    link = served.link()
    page = await (await visit()).open(link)
    await expect(page.get_by_role("textbox", name="Message")).to_be_visible()
    second = await visit()
    second.allowed.append("status of 401")
    other = await second.open(served.url)
    await expect(other.get_by_text("If it is running already, open its link here, also a used one")).to_be_visible()
    await other.goto(link)
    await expect(other.get_by_text("The terminal of ripieno serve web has another.")).to_be_visible()
    # The terminal is told to print one.
    assert served.refused == [None]


async def test_a_new_tab_of_the_same_browser_needs_no_link(serve_page: ServePage, visitor: Visitor) -> None:
    served = await serve_page(scripted(says("Hello.")))
    first = await visitor.open(served.link())
    await expect(first.get_by_role("textbox", name="Message")).to_be_visible()
    second = await visitor.open(served.url)
    await expect(second.get_by_role("textbox", name="Message")).to_be_visible()


async def test_the_file_that_opens_the_browser_signs_in(
    serve_page: ServePage, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = await serve_page(scripted(says("Hello.")))
    files: list[str] = []
    monkeypatch.setattr("ripieno.cli.serve.web.open_page", files.append)
    with opened(served.link()):
        visitor.origins.add(served.url.rstrip("/"))
        page = await visitor.open(files[0])
        await expect(page.get_by_role("textbox", name="Message")).to_be_visible()


async def test_a_message_and_its_answer(serve_page: ServePage, visitor: Visitor) -> None:
    text = "**Bold** and `code`.\n\n```python\nprint(1)\n```"
    served = await serve_page(scripted(says(text)))
    page = await visitor.open(served.link())
    box = page.get_by_role("textbox", name="Message")
    await box.fill("Hello there.")
    await box.press("Enter")
    await expect(page.get_by_text("Hello there.").first).to_be_visible()
    await expect(page.locator("strong", has_text="Bold")).to_be_visible()
    await expect(page.locator("pre code span", has_text="print")).to_be_visible()


async def test_beneath_a_path(serve_page: ServePage, visitor: Visitor) -> None:
    served = await serve_page(scripted(says("Hello.")), path="/deep/ripieno/")
    page = await visitor.open(served.link())
    box = page.get_by_role("textbox", name="Message")
    await box.fill("Hello there.")
    await box.press("Enter")
    await expect(page.locator(".text", has_text="Hello.")).to_be_visible()


@pytest.mark.parametrize("way", ["link", "field"])
async def test_who_signs_in_again_stays_in_their_place(serve_page: ServePage, visitor: Visitor, way: str) -> None:
    served = await serve_page(scripted(says()))
    page = await visitor.open(f"{served.url}#/journal")
    if way == "link":
        await expect(page.get_by_text("This page needs a new link. Run:")).to_be_visible()
        await page.goto(served.link())
    else:
        await page.get_by_label("Or a code or key").fill(served.link().rpartition("=")[2])
        await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("heading", name="Journal", level=1)).to_be_visible()
    assert page.url == f"{served.url}#/journal"
