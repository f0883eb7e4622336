"""Installs the programs that others wrote into .build/real: once, and again when what is wanted has changed."""

import json
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Sequence

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PLACE = ROOT / ".build" / "real"
#: The versions are those that these tests were measured with.
PYTHON_SERVERS = ("mcp-server-fetch>=2026.10.24", "mcp-server-git>=2026.10.19", "mcp-server-time>=2026.10.19")
NODE_SERVERS = (
    "@modelcontextprotocol/inspector@0.15.0",  # what npm chooses for Node 20
    "@modelcontextprotocol/server-everything@>=2026.8.31",
    "@modelcontextprotocol/server-filesystem@>=2026.8.31",
    "@modelcontextprotocol/server-memory@>=2026.8.31",
)
#: A coding agent, whose package has its program beside a launcher: what it asks changes from version to version.
CODING_AGENT = ("@openai/codex@0.169.0",)
#: The front end package of the AI SDK, by its major version.
FRONT_ENDS = {5: "ai@5.0.277", 6: "ai@6.0.326", 7: "ai@7.0.173"}
#: Chat components for React over AG-UI, with what bundles a page of them. Those of assistant-ui fit one another.
_PAGES = ("react@19.3.1", "react-dom@19.3.1", "esbuild@0.28.2")
PAGES = {
    "use-chat": ("ai@6.0.326", "@ai-sdk/react@3", *_PAGES),
    "copilotkit": ("@copilotkit/react-core@1.74.0", "@ag-ui/client@0.0.59", "zod@3.25.76", *_PAGES),
    "assistant-ui": (
        "@assistant-ui/react@0.15.21",
        "@assistant-ui/react-ag-ui@0.0.57",
        "@assistant-ui/core@0.3.20",
        "@assistant-ui/store@0.3.14",
        "@assistant-ui/tap@0.9.18",
        "@ag-ui/client@0.0.58",
        *_PAGES,
    ),
}
#: The public compliance tests of the Responses API's open specification, and what runs them.
COMPLIANCE = ("https://github.com/openresponses/openresponses.git", "92c12d96d7b61d6d15e2214daa5e9c6000ab6e1c")
COMPLIANCE_RUNNERS = ("bun@1", "zod@4")
#: Seconds that one installation may take.
PATIENCE = 400


def python_commands() -> pathlib.Path:
    """The folder of the commands that pip installed, in an environment of its own: they may want another SDK."""
    place = PLACE / "python"
    if not _stands(place, PYTHON_SERVERS):
        _clear(place)
        _run("make an environment for them", sys.executable, "-m", "venv", str(place))
        python = str(place / "bin" / "python")
        options = ("--quiet", "--disable-pip-version-check")
        _run("install them with pip", python, "-m", "pip", "install", *options, *PYTHON_SERVERS)
        _sign(place, PYTHON_SERVERS)
    return place / "bin"


def node_commands() -> pathlib.Path:
    """The folder of the commands that npm installed."""
    return _modules("node", NODE_SERVERS) / ".bin"


def ag_ui_client(version: str) -> pathlib.Path:
    """The folder of the modules of AG-UI's client in a version."""
    return _modules(f"ag-ui-{version}", (f"@ag-ui/client@{version}",))


def coding_agent() -> pathlib.Path:
    """The coding agent's own program for this machine, which needs neither Node nor its launcher."""
    modules = _modules("codex", CODING_AGENT)
    programs = list(modules.glob("@openai/codex-*/vendor/*/bin/codex"))
    if len(programs) != 1:
        pytest.fail(f"{CODING_AGENT[0]} has no program for this machine below {modules}.", pytrace=False)
    return programs[0]


def front_end(version: int) -> pathlib.Path:
    """The folder of the modules that a front end of the AI SDK needs."""
    return _modules(f"ai-{version}", (FRONT_ENDS[version],))


def page_modules(name: str) -> pathlib.Path:
    """The folder of the modules of a page: its components, and what bundles it."""
    return _modules(name, PAGES[name])


def compliance_tests() -> list[str]:
    """The command that plays them against a server."""
    bun = _modules("compliance", COMPLIANCE_RUNNERS) / ".bin" / "bun"
    # Below the modules that they import.
    place = PLACE / "compliance" / "suite"
    if not _stands(place, COMPLIANCE):
        git = shutil.which("git")
        if git is None:
            pytest.fail("These tests need git, and no folder of PATH has it.", pytrace=False)
        _clear(place)
        url, commit = COMPLIANCE
        _run("clone them", git, "clone", "--quiet", url, str(place))
        _run("check them out", git, "-C", str(place), "checkout", "--quiet", commit)
        _sign(place, COMPLIANCE)
    return [str(bun), "run", str(place / "bin" / "compliance-test.ts")]


def _modules(folder: str, wanted: Sequence[str]) -> pathlib.Path:
    """What npm installed into a folder of its own."""
    place = PLACE / folder
    if not _stands(place, wanted):
        npm = shutil.which("npm")
        if npm is None:
            pytest.fail("These tests need npm, and no folder of PATH has it: install Node 20 or later.", pytrace=False)
        _clear(place)
        place.mkdir(parents=True)
        options = ("--no-audit", "--no-fund", "--loglevel=error")
        _run("install them with npm", npm, "install", "--prefix", str(place), *options, *wanted)
        _sign(place, wanted)
    return place / "node_modules"


def _stands(place: pathlib.Path, wanted: Sequence[str]) -> bool:
    """Whether all of it was installed, by this Python, where it still is."""
    try:
        return bool(json.loads((place / "installed.json").read_text()) == [str(place), sys.executable, *wanted])
    except (OSError, ValueError):
        return False


def _sign(place: pathlib.Path, wanted: Sequence[str]) -> None:
    (place / "installed.json").write_text(json.dumps([str(place), sys.executable, *wanted]))


def _clear(place: pathlib.Path) -> None:
    if place.exists():
        shutil.rmtree(place)


def _run(purpose: str, *argv: str) -> None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False, timeout=PATIENCE)
        said, failed = f"{done.stdout}\n{done.stderr}", done.returncode != 0
    except subprocess.TimeoutExpired:
        said, failed = f"It was not done after {PATIENCE} s.", True
    if failed:
        last = "\n  ".join(line for line in said.splitlines() if line.strip())[-3000:]
        why = f"These tests play programs that others wrote, and could not {purpose}; they need a network."
        pytest.fail(f"{why}\n  {last}", pytrace=False)
