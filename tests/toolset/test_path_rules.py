"""No recursive tool shows or changes a path that its own rules deny when it is called with that path."""

import dataclasses
import pathlib
import random
import shutil
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from ripieno.approvals import Approve, Confirmer
from ripieno.assembly import Assembly, assemble
from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.canisters.controls import Rules
from ripieno.descriptors.rules import Pattern
from ripieno.ensembles.offers import Offer
from ripieno.execution import Circumstances, Execution
from ripieno.jsonvalues import freeze
from ripieno.storage.places import Places
from tests.counts import count
from tests.support.scripted_models import Person
from tests.toolset.bundled_tools import code_of, text_of

#: Rules approve every call of these, so that only asking and denying rules matter.
APPROVED = ("directory.move", "directory.copy", "directory.delete_directory")
NAMES = ("secrets", "src", "key.txt", "Data", "a b", ".env", "x..", "é", "deep", "notes.md")
FOUND: dict[str, dict[str, Any]] = {
    "directory.list_files": {"recursive": True, "include_hidden": True},
    "directory.list_dir": {"include_hidden": True},
    "directory.tree": {"include_hidden": True},
    "search.search": {"pattern": "token", "include_hidden": True, "max_results": 1000},
    "search.grep": {"pattern": "tok.n", "include_pattern": "*", "max_results": 1000},
    "search.ripgrep": {"pattern": "token", "max_results": 1000},
    "search.find": {"type": "any", "include_hidden": True},
    "search.find_files": {"pattern": "*", "include_hidden": True},
    "search.glob": {"pattern": "**"},
}
CHANGED = ("directory.delete_directory", "directory.move", "directory.copy")


@pytest.fixture
async def assembly(tmp_path: pathlib.Path) -> AsyncIterator[Assembly]:
    (tmp_path / "workspace").mkdir()
    places = Places(configuration=tmp_path / "configuration", state=tmp_path / "state")
    names = {one.partition(".")[0] for one in (*FOUND, *CHANGED)} | {"file_read", "file_manage"}
    settings = {"ensembles": {"enabled": sorted(names)}}
    async with assemble(settings, workspace=tmp_path / "workspace", places=places) as one:
        yield one


@dataclasses.dataclass(slots=True)
class Caller:
    """Calls of an assembly's tools under rules of their own."""

    assembly: Assembly
    rules: Rules
    person: Confirmer | None = None
    execution: Execution = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        around = self.assembly.surroundings
        self.execution = Execution(rules=self.rules, surroundings=around, confirmer=self.person)

    @property
    def root(self) -> pathlib.Path:
        return self.assembly.surroundings.workspace

    def invocation(self, tool: str, arguments: dict[str, Any]) -> InvocationCanister:
        ensemble, _, name = tool.partition(".")
        exposed = self.assembly.access_ensemble(ensemble).access_invoker(name).exposed
        return InvocationCanister(identifier="call_1", name=exposed, arguments=freeze(arguments))

    async def call(self, tool: str, **arguments: Any) -> ResultCanister:
        return await self.execution.execute(self.invocation(tool, arguments), ensembles=self.assembly.ensembles)

    def refuses(self, tool: str, **arguments: Any) -> bool:
        """Whether a call is denied, or asked about by a rule with conditions."""
        offer = Offer.of(self.assembly.ensembles)
        prepared = self.execution.prepare(self.invocation(tool, arguments), offer, Circumstances())
        if isinstance(prepared, ResultCanister):
            return prepared.error is not None and prepared.error.category == "denied"
        asking = [f"[confirmation] ask has {one!r}" for one in self.rules.ask if Pattern.parse(one).conditions]
        return prepared.verdict.action == "ask" and prepared.verdict.reason in asking


def plant(root: pathlib.Path, chance: random.Random) -> list[str]:
    """A random tree of folders, files and links, whose files hold a token of their own; the paths of its entries."""
    shutil.rmtree(root)
    root.mkdir()
    folders = [root]
    for number in range(chance.randint(4, 16)):
        path = chance.choice(folders) / chance.choice(NAMES)
        if path.is_symlink() or path.exists():
            continue
        kind = chance.random()
        if kind < 0.45:
            path.mkdir()
            folders.append(path)
        elif kind < 0.9:
            path.write_text(f"token{number}\n")
        else:
            path.symlink_to(chance.choice([root, *folders, *root.iterdir()]))
    return sorted(str(one.relative_to(root)) for one in root.rglob("*"))


