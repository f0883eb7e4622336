"""Running git so that a repository cannot make it run other programs, and refusing repositories that try.

A repository's configuration may name programs that git would run (measured: a plain ``status`` runs a file system
monitor, a hook and a filter; with the usual options laid over it, still the filter). So only settings that are known to
run nothing and to look nowhere else are accepted, hooks are off, and git reads no other configuration. It also runs in
the sandbox, like every program.
"""

import contextlib
import dataclasses
import fnmatch
import os
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from typing import Any

from ripieno.descriptors.reader.keys import Key, Table
from ripieno.descriptors.reader.kinds import Several, Text
from ripieno.ensembles import Context, Surroundings
from ripieno.exceptions import PermissionFault, ResourceFault, ToolFault
from ripieno.origins.command.outcomes import failure
from ripieno.origins.command.programs import GRACE, resolve, run, surroundings_of, workspace_of
from ripieno.origins.settings import read_configuration
from ripieno.sandbox import ProcessLimits
from ripieno.sandbox.capture import Captured
from ripieno.sandbox.processes import Completed
from ripieno.toolset.programs.settings import KEYS, Grants, without_progress
from ripieno.values import Value

_CORE = (
    *("repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode", "symlinks"),
    *("autocrlf", "eol", "safecrlf", "quotepath", "abbrev", "compression", "loosecompression", "bigfilethreshold"),
    *("untrackedcache", "preloadindex", "checkstat", "trustctime", "sharedrepository", "sparsecheckout"),
    *("sparsecheckoutcone", "whitespace", "commentchar", "splitindex", "multipackindex", "commitgraph", "longpaths"),
    *("protecthfs", "protectntfs", "checkroundtripencoding", "deltabasecachelimit", "packedgitlimit"),
    # Overridden by ours.
    *("hookspath", "excludesfile", "editor", "pager", "askpass"),
)
_DIFF = (
    *("algorithm", "renames", "renamelimit", "context", "interhunkcontext", "colormoved", "colormovedws"),
    *("mnemonicprefix", "noprefix", "ignoresubmodules", "indentheuristic", "submodule", "wserrorhighlight"),
    *("relative", "statgraphwidth", "suppressblankempty", "autorefreshindex", "dirstat", "orderfile"),
)

#: Settings that name programs, none of which runs here (measured). Only git's own commands are called, which no alias
#: hides. There is neither a terminal nor an editor, and helpers supply passwords of servers only, which no command of a
#: repository reaches.
_SWITCHED_OFF = ("alias.*", "pager.*", "sequence.editor", "credential.*")

#: Harmless settings in lower case, as patterns in which * is any part, including one between dots.
HARMLESS: tuple[str, ...] = (
    *(f"core.{name}" for name in _CORE),
    *(f"diff.{name}" for name in _DIFF),
    *_SWITCHED_OFF,
    *("user.name", "user.email", "user.useconfigonly", "user.signingkey"),
    *("author.name", "author.email", "committer.name", "committer.email"),
    *("remote.pushdefault", "remote.*.url", "remote.*.pushurl", "remote.*.fetch", "remote.*.push", "remote.*.tagopt"),
    *("remote.*.prune", "remote.*.mirror", "remote.*.skipfetchall", "remote.*.gh-resolved"),
    *("branch.autosetupmerge", "branch.autosetuprebase", "branch.sort", "branch.*.remote", "branch.*.merge"),
    *("branch.*.rebase", "branch.*.pushremote", "branch.*.description", "branch.*.vscode-merge-base"),
    *("pull.rebase", "pull.ff", "push.default", "push.autosetupremote", "push.followtags", "fetch.prune"),
    *("merge.conflictstyle", "merge.ff", "merge.log", "merge.renames", "merge.renamelimit", "merge.stat"),
    *("merge.autostash", "merge.directoryrenames", "rebase.autosquash", "rebase.autostash", "rebase.updaterefs"),
    *("log.date", "log.decorate", "log.follow", "log.abbrevcommit", "log.mailmap", "status.*", "stash.showpatch"),
    *("stash.showstat", "stash.showincludeuntracked", "index.*", "pack.*", "color.*", "column.*", "advice.*"),
    *("gc.auto", "gc.autodetach", "gc.autopacklimit", "gc.pruneexpire", "gc.writecommitgraph", "i18n.*"),
    *("init.defaultbranch", "rerere.enabled", "rerere.autoupdate", "feature.*", "commit.cleanup", "commit.verbose"),
    *("commit.status", "commit.template", "commit.gpgsign", "tag.gpgsign", "tag.sort", "versionsort.suffix"),
    *("submodule.active", "submodule.recurse", "submodule.*.url", "submodule.*.active", "submodule.*.branch"),
    *("extensions.objectformat", "extensions.refstorage", "extensions.noop", "extensions.worktreeconfig"),
    *("lfs.repositoryformatversion", "receive.denycurrentbranch", "protocol.version", "blame.*", "grep.linenumber"),
)


