"""Paths of a confinement: what is protected in a workspace, links that appear too late, sockets that are granted."""

import asyncio
import dataclasses
import os
import sys
from pathlib import Path

import pytest

from ripieno.exceptions import PermissionFault, ResourceFault
from ripieno.sandbox import ProcessLimits
from ripieno.sandbox.processes import LocalSpawner, collect
from tests.support.sandbox_tiers import SHELTERS, python, shelter, start

ALL = pytest.mark.parametrize("name", SHELTERS)
WITH_MOUNTS = pytest.mark.parametrize("name", ["tier 1", "tier 2"])

CONTROLS = (".git/config", ".git/hooks/pre-commit", ".git/info/attributes", "ripieno.toml", "ensembles/a.toml")
#: Every way that this user has to have another file there.
REPLACEMENTS = {
    "write": "echo evil > {0}",
    "append": "echo evil >> {0}",
    "remove": "rm -rf {0}",
    "move away": "mv {0} {0}.old && mkdir -p $(dirname {0}) && echo evil > {0}",
    "move another there": "echo evil > new && mv -f new {0}",
    "link": "ln -sfn /etc/passwd {0}",
    "hard link": "echo evil > new && ln -f new {0}",
    "move its folder": "mv .git .gone && mkdir -p .git/hooks .git/info && echo evil > .git/config && echo evil > {0}",
    "remove its folder": "rm -rf .git; mkdir -p .git/hooks; echo evil > {0}",
    "mode": "chmod 777 {0}",
}


def repository(folder: Path) -> None:
    (folder / ".git" / "hooks").mkdir(parents=True)
    (folder / ".git" / "info").mkdir()
    (folder / "ensembles").mkdir()
    for name in CONTROLS:
        (folder / name).write_text("ours")
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main")


def controls(folder: Path) -> dict[str, tuple[str, int]]:
    """What controls git and us, as it would be read outside."""
    return {name: ((folder / name).read_text(), (folder / name).stat().st_mode) for name in CONTROLS}


@WITH_MOUNTS
async def test_what_controls_us_stays_as_it_is(name: str, tmp_path: Path) -> None:
    repository(tmp_path)
    before = controls(tmp_path)
    sandbox = shelter(name, tmp_path)
    script = "\n".join(
        f"( {replacement.format(path)} ) 2>/dev/null" for path in before for replacement in REPLACEMENTS.values()
    )
    completed = await start(["sh", "-c", f"{script}\ntrue"], sandbox.confinement(writable=[tmp_path]), tmp_path)
    assert completed.exit_code == 0, completed.stderr.text
    assert controls(tmp_path) == before
    # The rest of the repository is the tool's to change.
    script = "echo x > .git/index && mkdir -p .git/objects/aa && mv .git/index .git/objects/aa/b"
    completed = await start(["sh", "-c", script], sandbox.confinement(writable=[tmp_path]), tmp_path)
    assert completed.exit_code == 0, completed.stderr.text
    sandbox.close()


async def test_tier_2_keeps_what_is_not_there_and_leaves_nothing(tmp_path: Path) -> None:
    sandbox = shelter("tier 2", tmp_path)
    planting = (
        "echo evil > ripieno.toml; mkdir -p ensembles .git/hooks; echo evil > .git/config; echo evil > ensembles/a.toml"
    )
    moving = "mkdir x; mv x .git; ln -s x ensembles; mv ripieno.toml y; echo done > written"
    script = f"({planting}; {moving}) 2>/dev/null; cat written"
    completed = await start(["sh", "-c", script], sandbox.confinement(writable=[tmp_path]), tmp_path)
    assert completed.stdout.text == "done\n"
    sandbox.close()
    assert sorted(os.listdir(tmp_path)) == ["written", "x"]


@ALL
async def test_a_link_that_was_put_there_meanwhile_is_not_followed(name: str, tmp_path: Path) -> None:
    """A program may replace a folder that the next program is given: the start fails, and says why."""
    workspace, outside = tmp_path / "workspace", tmp_path / "outside"
    for one in (workspace, outside):
        one.mkdir()
    (workspace / "part").mkdir()
    sandbox = shelter(name, workspace)
    confinement = sandbox.confinement(writable=[workspace / "part"])
    (workspace / "part").rename(workspace / "gone")
    (workspace / "part").symlink_to(outside)
    if SHELTERS[name][0] == 1:
        with pytest.raises(ResourceFault, match="part"):
            await start(["true"], confinement, workspace)
    with pytest.raises(PermissionFault, match="leads out of the workspace"):
        sandbox.confinement(writable=[workspace / "part"])
    sandbox.close()


