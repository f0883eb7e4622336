"""The sandbox of an assembly, and a workspace that contains the user's own files, which no tool changes."""

import os
import pathlib
from collections.abc import Mapping
from typing import Any

import pytest

from ripieno.assembly import Assembly, assemble
from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.ensembles import Context, Outcome
from ripieno.exceptions import AssemblyFailure, ExecutionFault
from ripieno.execution import Circumstances, Execution
from ripieno.jsonvalues import freeze
from ripieno.storage.places import Places
from tests.support.command_line import User
from tests.support.sandbox_tiers import SHELTERS, shelter
from tests.support.scripted_models import ensemble, invoke, tool

OWN = ("configuration/config.toml", "configuration/new.toml", "configuration/ensembles/mine.toml")
DIFF = "--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+evil\n"
WRITING: list[tuple[str, Mapping[str, Any]]] = [
    ("write_file", {"path": "{path}", "content": "evil"}),
    ("append_file", {"path": "{path}", "content": "evil"}),
    ("create_file", {"path": "{path}", "content": "evil"}),
    ("edit_file", {"path": "{path}", "old_content": "own", "new_content": "evil"}),
    ("patch_file", {"patch": DIFF}),
    ("copy_file", {"source": "plain", "destination": "{path}"}),
    ("move_file", {"source": "plain", "destination": "{path}"}),
    ("move_file", {"source": "{path}", "destination": "elsewhere"}),
    ("delete_file", {"path": "{path}"}),
    ("chmod", {"path": "{path}", "mode": "0777"}),
    ("create_directory", {"path": "{path}/deeper"}),
]
ABOVE: list[tuple[str, Mapping[str, Any]]] = [
    ("delete_directory", {"path": "{folder}", "recursive": True}),
    ("move", {"source": "{folder}", "destination": "elsewhere"}),
    ("move", {"source": "outer/other", "destination": "{folder}"}),
]


def opened(user: User, workspace: pathlib.Path) -> Assembly:
    names = ["file_write", "file_manage", "directory"]
    tools = {tool for tool, _ in (*WRITING, *ABOVE)}
    tables = {
        "ensembles": {"enabled": names},
        "sandbox": {"level": "off"},
        "confirmation": {"approve": [f"{name}.{tool}" for name in names for tool in tools]},
    }
    return assemble(tables, workspace=workspace, places=apart(user), layers="user")


async def call(assembly: Assembly, tool: str, arguments: Mapping[str, Any]) -> ResultCanister:
    (ensemble,) = [one for one in assembly.ensembles if tool in one.invokers]
    return await assembly.execution.execute(
        InvocationCanister(identifier="one", name=tool, arguments=freeze(arguments)),
        ensembles=[ensemble],
        circumstances=Circumstances(conversation="one", namespaces={}, notify=lambda _: None),
    )


def filled(arguments: Mapping[str, Any], **names: str) -> dict[str, Any]:
    return {key: value.format(**names) if isinstance(value, str) else value for key, value in arguments.items()}


@pytest.fixture
def wide(user: User) -> pathlib.Path:
    """The folder that the configuration lies in, as a workspace."""
    root = user.configuration.parent
    user.configure("")
    user.ensemble("mine", 'invokers = []\n[ensemble]\nname = "mine"\n')
    (root / "plain").write_text("plain")
    (root / "outer" / "other").mkdir(parents=True)
    return root


def snapshot(user: User) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in user.configuration.rglob("*") if path.is_file()}


def apart(user: User) -> Places:
    """The user's places, with the state outside of the folder that the configuration lies in."""
    above = user.configuration.parent
    return Places(configuration=user.configuration, state=above.with_name(f"{above.name}-state"))