#: The committer, unless the operator or the repository names one.
NAME, EMAIL = "Ripieno", "ripieno@localhost"
#: Overrides of all other configuration. An empty helper ends the list of helpers.
_SETTINGS = (
    *("core.hooksPath=/dev/null", "core.fsmonitor=false", "core.attributesFile=/dev/null", "core.pager=cat"),
    *("core.editor=false", "core.askPass=false", "credential.helper=", "commit.gpgSign=false", "tag.gpgSign=false"),
    *("log.showSignature=false", "gc.auto=0", "maintenance.auto=false", "submodule.recurse=false"),
    *("diff.ignoreSubmodules=all", "safe.bareRepository=explicit", "advice.detachedHead=false"),
    "advice.statusHints=false",
)
#: Programs that git would run for editing, passwords and connections.
_PROGRAMS = ("GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_ASKPASS", "SSH_ASKPASS", "GIT_SSH_COMMAND")
#: Limits for facts about a repository, such as the names of its settings.
_FACTS = ProcessLimits(output_bytes=8 * 2**20, grace=GRACE)
#: Submodules whose settings are read.
_MAX_MODULES = 200


class Committer(Grants, kw_only=True):
    """The connection of the ensemble: the committer, and accepted settings beside the harmless ones."""

    name: str | None = None
    email: str | None = None
    settings: tuple[str, ...] = ()

    def identify(self, settings: Collection[str]) -> dict[str, str]:
        """The variables of the committer that the repository's ``settings`` do not determine."""
        variables: dict[str, str] = {}
        for kind, own, default in (("name", self.name, NAME), ("email", self.email, EMAIL)):
            for person in ("author", "committer"):
                if own is not None or not {f"user.{kind}", f"{person}.{kind}"} & set(settings):
                    variables[f"GIT_{person}_{kind}".upper()] = own or default
        return variables


_KEYS = Key.rows(
    Committer(),
    ("name", Text(), "The committer's name. Default: the repository's, otherwise Ripieno.", "Ada Lovelace"),
    ("email", Text(), "The committer's address. Default: the repository's, otherwise ripieno@localhost.", "a@b.org"),
    (
        "settings",
        Several(item=Text(), items="names of settings", once=True),
        "Accepted settings of repositories although they run programs; * for any part.",
        ["filter.lfs.*"],
    ),
)
GRANTS = Table("[configuration]", "The committer, and the permissions of git.", (KEYS[1], *_KEYS))


@contextlib.asynccontextmanager
async def open_git(configuration: Mapping[str, Any], _: Surroundings) -> AsyncGenerator[Committer, None]:
    """The factory of the connection."""
    yield Committer(**read_configuration(GRANTS, configuration))


class Repository(Value, kw_only=True):
    """A checked repository beneath the workspace. ``directory`` is where git runs.

    ``settings`` are the names of its own settings, in lower case.
    """

    context: Context
    directory: str
    top: str
    settings: frozenset[str]

    async def git(self, *arguments: str, stdin: bytes | None = None, write: bool = False) -> Completed:
        """Runs git as the work of the call; returns its outcome, also on failure."""
        return await git(self.context, self.directory, arguments, stdin=stdin, write=write, settings=self.settings)

    async def ask(self, *arguments: str) -> Completed:
        """Runs git before or after the work of the call, without progress."""
        return await ask(self.context, self.directory, arguments)

    async def find_commit(self, revision: str, kind: str = "commit") -> str:
        """The hexadecimal name of a revision. Errors: ``ToolFault``."""
        check_word(revision, "revision")
        found = await self.ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{{kind}}}")
        name = found.stdout.text.strip()
        if found.exit_code != 0 or not name or not set(name) <= set("0123456789abcdef"):
            raise ResourceFault(
                f"The repository has no {kind} {revision!r}.",
                code="no_revision",
                suggestion="git_log and git_branch list the existing ones.",
            )
        return name


