"""A conversation on the page: streams, reloads, tabs, calls, results, and the list beside it."""

import asyncio
import base64
import contextlib
import itertools
import pathlib
import re
import struct
import zlib
from typing import Any

import pytest
from playwright.async_api import Error, FilePayload, Route, expect

from ripieno.canisters import (
    AssistantCanister,
    Conversation,
    ImageContent,
    OpaqueContent,
    TextualContent,
    UserCanister,
)
from ripieno.canisters.events import ContentSealed, ReasoningDelta, TextDelta, TurnBegan, TurnEnded
from ripieno.exceptions import ProviderFailure, ToolFault
from ripieno.jsonvalues import freeze
from tests.browser.conftest import ServePage, Visit
from tests.browser.steps import begin, button, ended, held, hide, message, say
from tests.support.browsers import Visitor
from tests.support.chats import assembled
from tests.support.scripted_models import invoke, invokes, says, scripted, tool

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


async def test_deltas_are_text_and_the_sealed_text_is_rendered(serve_page: ServePage, visitor: Visitor) -> None:
    steps, go = held("Some **bo", "ld** words.")
    page = await begin(visitor, await serve_page(scripted(steps)))
    await expect(page.locator(".text")).to_have_text("Some **bo")
    go.set()
    await expect(page.locator(".text strong")).to_have_text("bold")
    await expect(page.locator(".text")).to_have_text("Some bold words.")


async def test_a_reload_in_mid_stream_loses_and_doubles_nothing(serve_page: ServePage, visitor: Visitor) -> None:
    steps, go = held("One ", "two ", "three.")
    page = await begin(visitor, await serve_page(scripted(steps)))
    await expect(page.locator(".text")).to_have_text("One")
    await page.reload()
    await expect(page.locator(".text")).to_have_text("One")
    await expect(page.get_by_text("Working")).to_be_visible()
    go.set()
    await expect(page.locator(".text")).to_have_text("One two three.")
    await expect(page.get_by_text("Working")).to_have_count(0)
    await expect(page.locator(".said")).to_have_count(1)


async def test_two_tabs_show_the_same(serve_page: ServePage, visitor: Visitor) -> None:
    served = await serve_page(scripted(says("First answer."), says("Second answer.")))
    one = await begin(visitor, served)
    await expect(one.locator(".text", has_text="First answer.")).to_be_visible()
    two = await visitor.open(one.url)
    await expect(two.locator(".text", has_text="First answer.")).to_be_visible()
    await say(two, "And now?")
    for page in (one, two):
        await expect(page.locator(".text", has_text="Second answer.")).to_be_visible()
        await expect(page.locator(".said").nth(1)).to_contain_text("And now?")


#: What the page says beside the button that asks again.
STOPPED = "The run was stopped before its answer was complete."


async def test_a_run_is_stopped(serve_page: ServePage, visitor: Visitor) -> None:
    steps, _ = held("I begin, and ", "never end.")
    page = await begin(visitor, await serve_page(scripted(steps, says("Again."))))
    await expect(button(page, "Queue")).to_be_disabled()
    await expect(page.locator(".text")).to_have_text("I begin, and")
    await button(page, "Stop").click()
    await expect(page.locator(".notice", has_text="Stopped.")).to_be_visible()
    await expect(button(page, "Stop")).to_have_count(0)
    # What it had written stays, and the model reads none of it.
    for _ in range(2):
        await expect(page.locator(".text")).to_have_text("I begin, and")
        await expect(page.locator(".notice")).to_have_text(["Stopped.", re.compile(STOPPED)])
        await page.reload()
    await button(page, "Ask again").click()
    texts = page.locator(".text, .notice")
    for _ in range(2):
        await expect(texts).to_have_text(["I begin, and", "Stopped.", "Again."])
        await page.reload()
    # Its transcript shows it, too.
    await ended(page)
    await page.goto(page.url.replace("/chat/", "/journal/"))
    await expect(texts).to_have_text(["I begin, and", "Stopped.", "Again."])


async def test_a_stop_that_fails_says_so_in_view(serve_page: ServePage, visit: Visit) -> None:
    visitor = await visit(viewport={"width": 1000, "height": 600})
    visitor.allowed.append("ERR_FAILED")
    steps, _ = held("\n\n".join(["I begin, and"] * 100), "never end.")
    page = await begin(visitor, await serve_page(scripted(steps)))
    await expect(page.locator(".text")).to_contain_text("I begin, and")
    log = page.get_by_role("region", name="Conversation", exact=True)
    await log.evaluate("(one) => one.scrollTo(0, 0)")
    await page.route("**/stop", lambda route: route.abort(), times=1)
    await button(page, "Stop").click()
    failed = page.get_by_role("alert").filter(has_text="The server does not answer.")
    await expect(failed).to_be_in_viewport(ratio=1)
    await button(page, "Stop").click()
    await expect(page.locator(".notice", has_text=STOPPED)).to_be_attached()
    await expect(failed).to_have_count(0)


