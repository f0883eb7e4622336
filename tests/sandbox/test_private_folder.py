"""Private folders: what a killed application leaves, and what a removal never touches."""

import contextlib
import os
import pathlib
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Generator

import pytest

from ripieno.sandbox import private_folder
from ripieno.sandbox.private_folder import PrivateFolder, sweep
from ripieno.sandbox.removal import remove
from tests.counts import count

pytestmark = pytest.mark.usefixtures("above")

NAME = "ripieno-private-abcdefgh"
#: Events of Python that are steps in the file system.
STEPS = ("open", "os.", "fcntl.", "tempfile.", "shutil.")


class Instants:
    """Calls a function at one step of this process in the file system: at the one with this number."""

    def __init__(self) -> None:
        self._left = -1
        self._act: Callable[[], object] = lambda: None
        sys.addaudithook(self._hear)

    def _hear(self, event: str, _: object) -> None:
        if self._left >= 0 and event.startswith(STEPS):
            self._left -= 1
            if self._left < 0:
                self._act()

    @contextlib.contextmanager
    def at(self, number: int, act: Callable[[], object]) -> Generator[list[bool], None, None]:
        """The list has one element when there was such a step."""
        reached: list[bool] = []
        self._act = lambda: (reached.append(True), act())
        self._left = number
        try:
            yield reached
        finally:
            self._left = -1


INSTANTS = Instants()


#: Applications that each have a home, in which programs leave this and that, and are killed at one step after another.
APPLICATIONS = """
import os, signal, sys, tempfile
from ripieno.descriptors.sandbox import SandboxDescriptor
from ripieno.sandbox import Sandbox
workspace, kills = sys.argv[1], int(sys.argv[2])
left = -1
def hear(event, _):
    global left
    if left >= 0 and event.startswith(("open", "os.", "fcntl.", "tempfile.")):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
tempfile.gettempdir()
sys.addaudithook(hear)
killed = 0
for number in range(kills):
    application = os.fork()
    if application == 0:
        left = number
        sandbox = Sandbox(workspace, SandboxDescriptor(level="off"))
        home = sandbox.home
        for name in ("one", "two/deep/deeper", "two/other"):
            os.makedirs(f"{home}/{name}")
            open(f"{home}/{name}/file", "w").close()
            os.symlink(workspace, f"{home}/{name}/link")
        os.chmod(f"{home}/two/deep/deeper", 0)
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitpid(application, 0)[1] == signal.SIGKILL
    killed += 1
print(killed)
"""


