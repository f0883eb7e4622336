"""What becomes of the page when its server ends, its tab is hidden, or another person uses it."""

import contextlib
import dataclasses
import pathlib
import shutil
from typing import Any

import pytest
from playwright.async_api import expect

from ripieno.approvals import Answer, Approve, Deny, Given
from ripieno.conducting.paused import Paused, PausedStore
from ripieno.servers.chat.questions import binding_of
from ripieno.servers.http.listeners import bind
from ripieno.storage.dispatch.contract import Submission
from tests.browser.conftest import ServePage, Visit
from tests.browser.steps import asked, begin, button, held, hide, message, question, say, writing
from tests.support.browsers import Visitor
from tests.support.chats import Written
from tests.support.scripted_models import invoke, invokes, says, scripted, tool
from tests.support.web_pages import FIRST, ServedPage, serving_page

#: What a browser reports when its server is gone, or knows its token no more.
GONE = (
    "ERR_CONNECTION_REFUSED",
    "ERR_INCOMPLETE_CHUNKED",
    "ERR_CONNECTION_RESET",
    "ERR_EMPTY",
    "ERR_SOCKET_NOT_CONNECTED",
    "status of 401",
)


async def test_a_server_is_restarted_during_an_open_question(visitor: Visitor, tmp_path: pathlib.Path) -> None:
    written = Written()
    visitor.allowed.extend(GONE)
    async with contextlib.AsyncExitStack() as first:
        served = await first.enter_async_context(serving_page(tmp_path, writing(), written.definition))
        page = await asked(visitor, served)
        await first.aclose()
        # Bound at once: another program could take the port while the page waits.
        listener = bind("127.0.0.1", served.port)
        await expect(page.get_by_text("Reconnecting …")).to_be_visible()
        await expect(question(page)).to_have_count(1)
    again = scripted(says("Done after all."))
    async with serving_page(tmp_path, again, written.definition, listener=listener) as restarted:
        await expect(page.get_by_text("This page needs a new link. Run:")).to_be_visible()
        conversation = page.url.partition("#")[2]
        await page.goto(restarted.link())
        await expect(message(page)).to_be_visible()
        await page.goto(f"{restarted.url}#{conversation}")
        await expect(question(page)).to_have_count(1)
        await expect(button(page, "Approve")).to_be_enabled()
        await button(page, "Approve").click()
        await expect(page.locator(".text", has_text="Done after all.")).to_be_visible()
        assert written.texts == ["one"]
        await page.close()


@pytest.mark.parametrize("answer", ["Approve", "Deny"])
async def test_an_answer_that_the_server_did_not_get_is_kept_and_sent_again(
    visitor: Visitor, tmp_path: pathlib.Path, answer: str
) -> None:
    written = Written()
    visitor.allowed.extend(GONE)
    async with contextlib.AsyncExitStack() as first:
        served = await first.enter_async_context(serving_page(tmp_path, writing(), written.definition))
        page = await asked(visitor, served)
        await expect(button(page, "Approve")).to_be_enabled()
        if answer == "Deny":
            await button(page, "Deny").click()
            await page.get_by_label("Reason").fill("Not today.")
        await first.aclose()
        listener = bind("127.0.0.1", served.port)
        await button(page, "Deny this call" if answer == "Deny" else "Approve").click()
        unsent = question(page).get_by_role("alert")
        words = f"Your {'denial' if answer == 'Deny' else 'approval'} was not sent. The server does not answer."
        await expect(unsent).to_contain_text(words)
    again = scripted(says("Done after all."))
    async with serving_page(tmp_path, again, written.definition, listener=listener) as restarted:
        await expect(page.get_by_text("This page needs a new link. Run:")).to_be_visible()
        conversation = page.url.partition("#")[2]
        await page.goto(restarted.link())
        await expect(message(page)).to_be_visible()
        await page.goto(f"{restarted.url}#{conversation}")
        await expect(unsent).to_contain_text(words.partition(".")[0])
        await button(page, "Send again").click()
        await expect(page.locator(".text", has_text="Done after all.")).to_be_visible()
        assert written.texts == ([] if answer == "Deny" else ["one"])
        assert ("Not today." in str(again.asked)) == (answer == "Deny")
        await page.close()


#: Whether the page has loaded what it loads when it is idle.
ALL_LOADED = """
() => ["answers", "approvals", "details", "dialogs", "form", "journal", "pretty", "replay", "timeline", "tools"]
  .every((name) => performance.getEntriesByName(new URL(`static/${name}.js`, location).href).length)
"""


