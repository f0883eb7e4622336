"""The reference servers of the Python world: time, a repository, and pages of the web."""

import json
import pathlib
import subprocess

import pytest

from tests.real.playing import Stage
from tests.support.raw_http_servers import answer, web

PAGES = {
    "/page.html": ("text/html", "<html><body><article><h1>Tutti</h1><p>Everybody plays.</p></article></body></html>"),
    "/page.txt": ("text/plain", "solo " * 2000),
    "/private/page.txt": ("text/plain", "not for robots"),
    "/robots.txt": ("text/plain", "User-agent: *\nDisallow: /private/\n"),
}


def page(head: bytes, _: bytes) -> bytes:
    """A page, or that it is not there."""
    path = head.split()[1].decode()
    kind, text = PAGES.get(path, ("text/plain", "Not here."))
    status = "200 OK" if path in PAGES else "404 Not Found"
    return answer(text.encode(), f"Content-Type: {kind}; charset=utf-8", status=status)


def git(repository: pathlib.Path, *arguments: str) -> str:
    """What git itself says there."""
    argv = ["git", *arguments]
    return subprocess.run(argv, cwd=repository, check=True, capture_output=True, text=True).stdout


async def test_time_in_two_places(stage: Stage, python_servers: pathlib.Path) -> None:
    async with stage.play("time", [python_servers / "mcp-server-time", "--local-timezone", "Europe/Rome"]) as played:
        assert set(played.tools) == {"convert_time", "get_current_time"}
        assert "Europe/Rome" in str(played.ensemble.access_invoker("convert_time").arguments_schema)
        converted = await played.call(
            "convert_time", source_timezone="UTC", time="12:00", target_timezone="Asia/Kolkata"
        )
        told = json.loads(converted.text)
        assert told["time_difference"] == "+5.5h"
        assert told["target"]["datetime"].endswith("T17:30:00+05:30")
        now = json.loads((await played.call("get_current_time", timezone="Asia/Tokyo")).text)
        assert now["datetime"].endswith("+09:00")
        assert "Invalid timezone" in await played.fail("get_current_time", timezone="Atlantis")
        assert "`time`" in await played.fail("convert_time", source_timezone="UTC", target_timezone="UTC")


async def test_a_repository(stage: Stage, python_servers: pathlib.Path) -> None:
    repository = stage.workspace / "repository"
    repository.mkdir(parents=True)
    git(repository, "init", "-q", "-b", "main")
    git(repository, "config", "user.name", "Ada")
    git(repository, "config", "user.email", "ada@example.org")
    (repository / "score.txt").write_text("tutti\n")
    command = [python_servers / "mcp-server-git", "--repository", repository]
    async with stage.play("git", command) as played:
        where = {"repo_path": str(repository)}
        assert {"git_status", "git_add", "git_commit", "git_log", "git_diff_unstaged"} <= set(played.tools)
        assert "score.txt" in (await played.call("git_status", **where)).text
        await played.call("git_add", **where, files=["score.txt"])
        assert "committed successfully" in (await played.call("git_commit", **where, message="Add a score")).text
        assert git(repository, "log", "--format=%an %s") == "Ada Add a score\n"
        assert "Add a score" in (await played.call("git_log", **where, max_count=1)).text
        (repository / "score.txt").write_text("soli\n")
        difference = (await played.call("git_diff_unstaged", **where)).text
        assert "-tutti" in difference
        assert "+soli" in difference
        await played.call("git_create_branch", **where, branch_name="da-capo")
        assert "da-capo" in (await played.call("git_branch", **where, branch_type="local")).text
        # It was given one repository; another folder is none of its business.
        assert str(stage.folder) in await played.fail("git_status", repo_path=str(stage.folder))
        assert "max_count" in await played.fail("git_log", **where, max_count="many")


@pytest.mark.parametrize("allowed", [True, False])
async def test_pages_on_loopback(stage: Stage, python_servers: pathlib.Path, allowed: bool) -> None:
    command = [python_servers / "mcp-server-fetch", *(["--allow-private-ips"] if allowed else [])]
    async with web(page) as server:
        url = f"http://127.0.0.1:{server.port}"
        async with stage.play("fetch", command) as played:
            assert played.tools == ("fetch",)
            if not allowed:
                assert "not a public address" in await played.fail("fetch", url=f"{url}/page.html")
                assert server.targets == []
                return
            shown = (await played.call("fetch", url=f"{url}/page.html")).text
            assert "Everybody plays." in shown
            assert "<p>" not in shown
            assert server.targets == ["/robots.txt", "/page.html"]
            part = (await played.call("fetch", url=f"{url}/page.txt", max_length=50, start_index=5)).text
            assert "solo solo" in part
            assert len(part) < 500
            raw = (await played.call("fetch", url=f"{url}/page.html", raw=True)).text
            assert "<p>Everybody plays.</p>" in raw
            assert "robots.txt" in await played.fail("fetch", url=f"{url}/private/page.txt")
            assert "/private/page.txt" not in server.targets
            assert "404" in await played.fail("fetch", url=f"{url}/nowhere")
            assert "max_length" in await played.fail("fetch", url=f"{url}/page.txt", max_length=0)
