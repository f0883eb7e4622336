"""The example plugin, built, installed and used by the real command."""

import asyncio
import contextlib
import json
import pathlib
import shlex
import subprocess
import sys
import tomllib
from typing import Any

import jsonschema
import pytest

from ripieno import plugin
from ripieno.assembly import assemble
from ripieno.canisters import InvocationCanister
from ripieno.jsonvalues import freeze
from tests.assembly.test_plugins import install
from tests.documentation.code_blocks import blocks
from tests.support.command_line import ROOT, User
from tests.support.toml_ensembles import Alerts

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


@pytest.fixture(autouse=True)
def importable(installed: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(installed))


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


@pytest.fixture
def allowing(user: User) -> User:
    """A user who allows the plugin."""
    user.configure('[plugins]\nallow = ["ripieno-weather"]\n')
    return user


def test_installed_is_not_consent(user: User) -> None:
    done = user.call("tools", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert "weather" not in done.stdout
    assert "ripieno-weather" in user.call("doctor").stdout
    file = user.configuration / "config.toml"
    advice = f'not allowed: ripieno-weather. To allow it, write under [plugins] in {file}: allow = ["ripieno-weather"]'
    for words in (["invoke", "weather.get_weather"], ["tools", "-e", "weather"], ["forecast"]):
        done = user.call(*words)
        assert (done.returncode, advice in done.stderr) == (2, True), done.stderr
    slip = user.call("invok", "io.read_file")
    assert (slip.returncode, "Did you mean" in slip.stderr, "not allowed" in slip.stderr) == (2, True, False)


def test_the_commands_of_the_tutorial(allowing: User) -> None:
    page = next(block.text for block in blocks("tutorials/write-a-plugin") if "ripieno tools" in block.text)
    for line in page.splitlines():
        done = allowing.call(*shlex.split(line)[2:])
        assert (done.returncode, done.stdout != "") == (0, True), done.stderr


def test_the_tutorial_has_all_hooks() -> None:
    page = (ROOT / "documentation" / "tutorials" / "write-a-plugin.rst").read_text(encoding="utf-8")
    listed = page.partition("All hooks")[2]
    assert [name for name in vars(plugin) if name.startswith("ripieno_") and f"``{name}``" not in listed] == []


def test_its_command_has_the_options_of_every_command(allowing: User, installed: pathlib.Path) -> None:
    score = allowing.workspace / "wear.toml"
    score.write_text('[score]\nname = "wear"\n[[turns]]\ntext = "A coat."\n')
    with allowing.rehearse(str(score)) as urls:
        other = allowing.workspace / "other.toml"
        other.write_text(
            f'[model]\ndefault = "house/small"\n[providers.house]\nprotocol = "openai-chat"\n'
            f'base_url = "{urls["openai-chat"]}"\n'
        )
        done = allowing.run("--config", str(other), "forecast", "Paris", PYTHONPATH=str(installed))
    assert (done.returncode, done.stdout) == (0, "A coat.\n"), done.stderr
    done = allowing.run("--config", "absent.toml", "forecast", "Paris", PYTHONPATH=str(installed))
    assert (done.returncode, "absent.toml" in done.stderr) == (2, True), done.stderr


def allow_choir(user: User, folder: pathlib.Path, source: str, *others: str) -> None:
    """Installs a plugin of one module, and allows it."""
    install(folder, "choir", "choir_plugin", source)
    user.configure(f"[plugins]\nallow = {json.dumps(['choir', *others])}\n")


def test_a_command_of_a_plugin_may_ask(user: User, tmp_path: pathlib.Path) -> None:
    source = (
        "import asyncio, click\nfrom ripieno.approvals import Approve, CallbackConfirmer\n"
        "from ripieno.plugin import InvocationCanister, hookimpl\n"
        '@hookimpl\ndef ripieno_commands():\n    return {"sing": "choir_plugin:sing"}\n'
        '@click.command()\n@click.pass_obj\ndef sing(settings):\n    """Sing a song."""\n'
        "    async def write():\n"
        "        async with settings.assemble(confirmer=CallbackConfirmer(lambda request: Approve())) as assembly:\n"
        '            arguments = {"path": "song.txt", "content": "la"}\n'
        '            call = InvocationCanister(identifier="a", name="write_file", arguments=arguments)\n'
        "            print((await assembly.execution.execute(call, ensembles=assembly.ensembles)).error)\n"
        "    asyncio.run(write())\n"
    )
    allow_choir(user, tmp_path, source)
    done = user.run("sing", PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "None\n"), done.stderr
    assert (user.workspace / "song.txt").read_text() == "la"


def test_what_is_wrong_with_a_plugin_is_said(user: User, tmp_path: pathlib.Path) -> None:
    source = (
        "import click, pathlib\nfrom ripieno.plugin import hookimpl\n"
        '@hookimpl\ndef ripieno_commands():\n    return {"ask": "choir_plugin:sing", "sing": "choir_plugin:sing"}\n'
        '@click.command()\ndef sing():\n    """Sing a song."""\n    raise RuntimeError("hoarse")\n'
    )
    allow_choir(user, tmp_path, source)
    done = user.run("check", PYTHONPATH=str(tmp_path))
    assert "warning: the command 'ask' of a plugin is not used" in done.stdout
    done = user.run("sing", PYTHONPATH=str(tmp_path))
    assert f"Bug in a command, at {tmp_path / 'choir_plugin.py'}:9: RuntimeError: hoarse" in done.stderr
    hook = f'@hookimpl\ndef ripieno_data():\n    return (pathlib.Path({str(tmp_path)!r}, "dta"),)\n'
    (tmp_path / "choir_plugin.py").write_text(source + hook)
    done = user.run("tools", PYTHONPATH=str(tmp_path))
    assert (done.returncode, f"ripieno_data names {tmp_path / 'dta'}, which is no folder" in done.stderr) == (2, True)


def test_a_command_of_a_plugin_has_its_own_line(user: User, tmp_path: pathlib.Path) -> None:
    source = (
        "import click\nfrom ripieno.plugin import hookimpl\n"
        '@hookimpl\ndef ripieno_commands():\n    return {"sing": "choir_plugin:sing"}\n'
        '@click.command()\ndef sing():\n    """Sing a song."""\n'
    )
    allow_choir(user, tmp_path, source, "not-installed")
    done = user.run("--help", PYTHONPATH=str(tmp_path))
    assert "  sing       Sing a song." in done.stdout.splitlines(), done.stdout + done.stderr
    checked = user.call("check")
    assert f"{user.configuration / 'config.toml'}:2: warning: the plugin 'not-installed'" in checked.stdout
    assert (checked.returncode, user.call("check", "--strict").returncode) == (0, 2)


def test_allowed_it_is_enabled(allowing: User, installed: pathlib.Path) -> None:
    done = allowing.call("tools", "--ensemble", "weather", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert "weather__get_weather" in done.stdout
    done = allowing.run("invoke", "weather.get_weather", "city=Paris", "--format", "json", PYTHONPATH=str(installed))
    assert done.returncode == 0, done.stderr
    mapping = json.loads(done.stdout)
    assert mapping["success"] is True
    assert json.loads(mapping["output"])["city"] == "Paris"


def test_its_faults_and_its_plain_function(allowing: User) -> None:
    done = allowing.call("invoke", "weather.get_weather", "city=Atlantis")
    assert done.returncode == 1
    assert "under water" in done.stdout + done.stderr
    arguments = json.dumps({"cities": ["Oslo", "Rome"]})
    done = allowing.call("invoke", "weather.compare_cities", "--arguments", arguments)
    assert done.returncode == 0, done.stderr
    assert "is the warmest of 2" in done.stdout


def test_check_finds_nothing_wrong(user: User) -> None:
    done = user.call("check", "--strict", str(EXAMPLE / "sources" / "ripieno_weather" / "data" / "ensembles"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_without_consent_editors_do_not_know_its_keys(user: User) -> None:
    assert "weather-station" not in user.call("schema", "ensemble").stdout


def test_editors_know_the_keys_of_its_origin(allowing: User) -> None:
    invoker = '[invoker]\nname = "a"\ndescription = "A"\n[invocable]\norigin = "weather-station"\ngauge = "rain"\n'
    for kind, text in (("ensemble", STATION), ("invoker", invoker)):
        printed = allowing.call("schema", kind)
        schema = jsonschema.Draft202012Validator(json.loads(printed.stdout))
        schema.validate(tomllib.loads(text))
        for key in ("driver", "password", "gauge") if kind == "ensemble" else ("gauge",):
            assert not schema.is_valid(tomllib.loads(text.replace(f"{key} =", f"{key}x ="))), key
        assert not schema.is_valid(tomllib.loads(text.replace('"rain"', '"snow"')))


def test_check_and_doctor_find_what_its_origin_needs(allowing: User) -> None:
    file = allowing.ensemble("station", STATION)
    done = allowing.call("check")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{file}:7: warning: the program 'read-the-gauge' is not in PATH" in done.stdout
    assert f"{file}:8: warning: the variable STATION_PASSWORD is not set" in done.stdout
    assert "Ensemble 'station': The variable STATION_PASSWORD is not set." in allowing.call("tools").stderr
    done = allowing.call("doctor", "--no-connect", "--format", "json")
    facts = json.loads(done.stdout)
    (seen,) = (one for one in facts["ensembles"] if one["name"] == "station")
    assert seen["absent_variables"] == ["STATION_PASSWORD"]
    assert any(f"{file}:7: warning: the program 'read-the-gauge' is not in PATH" in one for one in facts["warnings"])
    allowing.ensemble("station", STATION.replace("driver", "drivr").replace("gauge =", "guage ="))
    done = allowing.call("check")
    assert done.returncode == 2
    for line, key, meant in ((7, "drivr", "driver"), (13, "guage", "gauge")):
        assert f"{file}:{line}: error: " in done.stdout
        assert f" has no key {key}" in done.stdout
        assert f"Did you mean {meant!r}?" in done.stdout


def test_the_program_of_its_origin_is_pinned_and_runs(allowing: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATION_PASSWORD", "very secret")
    driver = json.dumps([sys.executable, "-c", "import os, sys; print(sys.argv[1], os.environ['PASSWORD'])"])
    text = STATION.replace('["read-the-gauge", "--quietly"]', driver)
    allowing.ensemble("station", text)
    done = allowing.call("invoke", "station.read_rain")
    assert (done.returncode, done.stdout) == (0, "rain very secret\n"), done.stderr
    assert allowing.call("lock").returncode == 0
    pinned = tomllib.loads((allowing.state / "pins.toml").read_text())["ensembles"]["station"]["command"]
    definition = json.loads(pinned["definition"])
    assert (definition["command"], definition["environment"]) == (json.loads(driver), ["PASSWORD"])
    allowing.ensemble("station", text.replace("print(", "print('changed', "))
    assert "differs from the approved one" in allowing.call("invoke", "station.read_rain").stderr
    done = allowing.call("doctor", "--no-connect", "--format", "json")
    (seen,) = (one for one in json.loads(done.stdout)["ensembles"] if one["name"] == "station")
    assert (seen["pins"]["state"], seen["pins"]["command"]) == ("changed", "changed")


HARBOUR = """
[ensemble]
name = "harbour"

[connection]
origin = "mcp"
transport = "unix-socket"

[connection.unix-socket]
path = "{env:HARBOUR_SOCKET}"
"""


def test_check_and_editors_know_a_transport_of_a_plugin(allowing: User, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "documentation" / "tutorials" / "write-a-plugin.rst").read_text(encoding="utf-8")
    assert all(line in page for line in HARBOUR.splitlines())
    file = allowing.ensemble("harbour", HARBOUR)
    schema = jsonschema.Draft202012Validator(json.loads(allowing.call("schema", "ensemble").stdout))
    done = allowing.call("check")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{file}:10: warning: the variable HARBOUR_SOCKET is not set" in done.stdout
    assert schema.is_valid(tomllib.loads(HARBOUR))
    monkeypatch.setenv("HARBOUR_SOCKET", "/nowhere")
    done = allowing.call("invoke", "harbour.greet")
    assert "the MCP server could not be reached: FileNotFoundError" in done.stderr
    assert "Its transport: unix-socket" in done.stderr
    for old, new, line, words in (
        ("path =", "pth =", 10, "[connection.unix-socket] has no key pth"),
        ('"unix-socket"', '"unix-sockt"', 7, "Did you mean 'unix-socket'?"),
        ("[connection.unix-socket]\npath", "command = []\n#", 5, "[connection.unix-socket] lacks path"),
        ('"unix-socket"', '"stdio"', 9, "unix-socket belongs to the transport unix-socket, but this one is stdio"),
    ):
        text = HARBOUR.replace(old, new, 1)
        allowing.ensemble("harbour", text)
        done = allowing.call("check")
        assert done.returncode == 2
        assert f"{file}:{line}: error: " in done.stdout
        assert words in done.stdout, done.stdout


async def test_a_real_mcp_server_over_a_transport_of_a_plugin(
    allowing: User, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "socket"
    writers: list[asyncio.StreamWriter] = []
    serving: list[Any] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError):
            while data := await reader.read(2**16):
                writer.write(data)
                await writer.drain()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        serving.append(asyncio.current_task())
        program = (sys.executable, "-m", "tests.support.mcp_servers.well_behaved")
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process = await asyncio.create_subprocess_exec(*program, cwd=ROOT, **pipes)
        assert process.stdin is not None
        assert process.stdout is not None
        await asyncio.gather(pump(reader, process.stdin), pump(process.stdout, writer))
        await process.wait()

    monkeypatch.setenv("HARBOUR_SOCKET", str(path))
    allowing.ensemble("harbour", HARBOUR + '[overrides.greet]\neffect = "read"\n')
    server = await asyncio.start_unix_server(serve, path)
    alerts = Alerts()
    async with server, assemble(places=allowing.places, workspace=allowing.workspace, alert=alerts.append) as one:
        harbour = one.access_ensemble("harbour")
        call = InvocationCanister(identifier="call", name="harbour__greet", arguments=freeze({"name": "Ada"}))
        assert (await one.execution.execute(call, ensembles=[harbour])).text == "Hello, Ada."
        writers[0].close()
        await alerts.wait_for("has reconnected")
        assert (await one.execution.execute(call, ensembles=[harbour])).text == "Hello, Ada."
    await asyncio.gather(*serving)
    assert len(serving) == 2


BUOY = """
[ensemble]
name = "buoy"
[connection]
origin = "weather-buoy"
port = {port}
[[invokers]]
name = "read_water"
description = "Reads the water's temperature"
effect = "read"
invocable = {{ origin = "weather-buoy", sensor = "water" }}
"""


async def test_a_connection_that_is_lost_is_opened_again(allowing: User) -> None:
    lines: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            while line := await reader.readline():
                lines.append(line)
                if len(lines) == 2:
                    return
                writer.write(b"11 degrees\n")

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    allowing.ensemble("buoy", BUOY.format(port=server.sockets[0].getsockname()[1]))
    alerts = Alerts()
    async with server, assemble(places=allowing.places, workspace=allowing.workspace, alert=alerts.append) as one:
        buoy = one.access_ensemble("buoy")
        call = InvocationCanister(identifier="call", name="read_water")
        results = [await one.execution.execute(call, ensembles=[buoy]) for _ in range(2)]
        assert results[0].text == "11 degrees"
        assert results[1].error is not None
        assert results[1].error.category == "outcome_unknown"
        await alerts.wait_for("has reconnected")
        assert (await one.execution.execute(call, ensembles=[buoy])).text == "11 degrees"
    assert lines == [b"water\n"] * 3