async def left_waiting(visitor: Visitor, served: ServedPage) -> tuple[PausedStore, Paused]:
    """A conversation whose page was closed at its question, and its store."""
    page = await asked(visitor, served)
    await page.close()
    paused = PausedStore(served.chat.journal.database)
    kept = paused.load(page.url.rpartition("/")[2])
    assert kept is not None
    return paused, kept


async def test_a_question_that_is_answered_elsewhere_has_no_buttons(visitor: Visitor, tmp_path: pathlib.Path) -> None:
    written = Written()
    visitor.allowed.extend(GONE)
    async with serving_page(tmp_path, writing(), written.definition) as served:
        paused, kept = await left_waiting(visitor, served)
        identifier = kept.identifier
        # As if a worker had conducted its run.
        paused.save(dataclasses.replace(kept, submission=Submission(identifier="run", conversation=identifier)))
    async with serving_page(tmp_path, writing(), written.definition) as served:
        page = await visitor.open(served.link())
        for place, title in ((f"chat/{identifier}", "Begin."), ("approvals", "Approvals")):
            await page.goto(f"{served.url}#/{place}")
            await expect(page.locator(".header h1")).to_have_text(title)
            await expect(question(page)).to_contain_text(f"ripieno approvals show {identifier[:8]}")
            await expect(question(page).get_by_role("button")).to_have_count(0)
            await expect(page.get_by_text("If you write instead of answering")).to_have_count(0)
        await page.close()


@pytest.mark.parametrize(("answer", "words"), [(Approve(), "approved"), (Deny("No."), "denied")])
async def test_a_call_that_was_answered_at_a_terminal_goes_on_with_continue(
    visitor: Visitor, tmp_path: pathlib.Path, answer: Answer, words: str
) -> None:
    written = Written()
    visitor.allowed.extend(GONE)
    async with serving_page(tmp_path, writing(), written.definition) as served:
        paused, kept = await left_waiting(visitor, served)
        identifier = kept.identifier
        (waiting,) = kept.conversation.waiting
        paused.answer(identifier, {"first": Given(answer=answer, binding=binding_of(waiting))})
    async with serving_page(tmp_path, scripted(says("Done.")), written.definition) as served:
        page = await visitor.open(served.link())
        await page.goto(f"{served.url}#/chat/{identifier}")
        await expect(page.locator(".call .state")).to_have_text(f"{words}; go on with Continue")
        await expect(page.locator(".notice")).to_contain_text("Every question has its answer.")
        await button(page, "Continue").click()
        await expect(page.locator(".text")).to_have_text("Done.")
        await expect(page.locator(".call .state")).to_have_text("denied" if words == "denied" else "done")
        assert written.texts == ([] if words == "denied" else ["one"])
        await page.close()


async def test_a_server_that_is_gone_during_a_run_is_not_said_to_work(visitor: Visitor, tmp_path: pathlib.Path) -> None:
    visitor.allowed.extend(GONE)
    steps, _ = held("I begin, and ", "never end.")
    async with contextlib.AsyncExitStack() as server:
        served = await server.enter_async_context(serving_page(tmp_path, scripted(steps)))
        page = await begin(visitor, served, "About apples")
        await expect(page.locator(".text")).to_have_text("I begin, and")
        await expect(page).to_have_title("… About apples · ripieno")
        working = page.locator(".working")
        await expect(working).to_have_text("Working")
        # A server that is killed says nothing of the end of its runs.
        await page.route("**/api/**", lambda route: route.abort())
        visitor.allowed.append("ERR_FAILED")
        await hide(page, True)
        await hide(page, False)
        await expect(working).to_have_text("The server does not answer.")
        await expect(page).to_have_title("About apples · ripieno")
        await page.unroute("**/api/**")
        await expect(working).to_have_text("Working")
        await expect(page).to_have_title("… About apples · ripieno")
        await page.close()


