"""Fixtures: what shows whether programs live, and a stand-in for the confinement."""

import pathlib
import shutil
from collections.abc import Iterator

import pytest

from ripieno.sandbox import supervision
from ripieno.sandbox import zygote as zygote_module
from tests.support.live_processes import Living, living

STAND_IN = """
import ctypes, os

def enter(settings):
    if "enter" in settings:
        raise OSError(1, settings["enter"])
    if not settings.get("pid"):
        return frozenset()
    if ctypes.CDLL(None, use_errno=True).unshare(0x10000000 * (os.geteuid() != 0) | 0x20000000):
        raise OSError(ctypes.get_errno(), "unshare")
    return frozenset(("pid",))

def get_ready(settings):
    if "ready" in settings:
        raise OSError(1, settings["ready"])

def apply(settings):
    if "apply" in settings:
        raise OSError(1, settings["apply"])
    if "signals" in settings:
        # To the keeper, which has the order and has not reported its start, and to the zygote.
        keeper = os.getppid()
        zygote = int(open(f"/proc/{keeper}/stat").read().rpartition(")")[2].split()[1])
        for number, process in zip(settings["signals"], (zygote, keeper)):
            os.kill(process, number)
    os.environ["UNSEEN"] = "1"
    os.write(1, b"applied to %d\\n" % os.getpid())
"""


@pytest.fixture
def alive(tmp_path: pathlib.Path) -> Iterator[Living]:
    with living(tmp_path / "alive") as one:
        yield one


@pytest.fixture
def stand_in(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A zygote whose room of confinements is a stand-in."""
    package = tmp_path / "stand-in"
    shutil.copytree(pathlib.Path(supervision.__file__).parent, package / "supervision")
    (package / "confinement").mkdir()
    (package / "confinement" / "__init__.py").touch()
    imports = "from ripieno.sandbox.confinement.namespaces import apply, get_ready\n"
    (package / "confinement" / "apply.py").write_text(imports)
    (package / "confinement" / "namespaces.py").write_text(STAND_IN)
    monkeypatch.setattr(zygote_module, "_LAUNCHER", package / "supervision" / "launcher.py")
    zygote_module.ZYGOTES.drop()
    yield
    zygote_module.ZYGOTES.drop()
