"""The sandbox of one application: its tier, and the confinement of each process."""

import dataclasses
import functools
import os
import pathlib
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager

from ripieno.descriptors.sandbox import Level, SandboxDescriptor
from ripieno.exceptions import PermissionFault
from ripieno.lazy.modules import asyncio
from ripieno.sandbox.changed_files import FileChange, WatchedFolder
from ripieno.sandbox.covers import Covers
from ripieno.sandbox.detection import DetectedTiers, try_tier
from ripieno.sandbox.git_files import controls_beneath, withdraw
from ripieno.sandbox.homes import Home, Homes, Resident
from ripieno.sandbox.paths import CONTROLS, is_beneath, is_led, outermost, readable_places, secrets_of, way_inside
from ripieno.sandbox.private_folder import PrivateFolder, sweep
from ripieno.sandbox.processes import Completed, clean_environment
from ripieno.sandbox.refusals import explain, explain_lost, explain_unread, parts_of
from ripieno.sandbox.tiers import MOST_PROCESSES, Confinement, Tier, most_memory
from ripieno.sandbox.toolchains import crates, toolchains
from ripieno.values import Value

_DEFAULTS = SandboxDescriptor()
_SETTINGS = "/etc"
#: The user and the conversation of programs that run for none.
_NOBODY: Resident = ("", "")
#: A file of git settings beside them that no program can write.
_SETTINGS_OF_GIT = "gitconfig"


class Choice(Value, kw_only=True):
    """The chosen tier. ``reason`` is why it is no higher one, or why there is none."""

    tier: Tier
    template: Confinement
    name: str
    reason: str | None

    @property
    def hides(self) -> bool:
        """Whether it can hide places inside of a readable folder."""
        return self.tier == 2 or (self.tier == 1 and "mount" in self.template.namespaces)


