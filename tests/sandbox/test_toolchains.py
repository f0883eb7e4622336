"""Programs of a home: toolchains that run although their home is another, and what is said of those that may not."""

import os
from pathlib import Path

import pytest

from ripieno.exceptions import ResourceFault
from ripieno.sandbox import ProcessLimits, Sandbox
from ripieno.sandbox.processes import Completed, LocalSpawner
from ripieno.sandbox.toolchains import toolchains
from tests.support.sandbox_tiers import SHELTERS, shelter
from tests.support.sandbox_tiers import start as start_confined

ALL = pytest.mark.parametrize("name", SHELTERS)
SECRET = "CANARY-of-a-registry"
PROXY = '#!/bin/sh\nexec "${RUSTUP_HOME:-$HOME/.rustup}/toolchains/stable/bin/${0##*/}" "$@"\n'
SHIM = '#!/bin/sh\nexec "${PYENV_ROOT:-$HOME/.pyenv}/versions/3/bin/${0##*/}" "$@"\n'


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with programs as rustup, pyenv and nvm lay them out, and one of its own."""
    home = tmp_path / "person"
    cargo = home / ".cargo"
    program(cargo / "bin" / "rustup", PROXY)
    (cargo / "bin" / "cargo").symlink_to("rustup")
    program(home / ".rustup" / "toolchains" / "stable" / "bin" / "cargo", '#!/bin/sh\necho "cargo at $HOME"\n')
    for secret in ("credentials.toml", "credentials", "config.toml"):
        (cargo / secret).write_text(SECRET)
    (cargo / "registry").mkdir()
    (cargo / "registry" / "crate").write_text("a crate")
    program(home / ".pyenv" / "shims" / "python9", SHIM)
    program(home / ".pyenv" / "versions" / "3" / "bin" / "python9", "#!/bin/sh\necho python\n")
    node = home / ".nvm" / "versions" / "node" / "v20"
    program(node / "bin" / "node", '#!/bin/sh\ncat "${0%/*}/../lib/node"\n')
    (node / "lib").mkdir()
    (node / "lib" / "node").write_text("node\n")
    program(home / "bin" / "own", "#!/bin/sh\necho own\n")
    folders = [home / "bin", cargo / "bin", home / ".pyenv" / "shims", node / "bin"]
    for name in ("CARGO_HOME", "RUSTUP_HOME", "PYENV_ROOT", "RBENV_ROOT", "NVM_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", os.pathsep.join((*map(str, folders), os.environ["PATH"])))
    return home


async def start(argv: list[str], sandbox: Sandbox, workspace: Path) -> Completed:
    return await start_confined(argv, sandbox.confinement(writable=[workspace]), workspace, sandbox.environment())


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@ALL
async def test_toolchains_run_and_secrets_beside_them_stay(name: str, person: Path, workspace: Path) -> None:
    sandbox = shelter(name, workspace)
    for argv, said in (
        (["cargo"], f"cargo at {sandbox.home}\n"),
        (["sh", "-c", "cargo; python9; node"], f"cargo at {sandbox.home}\npython\nnode\n"),
    ):
        completed = await start(argv, sandbox, workspace)
        assert (completed.exit_code, completed.stdout.text) == (0, said), completed.stderr.text
    attempts = f"cat {person}/.cargo/c* ~/.cargo/c* {person}/.cargo/registry/crate ~/.cargo/registry/crate"
    attempts += f"; echo evil > {person}/.cargo/bin/cargo; echo evil > {person}/.rustup/settings.toml"
    attempts += f"; echo evil > {person}/.pyenv/version; touch ~/.cargo-is-writable && echo done"
    completed = await start(["sh", "-c", attempts], sandbox, workspace)
    assert completed.stdout.text == "done\n"
    assert not (person / ".rustup" / "settings.toml").exists()
    assert not (person / ".pyenv" / "version").exists()
    assert (person / ".cargo" / "bin" / "cargo").read_text() == PROXY
    sandbox.close()


@ALL
async def test_crates_that_are_granted_are_where_cargo_looks(name: str, person: Path, workspace: Path) -> None:
    sandbox = shelter(name, workspace, readable=(str(person / ".cargo" / "registry"),))
    completed = await start(["sh", "-c", "cat ~/.cargo/registry/crate ~/.cargo/credentials.toml"], sandbox, workspace)
    assert completed.stdout.text == "a crate"
    sandbox.close()
    assert (person / ".cargo" / "registry" / "crate").read_text() == "a crate"


@ALL
async def test_what_may_not_be_executed_names_the_key(name: str, person: Path, workspace: Path) -> None:
    sandbox = shelter(name, workspace)
    for one in ("own", str(person / "bin" / "own")):
        with pytest.raises(ResourceFault, match="may not be executed: the sandbox does not permit") as caught:
            await start([one], sandbox, workspace)
        assert "`[sandbox] readable`" in str(caught.value.suggestion)
    granted = shelter(name, workspace, readable=(str(person / "bin"),))
    assert (await start(["own"], granted, workspace)).stdout.text == "own\n"
    # One that is merely no program is not the sandbox's matter.
    (workspace / "text").write_text("text")
    with pytest.raises(ResourceFault, match="may not be executed") as caught:
        await LocalSpawner().start(["./text"], {}, workspace, ProcessLimits())
    assert "sandbox" not in f"{caught.value} {caught.value.suggestion}"
    for one in (sandbox, granted):
        one.close()


@ALL
async def test_what_is_not_reached_is_passed_over(name: str, person: Path, workspace: Path) -> None:
    """As the system does with what may not be executed: the next folder of PATH may have it."""
    program(person / "bin" / "uname", "#!/bin/sh\necho of the home\n")
    sandbox = shelter(name, workspace)
    completed = await start(["uname"], sandbox, workspace)
    assert (completed.exit_code, completed.stdout.text) == (0, f"{os.uname().sysname}\n"), completed.stderr.text
    sandbox.close()


def test_only_toolchains_in_use_are_read_and_never_a_home(person: Path) -> None:
    home, bins = str(person), f"{person}/.cargo/bin"
    assert toolchains({"PATH": "/usr/bin"}, home) == ({}, ())
    told, places = toolchains({"PATH": f"/usr/bin:{bins}:relative"}, home)
    assert (told, places) == ({"RUSTUP_HOME": f"{home}/.rustup"}, (bins, f"{home}/.rustup"))
    for evil in (home, "/", str(person.parent)):
        told, places = toolchains({"PATH": bins, "RUSTUP_HOME": evil, "PYENV_ROOT": evil}, home)
        assert (told, places) == ({}, (bins,))
    (person / "elsewhere").mkdir()
    told, _ = toolchains({"PATH": bins, "RUSTUP_HOME": f"{home}/elsewhere"}, home)
    assert told == {"RUSTUP_HOME": f"{home}/elsewhere"}
    assert toolchains({"PATH": bins, "RUSTUP_HOME": f"{home}/missing"}, home) == ({}, (bins,))
