"""The page of the tutorial's chat application, built with the commands that it prints, in a real browser."""

import pathlib
import re
import shlex
import subprocess

from playwright.async_api import Page, Route, expect

from tests.documentation.code_blocks import texts
from tests.documentation.test_chat_application import BLOCKS, serving, shop
from tests.support.browsers import browsing
from tests.support.command_line import User
from tests.support.users import user as user  # noqa: PLC0414  a fixture

#: A browser reports each answer that refuses: for a new conversation that an address names, for a question that another
#: tab has answered, and for a session that has ended. Otherwise the page asks for nothing in vain.
REFUSED = (r"status of 404.*/(left|tabs)/", r"status of 4(00|09)", r"status of 401.*/tabs/")


def build(folder: pathlib.Path, commands: str) -> None:
    """Runs the commands of npm; those of pip are the environment of these tests."""
    wanted = [line.removeprefix("$ ") for line in commands.splitlines() if "npm" in line]
    assert len(wanted) == 2
    for command in wanted:
        done = subprocess.run(shlex.split(command), cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


async def sign_in(page: Page) -> None:
    """Signs in, as the tutorial says."""
    await page.get_by_label("User").fill("ada")
    await page.get_by_label("Password").fill("ada's password")
    await page.get_by_role("button", name="Sign in").click()


async def ask(page: Page) -> None:
    """Asks for what needs an approval."""
    await page.get_by_label("Message").fill("Cancel the lamp, please.")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Approve")).to_be_visible()


async def another(page: Page, url: str, name: str) -> None:
    """Begins another conversation."""
    await page.goto(f"{url}/#{name}")
    await page.reload()


async def without_answer(route: Route) -> None:
    """Answers with the messages as they were during the run."""
    answer = await route.fetch()
    *earlier, last = (await answer.json())["messages"]
    assert (earlier[-1]["role"], last["role"]) == ("user", "assistant")
    await route.fulfill(response=answer, json={"messages": earlier})


async def test_the_page_of_the_tutorial(user: User) -> None:
    install, _, start, *_ = texts("tutorials/chat-application", *BLOCKS)
    with shop(user):
        build(user.workspace, install)
        with serving(user, start) as url:
            async with browsing(url, allowed=REFUSED) as page:
                await sign_in(page)
                await ask(page)
                await page.reload()
                await page.get_by_role("button", name="Approve").click()
                await expect(page.get_by_text("Canceled: a lamp.", exact=True)).to_be_visible()
                await expect(page.get_by_role("button", name="Approve")).to_have_count(0)
                await page.reload()
                await expect(page.get_by_text("Canceled: a lamp.", exact=True)).to_be_visible()
                # The user writes something else: the question is denied, and cannot be answered any more.
                await another(page, url, "left")
                await ask(page)
                await page.get_by_label("Message").fill("No,\nleave it.")
                await page.keyboard.press("Enter")
                await expect(page.get_by_text("cancel_order: denied")).to_be_visible()
                await expect(page.get_by_role("button", name=re.compile("Approve|Deny"))).to_have_count(0)
                await expect(page.locator("p", has_text="leave it.").first).to_have_css("white-space", "pre-wrap")
                # Another tab answers first: the page says why, and shows what the server has.
                await another(page, url, "tabs")
                await ask(page)
                tab = await page.context.new_page()
                await tab.goto(page.url)
                await tab.get_by_role("button", name="Deny").click()
                await expect(tab.get_by_role("button", name="Deny")).to_have_count(0)
                await expect(tab.get_by_role("button", name="Send")).to_be_visible()
                await page.get_by_role("button", name="Approve").click()
                await expect(page.get_by_role("alert")).to_have_text(re.compile(r"^[^{]+$"))
                await expect(page.get_by_text("cancel_order: output-")).to_be_visible()
                await expect(page.get_by_role("button", name="Approve")).to_have_count(0)
                # A tab that read the messages while a run was under way, which has ended since.
                await page.context.route("**/messages", without_answer, times=1)
                await tab.reload()
                await expect(tab.get_by_text("cancel_order: output-")).to_be_visible()
                # The session has ended: after another sign-in, the conversation is there.
                await page.context.clear_cookies()
                await page.reload()
                await sign_in(page)
                await expect(page.get_by_text("cancel_order: output-")).to_be_visible()