def committer_of(context: Context) -> Committer:
    """The committer of a call's ensemble."""
    return context.connection if isinstance(context.connection, Committer) else Committer()


async def git(
    context: Context,
    directory: str,
    arguments: Sequence[str],
    *,
    stdin: bytes | None = None,
    write: bool = False,
    network: bool = False,
    protocols: str = "none",
    settings: Collection[str] = (),
    limits: ProcessLimits | None = None,
) -> Completed:
    """Runs git with everything off that runs other programs. ``protocols`` are those it may fetch over.

    ``settings`` are the names of the repository's own, which may determine the committer.
    """
    sandbox, workspace = surroundings_of(context).sandbox, workspace_of(surroundings_of(context))
    ignored = sandbox.ignored if sandbox is not None and _is_own(directory, workspace) else None
    options = [word for one in (*_SETTINGS, f"core.excludesFile={ignored or '/dev/null'}") for word in ("-c", one)]
    environment = {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": protocols,
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_CEILING_DIRECTORIES": os.path.dirname(workspace),
        **dict.fromkeys(_PROGRAMS, "false"),
        "GIT_OPTIONAL_LOCKS": "1" if write else "0",
        **committer_of(context).identify(settings),
        "LC_ALL": "C.UTF-8",
    }
    return await run(
        context,
        ["git", "--no-pager", "--literal-pathspecs", *options, *arguments],
        directory=directory,
        environment=environment,
        stdin=stdin,
        write=write,
        network=network,
        limits=limits,
    )


def _is_own(directory: str, workspace: str) -> bool:
    """Whether a directory beneath the workspace is in the workspace's own repository, not in one beneath it.

    Errors: ``ToolFault``.
    """
    place = resolve(workspace, directory)
    while place.startswith(f"{workspace}/") and not os.path.lexists(f"{place}/.git"):
        place = os.path.dirname(place)
    return place == workspace


async def ask(context: Context, directory: str, arguments: Sequence[str], limits: ProcessLimits = _FACTS) -> Completed:
    """Facts about a repository, requested without progress of the call."""
    with without_progress(context) as inner:
        return await git(inner, directory, arguments, limits=limits)


async def open_repository(context: Context, directory: str) -> Repository:
    """The repository of a directory beneath the workspace. Errors: ``ToolFault`` if it cannot be trusted."""
    found = await ask(
        context, directory, ["rev-parse", "--path-format=absolute", "--show-toplevel", "--git-dir", "--git-common-dir"]
    )
    places = found.stdout.text.splitlines()
    if found.exit_code != 0 or len(places) != 3:
        reason = found.stderr.text.strip().removeprefix("fatal: ")
        raise ResourceFault(
            f"{directory!r} is not in a repository with a working tree beneath the workspace: {reason[:500]}",
            code="no_repository",
            suggestion="Give the directory of one, or use git_clone.",
        )
    workspace = workspace_of(surroundings_of(context))
    for place in places:
        _check_place(workspace, place)
    _check_alternates(workspace, places[2])
    listed = await ask(context, directory, ["config", "--list", "-z", "--show-scope", "--name-only"])
    fields = _split(listed)
    pairs = zip(fields[::2], fields[1::2], strict=False)
    names = [name for scope, name in pairs if scope not in ("command", "default")]
    check_settings(context, names)
    await _check_modules(context, directory, places[0], places[2])
    return Repository(
        context=context, directory=directory, top=places[0], settings=frozenset(name.lower() for name in names)
    )


async def check_file(context: Context, directory: str, path: str) -> None:
    """Refuses a settings file that names programs for git to run. Errors: ``PermissionFault``."""
    listed = await ask(context, directory, ["config", "--file", path, "--no-includes", "--list", "-z", "--name-only"])
    check_settings(context, _split(listed))


