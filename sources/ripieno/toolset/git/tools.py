"""The ensemble ``git``: everyday work with a repository, without a shell and without hooks.

Revisions are resolved first, and only their hexadecimal names are passed on. Branch names are checked by git's own
rules. Paths follow ``--`` and are literal.
"""

import dataclasses
import os
import re
from typing import Any

from ripieno.ensembles import Context, Outcome
from ripieno.exceptions import PermissionFault, ResourceFault, ValidationFault
from ripieno.origins.command.outcomes import report
from ripieno.origins.command.programs import true_path
from ripieno.sandbox.processes import Completed
from ripieno.toolset.arguments import encoded, refuse_unused
from ripieno.toolset.git.merge import find_markers, is_fast_forward, refuse_conflict
from ripieno.toolset.git.repository import (
    Repository,
    check_file,
    check_word,
    committer_of,
    explain,
    git,
    open_repository,
)

_PLAIN = ("--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all")
#: git's rules for branch names (git-check-ref-format).
_BAD_NAME = re.compile(r"^[.@]$|^[-/]|\.\.|@\{|//|/$|\.$|\.lock(/|$)|(^|/)\.|[\x00-\x20\x7f~^:?*\[\\]|^HEAD$|^$")
#: The arguments that only some modes use, by mode.
_BRANCHING = {
    'action = "list"': ("all",),
    'action = "create"': ("name", "start_point", "force"),
    'action = "delete"': ("name", "force"),
    'action = "rename"': ("name", "new_name", "force"),
}
_MERGING = {"revision": ("revision", "message", "fast_forward_only", "no_fast_forward"), "abort = true": ("abort",)}
_STASHING = {
    'action = "push"': ("message", "include_untracked", "paths"),
    'action = "list"': (),
    **{f'action = "{action}"': ("index",) for action in ("show", "apply", "pop", "drop")},
}
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|[^/]*:")


async def git_status(context: Context, arguments: dict[str, Any]) -> Outcome:
    """The branch and the changed files, as by ``git status --short --branch``."""
    repository = await _open(context, arguments)
    done = await repository.git("status", "--short", "--branch", "--ignore-submodules=all", *_paths(arguments))
    return _outcome(context, "git status", done)


async def git_diff(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Differences of the working tree, of the staged files, or between revisions."""
    repository = await _open(context, arguments)
    lines = int(arguments.get("context_lines", 3))
    options = [*_PLAIN, "--stat" if arguments.get("stat") else f"--unified={lines}"]
    options += _flags(arguments, staged="--cached")
    revision: str = arguments.get("revision", "")
    ends, between = _ends(revision)
    names = [await repository.find_commit(end) for end in ends] if revision else []
    done = await repository.git("diff", *options, *([between.join(names)] if names else []), *_paths(arguments))
    return _outcome(context, "git diff", done, empty="There are no differences.")


async def git_log(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Commits, the latest first."""
    repository = await _open(context, arguments)
    form = (
        "%h %ad %an: %s%d" if arguments.get("oneline") else "commit %H%d%nAuthor: %an <%ae>%nDate: %aI%n%n%w(0,4,4)%B"
    )
    revision: str = arguments.get("revision", "HEAD")
    ends, between = _ends(revision)
    if revision == "HEAD" and (await repository.ask("rev-parse", "--verify", "--quiet", "HEAD")).exit_code != 0:
        return Outcome(content="There are no commits yet.")
    names = [await repository.find_commit(end) for end in ends]
    done = await repository.git(
        "log",
        f"--max-count={int(arguments.get('max_count', 20))}",
        f"--skip={int(arguments.get('skip', 0))}",
        f"--format=tformat:{form}",
        "--date=short",
        "--no-show-signature",
        *_PLAIN,
        *_flags(arguments, stat="--stat"),
        between.join(names),
        *_paths(arguments),
    )
    return _outcome(context, "git log", done, empty="There are no commits.")


async def git_show(context: Context, arguments: dict[str, Any]) -> Outcome:
    """A commit with its differences, or a file at a commit."""
    repository = await _open(context, arguments)
    commit = await repository.find_commit(arguments.get("revision", "HEAD"))
    path: str | None = arguments.get("path")
    if path is not None:
        check_word(path, "path")
        inside = _inside(context, arguments, repository.top)
        blob = await repository.ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}:{inside}")
        name = blob.stdout.text.strip()
        if blob.exit_code != 0 or not name:
            raise ResourceFault(
                f"There is no {path!r} in {arguments.get('revision', 'HEAD')!r}.",
                code="not_found",
                suggestion="Paths are relative to directory; git_log with paths shows the commits that have it.",
            )
        return _outcome(context, "git show", await repository.git("cat-file", "-p", name), empty="It is empty.")
    words = ["show", "--no-show-signature", "--format=fuller", *_PLAIN, *_flags(arguments, stat="--stat"), commit]
    return _outcome(context, "git show", await repository.git(*words))