@pytest.mark.parametrize("killed", [False, True])
async def test_a_run_that_ended_with_its_server_says_so_and_is_continued(
    visitor: Visitor, tmp_path: pathlib.Path, *, killed: bool
) -> None:
    written = Written()
    visitor.allowed.extend(GONE)
    quiet = tool("write", written, schema={"type": "object"})
    steps, _ = held("I begin, and ", "never end.")
    begun = [] if killed else ["I begin, and", "This answer was cut off."]
    folder, left = tmp_path / "folder", tmp_path / "left"
    folder.mkdir()
    async with serving_page(folder, scripted(invokes(invoke("write", text="one")), steps), quiet) as served:
        page = await begin(visitor, served)
        await expect(page.locator(".text")).to_have_text("I begin, and")
        if killed:
            # The files as a server leaves them that is killed now.
            shutil.copytree(folder, left)
        conversation = page.url.partition("#")[2]
        await page.close()
    if killed:
        shutil.rmtree(folder)
        left.rename(folder)
    async with serving_page(folder, scripted(says("Found.")), quiet) as served:
        page = await visitor.open(served.link())
        await expect(message(page)).to_be_visible()
        await page.goto(f"{served.url}#{conversation}")
        # What had come of its answer is there unless the server was killed; nobody has stopped it.
        for _ in range(2):
            await expect(page.locator(".notice").last).to_contain_text("The server ended before this run did.")
            await expect(page.locator(".text, .notice:not(:last-child)")).to_have_text(begun)
            await page.reload()
        await button(page, "Continue").click()
        await expect(page.locator(".text, .notice")).to_have_text([*begun, "Found."])
        assert written.texts == ["one"]
        await page.close()


#: Goes to the journal as soon as the page is drawn, before it can have asked for changes of the address.
HURRIED = """
new MutationObserver((_, observer) => {
  if (!document.querySelector(".frame")) return;
  observer.disconnect();
  history.replaceState(null, "", "#/journal");
  dispatchEvent(new HashChangeEvent("hashchange"));
}).observe(document, { childList: true, subtree: true });
"""


async def test_an_address_that_changes_while_the_page_is_drawn_is_followed(
    serve_page: ServePage, visitor: Visitor
) -> None:
    served = await serve_page(scripted(says("Hello.")))
    await visitor.context.add_init_script(HURRIED)
    page = await visitor.open(served.link())
    await expect(page.get_by_role("heading", name="Journal")).to_be_visible()


async def test_a_stream_that_breaks_is_followed_again(serve_page: ServePage, visitor: Visitor) -> None:
    steps, go = held("One ", "two ", "three.")
    served = await serve_page(scripted(steps))
    page = await visitor.open(served.link())
    visitor.allowed.append("ERR_FAILED")
    await say(page, "Begin.")
    await expect(page.locator(".text")).to_have_text("One")
    await page.route("**/events", lambda route: route.abort())
    await hide(page, True)
    await hide(page, False)
    await expect(page.get_by_text("Reconnecting …")).to_be_visible()
    await page.unroute("**/events")
    await expect(page.get_by_text("Reconnecting …")).to_have_count(0)
    go.set()
    await expect(page.locator(".text")).to_have_text("One two three.")


async def test_a_hidden_tab_has_no_stream_and_catches_up(serve_page: ServePage, visitor: Visitor) -> None:
    steps, go = held("One ", "two.")
    served = await serve_page(scripted(steps))
    page = await begin(visitor, served)
    await expect(page.locator(".text")).to_have_text("One")
    async with page.expect_event("requestfailed", lambda request: request.url.endswith("/events")):
        await hide(page, True)
    go.set()
    async with page.expect_request("**/events") as followed:
        await hide(page, False)
    assert "last-event-id" in await (await followed.value).all_headers()
    await expect(page.locator(".text")).to_have_text("One two.")
    await expect(page.locator(".said")).to_have_count(1)


async def test_a_lost_place_is_found_again_with_a_snapshot(serve_page: ServePage, visitor: Visitor) -> None:
    served = await serve_page(scripted(says("First."), says("Second.")))
    page = await begin(visitor, served)
    await expect(page.locator(".text", has_text="First.")).to_be_visible()

    async def forget(route: Any) -> None:
        await route.continue_(headers={**route.request.headers, "last-event-id": "0-0"})

    await page.route("**/events", forget, times=1)
    await hide(page, True)
    await hide(page, False)
    await say(page, "More.")
    await expect(page.locator(".text", has_text="Second.")).to_be_visible()
    await expect(page.locator(".text", has_text="First.")).to_have_count(1)


