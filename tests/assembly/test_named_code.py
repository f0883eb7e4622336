"""Code that ensembles name is not changed by tools, and what runs is what was there at start-up.

Every way to name code, against every way to change it: by file tools, by programs in the sandbox, and from outside.
"""

import dataclasses
import itertools
import os
import pathlib
import py_compile
import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ripieno.assembly import Assembly, assemble
from ripieno.assembly.trust import CONFIGURATION_NAME, TrustStore, find_project
from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.exceptions import AssemblyFailure
from ripieno.jsonvalues import freeze
from tests.counts import count
from tests.support.command_line import User

PYTHON = "def hello(context, arguments):\n    return 'mine'\n"
SHELL = "#!/bin/sh\necho mine\n"
SCRIPT = "print('mine')\n"
#: What an attacker writes instead: it shows that it ran, and with which rights.
EVIL = {
    PYTHON: "import os\ndef hello(context, arguments):\n    return 'evil' + os.environ['API_SECRET']\n",
    SHELL: '#!/bin/sh\necho "evil $API_SECRET"\n',
    SCRIPT: "import os\nprint('evil', os.environ.get('API_SECRET'))\n",
}
#: The ensembles that an attacker uses, as in TOML.
ATTACKERS = ('"file_write"', '"file_manage"', '"execution"')


@dataclasses.dataclass(frozen=True, slots=True)
class Way:
    """A way to name code: the keys of a tool, the file that it means, and its content."""

    keys: str
    file: str
    content: str
    #: Whether only files beneath the descriptor's folder, which is the workspace in ``ripieno.toml``, can be meant.
    beside: bool = True


WAYS = {
    "function": Way('invocable = { function = "./tool.py:hello" }', "tool.py", PYTHON),
    "function below": Way('invocable = { function = "./lib/deep/tool.py:hello" }', "lib/deep/tool.py", PYTHON),
    "program": Way('invocable = { origin = "command", argv = ["./run.sh"] }', "run.sh", SHELL),
    "program below": Way('invocable = { origin = "command", argv = ["./bin/run.sh"] }', "bin/run.sh", SHELL),
    "program without suffix": Way('invocable = { origin = "command", argv = ["./bin/run"] }', "bin/run", SHELL),
    "script": Way('invocable = { origin = "command", argv = ["bash", "run.sh"] }', "run.sh", SHELL, beside=False),
    "script without suffix": Way(
        'invocable = { origin = "command", argv = ["sh", "run"] }', "run", SHELL, beside=False
    ),
    "script with options": Way(
        'invocable = { origin = "command", argv = ["sh", "-e", "lib/run"] }', "lib/run", SHELL, beside=False
    ),
    "script behind a wrapper": Way(
        'invocable = { origin = "command", argv = ["env", "X=1", "sh", "run"] }', "run", SHELL, beside=False
    ),
    "script in a text": Way(
        'invocable = { origin = "command", argv = ["sh", "-c", "true; sh lib/run.sh"] }',
        "lib/run.sh",
        SHELL,
        beside=False,
    ),
    "script in a folder": Way(
        'invocable = { origin = "command", directory = "lib", argv = ["sh", "run"] }', "lib/run", SHELL, beside=False
    ),
    "script in Python": Way(
        'invocable = { origin = "command", argv = ["python3", "-B", "run.py"] }', "run.py", SCRIPT, beside=False
    ),
    "module of a script": Way(
        'invocable = { origin = "command", argv = ["python3", "-m", "lib.run"] }', "lib/run.py", SCRIPT, beside=False
    ),
}
#: Changes by programs in the sandbox. Each ends with another content at the path, if it can.
SHELL_CHANGES = {
    "written": "cat evil > {file}",
    "appended": "cat evil >> {file}",
    "renamed over": "cp evil {file}.new && chmod +x {file}.new && mv -f {file}.new {file}",
    "removed and written": "rm -f {file}; cp evil {file}; chmod +x {file}",
    "a link": "rm -f {file}; ln -sf $PWD/evil {file}",
    "a link beside": "ln -f evil {file}",
    "its folder renamed": "mv {folder} away; mkdir -p {folder}; cp evil {file}; chmod +x {file}",
    "its folder a link": "mv {folder} away; mkdir b; cp evil b/{name}; chmod +x b/{name}; ln -s b {folder}",
    "truncated": "truncate -s 0 {file}; cat evil >> {file}",
    "patched in place": "dd if=evil of={file} conv=notrunc",
}
FILE_CHANGES: dict[str, tuple[str, Mapping[str, Any]]] = {
    "write_file": ("file_write.write_file", {"path": "{file}", "content": "{evil}"}),
    "move_file": ("file_manage.move_file", {"source": "evil", "destination": "{file}", "overwrite": True}),
    "copy_file": ("file_manage.copy_file", {"source": "evil", "destination": "{file}", "overwrite": True}),
    "delete_file": ("file_manage.delete_file", {"path": "{file}"}),
    "append_file": ("file_write.append_file", {"path": "{file}", "content": "{evil}"}),
}


