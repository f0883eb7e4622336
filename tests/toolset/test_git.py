"""Repositories: what the tools do with them, real ones, and what they refuse."""

import asyncio
import itertools
import os
import pathlib
import pty
import random
import shutil
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ripieno.canisters.events import ExecutionProgress
from tests.counts import ATTACK, count
from tests.skips import needs
from tests.support.git_repositories import CLEAN, HOSTILE, INERT, make_repository, plain_git, program
from tests.toolset.bundled_tools import Tools, code_of, text_of, tools_of, write_program
from tests.toolset.furnished_workspace import snapshot
from tests.toolset.programs.test_shell_injection import attack, places

pytestmark = needs("git")
DATA = pathlib.Path(__file__).parents[2] / "data" / "ensembles" / "git" / "invokers"
#: Ten commands, as a hostile repository meets them.
COMMANDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("git_status", {}),
    ("git_diff", {}),
    ("git_log", {"stat": True}),
    ("git_show", {"revision": "HEAD"}),
    ("git_add", {"all": True}),
    ("git_commit", {"message": "it", "all": True}),
    ("git_checkout", {"paths": ["file.txt"]}),
    ("git_branch", {"action": "create", "name": "new"}),
    ("git_merge", {"revision": "side", "no_fast_forward": True}),
    ("git_stash", {}),
)


@pytest.fixture
async def tools(workspace: pathlib.Path) -> AsyncIterator[Tools]:
    make_repository(workspace / "it")
    async with tools_of("git", workspace) as one:
        yield one


async def good(tools: Tools, tool: str, **arguments: Any) -> str:
    result = await tools(tool, **{"directory": "it", **arguments})
    assert result.error is None, result.error.text()
    assert result.report.exit_code in (0, None)
    return text_of(result)


async def test_looking_at_a_repository(tools: Tools) -> None:
    assert await good(tools, "git_status") == "## main\n M file.txt"
    assert await good(tools, "git_status", paths=["other.bin"]) == "## main"
    diff = await good(tools, "git_diff")
    assert "-two\n+three" in diff
    assert await good(tools, "git_diff", paths=["other.bin"]) == "There are no differences."
    assert await good(tools, "git_diff", staged=True) == "There are no differences."
    assert "file.txt | 2 +-" in await good(tools, "git_diff", revision="side..main", stat=True)
    assert "-one\n+three" in await good(tools, "git_diff", revision="side", context_lines=0)
    log = await good(tools, "git_log")
    assert log.index("second") < log.index("first")
    assert "test@test" in log
    assert "first" not in await good(tools, "git_log", max_count=1)
    assert (await good(tools, "git_log", revision="side..", oneline=True)).endswith("test@test: second (HEAD -> main)")
    assert "second" not in await good(tools, "git_log", paths=["other.bin"])
    assert "-one\n+two" in await good(tools, "git_show")
    assert await good(tools, "git_show", revision="side", path="file.txt") == "one"


async def test_a_change_goes_all_the_way(tools: Tools, workspace: pathlib.Path) -> None:
    folder = workspace / "it"
    (folder / "new.txt").write_text("new\n")
    assert await good(tools, "git_add", paths=["new.txt"]) == "## main\n M file.txt\nA  new.txt"
    assert "third" in await good(tools, "git_commit", message="third\n\nwith a body")
    assert plain_git(folder, "log", "-1", "--format=%an <%ae>|%B").strip() == (
        "Ripieno <ripieno@localhost>|third\n\nwith a body"
    )
    assert "M file.txt" in await good(tools, "git_status")
    assert await good(tools, "git_stash", message="aside")
    assert "aside" in await good(tools, "git_stash", action="list")
    assert "+three" in await good(tools, "git_stash", action="show")
    assert (folder / "file.txt").read_text() == "two\n"
    await good(tools, "git_stash", action="pop")
    assert (folder / "file.txt").read_text() == "three\n"
    await good(tools, "git_checkout", paths=["file.txt"])
    assert (folder / "file.txt").read_text() == "two\n"
    await good(tools, "git_checkout", target="topic/one", create=True, start_point="side")
    assert (folder / "file.txt").read_text() == "one\n"
    (folder / "topic.txt").write_text("topic\n")
    await good(tools, "git_add", all=True)
    await good(tools, "git_commit", message="topic")
    await good(tools, "git_checkout", target="main")
    await good(tools, "git_branch", name="feature", start_point="side")
    assert plain_git(folder, "rev-parse", "feature") == plain_git(folder, "rev-parse", "side")
    assert "topic/one" in await good(tools, "git_branch")
    await good(tools, "git_merge", revision="topic/one")
    assert (folder / "topic.txt").exists()
    await good(tools, "git_branch", action="rename", name="topic/one", new_name="done")
    await good(tools, "git_branch", action="delete", name="done")
    assert "done" not in await good(tools, "git_branch")


