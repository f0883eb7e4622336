"""What the tests of this folder say when the servers cannot be installed: they fail, and tell why."""

import pathlib

import pytest

from tests.real import installing

#: Nobody listens there.
NOWHERE = "http://127.0.0.1:9/"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installing, "PLACE", tmp_path / "real")


def test_without_a_network_pip_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"PIP_CONFIG_FILE": "/dev/null", "PIP_INDEX_URL": NOWHERE, "PIP_RETRIES": "0", "PIP_NO_CACHE_DIR": "1"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(installing, "PYTHON_SERVERS", installing.PYTHON_SERVERS[-1:])
    with pytest.raises(pytest.fail.Exception, match="could not install them with pip; they need a network") as failed:
        installing.python_commands()
    assert "mcp-server-time" in str(failed.value)


def test_without_a_network_npm_fails(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"registry": NOWHERE, "fetch_retries": "0", "cache": str(tmp_path / "cache")}
    for name, value in variables.items():
        monkeypatch.setenv(f"npm_config_{name}", value)
    with pytest.raises(pytest.fail.Exception, match="could not install them with npm; they need a network") as failed:
        installing.node_commands()
    assert "127.0.0.1:9" in str(failed.value)


def test_without_npm_it_is_named(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(pytest.fail.Exception, match="need npm"):
        installing.node_commands()
