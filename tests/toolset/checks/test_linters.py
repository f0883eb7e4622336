"""Linters, type checkers, formatters and syntax: with the tools of these tests, and with none."""

import hashlib
import json
import os
import pathlib
import shutil
import sys

import pytest

from ripieno.toolset.checks import diagnostics
from tests.skips import lacking
from tests.toolset.bundled_tools import Tools, code_of, json_of, text_of, write_program

BIN = pathlib.Path(sys.executable).parent
ENSEMBLE = "validation"


@pytest.fixture
def workspace(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "workspace"
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / "pyproject.toml").write_text("[tool.mypy]\nstrict = true\n")
    (folder / "bad.py").write_text('import os\nx: int = "a"\ndef f( ):pass\n')
    (folder / "good.py").write_text("y = 1\n")
    return folder


def have(tools: Tools, *names: str) -> None:
    """Installs programs of these tests into the project."""
    for name in names:
        if not (BIN / name).exists():
            lacking(f"{name} is not installed beside these tests")
        (tools.workspace / ".venv" / "bin" / name).symlink_to(BIN / name)


def fake(tools: Tools, name: str, script: str, folder: str = "node_modules/.bin") -> None:
    """A program of the project that writes what the real one writes."""
    write_program(tools.workspace / folder / name, f"#!/bin/sh\n{script}\n")


async def test_formatting_tells_what_changed_with_hashes(tools: Tools) -> None:
    have(tools, "ruff")
    path = tools.workspace / "bad.py"
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    assert json_of(await tools("format", check=True))["would_change"] == ["bad.py"]
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    result = await tools("format")
    assert json_of(result)["changed"] == ["bad.py"]
    after = hashlib.sha256(path.read_bytes()).hexdigest()
    changed, *caches = [one.mapping() for one in result.report.changes]
    hashes = {"before": f"sha256:{before}", "after": f"sha256:{after}"}
    assert changed == {"type": "FileModified", "path": "bad.py", **hashes}
    assert all(str(one["path"]).startswith(".ruff_cache") for one in caches)
    assert json_of(await tools("format"))["changed"] == []


async def test_what_a_project_is_set_up_for_comes_first(tools: Tools) -> None:
    fake(tools, "mypy", "echo 'a.py:1:2: error: from mypy  [code]'; exit 1", ".venv/bin")
    fake(tools, "pyright", "echo '{\"generalDiagnostics\": []}'", ".venv/bin")
    assert json_of(await tools("typecheck"))["tool"] == "mypy"
    (tools.workspace / "pyproject.toml").write_text("[tool.pyright]\n")
    found = json_of(await tools("typecheck"))
    assert (found["tool"], found["clean"]) == ("pyright", True)
    assert json_of(await tools("typecheck", tool="mypy"))["problems"][0]["message"] == "from mypy"


async def test_tools_of_javascript(tools: Tools) -> None:
    (tools.workspace / "web").mkdir()
    (tools.workspace / "web" / "package.json").write_text('{"devDependencies": {"eslint": "9", "typescript": "5"}}')
    told = {"ruleId": "semi", "severity": 2, "line": 3, "column": 4, "message": "Missing"}
    report = json.dumps([{"filePath": "/w/a.js", "messages": [told]}])
    fake(tools, "eslint", f"echo '{report}'; exit 1")
    fake(tools, "tsc", "echo \"a.ts(3,5): error TS2322: Type 'string' is not\"; exit 2")
    assert json_of(await tools("lint", directory="web"))["problems"] == [
        {"file": "/w/a.js", "line": 3, "column": 4, "severity": "error", "code": "semi", "message": "Missing"}
    ]
    found = json_of(await tools("typecheck", directory="web"))["problems"][0]
    assert (found["file"], found["line"], found["code"]) == ("a.ts", 3, "TS2322")
    assert code_of(await tools("typecheck", directory="web", paths=["a.ts"])) == "validation"


async def test_a_tool_that_breaks_is_a_fault(tools: Tools) -> None:
    fake(tools, "ruff", "echo broken >&2; exit 2", ".venv/bin")
    result = await tools("lint")
    assert code_of(result) == "exit_code"
    assert "broken" in text_of(result)
    assert code_of(await tools("format")) == "exit_code"


async def test_no_tool_at_all_is_said(tools: Tools) -> None:
    (tools.workspace / "empty").mkdir()
    for tool in ("lint", "typecheck", "format"):
        assert code_of(await tools(tool, directory="empty")) == "no_tool"
        assert code_of(await tools(tool, directory="..")) == "outside_workspace"
    have(tools, "ruff")
    for path in ("-x", "--config=evil", "../x", "/etc"):
        assert code_of(await tools("lint", paths=[path])) in ("argument", "outside_workspace")