async def test_a_run_is_stopped_with_a_key_outside_of_dialogs_and_other_fields(
    serve_page: ServePage, visit: Visit
) -> None:
    visitor = await visit(viewport={"width": 375, "height": 700})
    steps, _ = held("I begin, and ", "never end.")
    page = await begin(visitor, await serve_page(scripted(steps)))
    await expect(button(page, "Stop")).to_have_attribute("aria-keyshortcuts", "Escape")
    stopped = page.locator(".notice", has_text=STOPPED)
    # Esc first closes what is open.
    opener = page.get_by_role("button", name="Conversations and views")
    await opener.click()
    await page.get_by_role("searchbox", name="Search conversations").press("Escape")
    await expect(page.locator(".drawn")).to_have_count(0)
    await button(page, "Rename").click()
    await page.get_by_role("textbox", name="Title").press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(button(page, "Stop")).to_be_visible()
    await expect(stopped).to_have_count(0)
    await message(page).fill("Half a thought")
    await message(page).press("Escape")
    await expect(stopped).to_be_visible()
    await expect(message(page)).to_have_value("Half a thought")


async def test_a_run_that_is_stopped_after_a_call_is_continued(serve_page: ServePage, visitor: Visitor) -> None:
    model = scripted(invokes(invoke("look")), [TurnBegan(), asyncio.Event().wait], says("Found."))
    page = await begin(visitor, await serve_page(model, tool("look")))
    await expect(page.locator(".call .state")).to_have_text("done")
    await button(page, "Stop").click()
    for _ in range(2):
        await expect(button(page, "Continue")).to_be_visible()
        await page.reload()
    await button(page, "Continue").click()
    await expect(page.locator(".text", has_text="Found.")).to_be_visible()
    assert len(model.asked) == 3


async def test_a_run_that_is_stopped_twice_says_so_once(serve_page: ServePage, visitor: Visitor) -> None:
    never = asyncio.Event()
    page = await begin(visitor, await serve_page(scripted([TurnBegan(), never.wait])))
    for _ in range(2):
        await button(page, "Stop").click()
        await expect(button(page, "Stop")).to_have_count(0)
        await expect(page.locator(".notice")).to_have_text(["Stopped.", re.compile(STOPPED)])
        await button(page, "Ask again").click()
    await expect(button(page, "Stop")).to_have_count(1)


async def test_a_snapshot_that_comes_late_replaces_no_newer_one(serve_page: ServePage, visitor: Visitor) -> None:
    steps, go = held("One ", "two.")
    served = await serve_page(scripted(steps))
    page = await begin(visitor, served)
    await expect(page.locator(".text")).to_have_text("One")
    late, asked = asyncio.Event(), asyncio.Event()

    async def slow(route: Route) -> None:
        answer = await route.fetch()
        asked.set()
        await late.wait()
        with contextlib.suppress(Error):  # The page may have left it.
            await route.fulfill(response=answer)

    await page.route("**/conversations/*?limit=*", slow, times=1)
    await page.reload(wait_until="commit")
    await asked.wait()
    await hide(page, True)
    await hide(page, False)
    await expect(page.locator(".text")).to_have_text("One")
    go.set()
    await expect(page.locator(".text")).to_have_text("One two.")
    # Nothing of it comes: the page had left this request.
    late.set()
    await message(page).fill("And now?")
    await message(page).press("Enter")
    await expect(page.locator(".said")).to_have_count(2)
    await expect(page.locator(".text").first).to_have_text("One two.")


async def test_the_text_of_a_failed_run_stays_beside_the_next_answer(serve_page: ServePage, visitor: Visitor) -> None:
    failure = ProviderFailure("scripted", "it is out of service")
    page = await begin(visitor, await serve_page(scripted([TurnBegan(), TextDelta("I be"), failure], says("Again."))))
    await button(page, "Ask again").click()
    await expect(page.locator(".text")).to_have_text(["I be", "Again."])
    await page.reload()
    await expect(page.locator(".text, .notice")).to_have_text(["I be", "This answer was cut off.", "Again."])


async def test_a_failed_run_is_continued(serve_page: ServePage, visitor: Visitor) -> None:
    failure = ProviderFailure("scripted", "it is out of service")
    page = await begin(visitor, await serve_page(scripted([TurnBegan(), failure], says("Here I am."))))
    await expect(page.locator(".notice.bad")).to_be_visible()
    await expect(page.locator(".notice").last).to_contain_text("The model has not answered.")
    await button(page, "Ask again").click()
    await expect(page.locator(".text", has_text="Here I am.")).to_be_visible()


async def test_reasoning_is_collapsed_and_stays_over_a_reload(serve_page: ServePage, visitor: Visitor) -> None:
    steps = [
        TurnBegan(),
        ReasoningDelta("First I think."),
        ContentSealed(OpaqueContent(protocol="scripted", kind="thinking", data=freeze({"thinking": "First I think."}))),
        TextDelta("Then"),
        ContentSealed(TextualContent(text="Then")),
    ]
    page = await begin(visitor, await serve_page(scripted([*steps, TurnEnded(finish="stop")])))
    for _ in range(2):
        await expect(page.locator(".text")).to_have_text("Then")
        await expect(page.get_by_text("First I think.")).to_be_hidden()
        await page.get_by_text("Reasoning", exact=True).click()
        await expect(page.get_by_text("First I think.")).to_be_visible()
        await page.reload()


