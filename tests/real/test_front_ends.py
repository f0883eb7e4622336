"""Pages of useChat, CopilotKit and assistant-ui, as in the examples of the documentation, work in a browser."""

import asyncio
import os
import pathlib

import pytest
from playwright.async_api import Page, expect
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from ripieno.servers.chat.ag_ui.application import create_application as create_ag_ui
from ripieno.servers.chat.ai_sdk.application import create_application as create_ai_sdk
from ripieno.servers.http.server import serve
from tests.documentation.code_blocks import DOCUMENTATION
from tests.real.installing import page_modules
from tests.support.browsers import browsing
from tests.support.chats import Written, chatting
from tests.support.scripted_models import invoke, invokes, says, scripted, tool

EXAMPLES = DOCUMENTATION / "examples" / "front-ends"
HTML = (
    '<!doctype html><link rel="icon" href="data:,"><link rel="stylesheet" href="page.css">'
    '<div id="root"></div><script type="module" src="page.js"></script>'
)

#: The console of a browser names refused requests. The page of assistant-ui asks for a thread before its first message.
LICENCE = "publicLicenseKey"  # CopilotKit warns that its vendor wants one for pages without its own server
NEW_THREAD = "status of 404"


async def build(name: str, folder: pathlib.Path) -> None:
    """Bundles a page into a folder."""
    modules = page_modules(name)
    options = (
        "--bundle",
        "--format=esm",
        "--jsx=automatic",
        "--log-level=error",
        "--define:process.env.NODE_ENV='production'",
    )
    fonts = [f"--loader:.{kind}=empty" for kind in ("woff", "woff2", "ttf")]
    argv = (str(modules / ".bin" / "esbuild"), str(EXAMPLES / f"{name}.jsx"), *options, *fonts)
    environment = {**os.environ, "NODE_PATH": str(modules)}
    process = await asyncio.create_subprocess_exec(*argv, f"--outfile={folder / 'page.js'}", env=environment)
    assert await process.wait() == 0
    (folder / "page.css").touch()
    (folder / "index.html").write_text(HTML)


async def ada(request: Request) -> str | None:
    return "ada"


async def say(page: Page, text: str) -> None:
    box = page.get_by_role("textbox")
    await box.fill(text)
    await box.press("Enter")


@pytest.mark.parametrize("name", ["assistant-ui", "copilotkit", "use-chat"])
async def test_a_page(tmp_path: pathlib.Path, name: str) -> None:
    written = Written()
    model = scripted(
        says("Good morning."),
        invokes(invoke("look", "look-1")),
        says("The sky is blue."),
        invokes(invoke("write", "write-1", text="first")),
        says("It was written."),
        invokes(invoke("write", "write-2", text="second")),
        says("It was refused."),
    )
    folder = tmp_path / "page"
    folder.mkdir()
    await build(name, folder)
    async with chatting(tmp_path, model, tool("look"), written.definition) as chat:
        routes = [
            Mount("/agui", create_ag_ui(chat, authenticate=ada)),
            Mount("/api", create_ai_sdk(chat, authenticate=ada, version=6)),
            Mount("/", StaticFiles(directory=folder, html=True)),
        ]
        async with serve(Starlette(routes=routes)) as url, browsing(url, allowed=(NEW_THREAD, LICENCE)) as page:
            approve, deny = (page.get_by_role("button", name=one) for one in ("Approve", "Deny"))
            await say(page, "Hello.")
            await expect(page.get_by_text("Good morning.")).to_be_visible()
            await say(page, "Look.")
            await expect(page.get_by_text("The sky is blue.")).to_be_visible()
            await expect(page.get_by_text("look", exact=False).first).to_be_visible()
            await say(page, "Write.")
            await expect(approve).to_be_visible()
            # The question is there after a reload, and so is all that was said.
            await page.reload()
            await expect(approve).to_be_visible()
            for text in ("Hello.", "Good morning.", "Look.", "The sky is blue.", "Write."):
                await expect(page.get_by_text(text, exact=True)).to_have_count(1)
            await approve.click()
            await expect(page.get_by_text("It was written.")).to_be_visible()
            await expect(approve).to_have_count(0)
            await say(page, "Again.")
            await deny.click()
            await expect(page.get_by_text("It was refused.")).to_be_visible()
            await page.reload()
            await expect(page.get_by_text("It was refused.")).to_have_count(1)
            await expect(page.get_by_text("Again.", exact=True)).to_have_count(1)
            await expect(deny).to_have_count(0)
    assert written.texts == ["first"]
    assert len(model.asked) == 7


async def test_use_chat_edits_always_and_a_tool_of_the_page(tmp_path: pathlib.Path) -> None:
    written = Written()
    model = scripted(
        invokes(invoke("write", "write-1", text="first")),
        says("It was edited."),
        invokes(invoke("locate", "locate-1")),
        says("You are there."),
    )
    folder = tmp_path / "page"
    folder.mkdir()
    await build("use-chat", folder)
    async with chatting(tmp_path, model, written.definition, tool("locate", hosted="caller")) as chat:
        routes = [
            Mount("/api", create_ai_sdk(chat, authenticate=ada, version=6)),
            Mount("/", StaticFiles(directory=folder, html=True)),
        ]
        async with serve(Starlette(routes=routes)) as url, browsing(url, allowed=(NEW_THREAD,)) as page:
            page.on("dialog", lambda dialog: dialog.accept('{"text": "edited"}'))
            await say(page, "Write.")
            await page.get_by_role("button", name="Edit").click()
            # The edited call is shown, and asked about like any other.
            await expect(page.get_by_text('{"text":"edited"}')).to_be_visible()
            assert written.texts == []
            await page.get_by_role("button", name="Approve").click()
            await expect(page.get_by_text("It was edited.")).to_be_visible()
            await say(page, "Where am I?")
            await expect(page.get_by_text("You are there.")).to_be_visible()
            await expect(page.get_by_text("Cremona")).to_be_visible()
    assert written.texts == ["edited"]
    assert "Cremona" in str(model.asked[3][0])
