"""The suite itself: installed into the build folder, started for one side and one era, and what it found read back."""

import contextlib
import dataclasses
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

Side = Literal["server", "client"]
ERAS = ("2026-07-28", "2025-11-25")
#: The first line of versions that knows 2026-07-28; pinned, because scenarios come and go.
VERSION = "0.2.0-alpha.12"
PACKAGE = "@modelcontextprotocol/conformance"
#: What the suite needs, and what is installed beside it where that is missing.
NODE, NODE_INSTALLED = 22, 24
#: Milliseconds for a client to play its scenario: the machine may be busy.
TIMEOUT = 120_000
#: What every message is checked for. Alone it says nothing of a scenario.
_SCHEMA = "wire-schema-valid"


class Unavailable(Exception):
    """The suite cannot be had; the text says what to do."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What became of one scenario. ``wrong`` are the checks that failed or warned, and why."""

    side: Side
    era: str
    scenario: str
    required: bool
    passed: bool
    wrong: tuple[tuple[str, str], ...] = ()


class Suite:
    """An installed suite in ``folder``; results go there too."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self._package = folder / "node_modules" / PACKAGE
        self._node = ""

    def install(self) -> None:
        """Installs what is missing. Errors: ``Unavailable``."""
        wanted: list[str] = []
        if not _has_version(self._package, VERSION):
            wanted.append(f"{PACKAGE}@{VERSION}")
        self._node = _own_node()
        if not self._node:
            name = _node_package()
            self._node = str(self._folder / "node_modules" / name / "bin" / "node")
            if not pathlib.Path(self._node).exists():
                wanted.append(f"{name}@{NODE_INSTALLED}")
        if wanted:
            _npm_install(self._folder, wanted)

    def names(self, side: Side, era: str) -> dict[str, bool]:
        """The scenarios of an era, and whether it requires them."""
        listing = self._run(["list", "--requirements", era]).stdout
        found: dict[str, bool] = {}
        section = ""
        for line in listing.splitlines():
            if heading := re.match(r"(Server|Client|Run and reported)", line):
                section = heading[1].lower()
            elif (item := re.fullmatch(r"\s+- (\S+)(?: \[(\w+)\])?", line)) and side in (section, item[2]):
                found[item[1]] = section == side
        return found

    def serve(self, era: str, url: str, names: dict[str, bool]) -> Iterator[Finding]:
        """The findings about a server: all scenarios, one after the other."""
        output = self._output("server", era)
        self._run(["server", "--url", url, "--requirements", era, "--output-dir", str(output)])
        for name, required in names.items():
            checks = _checks(output, f"server-{name}")
            yield _finding("server", era, name, required, checks, complete=True)

    def play(self, era: str, command: str, name: str, *, required: bool) -> Finding:
        """The finding about a client in one scenario. All at once, as the suite would, are too many for a machine."""
        output = self._output("client", f"{era}/{name}")
        options = ["--scenario", name, "--spec-version", era, "--force", "--timeout", str(TIMEOUT)]
        done = self._run(["client", "--command", command, *options, "--output-dir", str(output)])
        return _finding("client", era, name, required, _checks(output, name), complete=done.returncode == 0)

    def _output(self, side: Side, name: str) -> pathlib.Path:
        output = self._folder / "results" / side / name
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir(parents=True)
        return output

    def _run(self, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        command = [self._node, str(self._package / "dist" / "index.js"), *arguments]
        environment = {**os.environ, "NODE_NO_WARNINGS": "1"}
        return subprocess.run(
            command, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment
        )


def _checks(output: pathlib.Path, prefix: str) -> list[dict[str, Any]]:
    """The checks of one scenario: it has a folder of its own, whose name ends with a time."""
    name = re.escape(pathlib.PurePath(prefix).name)
    files = output.glob(f"{prefix}-2*/checks.json")
    found = [file for file in files if re.fullmatch(rf"{name}[\dTZ:-]+", file.parent.name)]
    checks: list[dict[str, Any]] = json.loads(max(found).read_text()) if found else []
    return checks


def _finding(
    side: Side, era: str, name: str, required: bool, checks: Iterable[dict[str, Any]], *, complete: bool
) -> Finding:
    """Stricter than the suite: a warning is a failure, and so is a scenario in which nothing was seen to be right."""
    checks = list(checks)
    wrong = [
        (one["id"], str(one.get("errorMessage") or "")) for one in checks if one["status"] in ("FAILURE", "WARNING")
    ]
    right = [one for one in checks if one["status"] == "SUCCESS" and one["id"] != _SCHEMA]
    if not wrong and not complete:
        wrong.append(("exit", "The client ended with an error."))
    if not wrong and not right:
        wrong.append(("nothing", "Nothing was checked."))
    return Finding(side=side, era=era, scenario=name, required=required, passed=not wrong, wrong=tuple(wrong))


def _has_version(package: pathlib.Path, version: str) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return bool(json.loads((package / "package.json").read_text())["version"] == version)
    return False


def _own_node() -> str:
    """This machine's Node, where it is new enough."""
    node = shutil.which("node")
    if node is None:
        return ""
    said = subprocess.run([node, "--version"], check=False, capture_output=True, text=True).stdout
    version = re.match(r"v(\d+)\.", said)
    return node if version and int(version[1]) >= NODE else ""


def _node_package() -> str:
    """The package that has Node for this machine."""
    machine = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(platform.machine().lower())
    if machine is None or sys.platform not in ("linux", "darwin"):
        raise Unavailable(f"The suite needs Node {NODE} or later: install it, and have it in PATH.")
    return f"node-{sys.platform}-{machine}"


def _npm_install(folder: pathlib.Path, packages: Sequence[str]) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable(
            f"npm installs the suite ({', '.join(packages)}), and there is none: install Node {NODE} or later."
        )
    print(f"Installing {', '.join(packages)} into {folder}; this happens once ...", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    options = ["--prefix", str(folder), "--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    # What is there already would be removed if it was not named again.
    there = [f"{PACKAGE}@{VERSION}"] if f"{PACKAGE}@{VERSION}" not in packages else []
    done = subprocess.run([npm, "install", *options, *packages, *there], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise Unavailable(f"npm could not install the suite:\n{done.stderr.strip()[-2000:]}")
