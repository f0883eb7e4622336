"""Repositories made with plain git, and hostile ones that try to make git run a program."""

import atexit
import functools
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable

CLEAN = {
    "PATH": os.environ.get("PATH", os.defpath),
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": "test@test" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def plain_git(folder: pathlib.Path, *words: str, check: bool = True) -> str:
    """The output of git itself, without any restriction."""
    done = subprocess.run(["git", *words], cwd=folder, env=CLEAN, check=check, capture_output=True, text=True)
    return done.stdout


def make_repository(folder: pathlib.Path) -> pathlib.Path:
    """A repository with two branches, two commits, and a change that is not staged."""
    return shutil.copytree(_template(), folder, symlinks=True)


@functools.cache
def _template() -> pathlib.Path:
    """The repository that others are copies of: copying is much faster than git."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ripieno-repository-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    plain_git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "file.txt").write_text("one\n")
    (folder / "other.bin").write_text("other\n")
    plain_git(folder, "add", ".")
    plain_git(folder, "commit", "--quiet", "--message=first")
    plain_git(folder, "branch", "side")
    (folder / "file.txt").write_text("two\n")
    plain_git(folder, "commit", "--quiet", "--all", "--message=second")
    (folder / "file.txt").write_text("three\n")
    return folder


def program(folder: pathlib.Path, marker: pathlib.Path) -> str:
    """A program that writes a marker file, and then filters as ``cat``."""
    path = folder / "evil.sh"
    path.write_text(f"#!/bin/sh\ntouch '{marker}'\ncat\n")
    path.chmod(0o755)
    return str(path)


Vector = Callable[[pathlib.Path, str], None]


def setting(*names: str, attributes: str = "") -> Vector:
    """Settings of the repository with the program as their value, or in place of EVIL in it."""

    def plant(folder: pathlib.Path, evil: str) -> None:
        lines: list[str] = []
        for name in names:
            key, _, value = name.partition("=")
            section, _, rest = key.partition(".")
            inner, _, last = rest.rpartition(".")
            title = f'{section} "{inner}"' if inner else section
            lines.append(f'[{title}]\n\t{last} = "{(value or "EVIL").replace("EVIL", evil)}"\n')
        with (folder / ".git" / "config").open("a") as file:
            file.writelines(lines)
        if attributes:
            (folder / ".gitattributes").write_text(f"* {attributes}\n")

    return plant


def hooks(folder: pathlib.Path, evil: str, place: str = ".git/hooks") -> None:
    """All hooks of git."""
    (folder / place).mkdir(parents=True, exist_ok=True)
    for name in (
        *("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-checkout", "pre-merge-commit"),
        *("post-merge", "pre-push", "pre-auto-gc", "post-rewrite", "post-index-change", "reference-transaction"),
        *("fsmonitor-watchman", "applypatch-msg", "pre-rebase", "update", "post-update", "pre-receive"),
    ):
        (folder / place / name).write_text(pathlib.Path(evil).read_text().replace("cat\n", ""))
        (folder / place / name).chmod(0o755)


def hooks_elsewhere(folder: pathlib.Path, evil: str) -> None:
    hooks(folder, evil, "husky")
    plain_git(folder, "config", "--local", "core.hooksPath", "husky")


def included(folder: pathlib.Path, evil: str, key: str = "include.path") -> None:
    (folder / "more").write_text(f"[core]\n\tfsmonitor = {evil}\n")
    plain_git(folder, "config", "--local", key, "../more")


def in_worktree_settings(folder: pathlib.Path, evil: str) -> None:
    plain_git(folder, "config", "--local", "extensions.worktreeConfig", "true")
    plain_git(folder, "config", "--worktree", "filter.it.clean", evil)
    (folder / ".gitattributes").write_text("* filter=it\n")


def in_submodule(folder: pathlib.Path, evil: str) -> None:
    """A repository in the repository, registered as a submodule, which git reads without being asked."""
    inner = make_repository(folder / "inner")
    plain_git(folder, "add", "inner", check=False)
    plain_git(inner, "config", "--local", "core.fsmonitor", evil)
    plain_git(inner, "config", "--local", "filter.it.clean", evil)
    (inner / ".gitattributes").write_text("* filter=it\n")


def in_absorbed_submodule(folder: pathlib.Path, evil: str) -> None:
    in_submodule(folder, evil)
    (folder / ".gitmodules").write_text('[submodule "inner"]\n\tpath = inner\n\turl = ./inner\n')
    plain_git(folder, "submodule", "absorbgitdirs", check=False)


def elsewhere(folder: pathlib.Path, evil: str) -> None:
    """A repository whose ``.git`` is outside the workspace."""
    outside = folder.parent.parent / f"outside-{folder.name}"
    os.rename(folder / ".git", outside)
    (folder / ".git").write_text(f"gitdir: {outside}\n")
    with (outside / "config").open("a") as file:
        file.write(f"[core]\n\tfsmonitor = {evil}\n")


def files_elsewhere(folder: pathlib.Path, evil: str) -> None:
    outside = folder.parent.parent / f"outside-{folder.name}"
    outside.mkdir()
    plain_git(folder, "config", "--local", "core.worktree", str(outside))


def bare_inside(folder: pathlib.Path, evil: str) -> None:
    """A directory in the form of a bare repository."""
    os.rename(folder / ".git", folder.parent / "moved")
    for path in (folder.parent / "moved").iterdir():
        os.rename(path, folder / path.name)
    with (folder / "config").open("a") as file:
        file.write(f"[core]\n\tbare = false\n\tworktree = .\n\tfsmonitor = {evil}\n")


def borrowing(folder: pathlib.Path, evil: str) -> None:
    """A repository with alternate objects from outside."""
    outside = make_repository(folder.parent.parent / f"outside-{folder.name}")
    info = folder / ".git" / "objects" / "info"
    info.mkdir(exist_ok=True)
    (info / "alternates").write_text(f"{outside}/.git/objects\n")


def shouting(folder: pathlib.Path, evil: str) -> None:
    with (folder / ".git" / "config").open("a") as file:
        file.write(f'[CORE]\n\tFsMonitor = {evil}\n[FILTER "It"]\n\tCLEAN = {evil}\n')
    (folder / ".gitattributes").write_text("* filter=It\n")


#: Repositories that are refused, by git itself or by us.
HOSTILE: dict[str, Vector] = {
    "file system monitor": setting("core.fsmonitor"),
    "clean filter": setting("filter.it.clean", attributes="filter=it"),
    "smudge filter": setting("filter.it.smudge", attributes="filter=it"),
    "filter process": setting("filter.it.process", "filter.it.required=true", attributes="filter=it"),
    "external differences": setting("diff.external"),
    "difference driver": setting("diff.it.command", attributes="diff=it"),
    "text converter": setting("diff.it.textconv", attributes="diff=it"),
    "merge driver": setting("merge.it.driver=EVIL %O %A %B", attributes="merge=it"),
    "secure shell": setting("core.sshCommand"),
    "signatures": setting("gpg.program", "commit.gpgSign=true", "log.showSignature=true"),
    "alternate references": setting("core.alternateRefsCommand"),
    "asking": setting("interactive.diffFilter"),
    "trailer": setting("trailer.it.command", "trailer.it.ifexists=add"),
    "proxy": setting("core.gitProxy", "http.proxy"),
    "lazy fetching": setting(
        "remote.o.url=ext::EVIL", "remote.o.promisor=true", "remote.o.uploadpack=EVIL", "extensions.partialClone=o"
    ),
    "hook by setting": setting("hook.it.command", "hook.it.event=pre-commit"),
    "merge options": setting("branch.main.mergeOptions=--strategy=evil"),
    "included": included,
    "included under a condition": functools.partial(included, key="includeIf.gitdir:/.path"),
    "settings of a working tree": in_worktree_settings,
    "submodule": in_submodule,
    "absorbed submodule": in_absorbed_submodule,
    "repository elsewhere": elsewhere,
    "working tree elsewhere": files_elsewhere,
    "bare": bare_inside,
    "borrowed objects": borrowing,
    "capitals": shouting,
}
_NAMES = ("add", "branch", "checkout", "clone", "commit", "config", "diff", "log", "merge", "show", "stash", "status")
_INNER = ("cat-file", "ls-files", "merge-base", "pack-objects", "rev-parse", "show-ref", "upload-pack", "merge-ort")
#: Settings that never take effect, so that the repository is not refused.
INERT: dict[str, Vector] = {
    "hooks": hooks,
    "hooks elsewhere": hooks_elsewhere,
    "pager": setting("core.pager", *(f"pager.{name}" for name in (*_NAMES, *_INNER))),
    "editor": setting("core.editor", "sequence.editor"),
    "credential helper": setting("credential.helper=!EVIL", "credential.https://example.org.helper=!EVIL"),
    "alias": setting("alias.mine=!EVIL", *(f"alias.{name}=!EVIL" for name in (*_NAMES, *_INNER))),
    "asking": setting("core.askPass"),
}