class Sandbox:
    """Makes confinements for the programs of one application. Detection and folders wait for the first use.

    ``protected`` are further paths that programs must not write, beside those that control a workspace; a folder ends
    in a slash. ``try_tier`` finds out whether a tier is enforced.
    """

    def __init__(
        self,
        workspace: str | os.PathLike[str],
        wishes: SandboxDescriptor = _DEFAULTS,
        *,
        protected: Sequence[str] = (),
        try_tier: Callable[[int], DetectedTiers] = try_tier,
    ) -> None:
        self.wishes = wishes
        self.workspace = os.path.realpath(workspace)
        self.level: Level = wishes.level or ("required" if sys.platform == "linux" else "auto")
        self._try_tier = try_tier
        self._given = tuple(protected)
        self._found: tuple[str, ...] | None = None
        self._covers = Covers(self.workspace)
        #: Places where a file would lead git to other settings and hooks than the protected ones.
        self._leads: list[str] = []
        self._choice: Choice | None = None
        self._folder: PrivateFolder | None = None
        self._homes: Homes | None = None
        self._sweeper: threading.Thread | None = None
        #: The changes of files in the workspace.
        self.files = WatchedFolder(self.workspace)
        self._made: dict[tuple[tuple[str, ...], tuple[str, ...], bool], Confinement] = {}
        self._readable: dict[bool, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        #: The readable places of the system for a PATH: finding them takes some milliseconds.
        self._shown: dict[str, tuple[str, ...]] = {}

    @property
    def tier(self) -> Tier:
        """The enforced tier; 0 for limits and a clean environment only. The first use starts processes."""
        return self.choice.tier

    @property
    def name(self) -> str:
        """The tier and its mechanisms, for reports: ``tier 1 (landlock 7, seccomp, user, pid)``."""
        return self.choice.name

    @property
    def reason(self) -> str | None:
        """The reason why the tier is no higher; None for the highest."""
        return self.choice.reason

    @property
    def missing(self) -> str | None:
        """The reason why programs must not run without a sandbox; None when one is enforced or not required."""
        if self.level != "required" or self.tier > 0:
            return None
        way = 'set level = "auto"' if self.wishes.tier is None else "remove tier"
        return f"no sandbox is available here. {self.reason} To run without this one, {way} under [sandbox]."

    @property
    def home(self) -> str:
        """A private home for programs that run for no conversation, removed by ``close``."""
        return self.homes.access(_NOBODY).home

    @property
    def temporary(self) -> str:
        """A private folder for temporary files of such programs, removed by ``close``."""
        return self.homes.access(_NOBODY).temporary

    @property
    def homes(self) -> Homes:
        """The homes of programs, one for each conversation, removed by ``close``."""
        if self._homes is None:
            self._homes = Homes(self._own(), self._furnish)
        return self._homes

    async def house(self, user: str, conversation: str) -> AbstractContextManager[Home]:
        """Access to the home of a conversation, which is kept meanwhile; removes others that are too many."""
        if self.homes.has_excess():
            await asyncio.to_thread(self.homes.reduce)
        return self.homes.use((user, conversation))

    @property
    def choice(self) -> Choice:
        """The tier and the reason for it. The first use starts processes."""
        if self._choice is None:
            self._choice = self._choose()
        return self._choice

    def environment(self, extra: Mapping[str, str] | None = None, *, home: Home | None = None) -> dict[str, str]:
        """Our PATH, LANG and TZ, a private HOME and TMPDIR, the variables of toolchains, then ``extra``."""
        variables, _ = self._toolchains
        home = home or self.homes.access(_NOBODY)
        return clean_environment({**variables, "HOME": home.home, "TMPDIR": home.temporary, **(extra or {})})

    def running(self) -> AbstractContextManager[None]:
        """Keeps, while a program runs, the empty places that tier 2 makes for missing protected paths."""
        return self._covers.kept(self._protected() if self.tier == 2 else ())

    def confinement(
        self,
        *,
        writable: Sequence[str | os.PathLike[str]] = (),
        readable: Sequence[str | os.PathLike[str]] = (),
        network: bool = False,
        home: Home | None = None,
    ) -> Confinement:
        """The access of one process: these paths, the system's programs, and its home and temporary folder.

        Without ``home`` it is that of programs that run for no conversation.

        ``network`` grants sockets, unless the operator decides for all. Errors: ``PermissionFault`` where a required
        sandbox is unavailable, and for a writable path outside of the workspace; ``OSError`` for a missing one.
        """
        if self.missing is not None:
            raise PermissionFault(f"The program was not started: {self.missing}", code="no_sandbox")
        template, wishes = self.choice.template, self.wishes
        granted = network if wishes.network is None else wishes.network
        home = home or self.homes.access(_NOBODY)
        writes = outermost([*(self._inside(path) for path in writable), *self._writable()])
        self.withdraw()
        reads = _there(path for path in (*wishes.readable, *readable) if not is_led(path, [self.workspace, *writes]))
        known = (tuple(writes), tuple(reads), granted)
        if known not in self._made:
            self._made[known] = self._make(template, *known)
        made = self._made[known]
        return dataclasses.replace(made, writable=tuple(outermost((*made.writable, home.home, home.temporary))))

    @functools.cached_property
    def ignored(self) -> str | None:
        """A file of patterns that git ignores in the workspace's own repository; None where there are none.

        Tier 2's covers of missing protected files look like files to git and cannot be added (measured: ``git add
        --all`` fails). Settings in the private home name the file for that repository alone: in a repository beneath
        it, a file of such a name is a file. No program can write it.
        """
        if self.tier != 2 or not os.path.isdir(f"{self.workspace}/.git"):
            return None
        self._protected()
        missing = [path for path in self._covers.absent if is_beneath(path, (self.workspace,))]
        patterns = "".join(f"{path.removeprefix(self.workspace)}\n" for path in missing)
        own = self._own().path
        kept, settings = f"{own}/ignored", f"{own}/{_SETTINGS_OF_GIT}"
        pathlib.Path(kept).write_text(patterns)
        pathlib.Path(settings).write_text(f"[core]\n\texcludesFile = {_quoted(kept)}\n")
        return kept

    def _make(
        self, template: Confinement, writes: tuple[str, ...], more: tuple[str, ...], granted: bool
    ) -> Confinement:
        system, hidden = self._system(network=granted)
        if self.ignored is not None:
            more = (*more, self.ignored, f"{self._own().path}/{_SETTINGS_OF_GIT}")
        return dataclasses.replace(
            template,
            writable=writes,
            # Writable paths are readable, and not resolved again: programs may have put links there.
            readable=tuple(path for path in outermost([*system, *more]) if not is_beneath(path, writes)),
            protected=tuple(path for path in self._protected() if is_beneath(path, writes)),
            hidden=hidden,
            network=granted,
            memory=most_memory(),
            processes=MOST_PROCESSES,
            file_size=8 * 2**30,
            open_files=4096,
            seconds=3600,
        )

    def shows(self, path: str) -> bool:
        """Whether a confined program can be started from this path. Tries a tier only for one outside of the system."""
        folders = clean_environment()["PATH"]
        if folders not in self._shown:
            self._shown[folders] = readable_places(folders, os.path.expanduser("~"), network=False)
        places = [*self._shown[folders], *self._toolchains[1], self.workspace]
        places += [*map(os.path.realpath, self.wishes.readable), *self._writable()]
        if way_inside(path, places) is not None:
            return True
        # Tier 1 hides no links.
        return self.tier not in ((2,) if is_beneath(os.path.realpath(path), places) else (1, 2))

    def parts(self) -> frozenset[str]:
        """HEAD, objects and refs of the known repositories, if they exist."""
        return parts_of(self._protected())

    def lost(self, parts: frozenset[str]) -> str:
        """The remark about those ``parts`` that no longer exist; empty when all do."""
        return " ".join(explain_lost(parts - self.parts(), self.workspace))

    def look_after(self, completed: Completed, parts: frozenset[str], directory: str = ".") -> Completed:
        """A program's outcome with remarks about protected places, after its end.

        ``parts`` are the parts of repositories before it ran, and ``directory`` is where it ran.
        """
        removed = (f"[{path!r} was removed: it would make git use other settings.]" for path in self.withdraw())
        notes = [completed.note, *removed, self.lost(parts)]
        if completed.exit_code != 0 and self.tier > 0 and not completed.note:
            notes.append(self._explain(completed, os.path.join(self.workspace, directory)))
        return dataclasses.replace(completed, note=" ".join(filter(None, notes)))

    def _explain(self, completed: Completed, directory: str) -> str:
        written = f"{completed.stdout.text}\n{completed.stderr.text}"
        unread = ""
        if self.tier == 1:
            granted = {path for made in self._made.values() for path in (*made.readable, *made.writable)}
            granted.add(self._own().path)
            unread = explain_unread(written, self.workspace, directory, tuple(granted))
        # If paths are named, the exit code is not interpreted.
        return " ".join(filter(None, (unread, explain(1 if unread else completed.exit_code, written))))

    def withdraw(self) -> list[str]:
        """Removes each ``.git/commondir`` that a program has made, and returns them: no mount can prevent one.

        Git would read another repository's settings and hooks.
        """
        return [path for path in self._leads if withdraw(path)]

    def without_own(self, changes: Sequence[FileChange]) -> list[FileChange]:
        """The changes without the empty places that tier 2 makes for missing protected paths."""
        own = {os.path.relpath(path, self.workspace) for path in self._covers.absent}
        return [change for change in changes if change[1] not in own]

    def close(self) -> None:
        """Removes its folders and the empty places that tier 2 leaves. Call it when no process runs any more."""
        self.withdraw()
        self.files.close()
        if self._folder is not None:
            self._folder.close()
            self._folder = self._homes = None
        if self._sweeper is not None:
            self._sweeper.join()
        self._covers.close()

    def _protected(self) -> tuple[str, ...]:
        """The paths that programs must not write, as found before the first of them ran."""
        if self._found is None:
            folders = (self.workspace, *self._writable())
            named = [f"{self.workspace}/{name}" for name in CONTROLS]
            named += [path for folder in folders for path in controls_beneath(folder)]
            controls = [path for path in map(_resolved, named) if is_beneath(path, folders)]
            self._found = tuple(dict.fromkeys([*controls, *map(_resolved, self._given)]))
            self._covers.note(self._found if self.tier == 2 else ())
            leads = [f"{path.removesuffix('/config')}/commondir" for path in controls if path.endswith("/config")]
            self._leads = [path for path in leads if not os.path.lexists(path)]
        return self._found

    @functools.cached_property
    def _toolchains(self) -> tuple[dict[str, str], tuple[str, ...]]:
        return toolchains(os.environ, os.path.expanduser("~"))

    @functools.cached_property
    def _secrets(self) -> tuple[list[str], list[str]]:
        """The system's settings that all users may read, and those that they may not."""
        return secrets_of(_SETTINGS)

    def _choose(self) -> Choice:
        if self.wishes.provider is not None:
            name = f"tier 3 ({self.wishes.provider})"
            return Choice(tier=3, template=Confinement(tier=3), name=name, reason=None)
        if self.level == "off":
            return _nothing('[sandbox] level is "off".')
        wanted = self.wishes.tier
        reasons: list[str] = []
        for tier in (2, 1):
            if wanted is not None and tier > wanted:
                reasons.append(f"[sandbox] tier is {wanted}.")
                continue
            if wanted is not None and tier < wanted and self.level == "required":
                break
            found = self._try_tier(tier)
            if found.failure is None:
                parts = ", ".join(found.parts)
                reasons += [f"Tier {tier} is {found.lacks}"] if found.lacks else []
                return Choice(
                    tier=2 if tier == 2 else 1,
                    template=found.template,
                    name=f"tier {tier} ({parts})",
                    reason=" ".join(reasons) or None,
                )
            reasons.append(f"Tier {tier} unavailable: {found.failure}")
        return _nothing(" ".join(reasons))

    def _writable(self) -> list[str]:
        """The true paths of the operator's writable folders, except where a link of programs leads there."""
        kept = [path for path in self.wishes.writable if not is_led(path, [self.workspace])]
        folders = {path: os.path.realpath(path) for path in kept}
        return _there(path for path in kept if not is_led(path, [one for key, one in folders.items() if key != path]))

    def _inside(self, path: str | os.PathLike[str]) -> str:
        real, own = os.path.realpath(path, strict=True), [] if self._folder is None else [self._folder.path]
        if not is_beneath(real, [self.workspace, *self._writable(), *own]):
            raise PermissionFault(f"{os.fspath(path)!r} leads out of the workspace and is not writable.")
        return real

    def _system(self, *, network: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The paths that system programs need to read, and those of them that must be hidden."""
        if network not in self._readable:
            path = clean_environment()["PATH"]
            writable = [self.workspace, *self._writable()]
            system = readable_places(path, os.path.expanduser("~"), network=network, writable=writable)
            places = (*system, *self._toolchains[1])
            hidden: list[str] = []
            if os.geteuid() == 0 and _SETTINGS in places:
                common, hidden = self._secrets
                if hidden and not self.choice.hides:
                    places = (*(one for one in places if one != _SETTINGS), *common)
                    hidden = []
            self._readable[network] = places, tuple(hidden)
        return self._readable[network]

    def _own(self) -> PrivateFolder:
        """The folder of this application, created when first needed. What killed ones have left is removed then."""
        if self._folder is None:
            self._folder = PrivateFolder()
            self._sweeper = threading.Thread(target=sweep, name="ripieno sweep")
            self._sweeper.start()
        return self._folder

    def _furnish(self, home: Home) -> None:
        """Gives a new home what its programs look for: fetched crates, and settings of git."""
        granted = _there((*self.wishes.readable, *self.wishes.writable))
        for name, place in crates(os.environ, os.path.expanduser("~")):
            if is_beneath(place, granted):
                link = f"{home.home}/{name}"
                os.makedirs(os.path.dirname(link), exist_ok=True)
                os.symlink(place, link)
        if self.ignored is not None:
            own = re.sub(r"([*?\[\\])", r"\\\1", os.path.realpath(f"{self.workspace}/.git"))
            settings = f"{self._own().path}/{_SETTINGS_OF_GIT}"
            pathlib.Path(f"{home.home}/.gitconfig").write_text(
                f"[includeIf {_quoted(f'gitdir:{own}')}]\n\tpath = {_quoted(settings)}\n"
            )


def _resolved(path: str) -> str:
    """The true path, with the trailing slash of a folder."""
    return os.path.realpath(os.path.expanduser(path)) + ("/" if path.endswith("/") else "")


def _there(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """The true paths of the existing ones."""
    return [os.path.realpath(path) for path in paths if os.path.exists(path)]


def _nothing(reason: str) -> Choice:
    return Choice(tier=0, template=Confinement(tier=0), name="tier 0 (limits, private home)", reason=reason)


def _quoted(text: str) -> str:
    """A value in git's settings syntax."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