def check_settings(context: Context, names: Sequence[str]) -> None:
    """Refuses settings that are not known to be harmless. Errors: ``PermissionFault``."""
    accepted = (*HARMLESS, *(one.lower() for one in committer_of(context).settings))
    refused = sorted({one for one in names if not any(fnmatch.fnmatchcase(one.lower(), fits) for fits in accepted)})
    if refused:
        shown = ", ".join(repr(name[:100]) for name in refused[:10])
        raise PermissionFault(
            f"The repository has settings that can make git run programs or look elsewhere: {shown}.",
            code="hostile_repository",
            details={"settings": [name[:200] for name in refused[:100]]},
            suggestion="Tell the user, who can remove them (git config --unset NAME) or accept them for these tools: "
            "settings = [...] under [configuration.git].",
        )


def check_word(text: str, what: str) -> str:
    """Refuses text that git could read as an option, or as more than one line. Errors: ``PermissionFault``."""
    if not text or text.startswith("-") or any(ord(character) < 32 or ord(character) == 127 for character in text):
        raise PermissionFault(
            f"{text[:200]!r} is not a valid {what}: it is empty, begins with '-', or has a control character.",
            code="argument",
            suggestion="Write ./ before a path that begins with '-'." if what == "path" else None,
        )
    return text


def _split(completed: Completed) -> list[str]:
    """All fields of git's output. Errors: ``PermissionFault`` if there are too many, or git failed."""
    output: Captured = completed.stdout
    if completed.exit_code != 0 or output.truncated:
        why = "are too many" if output.truncated else f"cannot be read: {completed.stderr.text.strip()[:300]}"
        raise PermissionFault(f"The repository's settings {why}.", code="hostile_repository")
    return output.text.split("\0")[:-1]


def _check_place(workspace: str, place: str) -> None:
    try:
        resolve(workspace, place)
    except ToolFault as fault:
        raise PermissionFault(
            f"The repository is partly outside of the workspace: {place!r}.", code="outside_workspace"
        ) from fault


def _check_alternates(workspace: str, folder: str) -> None:
    """Checks that objects are borrowed only from beneath the workspace."""
    path = os.path.join(folder, "objects", "info", "alternates")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    except OSError as error:
        raise PermissionFault(f"{path!r} cannot be read: {error.strerror}.", code="hostile_repository") from error
    with os.fdopen(descriptor, "rb") as file:
        lines = (file.read(1 << 16) or b"").decode(errors="surrogateescape").splitlines()
    for line in lines:
        if line and not line.startswith("#"):
            _check_place(workspace, os.path.join(folder, "objects", line))


async def _check_modules(context: Context, directory: str, top: str, folder: str) -> None:
    """Checks the settings of submodules, which git reads together with the repository's."""
    limits = dataclasses.replace(_FACTS, output_bytes=64 * 2**20)
    listed = await ask(context, top, ["ls-files", "--stage", "-z"], limits)
    links = [line.split("\t", 1)[1] for line in listed.stdout.text.split("\0") if line.startswith("160000 ")]
    paths = _find_settings(top, links, folder)
    if len(paths) > _MAX_MODULES or listed.stdout.truncated:
        raise PermissionFault("The repository has too many submodules, or files.", code="hostile_repository")
    for path in paths:
        await check_file(context, directory, path)


def _find_settings(top: str, links: Sequence[str], folder: str) -> list[str]:
    """The settings files of submodules: beside their files, and beneath the repository's folder."""
    paths = [os.path.join(top, link, ".git", "config") for link in links]
    for root, folders, files in os.walk(os.path.join(folder, "modules")):
        paths += [os.path.join(root, name) for name in files if name in ("config", "config.worktree")]
        folders[:] = [one for one in folders if one not in ("objects", "refs", "logs", "hooks", "info")]
    return [path for path in paths if os.path.lexists(path)]


def explain(completed: Completed, context: Context, what: str, suggestion: str | None = None) -> ToolFault:
    """The fault of a failed git command."""
    return failure(what, completed, context.invoker.policy.output, suggestion=suggestion)
