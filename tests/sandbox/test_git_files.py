"""Repositories of a workspace: which are found, and that programs change nothing in them that git obeys."""

import os
import pathlib
import subprocess

import pytest

from ripieno.sandbox.git_files import controls_beneath, withdraw
from tests.support.git_repositories import CLEAN, plain_git
from tests.support.sandbox_tiers import SHELTERS, shelter, start

ALL = pytest.mark.parametrize("name", SHELTERS)
WITH_MOUNTS = pytest.mark.parametrize("name", ["tier 1", "tier 2"])
ODD = 'a "b\\c [d]* é'


def repository(folder: pathlib.Path) -> pathlib.Path:
    folder.mkdir(parents=True, exist_ok=True)
    plain_git(folder, "init", "--initial-branch=main")
    plain_git(folder, "commit", "--allow-empty", "--message=first")
    return folder


NEW = 'new() { git init -b main "$1"; git -C "$1" commit --allow-empty -m first; }'
#: A submodule of a repository, deep in it.
SUBMODULE = "new source; new w; git -C w -c protocol.file.allow=always submodule add ../source deep/in/third/part"
#: The workspace of each layout, and the script that makes it; ``new`` makes a repository.
LAYOUTS = {
    "plain": ("w", "new w"),
    "beneath": ("w", "new w/group/project"),
    "with submodule": ("w", SUBMODULE),
    "is submodule": ("w/deep/in/third/part", SUBMODULE),
    "with working tree": ("w", "new w/main; git -C w/main worktree add ../other"),
    "is working tree": ("w", "new main; git -C main worktree add ../w"),
    "linked": ("w", "new w; mv w/.git w/real; ln -s real w/.git"),
    "linked outside": ("w", "new w; mv w/.git real; ln -s ../real w/.git"),
    "in an odd folder": (ODD, f"new '{ODD}'"),
}


def lay_out(name: str, folder: pathlib.Path) -> pathlib.Path:
    workspace, script = LAYOUTS[name]
    subprocess.run(["sh", "-ec", f"{NEW}\n{script}"], cwd=folder, check=True, capture_output=True, env=CLEAN)
    return folder / workspace


#: Writes to everything in the workspace that git could obey, in each way; then puts other folders in the place of it.
EVIL = r"""
find . -name config -o -name hooks -o -name info -o -name commondir -o -name config.worktree -o -name .git > list
while read -r path; do
  if [ -d "$path" ]; then
    echo evil > "$path/pre-commit"; echo evil > "$path/attributes"
  else
    echo evil > "$path"; echo evil >> "$path"; echo evil > new; mv -f new "$path"
    rm -f "$path"; ln -sf /dev/null "$path"
  fi
  mv "$path" "$path.gone"; rm -rf "$path"
done < list 2>/dev/null
rm -f list new
true
"""


def obeyed(folder: pathlib.Path) -> dict[str, str]:
    """Everything beneath a folder that git may obey, and what is in it."""
    names = ("config", "config.worktree", "commondir", ".git", "pre-commit", "attributes")
    found = {str(one.relative_to(folder)): one for one in folder.rglob("*") if one.name in names}
    texts = {name: path.read_text() for name, path in found.items() if path.is_file()}
    return texts | {name: "folder" for name, path in found.items() if path.is_dir()}


@WITH_MOUNTS
@pytest.mark.parametrize("layout", [name for name in LAYOUTS if not name.startswith(("linked", "in"))])
async def test_what_git_obeys_stays_as_it_is(name: str, layout: str, tmp_path: pathlib.Path) -> None:
    workspace = lay_out(layout, tmp_path)
    sandbox = shelter(name, workspace)
    before = obeyed(tmp_path)
    assert before
    for _ in range(2):
        completed = await start(["sh", "-c", EVIL], sandbox.confinement(writable=[workspace]), workspace)
        assert completed.exit_code == 0, completed.stderr.text
    sandbox.close()
    assert obeyed(tmp_path) == before
    assert "evil" not in str(before)


@WITH_MOUNTS
@pytest.mark.parametrize("layout", ["linked", "linked outside"])
async def test_a_repository_behind_a_link_stays_and_programs_start(
    name: str, layout: str, tmp_path: pathlib.Path
) -> None:
    """The link itself can be replaced (said in the guide)."""
    workspace = lay_out(layout, tmp_path)
    sandbox = shelter(name, workspace)
    script = "echo evil > .git/config; echo evil > .git/hooks/pre-commit; echo evil > .git/info/exclude; echo done"
    completed = await start(["sh", "-c", script], sandbox.confinement(writable=[workspace]), workspace)
    assert completed.stdout.text == "done\n", completed.stderr.text
    sandbox.close()
    assert "evil" not in str(obeyed(tmp_path))


@ALL
async def test_programs_start_whatever_one_has_put_in_the_place_of_a_repository(
    name: str, tmp_path: pathlib.Path
) -> None:
    sandbox = shelter(name, tmp_path)
    scripts = ("ln -s /nowhere .git", "rm -f .git; mkdir x; touch x/config; ln -s x .git", "rm -f .git; echo x > .git")
    for script in scripts:
        await start(["sh", "-c", script], sandbox.confinement(writable=[tmp_path]), tmp_path)
        completed = await start(["echo", "works"], sandbox.confinement(writable=[tmp_path]), tmp_path)
        assert completed.stdout.text == "works\n", completed.stderr.text
    sandbox.close()