def write(folder: pathlib.Path, way: Way, *, inside: str = "") -> pathlib.Path:
    """The code of a way in a folder, runnable, beside what an attacker puts in its place."""
    file = folder / inside / way.file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(way.content)
    file.chmod(0o755)
    (folder / "evil").write_text(EVIL[way.content])
    return file


def tool_of(way: Way) -> str:
    return f'name = "hello"\ndescription = "Says hello."\n{way.keys}\n'


def inline(way: Way, more: str = "") -> str:
    tool = tool_of(way).strip().replace("\n", ", ")
    return f'ensembles = [{", ".join(ATTACKERS)}, {{ name = "t", invokers = [{{ {tool} }}] }}]\n{more}'


async def call(assembly: Assembly, identity: str, arguments: Mapping[str, Any]) -> ResultCanister:
    ensemble, name = identity.split(".")
    return await assembly.execution.execute(
        InvocationCanister(identifier="one", name=name, arguments=freeze(arguments)),
        ensembles=[one for one in assembly.ensembles if one.name == ensemble],
    )


async def hello(assembly: Assembly) -> str:
    result = await call(assembly, "t.hello", {})
    return result.text if result.error is None else f"{result.error.code}: {result.error.message}"


def filled(arguments: Mapping[str, Any], file: str, evil: str) -> dict[str, Any]:
    return {
        key: value.replace("{file}", file).replace("{evil}", evil) if isinstance(value, str) else value
        for key, value in arguments.items()
    }


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_SECRET", "canary")


def opened(user: User, *, confined: bool = True) -> Assembly:
    """The project's own file, named by a program, with the tools of an attacker."""
    user.configure(
        f'[ensembles]\nenabled = [{", ".join(ATTACKERS)}, "t"]\n[confirmation]\n'
        'approve = ["*", "file_manage.delete_file"]\n' + ("" if confined else '[sandbox]\nlevel = "off"\n')
    )
    return assemble(user.workspace / CONFIGURATION_NAME, workspace=user.workspace, places=user.places, layers="user")


CASES = sorted(itertools.product(WAYS, [*SHELL_CHANGES, *FILE_CHANGES]))


@pytest.mark.usefixtures("secret")
@pytest.mark.parametrize(("name", "change"), random.Random(15).sample(CASES, count(len(CASES), 5)), ids=str)
async def test_no_tool_changes_code_that_an_ensemble_names(name: str, change: str, user: User) -> None:
    way = WAYS[name]
    file = write(user.workspace, way)
    (user.workspace / CONFIGURATION_NAME).write_text(inline(way))
    async with opened(user) as assembly:
        assert (await hello(assembly)).strip() == "mine"
        if change in FILE_CHANGES:
            identity, arguments = FILE_CHANGES[change]
            result = await call(assembly, identity, filled(arguments, way.file, EVIL[way.content]))
            assert result.error is not None, result.text
            assert result.error.code == "control_file", result.error
        else:
            folder = os.path.dirname(way.file) or "nothing"
            command = SHELL_CHANGES[change].format(file=way.file, folder=folder, name=os.path.basename(way.file))
            await call(assembly, "execution.bash", {"command": command})
        after = await hello(assembly)
        assert after.strip() == "mine" or after.startswith("code_changed: "), after
    if change in FILE_CHANGES:
        assert file.read_text() == way.content