async def test_code_is_copied(serve_page: ServePage, visit: Visit) -> None:
    visitor = await visit(permissions=["clipboard-read", "clipboard-write"])
    page = await begin(visitor, await serve_page(scripted(says("```python\nprint(1)\n```"))))
    await button(page, "Copy this code").click()
    await expect(page.get_by_text("Copied", exact=True)).to_be_visible()
    assert await page.evaluate("navigator.clipboard.readText()") == "print(1)\n"


async def test_an_answer_is_copied_with_a_button_and_with_a_key(serve_page: ServePage, visit: Visit) -> None:
    visitor = await visit(permissions=["clipboard-read", "clipboard-write"])
    texts = ["**One.**\n\n```\ncode\n```", "**Two.**"]
    page = await begin(visitor, await serve_page(scripted(*map(says, texts))))
    await expect(page.locator(".text strong", has_text="One.")).to_be_visible()
    await say(page, "And now?")
    await expect(page.locator(".text strong", has_text="Two.")).to_be_visible()
    # Its end is announced, too.
    await ended(page)
    await button(page.locator(".answer").first, "Copy this answer").click()
    await expect(page.locator("[data-live]")).to_contain_text("Copied.")
    assert await page.evaluate("navigator.clipboard.readText()") == texts[0]
    await page.get_by_role("region", name="Conversation", exact=True).focus()
    # Also a message of one's own.
    for place, text in ((page.locator(".answer").last, texts[1]), (page.locator(".said").last, "And now?")):
        await page.keyboard.press("k")
        await expect(place.locator(".text").or_(place).last).to_be_focused()
        await page.keyboard.press("c")
        await expect(place.get_by_text("Copied", exact=True)).to_be_visible()
        assert await page.evaluate("navigator.clipboard.readText()") == text


async def test_a_long_result_is_copied_whole(serve_page: ServePage, visit: Visit) -> None:
    whole = "".join(f"line {number}\n" for number in range(20_000))

    async def look(context: Any, arguments: Any) -> str:
        return whole

    visitor = await visit(permissions=["clipboard-read", "clipboard-write"])
    model = scripted(invokes(invoke("look")), says(f"Here.\n{whole}"))
    page = await begin(visitor, await serve_page(model, tool("look", look, output=10**6)))
    await page.locator(".call summary").click()
    await expect(page.get_by_text("Only the beginning of")).to_have_count(2)
    for name, text in {"Copy this result": whole, "Copy this answer": f"Here.\n{whole}"}.items():
        await page.evaluate("navigator.clipboard.writeText('')")
        await button(page, name).click()
        await expect(page.get_by_text("Copied", exact=True)).to_be_visible()
        assert await page.evaluate("navigator.clipboard.readText()") == text
        await expect(page.get_by_text("Copied", exact=True)).to_have_count(0)


async def test_a_call_opens_to_its_arguments_and_result(serve_page: ServePage, visitor: Visitor) -> None:
    async def look(context: Any, arguments: Any) -> str:
        return "found it"

    model = scripted(invokes(invoke("look", where="here")), says())
    page = await begin(visitor, await serve_page(model, tool("look", look)))
    call = page.locator(".call")
    await expect(call).to_contain_text("look")
    await expect(call.locator(".state")).to_have_text("done")
    await expect(call.locator(".took")).to_contain_text("ms")
    await expect(page.get_by_text("found it")).to_have_count(0)
    await call.locator("summary").click()
    await expect(call.locator("pre").first).to_have_text('{\n  "where": "here"\n}')
    await expect(page.get_by_text("found it")).to_be_visible()


async def test_a_call_has_the_same_name_and_all_digits_before_and_after_a_reload(
    serve_page: ServePage, visitor: Visitor
) -> None:
    go = asyncio.Event()

    async def look(context: Any, arguments: Any) -> str:
        await go.wait()
        return "found it"

    model = scripted(invokes(invoke("look", at=[12345678901234567890, -9007199254740993, 1e22, 7])), says())
    page = await begin(visitor, await serve_page(model, tool("look", look)))
    call = page.locator(".call")
    for state in ("running", "done"):
        if state == "done":
            go.set()
        for _ in range(2):
            await expect(call.locator(".state")).to_have_text(state)
            await expect(call.locator(".name")).to_have_text("look")
            await expect(call.locator(".gist")).to_have_text("[12345678901234567890,-9007199254740993,1e+22,7]")
            await page.reload()
    await call.locator("summary").click()
    await expect(call.locator("pre").first).to_contain_text("12345678901234567890,\n    -9007199254740993,")