@pytest.mark.parametrize(
    ("state", "configuration"),
    [
        ("workspace/state", {}),
        ("workspace", {}),
        ("workspace/a/../b/state", {}),
        ("link/state", {}),
        ("outside/state", {"sandbox": {"readable": ["{root}/outside"]}}),
        ("outside/state", {"sandbox": {"writable": ["{root}/outside/state"]}}),
        ("outside/state", {"sandbox": {"readable": ["{root}/away"]}}),
    ],
)
async def test_state_where_tools_may_read_ends_the_start(
    state: str, configuration: Mapping[str, Any], tmp_path: pathlib.Path
) -> None:
    """Conversations that wait, pins and sign-ins of all callers are there."""
    for name in ("workspace", "outside"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("workspace")
    (tmp_path / "away").symlink_to("outside")
    tables = {
        table: {key: [one.format(root=tmp_path) for one in paths] for key, paths in keys.items()}
        for table, keys in configuration.items()
    }
    places = Places(configuration=tmp_path / "configuration", state=tmp_path / state)
    with pytest.raises(AssemblyFailure) as caught:
        async with assemble(tables, workspace=tmp_path / "workspace", places=places):
            pass
    assert "RIPIENO_STATE_HOME" in str(caught.value.exceptions[0])


async def test_what_is_the_users_own_is_not_changed(user: User, wide: pathlib.Path) -> None:
    before = snapshot(user)
    async with opened(user, wide) as assembly:
        for tool, arguments in WRITING:
            for path in OWN:
                result = await call(assembly, tool, filled(arguments, path=path))
                assert result.error is not None, (tool, path)
                missing = tool == "edit_file" and f"{wide / path}" not in before
                assert result.error.code == ("not_found" if missing else "control_file"), (tool, result.error)
    # The journal of changes is kept there, and it is not what a tool writes.
    assert {name: data for name, data in snapshot(user).items() if name in before} == before


async def test_nothing_above_it_is_removed_or_replaced(user: User, wide: pathlib.Path) -> None:
    before = snapshot(user)
    async with opened(user, wide) as assembly:
        for tool, arguments in ABOVE:
            result = await call(assembly, tool, filled(arguments, folder="configuration"))
            assert result.error is not None, tool
            assert result.error.code == "control_file", result.error
    assert {name: data for name, data in snapshot(user).items() if name in before} == before


async def test_links_and_other_names_lead_no_nearer(user: User, wide: pathlib.Path) -> None:
    (wide / "link").symlink_to("configuration")
    os.symlink("../configuration/config.toml", wide / "outer" / "file")
    async with opened(user, wide) as assembly:
        for path in ("link/config.toml", "./outer/../configuration/config.toml", str(user.configuration / "x.toml")):
            result = await call(assembly, "write_file", {"path": path, "content": "evil"})
            assert result.error is not None
            assert result.error.code == "control_file", result.error
        await call(assembly, "write_file", {"path": "outer/file", "content": "new"})
    assert (user.places.configuration / "config.toml").read_text() == ""


async def test_what_lies_beside_it_is_written(user: User, wide: pathlib.Path) -> None:
    async with opened(user, wide) as assembly:
        for path in ("configurations", "outer/configuration/config.toml", "state.json"):
            result = await call(assembly, "write_file", {"path": path, "content": "fine"})
            assert result.error is None, result.error
            assert (wide / path).read_text() == "fine"


def configured(**sandbox: Any) -> dict[str, Any]:
    return {"ensembles": {"enabled": ["greeting"]}, "confirmation": {"approve": ["*"]}, "sandbox": sandbox}


async def test_folders_last_as_long_as_the_assembly(user: User, greeting: str) -> None:
    user.ensemble("greeting", greeting)
    async with assemble(
        configured(level="auto"), workspace=user.workspace, places=user.places, layers="user"
    ) as assembly:
        sandbox = assembly.surroundings.sandbox
        assert sandbox is not None
        assert (sandbox.level, sandbox.workspace) == ("auto", str(user.workspace.resolve()))
        folder = pathlib.Path(sandbox.home).parent
        assert sorted(os.listdir(folder)) == ["home", "temporary"]
    assert not folder.parent.exists()


async def test_what_was_read_for_it_is_not_the_programs_to_write(user: User, greeting: str) -> None:
    """Also if the configuration is beneath the workspace, as in a home folder."""
    user.ensemble("greeting", greeting)
    above = user.places.configuration.parent
    user.configure("")
    async with assemble(configured(level="auto"), workspace=above, places=apart(user), layers="user") as assembly:
        assert assembly.surroundings.sandbox is not None
        protected = assembly.surroundings.sandbox.confinement(writable=[above]).protected
    own = {str(user.places.configuration / "config.toml"), f"{user.places.configuration}/"}
    assert own <= set(protected)


async def test_a_provider_that_nobody_brings_ends_the_start(user: User, greeting: str) -> None:
    user.ensemble("greeting", greeting)
    with pytest.raises(AssemblyFailure) as caught:
        async with assemble(configured(provider="cubes"), workspace=user.workspace, places=user.places, layers="user"):
            pass
    (failure,) = caught.value.exceptions
    assert "cubes" in str(failure)
    assert "sandbox" in str(failure)


@pytest.mark.parametrize("name", [name for name in SHELTERS if name in ("tier 1", "tier 2")])
async def test_every_result_of_a_program_names_the_tier(name: str, user: User, greeting: str) -> None:
    shelter(name, user.workspace)
    argv = '["ls", "--", "{name}"]\nconfined = true'
    user.ensemble("greeting", greeting.replace('["echo", "hello", "--", "{name}"]', argv))
    wishes = {"tier": SHELTERS[name][0]}
    async with assemble(configured(**wishes), workspace=user.workspace, places=user.places, layers="user") as assembly:
        for argument, failed in ((".", False), ("missing", True)):
            invocation = InvocationCanister(identifier="1", name="say_hello", arguments={"name": argument})
            result = await assembly.execution.execute(invocation, ensembles=assembly.ensembles)
            assert (result.error is not None) is failed
            assert result.report.sandbox is not None
            assert result.report.sandbox.startswith(f"{name} (")
            assert result.response_mapping()["sandbox"] == result.report.sandbox


async def test_a_tool_says_where_its_program_ran(user: User) -> None:
    async def fine(context: Context, arguments: dict[str, Any]) -> Outcome:
        return Outcome(content="x", sandbox="tier 9")

    async def failing(context: Context, arguments: dict[str, Any]) -> Outcome:
        context.sandbox = "tier 8"
        raise ExecutionFault("It failed.")

    async def none(context: Context, arguments: dict[str, Any]) -> str:
        return "x"

    mine = ensemble(*(tool(one.__name__, one) for one in (fine, failing, none)))
    seen = {
        name: (await Execution().execute(invoke(name), ensembles=[mine])).report.sandbox
        for name in ("fine", "failing", "none")
    }
    assert seen == {"fine": "tier 9", "failing": "tier 8", "none": None}
