"""The example plugin, built, installed and used by the real command."""

import json
import os
import pathlib
import subprocess
import sys
import tomllib

import jsonschema
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


STATION = """
[ensemble]
name = "station"
description = "Reads the gauges of a weather station"
[connection]
origin = "weather-station"
driver = ["read-the-gauge", "--quietly"]
password = "{env:STATION_PASSWORD}"
[[invokers]]
name = "read_rain"
description = "Reads the rain gauge"
effect = "read"
invocable = { origin = "weather-station", gauge = "rain" }
"""


def place_station(home: pathlib.Path, text: str = STATION) -> pathlib.Path:
    """An ensemble of the user that has the plugin's origin."""
    file = home / "configuration" / "ensembles" / "station.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


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


def test_editors_know_the_keys_of_its_origin(installed: pathlib.Path, tmp_path: pathlib.Path) -> None:
    before = ripieno(installed, tmp_path, "schema", "ensemble").stdout
    assert "weather-station" not in before, "It is not allowed yet."
    allow(tmp_path)
    invoker = '[invoker]\nname = "a"\ndescription = "A"\n[invocable]\norigin = "weather-station"\ngauge = "rain"\n'
    for kind, text in (("ensemble", STATION), ("invoker", invoker)):
        printed = ripieno(installed, tmp_path, "schema", kind)
        schema = jsonschema.Draft202012Validator(json.loads(printed.stdout))
        schema.validate(tomllib.loads(text))
        for key in ("driver", "password", "gauge") if kind == "ensemble" else ("gauge",):
            assert not schema.is_valid(tomllib.loads(text.replace(f"{key} =", f"{key}x ="))), key
        assert not schema.is_valid(tomllib.loads(text.replace('"rain"', '"snow"')))


def test_check_and_doctor_find_what_its_origin_needs(installed: pathlib.Path, tmp_path: pathlib.Path) -> None:
    allow(tmp_path)
    file = place_station(tmp_path)
    done = ripieno(installed, tmp_path, "check")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{file}:7: warning: the program 'read-the-gauge' is not in PATH" in done.stdout
    assert f"{file}:8: warning: the variable STATION_PASSWORD is not set" in done.stdout
    done = ripieno(installed, tmp_path, "doctor", "--no-connect", "--format", "json")
    facts = json.loads(done.stdout)
    (seen,) = (one for one in facts["ensembles"] if one["name"] == "station")
    assert seen["absent_variables"] == ["STATION_PASSWORD"]
    assert any(f"{file}:7: warning: the program 'read-the-gauge' is not in PATH" in one for one in facts["warnings"])
    place_station(tmp_path, STATION.replace("driver", "drivr").replace("gauge =", "guage ="))
    done = ripieno(installed, tmp_path, "check")
    assert done.returncode == 2
    for line, key, meant in ((7, "drivr", "driver"), (13, "guage", "gauge")):
        assert f"{file}:{line}: error: " in done.stdout
        assert f" has no key {key}" in done.stdout
        assert f"Did you mean {meant!r}?" in done.stdout


def test_the_program_of_its_origin_is_pinned_and_runs(
    installed: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(tmp_path)
    monkeypatch.setenv("STATION_PASSWORD", "very secret")
    driver = json.dumps([sys.executable, "-c", "import os, sys; print(sys.argv[1], os.environ['PASSWORD'])"])
    text = STATION.replace('["read-the-gauge", "--quietly"]', driver)
    place_station(tmp_path, text)
    done = ripieno(installed, tmp_path, "invoke", "station.read_rain")
    assert (done.returncode, done.stdout) == (0, "rain very secret\n"), done.stderr
    assert ripieno(installed, tmp_path, "lock").returncode == 0
    pinned = tomllib.loads((tmp_path / "state" / "pins.toml").read_text())["ensembles"]["station"]["command"]
    definition = json.loads(pinned["definition"])
    assert (definition["command"], definition["environment"]) == (json.loads(driver), ["PASSWORD"])
    place_station(tmp_path, text.replace("print(", "print('changed', "))
    assert "differs from the approved one" in ripieno(installed, tmp_path, "invoke", "station.read_rain").stderr
    done = ripieno(installed, tmp_path, "doctor", "--no-connect", "--format", "json")
    (seen,) = (one for one in json.loads(done.stdout)["ensembles"] if one["name"] == "station")
    assert (seen["pins"]["state"], seen["pins"]["command"]) == ("changed", "changed")
