"""A conversation that another process conducts, such as ``ripieno ask`` at a terminal."""

import asyncio
import pathlib

from playwright.async_api import expect

from ripieno.approvals import Answer, Approve, ConfirmationRequest
from ripieno.canisters import Conversation
from tests.browser.conftest import ServePage
from tests.support.browsers import Visitor
from tests.support.chats import assembled
from tests.support.scripted_models import Blocking, invoke, invokes, says, scripted, tool


class Terminal:
    """A terminal whose user thinks before they approve."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        del request
        await self.go.wait()
        return Approve()


async def test_a_call_says_that_it_is_asked_about_and_then_that_it_runs_there(
    serve_page: ServePage, visitor: Visitor, tmp_path: pathlib.Path
) -> None:
    served = await serve_page(scripted(says("Hello.")))
    terminal, blocking = Terminal(), Blocking()
    conversation = Conversation.of("Look.")
    identifier = conversation.identifier
    model = scripted(invokes(invoke("look", "one"), invoke("wait", "two")), says("Looked."))
    tools = (tool("look", blocking, effect="write"), tool("wait", Blocking(), effect="write"))
    async with assembled(tmp_path, model, *tools) as other:
        with served.chat.journal.database.claimed("", identifier):
            run = asyncio.ensure_future(other.conduct(conversation, confirmer=terminal))
            page = await visitor.open(served.link())
            while identifier not in [one.identifier for one in await served.chat.conversations("")]:
                """It is not in the journal yet."""
            await page.goto(f"{served.url}#/chat/{identifier}")
            states = page.locator(".call .state")
            await expect(states.first).to_have_text("asked where it runs")
            await expect(page.locator(".working")).to_be_visible()
            terminal.go.set()
            await expect(states.first).to_have_text("running")
            await page.reload()
            await expect(states.first).to_have_text("running")
            run.cancel()
            await asyncio.wait([run])
