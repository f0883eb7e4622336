"""The reference servers of the Python world: time, and a repository."""

import json
import pathlib
import subprocess

from tests.real.playing import Stage


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
        answer = json.loads(converted.text)
        assert answer["time_difference"] == "+5.5h"
        assert answer["target"]["datetime"].endswith("T17:30:00+05:30")
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
