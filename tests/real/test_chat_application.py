"""The page of the tutorial's chat application, built with the commands that it prints, in a real browser."""

import pathlib
import re
import shlex
import shutil
import subprocess

from playwright.async_api import expect

from tests.documentation.code_blocks import texts
from tests.documentation.test_chat_application import EXAMPLE, SCORE, serving
from tests.support.browsers import browsing
from tests.support.command_line import User
from tests.support.users import user as user  # noqa: PLC0414  a fixture

#: A browser reports each answer that refuses: before the sign-in, for a new conversation, and for the missing icon.
REFUSED = (r"status of 401", r"status of 404")


def build(folder: pathlib.Path, commands: str) -> None:
    """Runs the commands of npm; those of pip are the environment of these tests."""
    wanted = [line.removeprefix("$ ") for line in commands.splitlines() if "npm" in line]
    assert len(wanted) == 2
    for command in wanted:
        done = subprocess.run(shlex.split(command), cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


async def test_the_page_of_the_tutorial(user: User) -> None:
    install, start = texts("tutorials/chat-application", "console", "console")
    shutil.copytree(EXAMPLE, user.workspace, dirs_exist_ok=True)
    build(user.workspace, install)
    (user.workspace / "score.toml").write_text(SCORE)
    settings = user.workspace / "settings.toml"
    with user.rehearse("score.toml") as urls:
        settings.write_text(re.sub(r"http://\S+(?=\")", urls["openai-chat"], settings.read_text()))
        with serving(user, start) as url:
            async with browsing(url, allowed=REFUSED) as page:
                await page.get_by_label("User").fill("ada")
                await page.get_by_label("Password").fill("ada's password")
                await page.get_by_role("button", name="Sign in").click()
                await page.get_by_label("Message").fill("Cancel the lamp, please.")
                await page.keyboard.press("Enter")
                await expect(page.get_by_role("button", name="Approve")).to_be_visible()
                await page.reload()
                await page.get_by_role("button", name="Approve").click()
                await expect(page.get_by_text("Canceled: a lamp.", exact=True)).to_be_visible()
                await expect(page.get_by_role("button", name="Approve")).to_have_count(0)
                await page.reload()
                await expect(page.get_by_text("Canceled: a lamp.", exact=True)).to_be_visible()
