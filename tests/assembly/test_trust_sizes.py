"""Files of a project that are huge, endless or no files: they are neither read nor opened, and cannot be trusted."""

import itertools
import os
import pathlib
import re
import socket
from collections.abc import Callable

import pytest

from ripieno.assembly import trust
from ripieno.assembly.configuration import load_configuration
from ripieno.assembly.trust import TrustStore, find_project
from ripieno.descriptors.named_files import NamedFiles
from ripieno.exceptions import InputError
from tests.support.command_line import User

HUGE = 500 * 10**9
#: Beside the configuration, beneath folders of ensembles, and wherever an ensemble names code.
PLACES = (
    *("ensembles/data.bin", "ensembles/a/b/c/run.sh", "ensembles/tool.py", "ensembles/.hidden", "more/data"),
    *("beside.py", "run.sh", "lib/tool.py"),
)
NAMING = """
[ensemble]
name = "own"
[[invokers]]
name = "run"
description = "Runs."
invocable = { origin = "command", argv = ["sh", "run.sh"] }
[[invokers]]
name = "call"
description = "Calls."
invocable = { function = "lib/tool.py:call" }
"""


def sparse(path: pathlib.Path) -> None:
    path.touch()
    os.truncate(path, HUGE)


def pipe(path: pathlib.Path) -> None:
    os.mkfifo(path)


def unix_socket(path: pathlib.Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        number = os.open(path.parent, os.O_PATH)
        one.bind(f"/proc/self/fd/{number}/{path.name}")
        os.close(number)


KINDS: dict[str, Callable[[pathlib.Path], None]] = {"sparse": sparse, "pipe": pipe, "socket": unix_socket}


def bytes_read() -> int:
    """The bytes that this process has read so far."""
    return int(pathlib.Path("/proc/self/io").read_text().split()[1])


def refused(user: User, name: str) -> None:
    """The project is found without reading what it has, and says which file prevents its trust."""
    before = bytes_read()
    project = find_project(user.workspace)
    assert project is not None
    assert bytes_read() - before < 2**20
    with pytest.raises(InputError, match=f"cannot be trusted: .*{re.escape(name)} cannot be checked"):
        TrustStore(user.places.state).add(project)
    loaded = load_configuration(workspace=None, places=user.places, project=project)
    assert loaded.failures == ()
    assert any("cannot be trusted" in one.reason and name in one.reason for one in loaded.left_out)


@pytest.fixture
def project(user: User) -> pathlib.Path:
    user.ensemble("own", NAMING, folder=user.workspace / "ensembles")
    (user.workspace / "ripieno.toml").write_text('[ensembles]\npaths = ["more"]\n')
    for folder in ("ensembles/a/b/c", "more", "lib"):
        (user.workspace / folder).mkdir(parents=True)
    return user.workspace


@pytest.mark.parametrize("through_link", [False, True])
@pytest.mark.parametrize(("place", "kind"), tuple(itertools.product(PLACES, KINDS)))
def test_what_cannot_be_checked_is_not_read(
    user: User, project: pathlib.Path, place: str, kind: str, through_link: bool
) -> None:
    path = file = project / place
    if through_link:
        file = project / "elsewhere"
        path.symlink_to(os.path.relpath(file, path.parent))
    KINDS[kind](file)
    refused(user, path.name)


def test_all_files_together_are_bounded(user: User, project: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust, "_BYTES", 64 * 1024)
    for number in range(10):
        (project / "ensembles" / f"{number}.bin").write_bytes(bytes(7 * 1024))
    found = find_project(project)
    assert found is not None
    assert (
        found.obstacle
        == f"{project}/ensembles/9.bin cannot be checked: with it, the files have more than 0 MiB, too many to check"
    )
    (project / "ensembles" / "9.bin").unlink()
    TrustStore(user.places.state).add(find_project(project) or found)


def test_a_link_to_a_device_counts_by_where_it_leads(user: User, project: pathlib.Path) -> None:
    digests: set[str] = set()
    for target in ("/dev/zero", "/dev/null", "/dev/tty", "loop", "missing"):
        (project / "ensembles" / "loop").unlink(missing_ok=True)
        (project / "ensembles" / "loop").symlink_to(target)
        found = find_project(project)
        assert found is not None
        TrustStore(user.places.state).add(found)
        digests.add(found.digest)
    assert len(digests) == 4


@pytest.mark.parametrize("command", [("tools",), ("trust", "--yes"), ("check",)], ids=" ".join)
def test_commands_name_the_file(user: User, project: pathlib.Path, command: tuple[str, ...]) -> None:
    sparse(project / "ensembles" / "data.bin")
    done = user.call(*command)
    assert "cannot be trusted" in done.stdout + done.stderr
    assert "data.bin cannot be checked" in done.stdout + done.stderr


@pytest.mark.parametrize("place", ["run.sh", "lib/tool.py"])
def test_code_of_the_users_own_is_bounded(user: User, place: str) -> None:
    user.configure('[ensembles]\nenabled = ["own"]\n')
    user.ensemble("own", NAMING)
    (user.workspace / "lib").mkdir()
    sparse(user.workspace / place)
    before = bytes_read()
    loaded = load_configuration(workspace=user.workspace, places=user.places, project=None)
    assert bytes_read() - before < 2**20
    assert [str(failure) for failure in loaded.failures] == [
        f"{user.workspace / place} cannot be read: it is larger than 256 MiB."
    ]
    with pytest.raises(InputError, match="cannot be read: it is larger than 256 MiB"):
        NamedFiles().read(str(user.workspace / place))
