"""The workspaces of runs: one assembly serves several users, and the folder of one is closed to the others."""

import asyncio
import contextlib
import gc
import pathlib
import weakref
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from ripieno.approvals import Approve, DeferredConfirmer, Given
from ripieno.approvals.grants import Binding
from ripieno.assembly import Assembly, assemble
from ripieno.assembly import placement as placement_of_runs
from ripieno.conducting import Run
from ripieno.ensembles import Context, Ensemble
from ripieno.exceptions import InputError
from ripieno.testing import call, turn
from ripieno.testing.wires import model_of
from tests.support.command_line import PATIENCE, User
from tests.support.scripted_models import Blocking, Recording, ensemble, fates, settle_down, tool

TABLES: dict[str, Any] = {
    "ensembles": {"enabled": ["io"]},
    "confirmation": {"approve": ["io.write_file(path=docs/**)"]},
    "sandbox": {"level": "auto"},
}


@pytest.fixture
def folders(user: User) -> tuple[pathlib.Path, pathlib.Path]:
    """The workspaces of two users, each with a file ``name.txt`` and a folder ``docs``."""
    made = (user.workspace / "alice", user.workspace / "bob")
    for folder in made:
        (folder / "docs").mkdir(parents=True)
        (folder / "name.txt").write_text(f"{folder.name}\n")
    return made


@contextlib.asynccontextmanager
async def assembled(user: User, **settings: Any) -> AsyncGenerator[tuple[Assembly, Recording], None]:
    recording = Recording()
    tables = {**TABLES, **settings.pop("tables", {})}
    async with assemble(
        tables, workspace=user.workspace, places=user.places, recorder=recording, **settings
    ) as assembly:
        yield assembly, recording


def conducted(assembly: Assembly, folder: pathlib.Path, tool: str, **arguments: Any) -> Run:
    return assembly.conduct(
        "Do it.", model=model_of([turn(calls=[call(tool, "it", **arguments)]), turn("Done.")]), workspace=folder
    )


async def test_files_and_programs_are_those_of_the_runs_workspace(
    user: User, folders: tuple[pathlib.Path, pathlib.Path]
) -> None:
    ran = {"ensembles": {"enabled": ["io", "execution"]}, "confirmation": {"approve": ["*.*", "execution.bash"]}}
    async with assembled(user, tables=ran) as (assembly, recording):
        for tool, arguments in (("read_file", {"path": "name.txt"}), ("bash", {"command": "cat name.txt; pwd"})):
            runs = [conducted(assembly, folder, tool, **arguments) for folder in folders]
            for folder, done in zip(folders, await asyncio.gather(*runs), strict=True):
                ((_, text),) = fates(done.canisters)
                assert folder.name in text
                assert not any(other.name in text for other in folders if other != folder)
    begun = [record.details["workspace"] for record in recording.records if record.stage == "began"]
    assert sorted(set(begun)) == sorted(map(str, folders))


async def test_a_path_into_the_other_workspace_is_refused(
    user: User, folders: tuple[pathlib.Path, pathlib.Path]
) -> None:
    alice, bob = folders
    (alice / "docs" / "link").symlink_to(bob / "name.txt")
    async with assembled(user) as (assembly, _):
        for path in ("../bob/name.txt", str(bob / "name.txt"), "docs/link"):
            done = await conducted(assembly, alice, "read_file", path=path)
            ((_, fate),) = fates(done.canisters)
            assert fate == "!permission", path


async def test_rules_read_links_of_the_runs_workspace(user: User, folders: tuple[pathlib.Path, pathlib.Path]) -> None:
    """``docs/**`` is approved; where ``docs/deep`` leads out of it, the same call is denied."""
    alice, bob = folders
    (alice / "docs" / "deep").mkdir()
    (bob / "secret").mkdir()
    (bob / "docs" / "deep").symlink_to(bob / "secret")
    async with assembled(user) as (assembly, _):
        done = [
            await conducted(assembly, one, "write_file", path="docs/deep/a.txt", content="new") for one in (alice, bob)
        ]
    assert fates(done[1].canisters)[0][1] == "!denied"
    assert (alice / "docs" / "deep" / "a.txt").read_text() == "new"
    assert not list((bob / "secret").iterdir())


async def test_undo_belongs_to_the_runs_workspace(user: User, folders: tuple[pathlib.Path, pathlib.Path]) -> None:
    alice, bob = folders
    async with assembled(user) as (assembly, _):
        done = await conducted(assembly, alice, "write_file", path="docs/a.txt", content="new")
        logs = {}
        for folder in folders:
            (placed,) = assembly._placement.place(assembly.ensembles, folder, assembly.surroundings)
            assert placed.surroundings is not None
            assert placed.surroundings.journal is not None
            logs[folder] = [step.path for entry in placed.surroundings.journal.entries() for step in entry.steps]
    assert fates(done.canisters)[0][1][0] != "!"
    assert logs == {alice: ["docs/a.txt"], bob: []}