@ALL
async def test_a_path_that_is_gone_is_an_error(name: str, tmp_path: Path) -> None:
    sandbox = shelter(name, tmp_path)
    with pytest.raises(FileNotFoundError):
        sandbox.confinement(writable=[tmp_path / "missing"])
    confinement = dataclasses.replace(sandbox.confinement(writable=[tmp_path]), writable=(str(tmp_path / "missing"),))
    with pytest.raises(ResourceFault, match="missing"):
        await start(["true"], confinement, tmp_path)


@WITH_MOUNTS
async def test_a_folder_is_kept_whatever_else_of_it_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / "kept" / "in").mkdir(parents=True)
    inner, folder = tmp_path / "kept" / "in" / "file", tmp_path / "kept"
    inner.touch()
    sandbox = shelter(name, tmp_path)
    for protected in ((str(inner), f"{folder}/"), (f"{folder}/", str(inner))):
        confinement = dataclasses.replace(sandbox.confinement(writable=[tmp_path]), protected=protected)
        await start(["sh", "-c", "echo evil > kept/new; echo evil > kept/in/new"], confinement, tmp_path)
    assert sorted(one.name for one in folder.rglob("*")) == ["file", "in"]
    sandbox.close()


@WITH_MOUNTS
async def test_what_was_hidden_and_is_gone_hinders_nobody(name: str, tmp_path: Path) -> None:
    sandbox = shelter(name, tmp_path)
    confinement = dataclasses.replace(sandbox.confinement(writable=[tmp_path]), hidden=("/etc/no-such-secret",))
    completed = await start(["echo", "works"], confinement, tmp_path)
    assert completed.stdout.text == "works\n", completed.stderr.text
    sandbox.close()


@ALL
async def test_sockets_are_granted_and_those_with_names_are_not(name: str, tmp_path: Path) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    local = tmp_path / "socket"
    unix = await asyncio.start_unix_server(lambda _, writer: writer.close(), str(local))
    code = (
        "import socket, sys\n"
        "socket.create_connection(('127.0.0.1', int(sys.argv[1]))).close(); print('tcp')\n"
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close(); print('udp')\n"
        "for family, kind in ((1, 1), (1, 2), (16, 3), (40, 1), (2, 3)):\n"
        " try: socket.socket(family, kind); print('opened', family, kind)\n"
        " except OSError: pass\n"
        "left, right = socket.socketpair()\n"
        "try: left.connect(sys.argv[2]); print('connected')\n"
        "except OSError: pass"
    )
    port = str(server.sockets[0].getsockname()[1])
    async with server, unix:
        sandbox = shelter(name, tmp_path)
        granted = sandbox.confinement(writable=[tmp_path], network=True)
        completed = await python(code, granted, tmp_path, port, str(local))
        assert completed.stdout.text == "tcp\nudp\n", completed.stderr.text
        refused = shelter(name, tmp_path, network=False).confinement(writable=[tmp_path], network=True)
        completed = await python(code, refused, tmp_path, port, str(local))
        assert (completed.exit_code, completed.stdout.text) == (1, "")
        assert shelter(name, tmp_path, network=True).confinement().network
    sandbox.close()


@ALL
async def test_what_may_only_be_read(name: str, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "file").write_text("text")
    sandbox = shelter(name, workspace)
    confinement = sandbox.confinement(readable=[workspace])
    script = "cat file; echo evil > file; echo evil > new; rm -f file"
    completed = await start(["sh", "-c", script], confinement, workspace)
    assert completed.stdout.text == "text"
    assert [(path.name, path.read_text()) for path in workspace.iterdir()] == [("file", "text")]
    sandbox.close()


async def test_a_kernel_that_allows_no_namespaces(tmp_path: Path) -> None:
    """As in a container: whoever starts us has been refused them. The tier has less in it, and says so."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from ripieno.sandbox.confinement import seccomp, syscalls\n"
        "syscalls.prctl('', 38, 1); seccomp.install(seccomp.program(network=True))\n"
        "from ripieno.sandbox import Sandbox\n"
        "sandbox = Sandbox(sys.argv[2]); print(sandbox.tier, sandbox.name); print(sandbox.reason)"
    )
    found = shelter("tier 1", tmp_path)
    assert found.tier == 1
    sources = Path(__file__).parents[3] / "sources"
    argv = [sys.executable, "-c", code, str(sources), str(tmp_path)]
    process = await LocalSpawner().start(argv, {"PATH": os.defpath}, tmp_path, ProcessLimits())
    completed = await collect(process)
    assert completed.exit_code == 0, completed.stderr.text
    name, reason = completed.stdout.text.splitlines()
    assert name.startswith("1 tier 1 (landlock ")
    assert name.endswith(", seccomp)")
    assert "without namespaces (user, pid, ipc, mount, net), which this kernel does not allow here" in reason
