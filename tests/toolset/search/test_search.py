"""The ensemble ``search`` is called for real, with ripgrep and without: what it finds, says and refuses."""

import asyncio
import pathlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from frozendict import frozendict

from tests.toolset.bundled_tools import Tools, code_of, text_of, tools_of, write_program
from tests.toolset.search.search_tools import ENGINES, RIPGREP, make, needs_ripgrep, places, searching

TREE = {
    "readme.md": b"one\ntwo needle\nthree\nfour\nfive\nsix needle end\nseven\n",
    "src/a.py": b"import needle\nNEEDLE = 1\n",
    "src/b.txt": b"a needle\r\nb\r\n",
    "src/deep/c.py": b"needle()\n",
    ".github/workflow.yml": b"needle: 1\n",
    "build/out.py": b"needle\n",
    ".gitignore": b"build/\n*.log\n!keep.log\n",
    "x.log": b"needle\n",
    "keep.log": b"needle\n",
    "binary": b"needle\n\0needle\n",
    "late": b"needle\n" * 20_000 + b"\0",
    "open": b"no line end, needle",
    "bytes": b"\xff\xfe needle \xc3\n",
    "-rf": b"needle\n",
}


BOTH = pytest.mark.parametrize("tools", ENGINES, indirect=True)


@pytest.fixture
async def tools(tmp_path: pathlib.Path, request: pytest.FixtureRequest) -> AsyncIterator[Tools]:
    """Without ripgrep, unless a test is for both; a law says that they say the same."""
    root = tmp_path / "workspace"
    make(root, TREE)
    (root / "link").symlink_to("readme.md")
    (root / "folder").symlink_to("src")
    async with searching(root, getattr(request, "param", "without ripgrep")) as found:
        yield found


async def said(tools: Tools, tool: str, **arguments: Any) -> str:
    result = await tools(tool, **arguments)
    assert result.error is None, result.error
    return text_of(result)


async def refused(tools: Tools, tool: str, **arguments: Any) -> Any:
    result = await tools(tool, **arguments)
    assert result.error is not None, text_of(result)
    return result.error


@BOTH
async def test_lines_are_grouped_with_what_is_around_them(tools: Tools, request: pytest.FixtureRequest) -> None:
    text = await said(tools, "search", pattern="needle", context_lines=1)
    engine = request.node.callspec.params["tools"]
    assert text == (
        f"9 lines in 8 files with 'needle' (10 files searched, {engine})\n"
        "-rf:1: needle\n"
        "\n"
        "bytes:1: \ufffd\ufffd needle \ufffd\n"
        "\n"
        "keep.log:1: needle\n"
        "\n"
        "open:1: no line end, needle\n"
        "\n"
        "readme.md-1- one\n"
        "readme.md:2: two needle\n"
        "readme.md-3- three\n"
        "--\n"
        "readme.md-5- five\n"
        "readme.md:6: six needle end\n"
        "readme.md-7- seven\n"
        "\n"
        "src/a.py:1: import needle\n"
        "src/a.py-2- NEEDLE = 1\n"
        "\n"
        "src/b.txt:1: a needle\n"
        "src/b.txt-2- b\n"
        "\n"
        "src/deep/c.py:1: needle()\n"
        "[2 binary files left out]"
    )