async def test_a_merge_says_what_it_came_to(tools: Tools, workspace: pathlib.Path) -> None:
    folder = workspace / "it"
    await good(tools, "git_checkout", paths=["file.txt"])
    assert await good(tools, "git_merge", revision="side") == "Already up to date."
    assert await good(tools, "git_merge", revision="main") == "Already up to date."
    await good(tools, "git_checkout", target="side")
    text = await good(tools, "git_merge", revision="main")
    assert "\nFast-forward\n file.txt | 2 +-" in text
    assert "-m option" not in text
    assert "no_fast_forward" not in text
    plain_git(folder, "reset", "--quiet", "--hard", "HEAD~")
    text = await good(tools, "git_merge", revision="main", message="mine", fast_forward_only=True)
    assert "\nFast-forward\n" in text
    assert "the message was not used. no_fast_forward = true makes one." in text
    plain_git(folder, "reset", "--quiet", "--hard", "HEAD~")
    text = await good(tools, "git_merge", revision="main", message="mine", no_fast_forward=True)
    assert text.startswith("Merge made by")
    assert "not used" not in text
    assert plain_git(folder, "log", "-1", "--format=%s %p").split()[0] == "mine"
    await good(tools, "git_checkout", target="apart", create=True, start_point="HEAD~")
    (folder / "apart.txt").write_text("apart\n")
    await good(tools, "git_add", paths=["apart.txt"])
    await good(tools, "git_commit", message="apart")
    refused = await tools("git_merge", directory="it", revision="side", fast_forward_only=True)
    assert code_of(refused) == "exit_code"
    assert "Not possible to fast-forward" in text_of(refused)
    assert (await good(tools, "git_merge", revision="side")).startswith("Merge made by")
    assert plain_git(folder, "log", "-1", "--format=%s").strip() == "Merge side"
    both = await tools("git_merge", directory="it", revision="side", fast_forward_only=True, no_fast_forward=True)
    assert code_of(both) == "validation"
    (folder / "empty").mkdir()
    plain_git(folder / "empty", "init", "--quiet", "--initial-branch=main")
    plain_git(folder / "empty", "fetch", "--quiet", "..", "side:taken")
    await good(tools, "git_merge", directory="it/empty", revision="taken")
    assert (folder / "empty" / "file.txt").read_text() == "two\n"


