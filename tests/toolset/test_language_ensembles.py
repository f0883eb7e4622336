"""The ensembles of languages and tasks: what reaches each program, and real ones where this machine has them."""

import importlib.metadata
import json
import pathlib
import shutil
import sys
import venv
import zipfile
from typing import Any

import pytest

from ripieno.approvals import Approve, CallbackConfirmer
from ripieno.assembly import Assembly, assemble
from tests.support.command_line import User
from tests.support.toml_ensembles import SERVERS
from tests.toolset.bundled_tools import execute, write_program

ENSEMBLES = ["rust", "python", "javascript", "data-science", "docker", "kubectl"]
#: Says what it was given, as JSON.
SAYING = f"""#!{sys.executable}
import json, sys
given = {{"argv": sys.argv[1:]}}
if sys.argv[-1:] == ["-"]:
    given["stdin"] = sys.stdin.read()
print(json.dumps(given))
"""
#: Each tool, its program, a call, and the argv that it makes.
CALLS: list[tuple[str, str, dict[str, Any], str]] = [
    ("cargo", "cargo", {"command": "test", "arguments": ["--nocapture"]}, "test -- --nocapture"),
    (
        "cargo",
        "cargo",
        {"command": "build", "release": True, "package": "a", "features": "x,y", "manifest_path": "a/Cargo.toml"},
        "build --manifest-path=a/Cargo.toml --package=a --features=x,y --release --",
    ),
    ("rustfmt", "rustfmt", {"paths": ["-a.rs"], "check": True}, "--edition=2021 --check -- -a.rs"),
    ("clippy", "cargo", {"all_targets": True, "deny_warnings": True}, "clippy --all-targets -- -D warnings"),
    (
        "pip",
        "python3",
        {"command": "install", "packages": ["x==1"], "environment": ".venv", "upgrade": True},
        "-m pip --disable-pip-version-check --no-input install --upgrade -- x==1",
    ),
    ("black", "black", {"paths": ["."], "diff": True}, "--diff -- ."),
    ("mypy", "mypy", {"paths": ["a.py"], "strict": True}, "--strict -- a.py"),
    ("npm", "npm", {"command": "run", "arguments": ["build", "--fast"]}, "run -- build --fast"),
    ("eslint", "eslint", {"paths": ["a.js"], "fix": True}, "--fix --format=stylish -- a.js"),
    ("prettier", "prettier", {"paths": ["a.js"], "write": True}, "--write -- a.js"),
    ("jupyter", "jupyter", {"notebooks": ["a.ipynb"]}, "nbconvert --to=notebook --execute -- a.ipynb"),
    ("plot", "gnuplot", {"script": "plot sin(x)"}, "-"),
    (
        "docker",
        "docker",
        {"command": "run", "arguments": ["alpine", "--privileged"], "remove": True, "name": "x"},
        "run --name=x --rm -- alpine --privileged",
    ),
    (
        "kubectl",
        "kubectl",
        {"command": "get", "arguments": ["pods"], "namespace": "n", "output": "json"},
        "get --namespace=n --output=json -- pods",
    ),
]


@pytest.fixture
def programs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A folder before all others in PATH, with programs that say what they were given."""
    folder = tmp_path / "programs"
    for name in {program for _, program, _, _ in CALLS} | {"cargo-clippy"}:
        write_program(folder / name, SAYING)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def playing(user: User, *names: str) -> Assembly:
    """An assembly of these ensembles, without a sandbox, in which all is approved that need not be asked."""
    tables = {
        "ensembles": {"enabled": list(names)},
        "sandbox": {"level": "off"},
        "confirmation": {"approve": [f"{name}.*" for name in names]},
    }
    return assemble(
        tables, workspace=user.workspace, places=user.places, confirmer=CallbackConfirmer(lambda _: Approve())
    )


async def test_what_reaches_the_programs(user: User, programs: pathlib.Path) -> None:
    write_program(user.workspace / ".venv" / "bin" / "python", SAYING)
    (user.workspace / ".venv" / "pyvenv.cfg").write_text("")
    async with playing(user, *ENSEMBLES) as assembly:
        assert {tool for tool, _, _, _ in CALLS} == {name for one in assembly.ensembles for name in one.invokers}
        for tool, _, arguments, argv in CALLS:
            result = await execute(assembly, tool, **arguments)
            assert result.error is None, (tool, result.error)
            given = json.loads(result.text)
            assert given["argv"] == argv.split(), tool
            if tool == "plot":
                assert given["stdin"] == "plot sin(x)"


async def test_no_argument_becomes_an_option(user: User, programs: pathlib.Path) -> None:
    async with playing(user, *ENSEMBLES) as assembly:
        for tool, wrong in (
            ("cargo", {"command": "--config"}),
            ("npm", {"command": "exec"}),
            ("docker", {"command": "--host=tcp://evil", "arguments": []}),
            ("kubectl", {"command": "proxy"}),
        ):
            result = await execute(assembly, tool, **wrong)
            assert result.error is not None
            assert result.error.category == "validation"
        result = await execute(assembly, "docker", command="run", arguments=["--privileged", "alpine"])
        assert json.loads(result.text)["argv"] == ["run", "--", "--privileged", "alpine"]


async def test_containers_and_clusters_always_ask(user: User) -> None:
    tables = {"ensembles": {"enabled": ["docker", "kubectl"]}, "confirmation": {"approve": ["docker", "kubectl"]}}
    async with assemble(tables, workspace=user.workspace, places=user.places) as assembly:
        for ensemble in assembly.ensembles:
            (invoker,) = ensemble.invokers.values()
            result = await execute(assembly, invoker.name, command="version")
            assert result.error is not None
            assert result.error.category == "denied"


def wheel(folder: pathlib.Path) -> str:
    """A package that needs nothing but itself."""
    path = folder / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny.py", "")
        archive.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        archive.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("tiny-1.0.dist-info/RECORD", "")
    return f"./{path.name}"


def make_environment(folder: pathlib.Path) -> None:
    """An environment with a copy of this one's pip, which is much faster than installing it."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/*/site-packages")
    pip = importlib.metadata.distribution("pip")
    for name in {one.parts[0] for one in pip.files or () if one.parts[0].startswith("pip")}:
        shutil.copytree(str(pip.locate_file(name)), packages / name)


