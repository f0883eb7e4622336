"""The data folder reaches its readers: from a checkout, from a wheel, and from a wheel made of the source archive."""

import importlib.resources
import os
import pathlib
import subprocess
import sys
import tarfile
import zipfile

import pytest

ROOT = pathlib.Path(__file__).parents[2]
DATA = ROOT / "sources" / "ripieno" / "data"
READ = (
    "import importlib.resources, pathlib, ripieno\n"
    "data = pathlib.Path(str(importlib.resources.files('ripieno'))) / 'data'\n"
    "print(*sorted(str(path.relative_to(data)) for path in data.rglob('*') if path.is_file()), sep='\\n')\n"
)


def files(folder: pathlib.Path) -> dict[str, bytes]:
    """Every file beneath ``folder``: path from there, and content."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def run(*command: str, cwd: pathlib.Path = ROOT, **environment: str) -> str:
    """The standard output of a command; its error output is the text of the assertion."""
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def build(source: pathlib.Path, folder: pathlib.Path, *targets: str) -> None:
    """Builds a wheel, a source archive, or both, as an installer does."""
    options = [part for target in targets for part in ("--target", target)]
    run(sys.executable, "-m", "hatchling", "build", *options, "--directory", str(folder), cwd=source)


def packed(wheel: pathlib.Path) -> dict[str, bytes]:
    """Every file that a wheel puts into ``ripieno/data``."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith("ripieno/data/")]
        return {name.removeprefix("ripieno/data/"): archive.read(name) for name in names}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The folder of the wheel and the source archive of this checkout."""
    folder = tmp_path_factory.mktemp("built")
    build(ROOT, folder, "wheel", "sdist")
    return folder


@pytest.fixture(scope="module")
def wheel(built: pathlib.Path) -> pathlib.Path:
    (wheel,) = built.glob("*.whl")
    return wheel


def test_checkout_finds_data() -> None:
    found = pathlib.Path(str(importlib.resources.files("ripieno"))) / "data"
    assert found.resolve() == ROOT / "data"
    assert (DATA.is_symlink(), os.readlink(DATA)) == (True, os.path.join("..", "..", "data"))
    assert {"ensembles/io.toml", "web/index.html", "web/vendor/NOTICES"} <= set(files(found))


def test_wheel_has_all_data(wheel: pathlib.Path) -> None:
    assert packed(wheel) == files(DATA)


def test_wheel_has_the_package_only(wheel: pathlib.Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        roots = {name.partition("/")[0] for name in archive.namelist()}
        names = set(archive.namelist())
    assert {root.partition("-")[0] for root in roots} == {"ripieno"}
    assert {"ripieno/__init__.py", "ripieno/py.typed"} <= names
    assert any(name.endswith("/licenses/LICENSE") for name in names)


def test_unpacked_wheel_finds_data(wheel: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    listed = run(sys.executable, "-c", READ, PYTHONPATH=str(tmp_path)).split()
    assert listed == sorted(files(DATA))


def test_source_archive_builds_the_same_wheel(built: pathlib.Path, wheel: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = opened.getnames()
        opened.extractall(tmp_path, filter="data")
    wanted = "/sources/ripieno/data/"
    assert not [name for name in names if name.endswith("ensembles/io.toml") and wanted not in name]
    (source,) = tmp_path.iterdir()
    build(source, tmp_path, "wheel")
    (rebuilt,) = tmp_path.glob("*.whl")
    assert packed(rebuilt) == files(DATA)
    with zipfile.ZipFile(rebuilt) as second, zipfile.ZipFile(wheel) as first:
        assert sorted(second.namelist()) == sorted(first.namelist())