async def test_a_conflict_names_the_files_and_the_way_out(tools: Tools, workspace: pathlib.Path) -> None:
    folder = workspace / "it"
    await good(tools, "git_checkout", paths=["file.txt"])
    await good(tools, "git_checkout", target="side")
    (folder / "inner").mkdir()
    (folder / "file.txt").write_text("else\n")
    (folder / "inner" / "kept").write_text("")
    await good(tools, "git_add", all=True)
    await good(tools, "git_commit", message="else")
    for directory, path in (("it", "file.txt"), ("it/inner", "../file.txt")):
        result = await tools("git_merge", directory=directory, revision="main")
        assert (code_of(result), result.report.exit_code) == ("conflict", 1 if directory == "it" else 128)
        assert result.error is not None
        assert result.error.details["files"] == (path,)
        text = text_of(result)
        assert text.startswith(f"Error: 1 file is in conflict: {path!r}.")
        assert all(word in text for word in ("<<<<<<<", "git_add", "git_commit", "abort = true"))
    again = await tools("git_merge", directory="it", revision="main")
    assert code_of(again) == "conflict"
    assert "was aborted" in await good(tools, "git_merge", abort=True)
    assert (folder / "file.txt").read_text() == "else\n"
    # One that is not even begun is no conflict.
    (folder / "file.txt").write_text("not committed\n")
    result = await tools("git_merge", directory="it", revision="main")
    assert code_of(result) == "exit_code"
    assert "file.txt" in text_of(result)
    # A stash that does not fit any more is one.
    await good(tools, "git_stash")
    (folder / "file.txt").write_text("third\n")
    await good(tools, "git_commit", message="third", all=True)
    result = await tools("git_stash", directory="it", action="pop")
    assert code_of(result) == "conflict"
    assert "The stash is kept" in text_of(result)