def found(folder: pathlib.Path, pattern: str) -> int:
    """How many files, or folders, are there."""
    return len([*folder.rglob(pattern)])


@pytest.fixture(scope="module")
def users_environment(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("users")
    make_environment(folder)
    return folder


@pytest.fixture
def users(users_environment: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """An environment of the user, which is first in PATH and belongs to no project. No test may change it."""
    folder = users_environment
    monkeypatch.setenv("PATH", f"{folder}/bin:/usr/bin:/bin")
    return folder


async def test_packages_go_into_the_environment_of_the_project(user: User, users: pathlib.Path) -> None:
    package = wheel(user.workspace)
    async with playing(user, "python") as assembly:
        for arguments in ({"command": "install", "packages": [package]}, {"command": "uninstall", "packages": ["pip"]}):
            result = await execute(assembly, "pip", **arguments)
            assert result.error is not None, result.text
            assert "python3 -m venv .venv" in result.error.text()
        assert "pip" in (await execute(assembly, "pip", command="list")).text
        assert found(users, "tiny.py") == 0
        assert found(users, "site-packages/pip") == 1
        make_environment(user.workspace / ".venv")
        result = await execute(assembly, "pip", command="install", packages=[package])
        assert result.error is None, result.error
        assert (
            "Location: " + str(user.workspace / ".venv")
            in (await execute(assembly, "pip", command="show", packages=["tiny"])).text
        )
        result = await execute(assembly, "pip", command="install", packages=[package], target="beside")
        assert result.error is None, result.error
    assert found(user.workspace, ".venv/lib/*/site-packages/tiny.py") == 1
    assert found(user.workspace, "beside/tiny.py") == 1
    assert found(users, "tiny.py") == 0


async def test_an_environment_that_is_none_or_lies_elsewhere_is_not_changed(user: User, users: pathlib.Path) -> None:
    package = wheel(user.workspace)
    (user.workspace / "venv" / "bin").mkdir(parents=True)
    (user.workspace / "venv" / "bin" / "python").symlink_to(users / "bin" / "python")
    async with playing(user, "python") as assembly:
        for extra in ({}, {"environment": "venv"}, {"environment": "nowhere"}, {"environment": str(users)}):
            result = await execute(assembly, "pip", command="install", packages=[package], **extra)
            assert result.error is not None, extra
        (user.workspace / ".venv").symlink_to(users)
        for extra in ({}, {"environment": ".venv"}, {"target": "../target"}):
            result = await execute(assembly, "pip", command="install", packages=[package], **extra)
            assert result.error is not None, extra
    assert found(user.workspace.parent, "tiny.py") == found(users, "tiny.py") == 0


async def test_the_projects_own_programs_run(
    user: User, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    own = {
        "black": ".venv/bin",
        "mypy": "venv/bin",
        "eslint": "node_modules/.bin",
        "prettier": "node_modules/.bin",
        "jupyter": ".venv/bin",
    }
    names = ["python", "javascript", "data-science"]
    async with playing(user, *names) as assembly:
        for ensemble in assembly.ensembles:
            left_out = {tool: reason for tool, reason in ensemble.left_out.items() if tool in own}
            assert all("neither in .venv/bin, venv/bin, node_modules/.bin" in one for one in left_out.values())
        assert not own.keys() & {name for one in assembly.ensembles for name in one.invokers}
    for name, folder in own.items():
        write_program(user.workspace / folder / name, SAYING)
        # One that is first in PATH is not the project's.
        write_program(tmp_path / name, "#!/bin/sh\nexit 9\n")
    for path in ("/usr/bin:/bin", f"{tmp_path}:/usr/bin:/bin"):
        monkeypatch.setenv("PATH", path)
        async with playing(user, *names) as assembly:
            for tool, _, arguments, argv in CALLS:
                if tool in own:
                    result = await execute(assembly, tool, **arguments)
                    assert result.error is None, (tool, result.error)
                    assert json.loads(result.text)["argv"] == argv.split(), tool


async def test_a_browser_that_is_there_plays(
    user: User, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    tables = {"ensembles": {"enabled": ["browser"]}}
    async with assemble(tables, workspace=user.workspace, places=user.places) as assembly:
        assert assembly.ensembles == ()
        assert [one.name for one in assembly.absences] == ["browser"]
        assert "no program 'playwright-mcp'" in assembly.alerts[0].message
    write_program(folder / "playwright-mcp", f"#!/bin/sh\nexec {sys.executable} {SERVERS / 'well_behaved.py'}\n")
    async with assemble(tables, workspace=user.workspace, places=user.places) as assembly:
        assert assembly.absences == ()
        assert assembly.ensembles[0].invokers
        assert all(one.policy.effect == "destructive" for one in assembly.ensembles[0].invokers.values())