def test_the_next_start_removes_what_killed_applications_have_left(above: pathlib.Path, tmp_path: pathlib.Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "file").write_text("mine")
    environment = {**os.environ, "TMPDIR": str(above)}
    written = subprocess.run(
        [sys.executable, "-c", APPLICATIONS, str(workspace), str(count(400))],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(written.stdout) == count(400)
    sweep()
    assert os.listdir(above) == []
    assert (workspace / "file").read_text() == "mine"


def test_a_start_takes_no_folder_from_another_start(above: pathlib.Path) -> None:
    """Whenever one of them sweeps, from the first step of the other to the last."""
    number = 0
    reached = [True]
    while reached:
        with INSTANTS.at(number, sweep) as reached, PrivateFolder() as folder:
            sweep()
            assert os.listdir(folder.path) == ["lock"]
            assert os.listdir(above) == [os.path.basename(folder.path)]
        assert os.listdir(above) == []
        number += 1
    assert number > 8


def test_a_folder_stays_as_long_as_its_application(above: pathlib.Path) -> None:
    code = (
        "import sys; from ripieno.sandbox.private_folder import PrivateFolder\n"
        "folder = PrivateFolder(); print(folder.path, flush=True); sys.stdin.read()"
    )
    environment = {**os.environ, "TMPDIR": str(above)}
    with subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        path = other.stdout.readline().strip()
        with PrivateFolder():
            sweep()
            assert os.path.exists(f"{path}/lock")
        other.send_signal(signal.SIGKILL)
        other.wait()
        with PrivateFolder() as folder:
            sweep()
            assert os.listdir(above) == [os.path.basename(folder.path)]


def plant(folder: pathlib.Path, outside: pathlib.Path, chance: random.Random) -> None:
    """Folders, files and links to elsewhere, some of them without permissions."""
    places = [folder]
    for number in range(chance.randrange(1, 30)):
        place = chance.choice(places) / f"{number}"
        match chance.randrange(5):
            case 0 | 1:
                place.mkdir()
                places.append(place)
            case 2:
                place.symlink_to(chance.choice([outside, outside / "folder", outside / "file", folder, "/nowhere"]))
            case 3:
                place.hardlink_to(outside / "file")
            case _:
                os.mkfifo(place)
    for place in reversed(places[1:]):
        place.chmod(chance.choice([0o700, 0o000, 0o500, 0o200]))


def make_outside(place: pathlib.Path) -> pathlib.Path:
    (place / "folder" / "inner").mkdir(parents=True)
    for name in ("file", "folder/file", "folder/inner/file"):
        (place / name).write_text("mine")
        (place / name).chmod(0o640)
    (place / "folder").chmod(0o750)
    return place


def state(place: pathlib.Path) -> list[tuple[str, int, str]]:
    return sorted((str(one), one.stat().st_mode, one.read_text() if one.is_file() else "") for one in place.rglob("*"))


def test_a_removal_touches_nothing_else(tmp_path: pathlib.Path) -> None:
    """Also if a program that still runs exchanges folders for links at any step."""
    outside = make_outside(tmp_path / "outside")
    before = state(outside)
    chance = random.Random(21)
    touched = 0
    for number in range(count(2000)):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        plant(folder, outside, chance)

        def exchange(folder: pathlib.Path = folder, number: int = number, pick: float = chance.random()) -> None:
            inner = sorted(path for path in folder.rglob("*") if path.is_dir() and not path.is_symlink())
            if inner:
                place = inner[int(pick * len(inner))]
                place.rename(tmp_path / f"{number}-moved")
                place.symlink_to(outside / "folder")

        above = os.open(tmp_path, os.O_RDONLY)
        with INSTANTS.at(chance.randrange(60), exchange):
            remove(folder.name, above)
        remove(folder.name, above)
        remove(f"{number}-moved", above)
        os.close(above)
        assert not folder.exists()
        touched += state(outside) != before
    assert touched == 0


def test_no_depth_is_too_deep(tmp_path: pathlib.Path) -> None:
    os.mkdir(tmp_path / "deep")
    descriptor = os.open(tmp_path / "deep", os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=descriptor)
        inner = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
    above = os.open(tmp_path, os.O_RDONLY)
    remove("deep", above)
    os.close(above)
    assert not (tmp_path / "deep").exists()


def unlocked(place: pathlib.Path) -> None:
    place.mkdir(mode=0o700)
    (place / "lock").touch(mode=0o600)
    (place / "file").touch()


def foreign_folders(outside: pathlib.Path) -> dict[str, Callable[[pathlib.Path], object]]:
    """Things with the name of one of ours that are not to be removed."""

    def with_lock(make: Callable[[pathlib.Path], object]) -> Callable[[pathlib.Path], object]:
        def plant(place: pathlib.Path) -> None:
            unlocked(place)
            (place / "lock").unlink()
            make(place / "lock")

        return plant

    return {
        "link": lambda place: place.symlink_to(outside / "folder"),
        "file": lambda place: place.touch(),
        "pipe": os.mkfifo,
        "open to others": lambda place: (unlocked(place), place.chmod(0o755)),
        "without a lock": with_lock(lambda lock: None),
        "lock is a link": with_lock(lambda lock: lock.symlink_to(outside / "file")),
        "lock is a folder": with_lock(lambda lock: lock.mkdir()),
        "lock is a pipe": with_lock(lambda lock: os.mkfifo(lock, 0o600)),
        "lock is open to others": with_lock(lambda lock: lock.touch(mode=0o644)),
        **({"of another user": lambda place: (unlocked(place), os.chown(place, 1, 1))} if os.geteuid() == 0 else {}),
    }


def test_only_what_is_ours_is_removed(above: pathlib.Path, tmp_path: pathlib.Path) -> None:
    outside = make_outside(tmp_path / "outside")
    before = state(outside)
    for name, make in foreign_folders(outside).items():
        make(above / NAME)
        sweep()
        assert os.path.lexists(above / NAME), name
        (above / NAME).rename(tmp_path / name)
    for name in ("ripieno-private-abcdefg", f"{NAME}i", "ripieno-abcdefgh", "ripieno-private-ABCDEFGH", f"x{NAME}"):
        unlocked(above / name)
        sweep()
        assert (above / name / "file").exists()
    unlocked(above / NAME)
    (above / "ripieno-private-empty___").mkdir(mode=0o700)
    sweep()
    assert len(os.listdir(above)) == 5
    assert state(outside) == before


def test_without_a_place_for_it_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(*_: object) -> None:
        raise BlockingIOError

    monkeypatch.setattr(private_folder.fcntl, "flock", taken)
    with pytest.raises(OSError, match="no private folder could be made"):
        PrivateFolder()