FOUND: list[tuple[dict[str, Any], list[str]]] = [
    ({"pattern": "NEEDLE", "case_sensitive": False, "path": "src"}, ["a.py:1", "a.py:2", "b.txt:1", "deep/c.py:1"]),
    ({"pattern": "NEEDLE", "path": "src"}, ["a.py:2"]),
    ({"pattern": "needle", "path": "folder"}, ["a.py:1", "b.txt:1", "deep/c.py:1"]),
    ({"pattern": "needle", "path": "src/a.py"}, ["a.py:1"]),
    ({"pattern": r"^needle\W+$", "type": "regex", "path": "src"}, ["deep/c.py:1"]),
    ({"pattern": r"needle\(", "type": "regex", "path": "src"}, ["deep/c.py:1"]),
    ({"pattern": "needle(", "path": "src"}, ["deep/c.py:1"]),
    ({"pattern": "needle", "path": "src", "include_pattern": "*.py"}, ["a.py:1", "deep/c.py:1"]),
    ({"pattern": "needle", "path": "src", "include_pattern": "/*.py"}, ["a.py:1"]),
    ({"pattern": "needle", "path": "src", "include_pattern": "deep/"}, ["deep/c.py:1"]),
    ({"pattern": "needle", "path": "src", "exclude_pattern": "deep/**"}, ["a.py:1", "b.txt:1"]),
    ({"pattern": "needle", "path": "src", "exclude_pattern": "deep/"}, ["a.py:1", "b.txt:1"]),
    ({"pattern": "needle", "path": "src", "include_pattern": "*.{py,txt}", "exclude_pattern": "a*"}, ["b.txt:1",
    "deep/c.py:1"]),
]  # fmt: skip


@BOTH
async def test_what_is_found(tools: Tools) -> None:
    for arguments, expected in FOUND:
        text = await said(tools, "search", **{"context_lines": 0, **arguments})
        assert [f"{path.removeprefix('src/')}:{line}" for path, line in places(text)] == expected, arguments


@BOTH
async def test_what_is_named_is_searched_although_it_is_hidden_or_ignored(tools: Tools) -> None:
    for arguments, expected in (
        ({"path": ".github"}, [(".github/workflow.yml", 1)]),
        ({"path": "build"}, [("build/out.py", 1)]),
        ({"path": "x.log"}, [("x.log", 1)]),
        ({"include_pattern": "*.log"}, [("keep.log", 1), ("x.log", 1)]),
        ({"include_pattern": ".github/**"}, [(".github/workflow.yml", 1)]),
    ):
        assert places(await said(tools, "search", pattern="needle", context_lines=0, **arguments)) == expected
    text = await said(tools, "ripgrep", pattern="needle", include_hidden=True, include_ignored=True)
    assert {".github/workflow.yml", "build/out.py", "x.log"} <= {path for path, _ in places(text)}


@BOTH
async def test_results_are_bounded_and_the_rest_is_counted(tools: Tools) -> None:
    text = await said(tools, "search", pattern="needle", max_results=2, context_lines=0)
    assert places(text) == [("-rf", 1), ("bytes", 1)]
    assert text.startswith("9 lines in 8 files")
    assert "[... 7 more: raise max_results, or search less ...]" in text
    text = await said(tools, "search", pattern="e", path="readme.md", max_results=3, context_lines=0)
    assert places(text) == [("readme.md", 1), ("readme.md", 2), ("readme.md", 3)]
    assert "[... 3 more" in text


async def test_nothing_found_says_why_that_may_be(tools: Tools) -> None:
    text = await said(tools, "search", pattern="nee.*le")
    assert text.startswith("No line with 'nee.*le' (10 files searched")
    assert 'set type = "regex"' in text
    assert "regex" not in await said(tools, "grep", pattern="nothing of the kind")


REFUSALS: list[tuple[dict[str, Any], str, str]] = [
    ({"pattern": "ab(c", "type": "regex"}, "invalid_pattern", "at character 3"),
    ({"pattern": "a{2,1}", "type": "regex"}, "invalid_pattern", "cannot be read"),
    ({"pattern": r"(a)\1", "type": "regex"}, "invalid_pattern", "cannot be read"),
    ({"pattern": "(?=a)", "type": "regex"}, "invalid_pattern", "cannot be read"),
    ({"pattern": ""}, "empty_pattern", "find_files"),
    ({"pattern": "a\nb"}, "multiline", "context_lines"),
    ({"pattern": r"a\nb", "type": "regex"}, "multiline", "line end"),
    ({"pattern": "a\0b"}, "multiline", "NUL"),
    ({"pattern": "x", "path": "readme.mx"}, "not_found", "readme.md"),
    ({"pattern": "x", "path": "../outside"}, "outside_workspace", "beneath"),
    ({"pattern": "x", "path": "binary"}, "binary_file", "15 bytes"),
    ({"pattern": "x", "include_pattern": "[a"}, "invalid_glob", "character 1"),
    ({"pattern": "x", "exclude_pattern": "{a,b"}, "invalid_glob", "character 1"),
]