async def test_two_owners_see_nothing_of_each_other(serve_page: ServePage, visit: Visit) -> None:
    served = await serve_page(writing(), Written().definition)
    ada, bob = await visit(), await visit()
    hers = await asked(ada, served, owner="ada")
    bob.allowed.append("status of 404")
    his = await bob.open(served.link("bob"))
    await expect(his.get_by_text("No conversations yet.")).to_be_visible()
    await his.goto(hers.url)
    await expect(his.get_by_text("There is no such conversation.")).to_be_visible()
    await his.get_by_role("link", name="Approvals").click()
    await expect(his.get_by_text("Nothing waits for you.")).to_be_visible()
    await his.get_by_role("link", name="Journal").click()
    await expect(his.get_by_text("The journal is empty.")).to_be_visible()
    await expect(question(hers)).to_have_count(1)


@pytest.mark.parametrize("path", ["/a/", "/deep/er/"])
async def test_every_view_works_beneath_a_path(serve_page: ServePage, visitor: Visitor, path: str) -> None:
    page = await begin(visitor, await serve_page(scripted(says("Hello.")), path=path))
    await expect(page.locator(".text", has_text="Hello.")).to_be_visible()
    for view in ("Approvals", "Journal", "Tools", "Replay"):
        await page.get_by_role("link", name=view).click()
        await expect(page.get_by_role("heading", name=view, level=1)).to_be_visible()
        await expect(page.get_by_text("Loading …")).to_have_count(0)
        await expect(page.locator(".notice.bad")).to_have_count(0)


async def test_a_chat_loads_little_before_it_is_idle(serve_page: ServePage, visitor: Visitor) -> None:
    # A clock of the test would have no entries of what was loaded.
    page = await begin(visitor, await serve_page(writing(), Written().definition))
    await button(page, "Approve").click()
    await expect(page.locator(".text", has_text="Done.")).to_be_visible()
    await page.wait_for_function(ALL_LOADED)
    sizes = await page.evaluate(
        """() => performance.getEntries()
            .filter((one) => /\\/(static\\/.*)?(#.*)?$/.test(one.name) && one.encodedBodySize)
            .toSorted((one, other) => one.startTime - other.startTime)
            .map((one) => [one.name.replace(/.*[/]/, ""), one.encodedBodySize])"""
    )
    names = [name for name, _ in sizes]
    first = sizes[: names.index("sign_in.js")]
    assert {"page.css", "preact.module.js", "question.js"} <= {name for name, _ in first}
    assert 20 * 1024 < sum(size for _, size in first) <= FIRST, first
    assert {"answers.js", "form.js", "journal.js", "timeline.js", "views.css"} <= {*names} - {name for name, _ in first}


async def test_forms_and_views_are_there_while_the_server_is_away(visitor: Visitor, tmp_path: pathlib.Path) -> None:
    visitor.allowed.extend(GONE)
    async with contextlib.AsyncExitStack() as first:
        page = await asked(
            visitor, await first.enter_async_context(serving_page(tmp_path, writing(), Written().definition))
        )
        await page.wait_for_function(ALL_LOADED)
        await first.aclose()
        await expect(page.get_by_text("Reconnecting …")).to_be_visible()
        await button(page, "Deny").click()
        await expect(page.get_by_role("textbox", name="Reason")).to_be_focused()
        for view in ("Approvals", "Journal", "Tools", "Replay"):
            await page.get_by_role("link", name=view).click()
            await expect(page.get_by_role("heading", name=view, level=1)).to_be_visible()
            await expect(page.get_by_text("This part of the page cannot be loaded.")).to_have_count(0)
        await page.close()


async def test_a_view_that_cannot_be_loaded_says_so_and_is_tried_again(serve_page: ServePage, visit: Visit) -> None:
    visitor = await visit(viewport={"width": 375, "height": 700})
    visitor.allowed.append("net::ERR_FAILED")
    # Some browsers try a module again that they did not get, others never.
    await visitor.context.route("**/tools.js", lambda route: route.abort())
    page = await begin(visitor, await serve_page(scripted(says("Hello."))))
    opener = page.get_by_role("button", name="Conversations and views")
    await opener.click()
    await page.get_by_role("link", name="Tools").click()
    await expect(page.get_by_role("alert")).to_contain_text("This part of the page cannot be loaded.")
    # The way to the other views is there still.
    await expect(opener).to_be_visible()
    await visitor.context.unroute("**/tools.js")
    await button(page, "Try again").click()
    await expect(page.get_by_role("button", name="Look again")).to_be_visible()