async def test_an_approval_counts_only_in_its_workspace(user: User, folders: tuple[pathlib.Path, pathlib.Path]) -> None:
    alice, bob = folders
    async with assembled(user, confirmer=DeferredConfirmer()) as (assembly, _):
        waits = await conducted(assembly, alice, "write_file", path="a.txt", content="new")
        (waiting,) = waits.waiting
        binding = Binding(**{name: str(part) for name, part in waiting.binding.items()})
        answers = {waiting.invocation: Given(answer=Approve(), binding=binding)}
        for folder, finish in ((bob, "open"), (alice, "stop")):
            model = model_of([turn("Done.")])
            done = await assembly.conduct(waits, model=model, workspace=folder, answers=answers)
            assert done.finish == finish
    assert (alice / "a.txt").read_text() == "new"
    assert not (bob / "a.txt").exists()


async def test_limits_of_an_ensemble_count_in_all_workspaces_together(
    user: User, folders: tuple[pathlib.Path, pathlib.Path]
) -> None:
    blocking = Blocking()
    mine = ensemble(tool("wait", blocking), max_parallel=1)
    async with assembled(user) as (assembly, _):
        model = model_of([turn(calls=[call("wait", "it")]), turn("Done.")])
        runs = [
            asyncio.ensure_future(assembly.conduct("Go.", model=model, ensembles=[mine], workspace=folder))
            for folder in folders
        ]
        await blocking.began.wait()
        await settle_down()
        assert blocking.running == 1
        blocking.go.set()
        done = await asyncio.gather(*runs)
    assert [text for one in done for _, text in fates(one.canisters)] == ["late", "late"]


@pytest.mark.parametrize(
    ("shared", "paths", "serial"),
    [(False, ("a", "a"), False), (True, ("a", "a"), True), (True, ("a", "b"), False)],
    ids=["two folders", "the same file", "two files"],
)
async def test_locks_follow_the_workspace_of_the_run(
    user: User, folders: tuple[pathlib.Path, pathlib.Path], shared: bool, paths: tuple[str, str], serial: bool
) -> None:
    steps: list[str] = []
    both = asyncio.Barrier(2)

    async def change(context: Any, arguments: dict[str, Any]) -> str:
        steps.append("began")
        await (settle_down() if serial else both.wait())
        steps.append("ended")
        return "changed"

    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    mine = ensemble(tool("change", change, schema=schema, effect="write", writes=("file:{path}",)))
    async with assembled(user, tables={"confirmation": {"approve": ["mine.change"]}}) as (assembly, _):
        runs = [
            assembly.conduct(
                "Go.",
                model=model_of([turn(calls=[call("change", "it", path=path)]), turn("Done.")]),
                ensembles=[mine],
                workspace=folders[0] if shared else folder,
            )
            for path, folder in zip(paths, folders, strict=True)
        ]
        # Calls that wait for each other never both arrive at the barrier.
        async with asyncio.timeout(PATIENCE):
            done = await asyncio.gather(*runs)
    assert [text for one in done for _, text in fates(one.canisters)] == ["changed", "changed"]
    assert steps == (["began", "ended"] * 2 if serial else ["began", "began", "ended", "ended"])


async def test_a_placed_ensemble_follows_changes_and_is_forgotten(
    user: User, folders: tuple[pathlib.Path, pathlib.Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement_of_runs, "MOST_WORKSPACES", 1)
    mine = ensemble(tool("wait"))
    async with assembled(user) as (assembly, _):
        place = assembly._placement.place
        (placed,) = place([mine], folders[0], assembly.surroundings)
        assert place([mine], folders[0], assembly.surroundings) == (placed,)
        mine._change([tool("look")])
        assert list(placed.invokers) == ["look"]
        assert placed.access_invoker("look").ensemble is placed
        gone = weakref.ref(placed)
        del placed
        place([mine], folders[1], assembly.surroundings)
        gc.collect()
        assert gone() is None
        assert len(mine._watchers) == 1


async def test_a_function_of_the_application_sees_the_workspace(
    user: User, folders: tuple[pathlib.Path, pathlib.Path]
) -> None:
    def where(context: Context) -> str:
        """Names the workspace."""
        assert context.surroundings is not None
        return str(context.surroundings.workspace)

    mine = Ensemble.of_functions("mine", [where])
    async with assembled(user, tables={"confirmation": {"approve": ["mine.where"]}}) as (assembly, _):
        for folder in folders:
            model = model_of([turn(calls=[call("where", "it")]), turn("Done.")])
            done = await assembly.conduct("Go.", model=model, ensembles=[mine], workspace=folder)
            assert [text for _, text in fates(done.canisters)] == [str(folder)]


async def test_an_unfit_workspace_is_refused_before_any_request(user: User) -> None:
    (user.workspace / "name.txt").write_text("x")
    async with assembled(user) as (assembly, _):
        for folder, why in (
            ("missing", "not a folder"),
            ("name.txt", "not a folder"),
            ("..", "is inside the workspace"),
        ):
            with pytest.raises(InputError, match=why):
                conducted(assembly, user.workspace / folder, "read_file", path="x")