async def test_a_failed_call_says_why(serve_page: ServePage, visitor: Visitor) -> None:
    async def fails(context: Any, arguments: Any) -> str:
        raise ToolFault("There is no such place.\none\n  two", suggestion="List the places first.")

    page = await begin(visitor, await serve_page(scripted(invokes(invoke("look")), says()), tool("look", fails)))
    call = page.locator(".call")
    await expect(call.locator(".state")).to_have_text("failed")
    await expect(call.locator(".gist")).to_have_text("There is no such place. one two")
    await call.locator("summary").click()
    # The output of a program that failed is apart from what to do.
    await expect(call.locator(".notice.bad span")).to_have_text(["There is no such place.", "List the places first."])
    await expect(call.locator(".notice.bad pre")).to_have_text("one\n  two")


async def test_progress_is_shown(serve_page: ServePage, visitor: Visitor) -> None:
    go = asyncio.Event()

    async def look(context: Any, arguments: Any) -> str:
        context.progress(3, 4, "the third part")
        await go.wait()
        return "found it"

    page = await begin(visitor, await serve_page(scripted(invokes(invoke("look")), says()), tool("look", look)))
    call = page.locator(".call")
    await expect(call.get_by_role("progressbar")).to_have_attribute("value", "3")
    await expect(call).to_contain_text("the third part")
    await expect(call.locator(".state")).to_have_text("running")
    go.set()
    await expect(call.locator(".state")).to_have_text("done")
    await expect(call.get_by_role("progressbar")).to_have_count(0)


async def test_a_picture_has_its_own_size_up_to_that_of_its_place(serve_page: ServePage, visitor: Visitor) -> None:
    async def look(context: Any, arguments: Any) -> Any:
        return [ImageContent(data=_picture(width, 200), mime_type="image/png") for width in (300, 3_000)]

    page = await begin(visitor, await serve_page(scripted(invokes(invoke("look")), says()), tool("look", look)))
    pictures = page.locator("img.picture")
    await expect(pictures).to_have_count(2)
    sizes = (
        "async (all) => (await Promise.all(all.map((one) => one.decode())), all.map((one) => [one.width, one.height]))"
    )
    small, large = await pictures.evaluate_all(sizes)
    assert small == [300, 200]
    assert 200 < large[0] < 1_500
    assert abs(large[0] / large[1] - 15) < 1