async def test_refusals_say_what_to_do(tools: Tools) -> None:
    for arguments, code, words in REFUSALS:
        error = await refused(tools, "search", **arguments)
        assert error.code == code, arguments
        assert words in error.text()


@BOTH
async def test_long_lines_are_cut_around_what_was_found(tools: Tools) -> None:
    make(tools.workspace, {"wide": b"x" * 2000 + b"needle" + b"y" * 2000, "huge": b"x" * 200_000 + b"needle\nnext\n"})
    for name in ("wide", "huge"):
        text = await said(tools, "search", pattern="needle", path=name)
        assert places(text) == [(name, 1)]
        assert "xneedle" in text
        assert len(text) < 1500


@BOTH
async def test_names_cannot_pose_as_lines(tools: Tools) -> None:
    make(tools.workspace, {"a\nfake:7: text": b"needle\n", "\udcff": b"needle\n"})
    text = await said(tools, "search", pattern="needle", context_lines=0)
    assert "\na\\nfake:7: text:1: needle\n" in text
    assert "\n\\xff:1: needle\n" in text
    assert "\nfake" not in text
    text = await said(tools, "search", pattern="needle", path="a\nfake:7: text")
    assert text.startswith("1 line in 1 file")


async def test_a_program_of_the_workspace_is_not_ripgrep(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = write_program(tools.workspace / "bin" / "rg", "#!/bin/sh\ntouch was-run\n")
    monkeypatch.setenv("PATH", str(fake.parent))
    assert "without ripgrep" in await said(tools, "search", pattern="needle")
    assert not (tools.workspace / "was-run").exists()


@pytest.mark.parametrize("tier", [1, 2])
async def test_what_the_sandbox_hides_is_not_ripgrep(
    tier: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search without it answers, as where there is none."""
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{home}/bin:/usr/bin:/bin")
    write_program(home / "bin" / "rg", "#!/bin/sh\nexit 1\n")
    make(workspace, {"a": b"needle\n"})
    async with tools_of("search", workspace, sandbox={"level": "required", "tier": tier}) as tools:
        assert "1 line in 1 file with 'needle' (1 file searched, without ripgrep)" in await said(
            tools, "search", pattern="needle"
        )


@needs_ripgrep
@pytest.mark.parametrize("tier", [1, 2])
async def test_ripgrep_behind_a_link_that_is_hidden_answers(
    tier: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert RIPGREP is not None
    (tmp_path / "link").symlink_to(pathlib.Path(RIPGREP).parent)
    monkeypatch.setenv("PATH", f"{tmp_path}/link:/usr/bin:/bin")
    make(tmp_path / "workspace", {"a": b"needle\n"})
    async with tools_of("search", tmp_path / "workspace", sandbox={"level": "required", "tier": tier}) as tools:
        assert "1 line in 1 file with 'needle' (1 file searched, ripgrep)" in await said(
            tools, "search", pattern="needle"
        )


@needs_ripgrep
@pytest.mark.parametrize("tools", ["ripgrep"], indirect=True)
async def test_no_configuration_of_ripgrep_counts(
    tools: Tools, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text("--pre=/bin/false\n--invert-match\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "config"))
    make(tools.workspace, {".ignore": b"*\n", ".rgignore": b"*\n", ".git/info/exclude": b"*\n"})
    assert (await said(tools, "search", pattern="needle")).startswith("9 lines in 8 files")


async def test_a_search_that_takes_too_long_is_ended(tmp_path: pathlib.Path) -> None:
    """Without a program, too: the thread looks whether anybody still waits."""
    make(tmp_path / "workspace", {f"{number}/x": b"a line of text\n" * 1000 for number in range(300)})
    async with searching(tmp_path / "workspace", "without ripgrep") as tools:
        task = asyncio.create_task(tools("search", pattern="(?:a ?){3}z|[^l]{7}q$", type="regex"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


FINDINGS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("glob", {"pattern": "*.md"}, ["readme.md (52 bytes)"]),
    ("glob", {"pattern": "*.py"}, []),
    ("glob", {"pattern": "**/*.py"}, ["src/a.py (25 bytes)", "src/deep/c.py (9 bytes)"]),
    ("glob", {"pattern": "*.py", "path": "src"}, ["src/a.py (25 bytes)"]),
    ("glob", {"pattern": "src/*/*.{py,txt}"}, ["src/deep/c.py (9 bytes)"]),
    ("glob", {"pattern": ".github/*"}, [".github/workflow.yml (10 bytes)"]),
    ("find_files", {"pattern": "*.py"}, ["src/a.py (25 bytes)", "src/deep/c.py (9 bytes)"]),
    ("find_files", {"pattern": "[ab].*", "path": "src"}, ["src/a.py (25 bytes)", "src/b.txt (13 bytes)"]),
    ("find_files", {"pattern": "deep/*"}, []),
    ("find_files", {"pattern": "**/deep/*"}, ["src/deep/c.py (9 bytes)"]),
    ("find_files", {"pattern": "out.py", "include_ignored": True}, ["build/out.py (7 bytes)"]),
    ("find_files", {"pattern": "*.yml", "include_hidden": True}, [".github/workflow.yml (10 bytes)"]),
    ("find", {"pattern": "*.py"}, ["build/out.py (7 bytes)", "src/a.py (25 bytes)", "src/deep/c.py (9 bytes)"]),
    ("find", {"type": "link"}, ["folder -> src", "link -> readme.md"]),
    ("find", {"type": "directory"}, [".github/", "build/", "src/", "src/deep/"]),
    ("find", {"path": "src", "max_depth": 1}, ["src/a.py (25 bytes)", "src/b.txt (13 bytes)", "src/deep/"]),
]


async def test_finding(tools: Tools) -> None:
    for tool, arguments, expected in FINDINGS:
        text = await said(tools, tool, **arguments)
        assert (text.splitlines() if expected else text[:10]) == (expected or "Nothing in"), arguments


async def test_finding_is_refused_in_words(tools: Tools) -> None:
    assert (await refused(tools, "glob", pattern="[a")).code == "invalid_glob"
    assert "src" in (await refused(tools, "find", path="srx")).text()
    assert code_of(await tools("find", path="/etc")) == "outside_workspace"
    assert await said(tools, "find", path="readme.md") == "readme.md is a file."


async def test_long_lists_are_cut(tmp_path: pathlib.Path) -> None:
    make(tmp_path / "workspace", {f"{number // 1000}/{number:05}": b"" for number in range(10_003)})
    async with searching(tmp_path / "workspace", "without ripgrep") as tools:
        invoker = tools.ensemble.invokers["glob"]
        assert invoker.policy.output
        text = text_of(await tools("glob", pattern="**/*"))
        assert text.startswith("0/00000 (0 bytes)")
        assert text.endswith("[... 3 more left out: give a narrower pattern or path ...]")
    assert frozendict(invoker.presets) == {"whole": True}


@BOTH
async def test_rules_hold_in_what_lies_beneath_them(tools: Tools) -> None:
    """In a repository beneath the workspace, too, and when only a part of it is searched."""
    make(tools.workspace, {"nested/.git/HEAD": b"needle\n", "nested/a.log": b"needle\n", "nested/b": b"needle\n"})
    for path in (".", "nested"):
        text = await said(tools, "search", pattern="needle", path=path, max_results=1000, context_lines=0)
        assert [one for one, _ in places(text) if one.startswith("nested")] == ["nested/b"]