def rules(paths: list[str], chance: random.Random) -> Rules:
    """Rules about some of the paths, and some that are about none."""

    def pattern() -> str:
        path = chance.choice(paths).replace("\\", "\\\\")
        parent, _, name = path.rpartition("/")
        glob = chance.choice(
            (path, f"{path}/**", f"**/{name}", f"{parent or '**'}/*", f"{name[:1]}*", f"{path.upper()}", "*.txt")
        )
        tool = chance.choice(("*.*", "directory.*", "search.*", "search.grep", "directory.move", "directory.delete_*"))
        names = ("path", "source", "destination") if tool == "directory.move" else ("path",)
        more = chance.choice(("", "", "", ", recursive=true", ", pattern=token"))
        return f"{tool}({chance.choice(names)}={glob}{more})"

    chosen = [pattern() for _ in range(chance.randint(1, 3))]
    asked = chance.randint(0, len(chosen))
    return Rules(approve=APPROVED, ask=tuple(chosen[:asked]), deny=tuple(chosen[asked:]))


def state(root: pathlib.Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in root.rglob("*"):
        kind = "link" if one.is_symlink() else "folder" if one.is_dir() else one.read_text()
        found[str(one.relative_to(root))] = kind
    return found


def shown(text: str, root: pathlib.Path, paths: list[str], base: str, tool: str) -> Iterator[str]:
    """The entries of which a result has the path or the content."""
    lines = text.splitlines()
    for path in paths if base == "." else [one for one in paths if one.startswith(f"{base}/")]:
        own = (root / path).read_text().strip() if not (root / path).is_symlink() and (root / path).is_file() else ""
        beneath = path.removeprefix(f"{base}/") if base != "." else path
        said = path if tool.startswith("search.") else beneath
        named = any(line.startswith((f"{said}/", f"{said} (", f"{said} ->", f"{said}:")) for line in lines)
        if named or (own and any(line.endswith(f": {own}") for line in lines)):
            yield path


async def breaks(caller: Caller, paths: list[str], chance: random.Random) -> AsyncIterator[tuple[str, str]]:
    """The tools and paths that were shown or changed although a call of the tool with the path is refused."""
    root = caller.root
    bases = [".", "./", *(one for one in paths if (root / one).is_dir() and not (root / one).is_symlink())]
    for tool in chance.sample([*FOUND], 4):
        base, more = chance.choice(bases), FOUND[tool]
        result = await caller.call(tool, path=base, **more)
        if tool == "directory.tree":
            # It has names only: a tree of the permitted entries has the same ones.
            drawn = {line.strip().partition(" ")[0].rstrip("/") for line in text_of(result).splitlines()[1:]}
            here = [one for one in paths if base in (".", "./") or one.startswith(f"{base}/")]
            named = {one for one in here if pathlib.PurePath(one).name in drawn}
            for path in named:
                same = [one for one in here if pathlib.PurePath(one).name == pathlib.PurePath(path).name]
                if all(caller.refuses(tool, path=one, **more) for one in same) and " " not in path:
                    yield tool, path
            continue
        for path in shown(text_of(result), root, paths, base.removesuffix("/"), tool):
            if caller.refuses(tool, path=path, **more):
                yield tool, path
    tool, base = chance.choice(CHANGED), chance.choice(bases)
    before = state(root)
    if tool == "directory.delete_directory":
        await caller.call(tool, path=base, recursive=True)
        for path in before.keys() - state(root).keys():
            if caller.refuses(tool, path=path, recursive=True):
                yield tool, path
        return
    target = chance.choice(["new", "secrets/new", "src"])
    more = {"recursive": True} if tool == "directory.copy" else {}
    await caller.call(tool, source=base, destination=target, **more)
    for path in state(root).keys() - before.keys():
        source = f"{base.removesuffix('/')}{path.removeprefix(target)}".removeprefix("./")
        if caller.refuses(tool, source=source, destination=path, **more):
            yield tool, path


async def test_what_rules_deny_is_neither_shown_nor_changed(assembly: Assembly) -> None:
    chance = random.Random(11)
    found: list[tuple[str, str]] = []
    times = count(4_000, 100)
    for _ in range(times):
        paths = plant(assembly.surroundings.workspace, chance)
        if paths:
            caller = Caller(assembly, rules(paths, chance))
            found += [one async for one in breaks(caller, paths, chance)]
    print(f"{times} trees, {len(found)} breaks")
    assert found == []


async def test_patterns_without_a_path_leave_nothing_out(assembly: Assembly) -> None:
    chance = random.Random(12)
    harmless = Rules(
        approve=APPROVED, ask=("*.*(pattern=other)", "io.*"), deny=("search.*(max_results=7)", "git", "*.*(style=list)")
    )
    for _ in range(count(400)):
        plant(assembly.surroundings.workspace, chance)
        for tool, more in FOUND.items():
            plain, ruled = Caller(assembly, Rules()), Caller(assembly, harmless)
            if not ruled.refuses(tool, path=".", **more):
                said = [text_of(await one.call(tool, path=".", **more)) for one in (plain, ruled)]
                assert said[1].replace("without ripgrep", "ripgrep") == said[0].replace("without ripgrep", "ripgrep")


@pytest.fixture
def secrets(assembly: Assembly) -> pathlib.Path:
    root = assembly.surroundings.workspace
    (root / "src" / "secrets").mkdir(parents=True)
    (root / "src" / "secrets" / "key.txt").write_text("token of a person\n")
    (root / "src" / "main.py").write_text("token = 1\n")
    (root / "alias").symlink_to("src/secrets")
    return root


async def test_what_is_left_out_is_counted(assembly: Assembly, secrets: pathlib.Path) -> None:
    caller = Caller(assembly, Rules(deny=("*.*(path=src/secrets/**)",)))
    assert text_of(await caller.call("directory.list_files", path="src")).splitlines() == [
        "main.py (10 bytes)",
        "[... 1 entry left out by rules about paths ...]",
    ]
    for tool in ("search.search", "search.find_files"):
        for pattern in ("token of", "*.txt", "k*"):
            text = text_of(await caller.call(tool, path=".", pattern=pattern))
            # The link is left out, too. The number tells nothing of what the rules leave out.
            assert text.endswith("[... 2 entries left out by rules about paths ...]")
            assert "key" not in text


async def test_a_tree_with_a_denied_path_stays(assembly: Assembly, secrets: pathlib.Path) -> None:
    before = state(secrets)
    for tool, arguments, deny in (
        ("directory.delete_directory", {"path": "src", "recursive": True}, "*.*(path=src/secrets/**)"),
        ("directory.move", {"source": "src", "destination": "a"}, "*.*(source=**/secrets)"),
        ("directory.move", {"source": "src", "destination": "b"}, "*.*(destination=b/secrets/*)"),
        ("directory.copy", {"source": "src", "destination": "b", "recursive": True}, "*.*(source=src/secrets/*.txt)"),
        ("directory.copy", {"source": "src", "destination": "b", "recursive": True}, "*.*(destination=b/secrets)"),
    ):
        for rules in (Rules(approve=APPROVED, deny=(deny,)), Rules(approve=APPROVED, ask=(deny,))):
            result = await Caller(assembly, rules).call(tool, **arguments)
            assert code_of(result) == "rule", tool
            assert deny in text_of(result)
            assert state(secrets) == before


async def test_a_person_who_was_asked_about_a_path_sees_what_is_in_it(
    assembly: Assembly, secrets: pathlib.Path
) -> None:
    caller = Caller(assembly, Rules(ask=("search.*(path=src/secrets/**)",)), Person(Approve()))
    text = text_of(await caller.call("search.search", pattern="token", path="."))
    assert "main.py:1" in text
    assert "key.txt" not in text
    assert "key.txt:1" in text_of(await caller.call("search.search", pattern="token", path="src/secrets"))


@pytest.mark.parametrize(
    "path",
    ["alias/key.txt", "./" * 900 + "alias/key.txt", "src/secrets/key.txt/", "src/secrets//key.txt/./", "src/secrets/."],
)
async def test_no_spelling_of_a_path_passes_a_rule(assembly: Assembly, secrets: pathlib.Path, path: str) -> None:
    caller = Caller(assembly, Rules(deny=("*.*(path=src/secrets/key.txt)", "*.*(path=src/secrets)")))
    assert caller.refuses("file_read.read_file", path=path)
    assert caller.refuses("directory.list_files", path=path)


async def test_a_denied_name_is_not_suggested(assembly: Assembly, secrets: pathlib.Path) -> None:
    for chosen, suggests in ((Rules(), True), (Rules(deny=("*.*(path=**/key.txt)",)), False)):
        text = text_of(await Caller(assembly, chosen).call("file_read.read_file", path="src/secrets/key.tx"))
        assert ("'key.txt'" in text) == suggests
