"""The example plugin, built and installed as anybody would, then played by the real command."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLE = ROOT / "documentation" / "examples" / "plugin-weather"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with the plugin in it, as an installer leaves it."""
    target = tmp_path_factory.mktemp("site")
    options = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(target), str(EXAMPLE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


def ripieno(installed: pathlib.Path, home: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line of a user whose home is ``home``, with the plugin installed."""
    path = os.pathsep.join((str(installed), str(ROOT / "sources")))
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "RIPIENO_CONFIG_HOME": str(home / "configuration"),
        "RIPIENO_STATE_HOME": str(home / "state"),
    }
    command = [sys.executable, "-m", "ripieno", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=home)


def allow(home: pathlib.Path) -> None:
    (home / "configuration").mkdir()
    (home / "configuration" / "config.toml").write_text('[plugins]\nallow = ["ripieno-weather"]\n')


def test_installed_is_not_consent(installed: pathlib.Path, tmp_path: pathlib.Path) -> None:
    done = ripieno(installed, tmp_path, "tools", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert "weather" not in done.stdout
    doctor = ripieno(installed, tmp_path, "doctor")
    assert "ripieno-weather" in doctor.stdout


def test_allowed_it_plays(installed: pathlib.Path, tmp_path: pathlib.Path) -> None:
    allow(tmp_path)
    done = ripieno(installed, tmp_path, "tools", "--ensemble", "weather", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert "weather__get_weather" in done.stdout
    done = ripieno(installed, tmp_path, "invoke", "weather.get_weather", "city=Paris", "--format", "json")
    assert done.returncode == 0, done.stderr
    mapping = json.loads(done.stdout)
    assert mapping["success"] is True
    assert json.loads(mapping["output"])["city"] == "Paris"


def test_its_faults_and_its_plain_function(installed: pathlib.Path, tmp_path: pathlib.Path) -> None:
    allow(tmp_path)
    done = ripieno(installed, tmp_path, "invoke", "weather.get_weather", "city=Atlantis")
    assert done.returncode == 1
    assert "under water" in done.stdout + done.stderr
    arguments = json.dumps({"cities": ["Oslo", "Rome"]})
    done = ripieno(installed, tmp_path, "invoke", "weather.compare_cities", "--arguments", arguments)
    assert done.returncode == 0, done.stderr
    assert "is the warmest of 2" in done.stdout


def test_check_finds_nothing_wrong(installed: pathlib.Path, tmp_path: pathlib.Path) -> None:
    data = EXAMPLE / "sources" / "ripieno_weather" / "data" / "ensembles"
    done = ripieno(installed, tmp_path, "check", "--strict", str(data))
    assert done.returncode == 0, done.stdout + done.stderr
