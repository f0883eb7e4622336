"""What a person is shown of a change before it is made is the change that is made, and nothing is made by looking."""

import pathlib
from typing import Any

import pytest
from frozendict import frozendict

from ripieno.approvals import Answer, Approve, CallbackConfirmer, ConfirmationRequest, Deny
from ripieno.approvals.presentation import show_change
from ripieno.assembly import assemble
from ripieno.canisters import InvocationCanister
from ripieno.storage.places import Places
from tests.toolset.file_tools import file_tools
from tests.toolset.furnished_workspace import snapshot

DIFF = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n"


CASES: list[tuple[str, dict[str, Any]]] = [
    ("write_file", {"path": "a.txt", "content": "new\n"}),
    ("write_file", {"path": "sub/new.txt", "content": "x"}),
    ("append_file", {"path": "a.txt", "content": "more"}),
    ("create_file", {"path": "n.txt", "content": ""}),
    ("edit_file", {"path": "a.txt", "old_content": "two", "new_content": "three"}),
    ("patch_file", {"patch": DIFF}),
    ("delete_file", {"path": "a.txt"}),
]


@pytest.mark.parametrize(
    ("name", "arguments"), CASES, ids=[f"{name} {number}" for number, (name, _) in enumerate(CASES)]
)
async def test_what_is_foreseen_is_what_happens(
    name: str, arguments: dict[str, Any], workspace: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    (workspace / "a.txt").write_text("one\ntwo\n")
    async with file_tools(workspace, tmp_path) as tools:
        invoker = tools.invoker(name)
        assert invoker.preview is not None
        complete = {**invoker.schema.complete(arguments), **invoker.presets}
        before = snapshot(workspace)
        foreseen = invoker.preview(tools.context(name), complete)
        assert snapshot(workspace) == before
        await tools.call(name, **arguments)
    after = snapshot(workspace)
    changed = {one for one in {*before, *after} if before.get(one) != after.get(one)}
    (path,) = (one for one in changed if not (workspace / one).is_dir())
    texts = [None if path not in one else one[path].decode() for one in (before, after)]
    assert foreseen == show_change(path, *texts)
    assert foreseen


UNSHOWN: list[tuple[str, dict[str, Any], str]] = [
    ("write_file", {"path": "../outside/secret", "content": "x"}, "It would be refused now: "),
    ("write_file", {"path": "link", "content": "x"}, "It would be refused now: 'link' is a link."),
    ("edit_file", {"path": "out/secret", "old_content": "s", "new_content": "t"}, "It would be refused"),
    ("delete_file", {"path": "link"}, "The link link to ../outside/secret would be deleted"),
    ("write_file", {"path": "binary", "content": "x"}, "'binary' has 3 bytes that are not text"),
    ("write_file", {"path": "large", "content": "x"}, "'large' has 1048577 bytes"),
    ("create_file", {"path": "a.txt", "content": "x"}, "It would be refused now: 'a.txt' already exists"),
    ("move_file", {"source": "a.txt", "destination": "b.txt"}, "a.txt would be moved to b.txt.\n"),
    ("rename_file", {"path": "a.txt", "new_name": "b.txt"}, "a.txt would be moved to b.txt.\n"),
    ("copy_file", {"source": "b", "destination": "a.txt", "overwrite": True}, "b would be copied to a.txt.\nIt would"),
    ("delete_directory", {"path": "sub", "recursive": True}, "The directory sub would be deleted with all"),
    ("patch_file", {"patch": "nonsense"}, "It would be refused now: "),
]


async def test_what_cannot_be_shown_is_said(tmp_path: pathlib.Path) -> None:
    root, outside = tmp_path / "workspace", tmp_path / "outside"
    for folder in (root, outside, root / "sub"):
        folder.mkdir()
    (outside / "secret").write_text("s3cret\n")
    (root / "a.txt").write_text("one\n")
    (root / "link").symlink_to("../outside/secret")
    (root / "out").symlink_to("../outside")
    (root / "binary").write_bytes(b"a\0b")
    (root / "large").write_bytes(b"x" * (1024 * 1024 + 1))
    async with file_tools(root, tmp_path) as tools:
        for name, arguments, said in UNSHOWN:
            invoker = tools.invoker(name)
            assert invoker.preview is not None
            foreseen = invoker.preview(tools.context(name), {**invoker.schema.complete(arguments), **invoker.presets})
            assert foreseen is not None
            assert foreseen.startswith(said)
            assert "s3cret" not in foreseen


async def test_a_person_who_is_asked_sees_the_change(workspace: pathlib.Path, tmp_path: pathlib.Path) -> None:
    asked: list[ConfirmationRequest] = []

    def answer(request: ConfirmationRequest) -> Answer:
        asked.append(request)
        return Approve() if request.arguments["path"] == "a.txt" else Deny()

    settings = {"ensembles": {"enabled": ["io", "execution"]}}
    places = Places(configuration=tmp_path / "c", state=tmp_path / "s")
    assembling = assemble(settings, workspace=workspace, places=places, confirmer=CallbackConfirmer(answer))
    async with assembling as assembly:
        invocation = InvocationCanister(
            identifier="a", name="write_file", arguments=frozendict({"path": "a.txt", "content": "x\n"})
        )
        result = await assembly.execution.execute(invocation, ensembles=assembly.ensembles)
        assert result.error is None
        assert assembly.access_invoker("execution.bash").policy.notes == ("This cannot be undone.",)
    assert asked[0].shown.change == "--- /dev/null\n+++ a.txt\n@@ -0,0 +1 @@\n+x\n"
    assert "| +x" in asked[0].shown.render()