def _picture(width: int, height: int) -> bytes:
    """A grey PNG."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\x80" * width) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


async def test_the_end_stays_in_view_when_a_picture_arrives_late(serve_page: ServePage, visitor: Visitor) -> None:
    async def look(context: Any, arguments: Any) -> Any:
        return [ImageContent(data=_picture(400, 380) + bytes(100_000), mime_type="image/png")] * 2

    served = await serve_page(scripted(invokes(invoke("look")), says("The end.")), tool("look", look))
    page = await visitor.open(served.link())
    go = asyncio.Event()

    async def late(route: Route) -> None:
        await go.wait()
        await route.continue_()

    await page.route("**/contents/*", late)
    await say(page, "\n".join("Begin." for _ in range(60)))
    end = page.locator(".text", has_text="The end.")
    for _ in range(3):
        await expect(end).to_be_in_viewport()
        go.set()
        pictures = page.locator("img.picture")
        await expect(pictures).to_have_count(2)
        await pictures.evaluate_all("async (all) => Promise.all(all.map((one) => one.decode()))")
        await expect(end).to_be_in_viewport(ratio=1)
        go.clear()
        await page.reload()


async def test_images_are_blobs_and_other_data_is_saved(serve_page: ServePage, visitor: Visitor) -> None:
    svg = b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>'

    async def look(context: Any, arguments: Any) -> Any:
        other = ImageContent(data=svg, mime_type="image/svg+xml")
        return [ImageContent(data=PNG, mime_type="image/png"), other, other]

    page = await begin(visitor, await serve_page(scripted(invokes(invoke("look")), says()), tool("look", look)))
    call = page.locator(".call")
    await expect(call.locator(".state")).to_have_text("done")
    # Without opening the call.
    picture = page.locator("img.picture")
    await expect(picture).to_have_count(1)
    assert str(await picture.get_attribute("src")).startswith("blob:")
    assert await picture.evaluate("async (one) => (await one.decode(), one.naturalWidth)") == 1
    await call.locator("summary").click()
    links = call.get_by_role("link", name="Save image/svg+xml")
    await expect(links).to_have_count(2)
    one, two = [await link.bounding_box() for link in await links.all()]
    assert one is not None
    assert two is not None
    # They do not touch.
    assert two["x"] - one["x"] - one["width"] >= 4 or two["y"] - one["y"] - one["height"] >= 4
    link = links.first
    async with page.expect_download() as saved:
        await link.click()
    assert (await saved.value).suggested_filename == "content"


@pytest.mark.parametrize("lines", ["\n".join(f"line {number}" for number in range(1000)), "x" * 16_001])
async def test_a_large_result_is_laid_out_in_blocks(serve_page: ServePage, visitor: Visitor, lines: str) -> None:
    async def look(context: Any, arguments: Any) -> str:
        return lines

    page = await begin(visitor, await serve_page(scripted(invokes(invoke("look")), says()), tool("look", look)))
    await page.locator(".call summary").click()
    blocks = page.locator(".call pre.block")
    await expect(blocks.nth(1)).to_be_attached()
    assert await blocks.first.evaluate("(one) => getComputedStyle(one).contentVisibility") == "auto"
    texts = await blocks.all_text_contents()
    assert "".join(texts) == lines
    # Also a single line is more than one block.
    assert max(map(len, texts)) <= 8000
    assert all(text.endswith("\n") for text in texts[:-1]) or "\n" not in lines


async def test_the_newest_hundred_are_shown_and_earlier_ones_on_demand(serve_page: ServePage, visitor: Visitor) -> None:
    texts = [ContentSealed(TextualContent(text=f"text {number}")) for number in range(250)]
    page = await begin(visitor, await serve_page(scripted([TurnBegan(), *texts, TurnEnded(finish="stop")])))
    await expect(page.locator(".text").get_by_text("text 249", exact=True)).to_be_visible()
    await page.reload()
    await expect(page.locator(".text")).to_have_count(100)
    await button(page, "Show 100 earlier (of 151)").click()
    await expect(page.locator(".text")).to_have_count(200)
    await button(page, "Show 51 earlier (of 51)").click()
    await expect(page.locator(".text")).to_have_count(250)
    await expect(page.locator(".text").get_by_text("text 249", exact=True)).to_be_attached()


async def test_earlier_messages_come_from_the_server_on_demand(
    serve_page: ServePage, visitor: Visitor, tmp_path: pathlib.Path
) -> None:
    rounds = [
        (UserCanister.of(f"Question {number}"), AssistantCanister.of(f"Answer {number}")) for number in range(200)
    ]
    async with assembled(tmp_path, scripted(says())) as assembly:
        conversation = await assembly.conduct(Conversation.of([*itertools.chain(*rounds), UserCanister.of("Go.")]))
    steps, go = held("It begins ", "and ends.")
    page = await visitor.open((await serve_page(scripted(steps))).link())
    await page.locator(f'.list a[href$="{conversation.identifier}"]').click()
    await expect(page.locator(".said", has_text="Question 199")).to_be_visible()
    await say(page, "More.")
    await expect(page.locator(".text").last).to_have_text("It begins")
    # What is read meanwhile stays where it is.
    for shown in (200, 300, 400, 404):
        await button(page, "Show 100 earlier").or_(page.get_by_text(re.compile(r"Show \d+ earlier \(of"))).click()
        await expect(page.locator(".said, .text")).to_have_count(shown)
        await expect(page.locator(".text").last).to_have_text("It begins")
    await expect(page.get_by_text("earlier")).to_have_count(0)
    texts = await page.locator(".said, .text").all_inner_texts()
    assert [text.split("\n")[0] for text in texts[:400]] == [
        f"{kind} {number}" for number in range(200) for kind in ("Question", "Answer")
    ]
    go.set()
    await expect(page.locator(".text").last).to_have_text("It begins and ends.")


async def test_a_title_is_changed_everywhere(serve_page: ServePage, visitor: Visitor) -> None:
    page = await begin(visitor, await serve_page(scripted(says())), "The first words")
    await expect(page.get_by_role("heading", level=1)).to_have_text("The first words")
    other = await visitor.open(page.url)
    await expect(other.get_by_role("heading", level=1)).to_have_text("The first words")
    await button(page, "Rename").click()
    await page.get_by_role("textbox", name="Title").fill("A better title")
    await page.get_by_role("textbox", name="Title").press("Enter")
    for one in (page, other):
        await expect(one.get_by_role("heading", level=1)).to_have_text("A better title")
        await expect(one.locator(".list a")).to_contain_text("A better title")


async def test_a_conversation_is_deleted(serve_page: ServePage, visitor: Visitor) -> None:
    page = await begin(visitor, await serve_page(scripted(says())), "Forget me")
    await expect(page.locator(".list a")).to_have_count(1)
    address = page.url
    await button(page, "Delete").click()
    await button(page.get_by_role("dialog"), "Cancel").click()
    await button(page, "Delete").click()
    await button(page.get_by_role("dialog"), "Delete").click()
    await expect(page.locator(".list a")).to_have_count(0)
    visitor.allowed.append("status of 404")
    again = await visitor.open(address)
    await expect(again.get_by_text("There is no such conversation.")).to_be_visible()


async def test_a_conversation_that_another_tab_deletes_leaves_what_was_written_to_a_new_one(
    serve_page: ServePage, visitor: Visitor
) -> None:
    model = scripted(says("First."), says("Second."))
    page = await begin(visitor, await serve_page(model), "Forget me")
    await expect(page.locator(".text")).to_have_text("First.")
    await page.get_by_role("link", name="New conversation").click()
    await expect(page.get_by_text("What shall we do?")).to_be_visible()
    await message(page).fill("Another thought")
    await page.locator(".list a").click()
    await expect(page.locator(".text")).to_have_text("First.")
    await message(page).fill("Half a thought")
    await page.get_by_label("Attach").set_input_files({"name": "dot.png", "mimeType": "image/png", "buffer": PNG})
    await expect(page.locator(".files li")).to_have_count(1)
    other = await visitor.open(page.url)
    visitor.allowed.append("status of 404")
    await button(other, "Delete").click()
    await button(other.get_by_role("dialog"), "Delete").click()
    await expect(page.get_by_role("alert").filter(has_text="This conversation was deleted.")).to_be_visible()
    # Nothing of it is left, but what was written.
    await expect(page.locator(".list a")).to_have_count(0)
    await expect(page.locator(".said, .text")).to_have_count(0)
    await expect(button(page, "Rename")).to_have_count(0)
    both = "Another thought\n\nHalf a thought"
    await expect(message(page)).to_have_value(both)
    await page.locator("main").get_by_role("link", name="New conversation").click()
    await expect(page.get_by_text("What shall we do?")).to_be_visible()
    await expect(message(page)).to_have_value(both)
    await expect(page.locator(".files li")).to_have_count(1)
    await page.go_back()
    await expect(page.get_by_text("There is no such conversation.")).to_be_visible()
    # A message begins a new one.
    await say(page, "Again.")
    await expect(page.locator(".text")).to_have_text("Second.")
    assert len(model.asked[1][0]) == 1


async def test_the_list_is_searched(serve_page: ServePage, visitor: Visitor) -> None:
    served = await serve_page(scripted(says("They are red."), says("They are green.")))
    page = await begin(visitor, served, "About apples")
    await page.get_by_role("link", name="New conversation").click()
    await expect(page.get_by_text("What shall we do?")).to_be_visible()
    await say(page, "About pears")
    await expect(page.locator(".list a")).to_have_count(2)
    await expect(page.locator(".text", has_text="green")).to_be_visible()
    search = page.get_by_role("searchbox", name="Search conversations")
    # What was said is found, too.
    await search.fill("green")
    await expect(page.locator(".list a")).to_contain_text("About pears")
    await search.fill("violets")
    await expect(page.get_by_text("No conversation has these words.")).to_be_visible()
    await search.fill("apple")
    await expect(page.locator(".list a")).to_have_count(1)
    await page.locator(".list a").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("About apples")


async def test_a_draft_stays_with_its_conversation(serve_page: ServePage, visitor: Visitor) -> None:
    page = await begin(visitor, await serve_page(scripted(says())), "About apples")
    await message(page).fill("Half a thought")
    await page.get_by_role("link", name="New conversation").click()
    await expect(message(page)).to_have_value("")
    await page.locator(".list a").click()
    await expect(message(page)).to_have_value("Half a thought")


async def test_a_draft_stays_through_a_reload_until_it_is_sent(serve_page: ServePage, visitor: Visitor) -> None:
    page = await visitor.open((await serve_page(scripted(says()))).link())
    await message(page).fill("Half a thought")
    await page.get_by_label("Attach").set_input_files({"name": "dot.png", "mimeType": "image/png", "buffer": PNG})
    await expect(page.locator(".files li")).to_contain_text("dot.png")
    await page.reload()
    await expect(message(page)).to_have_value("Half a thought")
    await expect(page.locator(".files li")).to_contain_text("dot.png")
    await message(page).press("Enter")
    await expect(page.locator(".said")).to_contain_text("Half a thought")
    await expect(page.locator(".said img")).to_be_visible()
    await page.get_by_role("link", name="New conversation").click()
    await page.reload()
    await expect(message(page)).to_have_value("")
    await expect(page.locator(".files li")).to_have_count(0)


async def test_attachments_that_the_storage_of_the_tab_cannot_keep_are_sent(
    serve_page: ServePage, visitor: Visitor
) -> None:
    page = await visitor.open((await serve_page(scripted(says()))).link())
    large: FilePayload = {"name": "large.bin", "mimeType": "application/x-large", "buffer": bytes(9_000_000)}
    small: FilePayload = {"name": "small.bin", "mimeType": "application/x-small", "buffer": b"small"}
    for files, names in (([small], ["small.bin"]), ([large], ["small.bin", "large.bin"])):
        await page.get_by_label("Attach").set_input_files(files)
        await expect(page.locator(".files li")).to_contain_text(names)
    await say(page, "What are these?")
    for _ in range(2):
        await expect(page.locator(".said")).to_contain_text("Save small.bin, 5 bytes")
        await expect(page.locator(".said")).to_contain_text("large.bin, 8.6 MB")
        await page.reload()


async def test_a_picture_is_sent(serve_page: ServePage, visitor: Visitor) -> None:
    model = scripted(says("A picture."))
    page = await visitor.open((await serve_page(model)).link())
    await page.get_by_label("Attach").set_input_files({"name": "dot.png", "mimeType": "image/png", "buffer": PNG})
    await expect(page.get_by_text("dot.png")).to_be_visible()
    await say(page, "What is it?")
    await expect(page.locator(".said img")).to_be_visible()
    await expect(page.locator(".text", has_text="A picture.")).to_be_visible()
    (canisters, _, _) = model.asked[0]
    assert isinstance(canisters[0], UserCanister)
    assert canisters[0].content[1] == ImageContent(data=PNG, mime_type="image/png", name="dot.png")


async def test_an_earlier_message_is_written_anew_in_a_fork(serve_page: ServePage, visitor: Visitor) -> None:
    model = scripted(says("First."), says("Second."), says("Third."), says("Fourth."))
    page = await begin(visitor, await serve_page(model), "One.")
    await expect(page.locator(".text", has_text="First.")).to_be_visible()
    large = _picture(30, 30) + bytes(100_000)
    files: list[FilePayload] = [
        {"name": "dot.png", "mimeType": "image/png", "buffer": PNG},
        {"name": "large.png", "mimeType": "image/png", "buffer": large},
    ]
    await page.get_by_label("Attach").set_input_files(files)
    await expect(page.get_by_text("large.png")).to_be_visible()
    await say(page, "Two.")
    await expect(page.locator(".text", has_text="Second.")).to_be_visible()
    original = page.url
    edit = page.get_by_role("button", name="Edit this message in a fork")
    # Before and after a reload, messages have their places.
    for answer in ("Third.", "Fourth."):
        await page.goto(original)
        await expect(page.locator(".text")).to_have_text(["First.", "Second."])
        await edit.last.click()
        await expect(message(page)).to_have_value("Two.")
        await expect(page.get_by_role("heading", level=1)).to_have_text("One. (fork at 2)")
        await expect(page.locator(".files li")).to_have_count(2)
        await say(page, "Two, otherwise.")
        await expect(page.locator(".text")).to_have_text(["First.", answer])
        *_, asked = model.asked[-1][0]
        assert isinstance(asked, UserCanister)
        assert [getattr(one, "data", b"") for one in asked.content] == [b"", PNG, large]
        assert getattr(asked.content[0], "text", "") == "Two, otherwise."
        await page.reload()
    # What was written there stays as it was; before the first message, there is nothing to fork.
    await page.goto(original)
    await expect(page.locator(".text")).to_have_text(["First.", "Second."])
    await edit.first.click()
    await expect(page.get_by_text("What shall we do?")).to_be_visible()
    await expect(message(page)).to_have_value("One.")


async def test_a_message_is_sent_again_in_a_fork(serve_page: ServePage, visitor: Visitor) -> None:
    model = scripted(*(says(word) for word in ("First.", "Second.", "Third.", "Fourth.")))
    page = await begin(visitor, await serve_page(model), "One.")
    await expect(page.locator(".text", has_text="First.")).to_be_visible()
    await page.get_by_label("Attach").set_input_files({"name": "dot.png", "mimeType": "image/png", "buffer": PNG})
    # A file is read first.
    await expect(page.locator(".files li")).to_contain_text("dot.png")
    await say(page, "Two.")
    await expect(page.locator(".text", has_text="Second.")).to_be_visible()
    original = page.url
    again = button(page, "Send this message again in a fork")
    await again.last.click()
    await expect(page.locator(".text")).to_have_text(["First.", "Third."])
    await expect(page.get_by_role("heading", level=1)).to_have_text("One. (fork at 2)")
    await expect(page.locator(".said img")).to_be_visible()
    assert page.url != original
    first, second = ([getattr(one, "content", ()) for one in canisters] for canisters, _, _ in model.asked[1:3])
    assert first == second
    # Before the first message, there is nothing to fork: it begins another conversation.
    await again.first.click()
    await expect(page.locator(".text")).to_have_text(["Fourth."])
    await expect(message(page)).to_have_value("")
    await page.goto(original)
    await expect(page.locator(".text")).to_have_text(["First.", "Second."])


async def test_a_conversation_is_saved_as_markdown(serve_page: ServePage, visitor: Visitor) -> None:
    whole = "".join(f"line {number}\n" for number in range(20_000))
    results = iter(("```\ncode\n```", whole))

    async def look(context: Any, arguments: Any) -> str:
        return next(results)

    async def fails(context: Any, arguments: Any) -> str:
        raise ToolFault("There is no such place.")

    calls = invokes(invoke("look", "one", where="here"), invoke("look", "two"), invoke("fails"))
    model = scripted(calls, says("**Found** it."))
    page = await visitor.open((await serve_page(model, tool("look", look, output=10**6), tool("fails", fails))).link())
    await page.get_by_label("Attach").set_input_files({"name": "dot.png", "mimeType": "image/png", "buffer": PNG})
    await expect(page.locator(".files li")).to_contain_text("dot.png")
    await say(page, "Where: is/it?")
    await expect(page.locator(".text strong")).to_have_text("Found")
    async with page.expect_download() as saving:
        await button(page, "Export").click()
    saved = await saving.value
    assert saved.suggested_filename == "Where_ is_it_.md"
    text = await asyncio.to_thread(pathlib.Path(await saved.path()).read_text, encoding="utf-8")
    assert text == EXPORTED.replace("LINES", whole)


EXPORTED = """\
# Where: is/it?