async def test_only_the_work_is_told_as_progress(
    workspace: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A git that takes its time to end, so that all that it writes would be told."""
    make_repository(workspace / "it")
    slow = write_program(
        tmp_path / "programs" / "git",
        f'#!/bin/sh\n{shutil.which("git")} "$@"; code=$?; case "$*" in *" diff "*) sleep 0.7;; esac; exit $code\n',
    )
    monkeypatch.setenv("PATH", f"{slow.parent}:{CLEAN['PATH']}")
    async with tools_of("git", workspace) as tools:
        assert "three" in await good(tools, "git_diff", revision="side")
        told = [event.message for event in tools.events if isinstance(event, ExecutionProgress)]
    assert told == ["+three"]


async def test_a_repository_is_cloned_within_the_workspace(tools: Tools, workspace: pathlib.Path) -> None:
    await good(tools, "git_clone", source="it", directory="copy/of/it", branch="side")
    assert (workspace / "copy" / "of" / "it" / "file.txt").read_text() == "one\n"
    assert "side" in await good(tools, "git_status", directory="copy/of/it")
    outside = make_repository(workspace.parent / "outside")
    for source in (str(outside), "../outside", "file:///etc", f"file://{outside}", "https://localhost/x", "git@host:x"):
        result = await tools("git_clone", source=source, directory="stolen")
        assert code_of(result) in ("outside_workspace", "network"), source
    for source in ("ext::sh -c true", "-u", "--upload-pack=touch x", "nothing"):
        assert (await tools("git_clone", source=source, directory="stolen")).error is not None
    assert not (workspace / "stolen").exists()
    assert code_of(await tools("git_clone", source="it", directory="it")) == "exists"
    assert code_of(await tools("git_clone", source="it", directory="../out")) == "outside_workspace"


async def test_otherwise_it_is_the_repositorys_own_to_say_and_then_ripieno(workspace: pathlib.Path) -> None:
    folder = make_repository(workspace / "it")

    async def commit(settings: dict[str, str]) -> str:
        async with tools_of("git", workspace, settings) as tools:
            await good(tools, "git_commit", message="it", allow_empty=True)
        return plain_git(folder, "log", "-1", "--format=%an <%ae> %cn <%ce>").strip()

    ours = "Ripieno <ripieno@localhost>"
    assert await commit({}) == f"{ours} {ours}"
    plain_git(folder, "config", "--local", "user.name", "Grace")
    assert await commit({}) == "Grace <ripieno@localhost> Grace <ripieno@localhost>"
    plain_git(folder, "config", "--local", "User.Email", "grace@example.org")
    assert await commit({}) == "Grace <grace@example.org> Grace <grace@example.org>"
    plain_git(folder, "config", "--local", "committer.name", "Robot")
    assert await commit({}) == "Grace <grace@example.org> Robot <grace@example.org>"
    ada = "Ada <ada@example.org>"
    assert await commit({"name": "Ada", "email": "ada@example.org"}) == f"{ada} {ada}"
    assert await commit({"name": "Ada"}) == "Ada <grace@example.org> Ada <grace@example.org>"


async def test_an_argument_that_is_not_used_is_refused(tools: Tools, workspace: pathlib.Path) -> None:
    for tool, arguments, advice in (
        (
            "git_branch",
            {"action": "list", "name": "new"},
            'action = "create" or action = "delete" or action = "rename"',
        ),
        ("git_branch", {"start_point": "HEAD"}, 'action = "create"'),
        ("git_branch", {"name": "a", "new_name": "b"}, 'action = "rename"'),
        ("git_branch", {"action": "delete", "name": "side", "start_point": "main"}, 'action = "create"'),
        ("git_stash", {"index": 0}, 'action = "show" or action = "apply"'),
        ("git_stash", {"action": "pop", "message": "it"}, 'action = "push"'),
        ("git_stash", {"action": "list", "paths": ["file.txt"]}, 'action = "push"'),
        ("git_merge", {"abort": True, "revision": "side"}, "give revision"),
        ("git_checkout", {"target": "main", "start_point": "side"}, "create = true"),
        ("git_checkout", {"target": "new", "create": True, "paths": ["file.txt"]}, "give paths"),
        ("git_add", {"all": True, "paths": ["file.txt"]}, "give paths"),
    ):
        result = await tools(tool, directory="it", **arguments)
        assert code_of(result) == "validation", (tool, arguments)
        assert advice in text_of(result), text_of(result)
        assert "not used with" in text_of(result)
    folder = workspace / "it"
    assert plain_git(folder, "branch", "--format=%(refname:short)").split() == ["main", "side"]
    assert plain_git(folder, "stash", "list") == ""
    assert plain_git(folder, "status", "--short") == " M file.txt\n"


async def test_what_is_staged_with_marks_of_a_conflict_is_told(tools: Tools, workspace: pathlib.Path) -> None:
    folder = workspace / "it"
    plain_git(folder, "checkout", "--quiet", "file.txt")
    plain_git(folder, "checkout", "--quiet", "side")
    (folder / "inner").mkdir()
    for name in ("file.txt", "other.bin", "inner/deep.txt"):
        (folder / name).write_text("first\nside\n")
    plain_git(folder, "add", ".")
    plain_git(folder, "commit", "--quiet", "--message=side")
    plain_git(folder, "checkout", "--quiet", "main")
    (folder / "inner").mkdir(exist_ok=True)
    for name in ("file.txt", "other.bin", "inner/deep.txt"):
        (folder / name).write_text("first\nmain\n")
    plain_git(folder, "add", ".")
    plain_git(folder, "commit", "--quiet", "--message=main")
    (folder / "plain.txt").write_text("<<<<<<< a document\n>>>>>>> about marks\n")
    assert code_of(await tools("git_merge", directory="it", revision="side")) == "conflict"
    (folder / "other.bin").write_text("solved\n<<<<<<< without an end\n")
    said = await good(tools, "git_add", paths=["other.bin", "plain.txt"])
    assert "conflict markers" not in said
    said = await good(tools, "git_add", directory="it/inner", paths=["deep.txt"])
    assert said.endswith("\ndeep.txt still has conflict markers, line 2")
    said = await good(tools, "git_add", all=True)
    assert said.endswith("\nfile.txt still has conflict markers, line 2")
    assert "deep.txt still" not in said
    assert plain_git(folder, "ls-files", "--unmerged") == ""


async def test_an_empty_repository_and_none_at_all(workspace: pathlib.Path) -> None:
    (workspace / "empty").mkdir()
    plain_git(workspace / "empty", "init", "--quiet", "--initial-branch=main")
    # One above the workspace is nobody's business here.
    plain_git(workspace.parent, "init", "--quiet")
    async with tools_of("git", workspace) as tools:
        assert await good(tools, "git_log", directory="empty") == "There are no commits yet."
        assert "No commits yet" in await good(tools, "git_status", directory="empty")
        assert code_of(await tools("git_status")) == "no_repository"
        assert code_of(await tools("git_diff", directory="..")) == "outside_workspace"


async def test_what_makes_no_sense_is_refused(tools: Tools) -> None:
    assert code_of(await tools("git_show", directory="it", revision="nowhere")) == "no_revision"
    assert code_of(await tools("git_show", directory="it", path="nowhere")) == "not_found"
    assert code_of(await tools("git_add", directory="it")) == "validation"
    assert code_of(await tools("git_checkout", directory="it")) == "validation"
    assert code_of(await tools("git_commit", directory="it", message=" ")) == "validation"
    for name in ("-x", "--force", "a..b", "a b", "a~1", "x.lock", "HEAD", "/a", "a/", "@{-1}", ".a", "a//b", "a\nb"):
        assert code_of(await tools("git_branch", directory="it", action="create", name=name)) == "argument", name


def payloads(marker: str) -> list[str]:
    """300 that would write, or run, where git took them for more than they are."""
    options = [
        *(f"--output={marker}", f"-o{marker}", "--output", f"--upload-pack=touch {marker}", f"-utouch {marker}"),
        *(f"--exec=touch {marker}", f"--config=core.fsmonitor=touch {marker}", f"-ccore.pager=touch {marker}"),
        *("--ext-diff", "--textconv", "--no-index", f"--work-tree={marker}", f"--git-dir={marker}", "--help"),
        *(f"--template={marker}", f"--separate-git-dir={marker}", f"--file={marker}", f"-F{marker}", "--edit"),
        *(f"--open-files-in-pager=touch {marker}", f"-Otouch {marker}", "--interactive", "-p", "--no-verify"),
        *(f"--receive-pack=touch {marker}", f"--reference={marker}", f"--strategy=touch {marker}", "--paginate"),
    ]
    others = [
        *(f"ext::touch {marker}", f"ext::sh -c touch% {marker}", f"fd::17/{marker}", f"$(touch {marker})"),
        *(f"`touch {marker}`", f"; touch {marker}", f"| touch {marker}", f"&& touch {marker}", f"> {marker}"),
        *(f"\ntouch {marker}", f"HEAD\n--output={marker}", f"HEAD --output={marker}", f"!touch {marker}"),
        *(f":!{marker}", ":(attr:x)", ":/", "@{u}", "@{-1}", "HEAD@{now}", "HEAD^{/x}", ":0:file.txt", "^HEAD"),
        *("../../outside", "/etc/passwd", "..", "refs/../../x", f"main..--output={marker}", f"...-o{marker}"),
        *("\0", "\ud800", "\u202e", "a" * 4000, "%s%n", "*", "-", "--", "---", "--end-of-options", "-\n-"),
    ]
    found = [*options, *others]
    for form in ("{}", " {}", "{} ", "HEAD {}", "{}..HEAD", "HEAD...{}", "./{}", "'{}'", '"{}"', "{}\r", "\t{}"):
        found += [form.format(one) for one in (*options, *others)]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("tool", sorted(path.stem for path in DATA.glob("*.toml")))
async def test_no_argument_is_more_than_it_is(tool: str, tools: Tools, workspace: pathlib.Path) -> None:
    marker = workspace.parent / "marker"
    inner = workspace / "it" / "marker"
    chosen = [*payloads(str(marker)), *payloads("marker")]
    random.Random(tool).shuffle(chosen)
    outside = snapshot(workspace.parent / "workspace-user")
    turn = asyncio.Semaphore(4)

    async def one(place: tuple[str, str, str], payload: str) -> None:
        async with turn:
            await attack(tools, *place, payload)

    every = [place for place in places("git") if place[0] == tool]
    turns = itertools.cycle(every)
    chosen = chosen[: count(300, 50)]
    await asyncio.gather(*(one(place, text) for text in chosen for place in (every if ATTACK else [next(turns)])))
    assert not marker.exists()
    assert not inner.exists()
    assert snapshot(workspace.parent / "workspace-user") == outside
    assert {path.name for path in workspace.parent.iterdir()} <= {"workspace", "workspace-user"}


def test_the_vectors_do_harm_where_nothing_keeps_them_from_it(tmp_path: pathlib.Path) -> None:
    commands = {
        **dict.fromkeys(("file system monitor", "included", "submodule", "bare", "capitals"), ("status",)),
        **dict.fromkeys(("clean filter", "settings of a working tree"), ("add", ".")),
        "external differences": ("diff",),
    }
    for number, (name, command) in enumerate(commands.items()):
        folder = make_repository(tmp_path / str(number) / "workspace" / "it")
        marker = tmp_path / str(number) / "marker"
        HOSTILE[name](folder, program(tmp_path / str(number), marker))
        plain_git(folder, *command, check=False)
        assert marker.exists(), name


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_repository_is_refused(name: str, workspace: pathlib.Path) -> None:
    marker = workspace.parent / "marker"
    folder = make_repository(workspace / "it")
    HOSTILE[name](folder, program(workspace.parent, marker))
    marker.unlink(missing_ok=True)
    first = list(HOSTILE).index(name)
    commands = [COMMANDS[(first + offset) % len(COMMANDS)] for offset in range(len(COMMANDS) if ATTACK else 1)]
    async with tools_of("git", workspace) as tools:
        for tool, arguments in commands:
            result = await tools(tool, **{**arguments, "directory": "it"})
            assert code_of(result) in ("hostile_repository", "outside_workspace", "no_repository"), text_of(result)
        if name in ("clean filter", "lazy fetching"):
            await tools("git_clone", source="it", directory="copy")
    assert not marker.exists()


@pytest.mark.parametrize("name", INERT)
async def test_what_can_be_switched_off_does_not_run(name: str, workspace: pathlib.Path) -> None:
    marker = workspace.parent / "marker"
    folder = make_repository(workspace / "it")
    INERT[name](folder, program(workspace.parent, marker))
    async with tools_of("git", workspace) as tools:
        for tool, arguments in COMMANDS:
            result = await tools(tool, **{**arguments, "directory": "it"})
            assert code_of(result) in (None, "exit_code"), text_of(result)
        await good(tools, "git_clone", source="it", directory="copy")
    assert not marker.exists()
    run_plainly(folder, name)
    assert marker.exists()


def run_plainly(folder: pathlib.Path, name: str) -> None:
    """Has git itself, on a terminal, do what such a setting is for."""
    words = {
        "pager": ("log",),
        "alias": ("mine",),
        "editor": ("commit", "--allow-empty"),
        **dict.fromkeys(("credential helper", "asking"), ("credential", "fill")),
    }.get(name, ("commit", "--quiet", "--allow-empty", "--message=plain"))
    outer, terminal = pty.openpty()
    # A terminal without abilities would have no pager.
    environment = {**CLEAN, "TERM": "xterm", "GIT_TERMINAL_PROMPT": "0"}
    asked = "protocol=https\nhost=example.org\n\n"
    try:
        subprocess.run(
            ["git", *words], cwd=folder, env=environment, stdout=terminal, input=asked, text=True, check=False
        )
    finally:
        os.close(outer)
        os.close(terminal)


async def test_the_refusal_names_the_setting_and_the_operator_may_accept_it(workspace: pathlib.Path) -> None:
    folder = make_repository(workspace / "it")
    HOSTILE["clean filter"](folder, program(workspace.parent, workspace.parent / "marker"))
    async with tools_of("git", workspace) as tools:
        result = await tools("git_status", directory="it")
        assert "'filter.it.clean'" in text_of(result)
        assert "settings = [...] under [configuration.git]" in text_of(result)
    async with tools_of("git", workspace, {"settings": ["filter.it.*"]}) as tools:
        assert (await tools("git_status", directory="it")).error is None