async def git_add(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Stages files, including deleted ones."""
    repository = await _open(context, arguments)
    paths = _paths(arguments)
    if not paths and not arguments.get("all"):
        raise ValidationFault(
            "Neither paths nor all are given.", suggestion='Give paths, such as ["."], or all = true.'
        )
    refuse_unused(arguments, "all = true" if arguments.get("all") else "paths", {"paths": ["paths"], "all = true": []})
    marked = await find_markers(repository, paths or ["--", repository.top])
    done = await repository.git("add", "--all", *(paths or ["--", repository.top]), write=True)
    if done.exit_code == 0:
        done = await repository.git("status", "--short", "--branch", "--ignore-submodules=all")
    added = _outcome(context, "git add", done)
    return dataclasses.replace(added, content="\n".join([str(added.content), *marked])) if marked else added


async def git_commit(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Commits the staged files, without hooks and signatures."""
    repository = await _open(context, arguments)
    options = _flags(arguments, all="--all", amend="--amend", allow_empty="--allow-empty")
    message = _message(arguments["message"])
    done = await repository.git(
        "commit", "--no-verify", "--no-gpg-sign", "--no-status", "--file=-", *options, stdin=message, write=True
    )
    nothing = done.exit_code == 1 and not (await repository.ask("diff", "--cached", "--quiet")).exit_code
    hint = "Stage files with git_add first, or set all = true for all changed files."
    hint = "No tracked file has changed: stage new files with git_add." if arguments.get("all") else hint
    return _outcome(context, "git commit", done, suggestion=hint if nothing else None)


async def git_checkout(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Switches to a branch or commit, creates a branch, or restores files from a commit."""
    repository = await _open(context, arguments)
    target: str | None = arguments.get("target")
    paths = _paths(arguments)
    chosen = "create = true" if arguments.get("create") else "paths" if paths else "target"
    refuse_unused(arguments, chosen, {"create = true": ["create", "start_point"], "paths": ["paths"], "target": []})
    if paths:
        source = [] if target is None else [await repository.find_commit(target)]
        return _outcome(context, "git checkout", await repository.git("checkout", *source, *paths, write=True), "Done.")
    if target is None:
        raise ValidationFault(
            "Neither target nor paths are given.",
            suggestion="Give target to switch to it, or paths of files to restore.",
        )
    if arguments.get("create"):
        start = await repository.find_commit(arguments["start_point"]) if arguments.get("start_point") else ""
        words = ["checkout", "--no-track", "-b", check_name(target), *([start] if start else []), "--"]
    elif await _is_branch(repository, target):
        words = ["checkout", "--no-guess", target, "--"]
    else:
        words = ["checkout", "--detach", await repository.find_commit(target), "--"]
    return _outcome(context, "git checkout", await repository.git(*words, write=True), empty="Done.")


async def git_branch(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Lists, creates, renames and deletes branches. A name alone creates one, as with git itself."""
    repository = await _open(context, arguments)
    action: str = arguments.get("action", "create" if "name" in arguments else "list")
    refuse_unused(arguments, f'action = "{action}"', _BRANCHING)
    if action == "list":
        words = ["branch", "--list", "--verbose", "--no-color", *_flags(arguments, all="--all")]
        return _outcome(context, "git branch", await repository.git(*words), empty="There are no branches yet.")
    if "name" not in arguments:
        raise ValidationFault(f"To {action} a branch, name is required.", suggestion="Give name.")
    name = check_name(arguments["name"])
    force = bool(arguments.get("force"))
    if action == "create":
        start = await repository.find_commit(arguments.get("start_point", "HEAD"))
        words = ["branch", "--no-track", *(["--force"] if force else []), name, start]
    elif action == "delete":
        words = ["branch", "-D" if force else "-d", name]
    else:
        if "new_name" not in arguments:
            raise ValidationFault("To rename a branch, new_name is required.", suggestion="Give new_name.")
        words = ["branch", "-M" if force else "-m", name, check_name(arguments["new_name"])]
    return _outcome(context, "git branch", await repository.git(*words, write=True), empty="Done.")


async def git_merge(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Merges a branch or a commit into the current branch, or aborts a merge with conflicts."""
    repository = await _open(context, arguments)
    refuse_unused(arguments, "abort = true" if arguments.get("abort") else "revision", _MERGING)
    if arguments.get("abort"):
        done = await repository.git("merge", "--abort", write=True)
        return _outcome(context, "git merge", done, empty="The merge was aborted; all files are as before it.")
    if "revision" not in arguments:
        raise ValidationFault(
            "Neither revision nor abort is given.",
            suggestion="Give revision to merge, or abort = true to abort a merge.",
        )
    if arguments.get("fast_forward_only") and arguments.get("no_fast_forward"):
        raise ValidationFault(
            "fast_forward_only forbids a merge commit, and no_fast_forward requires one.",
            suggestion="Leave one of them out.",
        )
    commit = await repository.find_commit(arguments["revision"])
    options = ["--no-verify", "--no-gpg-sign", "--no-edit", "--no-verify-signatures"]
    options += _flags(arguments, fast_forward_only="--ff-only", no_fast_forward="--no-ff")
    text = _message(arguments.get("message") or f"Merge {arguments['revision']}").decode()
    # git rejects a message when there is no commit for it.
    moved = not arguments.get("no_fast_forward") and await is_fast_forward(repository, commit)
    options += [] if moved else [f"--message={text}"]
    done = await repository.git("merge", *options, commit, write=True)
    if done.exit_code != 0:
        await refuse_conflict(repository, done, "git merge", "Or abort the merge: git_merge with abort = true.")
    merged = _outcome(context, "git merge", done)
    if moved and arguments.get("message"):
        unused = "[No commit was needed, so the message was not used. no_fast_forward = true makes one.]"
        return dataclasses.replace(merged, content=f"{merged.content}\n{unused}")
    return merged


async def git_stash(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Stashes changes, and restores them."""
    repository = await _open(context, arguments)
    action: str = arguments.get("action", "push")
    refuse_unused(arguments, f'action = "{action}"', _STASHING)
    entry = f"stash@{{{int(arguments.get('index', 0))}}}"
    if action == "push":
        words = ["push", *_flags(arguments, include_untracked="--include-untracked")]
        words += [f"--message={arguments['message']}"] if arguments.get("message") else []
        words += _paths(arguments)
    elif action == "list":
        words = ["list"]
    elif action == "show":
        words = ["show", "--patch", "--no-ext-diff", "--no-textconv", "--no-color", entry]
    else:
        words = [action, entry]
    done = await repository.git("stash", *words, write=action not in ("list", "show"))
    if done.exit_code != 0 and action in ("pop", "apply"):
        await refuse_conflict(repository, done, "git stash", "The stash is kept: drop it when you are done.")
    return _outcome(context, "git stash", done, empty="There is nothing in the stash." if action == "list" else "Done.")


async def git_clone(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Copies a repository of the workspace into a new directory of it; one of a server if the operator allows it."""
    source: str = check_word(arguments["source"], "source")
    remote = _URL.match(source) is not None
    if remote:
        _check_remote(context, source)
    else:
        source = true_path(context, source)
        await check_file(context, ".", _settings_of(source))
    target = true_path(context, check_word(arguments["directory"], "path"))
    if _is_taken(target):
        raise ResourceFault(
            f"{arguments['directory']!r} already exists and is not empty.",
            code="exists",
            suggestion="Choose another directory to clone into.",
        )
    words = ["clone", "--no-local", "--no-recurse-submodules", "--template=", "--no-progress"]
    words += [f"--depth={int(arguments['depth'])}"] if "depth" in arguments else []
    words += [f"--branch={check_name(arguments['branch'])}"] if "branch" in arguments else []
    words += ["--end-of-options", source, target]
    done = await git(context, ".", words, write=True, network=remote, protocols="https" if remote else "file")
    return _outcome(context, "git clone", done)


def check_name(name: str) -> str:
    """The name of a branch or tag. Errors: ``PermissionFault``."""
    if _BAD_NAME.search(name) or len(name.encode("utf-8", "surrogatepass")) > 200:
        raise PermissionFault(
            f"{name[:200]!r} is not a valid branch name.",
            code="argument",
            suggestion="Use letters, digits, '-', '_' and '/', and do not begin with '-' or '.'.",
        )
    return name


async def _open(context: Context, arguments: dict[str, Any]) -> Repository:
    """The repository of a call. Arguments that git could misread are refused first."""
    _paths(arguments)
    for name in ("revision", "target", "start_point"):
        for end in _ends(arguments.get(name, "HEAD"))[0]:
            check_word(end, name)
    for name in ("name", "new_name"):
        check_name(arguments.get(name, "name"))
    return await open_repository(context, arguments.get("directory", "."))


def _inside(context: Context, arguments: dict[str, Any], top: str) -> str:
    """The path of an argument, relative to the top of the working tree."""
    place = true_path(context, arguments.get("directory", "."))
    path: str = arguments["path"]
    true_path(context, path, start=place)
    return os.path.relpath(os.path.join(place, path), top)


def _is_taken(path: str) -> bool:
    try:
        return bool(os.listdir(path))
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _paths(arguments: dict[str, Any]) -> list[str]:
    paths: list[str] = arguments.get("paths", [])
    return ["--", *(check_word(path, "path") for path in paths)] if paths else []


def _flags(arguments: dict[str, Any], **options: str) -> list[str]:
    """The options of the arguments that are true."""
    return [option for name, option in options.items() if arguments.get(name)]


def _ends(revision: str) -> tuple[list[str], str]:
    """The revisions of a range, and the dots between them."""
    for between in ("...", ".."):
        if between in revision:
            return [end or "HEAD" for end in revision.split(between, 1)], between
    return [revision], ""


def _message(text: str) -> bytes:
    if not text.strip():
        raise ValidationFault("The message is empty.", suggestion="Summarize the commit in one line.")
    return encoded(text, "message")


async def _is_branch(repository: Repository, name: str) -> bool:
    check_word(name, "branch")
    if _BAD_NAME.search(name):
        return False
    return (await repository.ask("show-ref", "--verify", "--quiet", "--", f"refs/heads/{name}")).exit_code == 0


def _check_remote(context: Context, source: str) -> None:
    if not committer_of(context).network:
        raise PermissionFault(
            f"{source[:200]!r} is not in the workspace, and the network is not allowed.",
            code="network",
            suggestion="Clone a path of the workspace. The operator can allow more: network = true under "
            "[configuration.git].",
        )
    if not source.startswith("https://"):
        raise PermissionFault(f"{source[:200]!r} does not begin with https://.", code="network")


def _settings_of(source: str) -> str:
    """The settings file of the repository in a directory. Errors: ``ToolFault``."""
    inner = os.path.join(source, ".git")
    folder = inner if os.path.isdir(inner) and not os.path.islink(inner) else source
    path = os.path.join(folder, "config")
    if os.path.islink(path) or not os.path.isfile(path) or not os.path.isfile(os.path.join(folder, "HEAD")):
        raise ResourceFault(f"There is no repository in {source!r}.", code="no_repository")
    return path


def _outcome(context: Context, what: str, done: Completed, empty: str = "", suggestion: str | None = None) -> Outcome:
    """git's output from both streams. Errors: ``ExecutionFault`` when it failed."""
    if done.flooded or done.exit_code != 0:
        raise explain(done, context, what, suggestion)
    texts = [stream.text.rstrip("\n") for stream in (done.stdout, done.stderr)]
    output = "\n".join(text for text in texts if text.strip())
    return dataclasses.replace(report(done), content=output or empty or "Done.")