@WITH_MOUNTS
async def test_what_is_protected_around_a_repository_stays_so(name: str, tmp_path: pathlib.Path) -> None:
    repository(tmp_path / "ensembles" / "mine")
    sandbox = shelter(name, tmp_path)
    script = "echo evil > ensembles/mine/a.toml; echo evil > ensembles/mine/.git/config; echo done"
    completed = await start(["sh", "-c", script], sandbox.confinement(writable=[tmp_path]), tmp_path)
    assert completed.stdout.text == "done\n", completed.stderr.text
    sandbox.close()
    assert os.listdir(tmp_path / "ensembles" / "mine") == [".git"]
    assert "evil" not in str(obeyed(tmp_path))


@WITH_MOUNTS
async def test_a_repository_that_a_program_made_is_its_own(name: str, tmp_path: pathlib.Path) -> None:
    """It can be changed and removed: nothing in it was a person's."""
    sandbox = shelter(name, tmp_path)
    for script in ("git init part", "git -C part config user.name X", "rm -rf part"):
        completed = await start(["sh", "-c", script], sandbox.confinement(writable=[tmp_path]), tmp_path, CLEAN)
        assert completed.exit_code == 0, completed.stderr.text
    sandbox.close()
    assert os.listdir(tmp_path) == []


@WITH_MOUNTS
async def test_the_repository_of_a_working_tree_can_be_granted(name: str, tmp_path: pathlib.Path) -> None:
    workspace = lay_out("is working tree", tmp_path)
    sandbox = shelter(name, workspace, writable=(str(tmp_path / "main" / ".git"),))
    before = obeyed(tmp_path)
    environment = {**CLEAN, "HOME": sandbox.home}
    commit = "git commit --allow-empty --message=second && git log --oneline"
    evil = f"for one in config hooks/pre-commit worktrees/w/commondir; do echo evil > {tmp_path}/main/.git/$one; done"
    for script in (commit, f"({evil}) 2>/dev/null; echo second"):
        completed = await start(["sh", "-c", script], sandbox.confinement(writable=[workspace]), workspace, environment)
        assert "second" in completed.stdout.text, completed.stderr.text
    sandbox.close()
    assert obeyed(tmp_path) == before


def test_the_look_is_bounded(tmp_path: pathlib.Path) -> None:
    for place in ("a/b/c/d", "node_modules/x", ".hidden/x", "a/near"):
        (tmp_path / place / ".git").mkdir(parents=True)
    (tmp_path / "link").symlink_to("a")
    found = {os.path.relpath(one, tmp_path).partition("/.git/")[0] for one in controls_beneath(str(tmp_path))}
    assert found == {"a/near"}
    for number in range(200):
        (tmp_path / f"r{number:03}" / ".git").mkdir(parents=True)
    found = {one.partition("/.git/")[0] for one in controls_beneath(str(tmp_path))}
    assert len(found) == 64


def test_a_repository_that_is_broken_is_no_error(tmp_path: pathlib.Path) -> None:
    (tmp_path / ".git").write_bytes(b"gitdir: \xff\xfe\n" * 9)
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop" / ".git").symlink_to(".git")
    os.mkdir(tmp_path / "pipe")
    os.mkfifo(tmp_path / "pipe" / ".git")
    odd = tmp_path / "odd" / ".git"
    odd.mkdir(parents=True)
    os.mkfifo(odd / "commondir")
    (odd / "modules").symlink_to(".")
    assert str(tmp_path / ".git") in controls_beneath(str(tmp_path))
    assert f"{odd}/config" in controls_beneath(str(tmp_path))


def test_a_link_is_not_followed_to_what_is_removed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "commondir").write_text("ours")
    (tmp_path / "link").symlink_to("real")
    assert not withdraw(str(tmp_path / "link" / "commondir"))
    assert not withdraw(str(tmp_path / "missing"))
    assert (tmp_path / "real" / "commondir").exists()
    assert withdraw(str(tmp_path / "real" / "commondir"))
    assert os.listdir(tmp_path / "real") == []


@ALL
async def test_a_repository_beneath_has_files_of_any_name(name: str, tmp_path: pathlib.Path) -> None:
    workspace = lay_out("plain", tmp_path)
    repository(workspace / "part")
    for one in ("ripieno.toml", "ensembles/mine.toml"):
        (workspace / "part" / one).parent.mkdir(exist_ok=True)
        (workspace / "part" / one).write_text("new")
    sandbox = shelter(name, workspace)
    variables = {**sandbox.environment(), "GIT_CONFIG_NOSYSTEM": "1"}
    script = ["sh", "-c", "cd part && git add --all && git status --porcelain"]
    added = await start(script, sandbox.confinement(writable=[workspace]), workspace, variables)
    sandbox.close()
    assert added.stdout.text == "A  ensembles/mine.toml\nA  ripieno.toml\n", added.stderr.text


@ALL
@pytest.mark.parametrize("layout", ["plain", "with submodule", "in an odd folder"])
async def test_everything_can_be_added_and_nothing_of_ours(name: str, layout: str, tmp_path: pathlib.Path) -> None:
    """What is laid over protected places that are missing is no file of the repository, also for who only reads."""
    workspace = lay_out(layout, tmp_path)
    before = plain_git(workspace, "status", "--porcelain")
    sandbox = shelter(name, workspace)
    (workspace / "new.txt").write_text("new")
    variables = {**sandbox.environment(), "GIT_CONFIG_NOSYSTEM": "1"}
    script = ["sh", "-c", "git add --all && git status --porcelain"]
    added = await start(script, sandbox.confinement(writable=[workspace]), workspace, variables)
    seen = await start(
        ["git", "status", "--porcelain"], sandbox.confinement(readable=[workspace]), workspace, variables
    )
    sandbox.close()
    assert added.exit_code == 0, added.stderr.text
    assert sorted(added.stdout.text.splitlines()) == sorted([*before.splitlines(), "A  new.txt"])
    assert seen.stdout.text == added.stdout.text
    assert plain_git(workspace, "status", "--porcelain") == added.stdout.text
