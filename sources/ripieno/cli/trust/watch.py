"""``ripieno trust --watch``: trusts what an author changes in a folder while it runs, and asks about other changes."""

import os
import pathlib
import sys
import time
from typing import TypeAlias

import click

from ripieno.assembly.open_assemblies import count_entered
from ripieno.assembly.plugins import Registry
from ripieno.assembly.trust import Project, TrustStore, find_project, trust_command
from ripieno.canisters.display import clean
from ripieno.cli.trust.declared import declared
from ripieno.exceptions import InputError

#: Seconds between two looks at the files; more if a look takes long, so that it uses little of a processor.
_PAUSE, _SHARE = 0.3, 20
_Mark: TypeAlias = tuple[object, ...] | None


def watch(project: Project, store: TrustStore, registry: Registry) -> None:
    """Looks at the files of a trusted project until it is interrupted.

    A change counts as the author's if neither an assembly was open nor git has worked since the files were last seen
    as trusted. Everything else may come from a tool or from other people, and a person is asked.
    """
    trusted, seen = project, project.digest
    since = _mark(project.folder, store)
    if _find(project.folder) != project:
        since = None
    click.echo(clean(f"Watching {project.folder}. What you change there is trusted at once. Ctrl-C ends it."))
    click.echo("A chat or server that is running keeps the tools with which it started: start it again to use changes.")
    try:
        # Another command may end the trust meanwhile, or trust the files as they are.
        while store.trusts(trusted) or store.knows(trusted):
            began = time.monotonic()
            before = _mark(project.folder, store)
            found = _find(project.folder)
            looked = time.monotonic() - began
            # It may be incomplete for now, such as while an editor replaces a file.
            if found is not None and store.trusts(found):
                trusted, since, seen = found, before, found.digest
            elif found is not None and found.digest not in ("", seen):
                seen = found.digest
                authored = since is not None and since == _mark(project.folder, store) and _is_own(found)
                if _trust(found, trusted, store, registry, authored=authored):
                    trusted, since = found, before if authored else None
            time.sleep(max(_PAUSE, _SHARE * looked))
    except KeyboardInterrupt:
        click.echo("")
    click.echo(clean(f"{project.folder} is no longer watched: from now on, a change ends the trust."))


def _find(folder: pathlib.Path) -> Project | None:
    try:
        return find_project(folder)
    except (InputError, OSError):
        return None


def _trust(found: Project, trusted: Project, store: TrustStore, registry: Registry, *, authored: bool) -> bool:
    """Shows what has changed, asks unless the author did it, and trusts it. Whether it is trusted now."""
    before, after = trusted.files.items(), found.files.items()
    changed = sorted({os.path.relpath(path, found.folder) for path, _ in before ^ after})
    old, new = declared(trusted, registry), declared(found, registry)
    lines = [*(f"  + {line}" for line in new if line not in old), *(f"  - {line}" for line in old if line not in new)]
    click.echo(clean("\n".join((f"Changed: {', '.join(changed)}", *lines))))
    if not authored:
        click.echo("A tool, git or another user may have changed it: Ripieno or git has worked since the last look.")
        if not sys.stdin.isatty():
            click.echo(clean(f"Not trusted. Review it, then run: {trust_command(found.folder)}"))
            return False
        if not click.confirm("Trust it as it is now?", err=True):
            click.echo("Not trusted.")
            return False
    # Exactly what was found, whatever the files are by now.
    store.add(found)
    click.echo("Trusted.")
    return True


def _is_own(project: Project) -> bool:
    """Whether all files belong to this user."""
    try:
        return all(os.stat(path).st_uid == os.geteuid() for path in project.files)
    except OSError:
        return False


def _mark(folder: pathlib.Path, store: TrustStore) -> _Mark:
    """A value that is another one after an assembly or git has worked; None while one of them works."""
    try:
        entered = count_entered(store.file.parent)
        repository = _repository(folder)
    except OSError:
        return None
    if entered is None or (repository is not None and (repository / "index.lock").exists()):
        return None
    return entered, *(_stamp(repository / name) for name in ("index", "HEAD") if repository is not None)


def _stamp(path: pathlib.Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _repository(folder: pathlib.Path) -> pathlib.Path | None:
    """The git folder of the checkout that a folder is in."""
    for one in (folder, *folder.parents):
        place = one / ".git"
        if place.is_file():
            return one / place.read_text(encoding="utf-8", errors="surrogateescape").removeprefix("gitdir:").strip()
        if place.is_dir():
            return place
    return None