@pytest.mark.parametrize("tool", ["syntax_check", "check_syntax"])
async def test_syntax_of_what_the_standard_library_reads(tool: str, tools: Tools) -> None:
    for name, text in (
        ("a.py", "def f(:\n"),
        ("b.json", '{"a": 1,}'),
        ("c.toml", "a = 1\nb =\n"),
        ("d.xml", "<a><b></a>"),
        ("e.py", "x = '" + "\\0" + "'\n"),
        ("f.json", "[]"),
        ("g.toml", ""),
        ("h.py", "return 1\n"),
    ):
        (tools.workspace / name).write_text(text)
    (tools.workspace / "i.py").write_bytes(b"x = '\xff'\n")
    paths = [f"{one}" for one in ("a.py", "b.json", "c.toml", "d.xml", "e.py", "f.json", "g.toml", "h.py", "i.py")]
    found = json_of(await tools(tool, paths=paths))
    assert (found["checked"], found["clean"]) == (9, False)
    places = {one["file"]: one.get("line") for one in found["problems"]}
    assert places == {"a.py": 1, "b.json": 1, "c.toml": 2, "d.xml": 1, "h.py": 1, "i.py": None}
    assert json_of(await tools(tool, paths=["good.py"])) == {"checked": 1, "clean": True, "problems": []}


async def test_syntax_of_what_has_a_program(tools: Tools) -> None:
    (tools.workspace / "a.sh").write_text("if true; then\n")
    (tools.workspace / "b.js").write_text("let a = (\n")
    (tools.workspace / "c.unknown").write_text("")
    found = json_of(await tools("syntax_check", paths=["a.sh", "b.js", "c.unknown"]))
    told = [one["file"] for one in found["problems"]]
    assert told == [name for name, one in (("a.sh", "bash"), ("b.js", "node")) if shutil.which(one)]
    assert found["left_out"][-1]["file"] == "c.unknown"


async def test_nothing_of_a_file_is_run(tools: Tools) -> None:
    marker = tools.workspace / "marker"
    (tools.workspace / "a.py").write_text(f"open({str(marker)!r}, 'w')\n")
    (tools.workspace / "b.sh").write_text(f"touch '{marker}'\n")
    (tools.workspace / "c.js").write_text(f"require('fs').writeFileSync({str(marker)!r}, '')\n")
    (tools.workspace / "json.py").write_text(f"open({str(marker)!r}, 'w')\n")
    # Nor what the workspace has by the names of programs.
    for name in ("python3", "python", "node", "bash"):
        fake(tools, name, f"touch '{marker}'", ".venv/bin")
        fake(tools, name, f"touch '{marker}'")
    await tools("syntax_check", paths=["a.py", "b.sh", "c.js", "json.py"])
    assert not marker.exists()


async def test_files_that_are_made_to_bring_a_parser_down(tools: Tools) -> None:
    bombs = {
        "a.py": "(" * 50_000,
        "b.py": "-" * 200_000 + "1",
        "c.json": "[" * 500_000,
        "d.toml": "a = " + "[" * 100_000,
        "e.xml": '<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa">'
        + "".join(f'<!ENTITY {chr(98 + one)} "{f"&{chr(97 + one)};" * 10}">' for one in range(9))
        + "]><a>&j;</a>",
        "f.py": "x = " + "1 + " * 100_000 + "1",
    }
    for name, text in bombs.items():
        (tools.workspace / name).write_text(text)
        result = await tools("syntax_check", paths=[name])
        assert code_of(result) in (None, "timeout", "exit_code"), text_of(result)
    assert code_of(await tools("syntax_check", paths=["../x.py"])) == "outside_workspace"
    os.mkfifo(tools.workspace / "pipe.py")
    assert code_of(await tools("syntax_check", paths=["pipe.py"])) == "special_file"


def test_what_cargo_and_pyright_write() -> None:
    span = {"is_primary": True, "file_name": "src/lib.rs", "line_start": 4, "column_start": 9}
    message = {"level": "error", "message": "no", "code": {"code": "E0308"}, "spans": [span]}
    (found,) = diagnostics.read_cargo(json.dumps({"reason": "compiler-message", "message": message})) or []
    assert (found.file, found.line, found.column, found.code) == ("src/lib.rs", 4, 9, "E0308")
    told = {"file": "a.py", "severity": "warning", "message": "no", "rule": "r"}
    place = {"range": {"start": {"line": 0, "character": 1}}}
    (found,) = diagnostics.read_pyright(json.dumps({"generalDiagnostics": [{**told, **place}]})) or []
    assert (found.line, found.column, found.severity) == (1, 2, "warning")