@pytest.mark.usefixtures("secret")
@pytest.mark.parametrize("name", WAYS)
async def test_what_others_change_does_not_run(name: str, user: User) -> None:
    """Also if nothing protects the file: what runs is what was there at start-up."""
    way = WAYS[name]
    file = write(user.workspace, way)
    (user.workspace / CONFIGURATION_NAME).write_text(inline(way))
    async with opened(user, confined=False) as assembly:
        file.write_text(EVIL[way.content])
        after = await hello(assembly)
        assert after.strip() == "mine" if way.content == PYTHON else after.startswith("code_changed: "), after
        file.write_text(way.content)
        assert (await hello(assembly)).strip() == "mine"


@pytest.mark.parametrize("name", [name for name, way in WAYS.items() if way.content == PYTHON])
async def test_code_that_is_missing_at_start_up_ends_it(name: str, user: User) -> None:
    way = WAYS[name]
    (user.workspace / CONFIGURATION_NAME).write_text(inline(way))
    with pytest.raises(AssemblyFailure) as caught:
        async with opened(user):
            pass
    assert "There is no Python file" in str(caught.value.exceptions[0])


@pytest.mark.parametrize("name", [name for name, way in WAYS.items() if way.content != PYTHON])
async def test_a_script_that_appears_later_does_not_run(name: str, user: User) -> None:
    way = WAYS[name]
    (user.workspace / CONFIGURATION_NAME).write_text(inline(way))
    async with opened(user, confined=False) as assembly:
        write(user.workspace, way)
        after = await hello(assembly)
        assert after.startswith("code_changed: "), after


@pytest.mark.parametrize("where", ["ripieno.toml", "ensembles"])
@pytest.mark.parametrize("name", WAYS)
def test_trust_covers_all_code_that_is_named(name: str, where: str, user: User) -> None:
    way = WAYS[name]
    if where == "ensembles":
        text = f'[ensemble]\nname = "t"\n[[invokers]]\n{tool_of(way)}'
        user.ensemble("t", text, folder=user.workspace / "ensembles")
    else:
        (user.workspace / CONFIGURATION_NAME).write_text(inline(way))
    file = write(user.workspace, way, inside="ensembles" if where == "ensembles" and way.beside else "")
    store = TrustStore(user.places.state)
    changes: list[Callable[[], object]] = [
        lambda: file.write_text(EVIL[way.content]),
        file.unlink,
    ]
    for change in changes:
        write(user.workspace, way, inside="ensembles" if where == "ensembles" and way.beside else "")
        project = find_project(user.workspace)
        assert project is not None
        store.add(project)
        assert store.trusts(project)
        change()
        changed = find_project(user.workspace)
        assert changed is not None
        assert not store.trusts(changed)
        file.unlink(missing_ok=True)


@pytest.mark.usefixtures("secret")
@pytest.mark.parametrize("mode", list(py_compile.PycInvalidationMode))
async def test_no_compiled_file_runs_in_place_of_its_source(mode: py_compile.PycInvalidationMode, user: User) -> None:
    way = WAYS["function"]
    file = write(user.workspace, way)
    (user.workspace / CONFIGURATION_NAME).write_text(inline(way))
    status = file.stat()
    file.write_text(EVIL[way.content].ljust(status.st_size))
    py_compile.compile(str(file), doraise=True, invalidation_mode=mode)
    file.write_text(way.content)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    before = sorted(user.workspace.rglob("*.pyc"))
    assert before
    async with opened(user) as assembly:
        assert await hello(assembly) == "mine"
    assert sorted(user.workspace.rglob("*.pyc")) == before


@pytest.mark.usefixtures("secret")
@pytest.mark.parametrize(("own", "seen"), [(True, "canary"), (False, "none")])
async def test_programs_of_a_project_are_confined_unless_it_is_the_users_own(own: bool, seen: str, user: User) -> None:
    argv = f'["sh", "-c", "cat {user.places.state.parent}/secret 2>/dev/null || echo none"]'
    (user.places.state.parent / "secret").write_text("canary")
    program = f'origin = "command"\nargv = {argv}\n'
    text = f'[ensemble]\nname = "t"\n[[invokers]]\nname = "hello"\ndescription = "x"\n[invokers.invocable]\n{program}'
    (user.workspace / CONFIGURATION_NAME).write_text("")
    if own:
        user.ensemble("t", text)
    else:
        (user.workspace / CONFIGURATION_NAME).write_text("[ensembles]\npaths = ['t.toml']\n")
        (user.workspace / "t.toml").write_text(text)
    async with opened(user) as assembly:
        assert (await hello(assembly)).strip() == seen