## You

Where: is/it?

*Attached: dot.png, image/png*

## Model

**Call** of `look`

```json
{
  "where": "here"
}
```

**Call** of `look`

```json
{}
```

**Call** of `fails`

```json
{}
```

````
```
code
```
````

```
LINES
```

**Error**: There is no such place.

**Found** it.
"""


async def test_a_dropped_file_is_attached_and_does_not_replace_the_page(
    serve_page: ServePage, visitor: Visitor
) -> None:
    page = await visitor.open((await serve_page(scripted(says()))).link())
    await expect(message(page)).to_be_visible()
    await page.evaluate(
        """() => {
          const carried = new DataTransfer();
          carried.items.add(new File(["one"], "notes.txt", { type: "text/plain" }));
          const event = new DragEvent("drop", { dataTransfer: carried, bubbles: true, cancelable: true });
          document.querySelector("main").dispatchEvent(event);
          if (!event.defaultPrevented) throw new Error("The browser would open the file.");
        }"""
    )
    await expect(page.locator(".files li")).to_contain_text("notes.txt")


async def test_names_of_attachments_are_shown_before_and_after_a_reload(
    serve_page: ServePage, visitor: Visitor
) -> None:
    page = await visitor.open((await serve_page(scripted(says()))).link())
    files: list[FilePayload] = [
        {"name": "dot.png", "mimeType": "image/png", "buffer": PNG},
        {"name": "notes \u202etxt.pdf", "mimeType": "application/pdf", "buffer": b"%PDF-1.7"},
    ]
    await page.get_by_label("Attach").set_input_files(files)
    await expect(page.locator(".files li")).to_have_count(2)
    await say(page, "What are these?")
    for _ in range(2):
        await expect(page.locator(".said")).to_contain_text("dot.png")
        link = page.locator(".said").get_by_role("link", name="Save notes \\u202etxt.pdf, 8 bytes")
        await expect(link).to_be_visible()
        await page.reload()
    async with page.expect_download() as saved:
        await link.click()
    assert (await saved.value).suggested_filename.endswith("txt.pdf")


@pytest.mark.parametrize(("agents", "agent"), [(["reviewer"], "reviewer"), (["reviewer", "No agent"], "")])
async def test_a_model_and_an_agent_are_chosen(
    agents: list[str], agent: str, serve_page: ServePage, visitor: Visitor
) -> None:
    served = await serve_page(scripted(says()))
    page = await visitor.context.new_page()
    models = {
        "models": [{"name": "a/one", "default": True}, {"name": "b/two", "default": False}],
        "agents": ["reviewer"],
    }
    await page.route("**/api/models", lambda route: route.fulfill(json=models))
    visitor.origins.add(served.url.rstrip("/"))
    await page.goto(served.link())
    model = page.get_by_role("combobox", name="Model")
    await expect(model).to_have_value("a/one")
    await model.select_option("b/two")
    for one in agents:
        await page.get_by_role("combobox", name="Agent").select_option(one)
    await page.route("**/messages", lambda route: route.fulfill(json={}))
    async with page.expect_request("**/messages") as sent:
        await say(page, "Hello.")
    assert (await sent.value).post_data_json == {"text": "Hello.", "model": "b/two", "agent": agent}


async def test_long_contents_are_fetched_on_demand(serve_page: ServePage, visitor: Visitor) -> None:
    async def look(context: Any, arguments: Any) -> Any:
        return [TextualContent(text="The beginning"), ImageContent(data=PNG, mime_type="image/png")]

    page = await begin(visitor, await serve_page(scripted(invokes(invoke("look")), says()), tool("look", look)))
    call = page.locator(".call")
    await expect(call.locator(".state")).to_have_text("done")
    # Until then, its result is not among the messages of a snapshot.
    await ended(page)

    async def refer(route: Route) -> None:
        answer = await route.fetch()
        snapshot = await answer.json()
        for one in snapshot["messages"]:
            if one["type"] == "result":
                text, image = one["content"]
                text |= {"bytes": 100_000, "reference": "part-0"}
                image |= {"bytes": 200_000, "reference": "part-1"}
                del image["data"]
        await route.fulfill(response=answer, json=snapshot)

    await page.route(re.compile(f"conversations/{page.url.rpartition('/')[2]}\\?"), refer)
    await page.route("**/contents/part-0", lambda route: route.fulfill(body="All of it, to the end"))
    await page.route("**/contents/part-1", lambda route: route.fulfill(body=PNG, content_type="image/png"))
    async with page.expect_request("**/contents/part-1") as asked:
        # An image in view is fetched without being asked for.
        await page.reload()
    assert (await (await asked.value).all_headers())["authorization"].startswith("Bearer ")
    assert str(await page.locator("img.picture").get_attribute("src")).startswith("blob:")
    await call.locator("summary").click()
    await expect(call.get_by_text("Only the beginning of 97.7 KB is shown.")).to_be_visible()
    async with page.expect_request("**/contents/part-0") as asked:
        await button(call, "Load all of it").click()
    assert (await (await asked.value).all_headers())["authorization"].startswith("Bearer ")
    await expect(call.locator(".output").last).to_contain_text("the end")
