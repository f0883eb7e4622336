"""What the tests of searching share: the tools of a workspace, with ripgrep and without."""

import contextlib
import os
import pathlib
import re
import shutil
import sys
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import pytest

from tests.skips import needs
from tests.toolset.bundled_tools import Tools, tools_of

RIPGREP = shutil.which("rg", path=os.pathsep.join((str(pathlib.Path(sys.executable).parent), os.environ["PATH"])))
needs_ripgrep = needs("rg", there=RIPGREP is not None)
ENGINES = [pytest.param("ripgrep", marks=needs_ripgrep), "without ripgrep"]


@contextlib.asynccontextmanager
async def searching(
    workspace: pathlib.Path, engine: str, sandbox: Mapping[str, Any] | None = None
) -> AsyncGenerator[Tools, None]:
    """The ensemble ``search``; ripgrep is in PATH or it is not."""
    with pytest.MonkeyPatch.context() as patch:
        hidden = [one for one in os.environ["PATH"].split(":") if not (pathlib.Path(one) / "rg").exists()]
        first = [] if RIPGREP is None or engine != "ripgrep" else [str(pathlib.Path(RIPGREP).parent)]
        patch.setenv("PATH", ":".join([*first, *hidden]))
        async with tools_of("search", workspace, sandbox=sandbox) as tools:
            yield tools


def places(said: str) -> list[tuple[str, int]]:
    """File and line of every line that a result says fits, in its order."""
    found = re.findall(r"^([^\n]*?):(\d+):(?: |$)", said.partition("\n")[2], re.MULTILINE)
    return [(path, int(number)) for path, number in found]


def make(root: pathlib.Path, files: Mapping[str, bytes]) -> None:
    """Files beneath a folder, with those above them."""
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
