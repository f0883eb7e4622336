"""Trust in a project's own configuration, which is effective only as far as its user has agreed to it.

Naming a file is consent; finding one is not. Only the command line finds a project's files. Until ``ripieno trust`` has
stored their path and the hash of everything they reach, they may only disable, deny and lower limits. Even trusted
files never set plugins, approvals, a looser sandbox, grants of ensembles, or another layer's endpoint or key; and they
name no folder outside their own.
"""

import dataclasses
import errno
import hashlib
import json
import os
import pathlib
import shlex
from collections.abc import Mapping
from typing import Any

from frozendict import frozendict

from ripieno.canisters.controls import Limits
from ripieno.descriptors import EnsembleDescriptor
from ripieno.descriptors.loading import Layer, load_ensembles
from ripieno.descriptors.loading.layers import UNTRUSTED, ConfigurationPart, LeftOut, read_configuration_part
from ripieno.descriptors.named_files import LARGEST, code_named, digest_file
from ripieno.descriptors.reader.regular_files import read_regular
from ripieno.descriptors.sandbox import tighten
from ripieno.exceptions import InputError
from ripieno.storage.files import replace_private
from ripieno.values import Value

CONFIGURATION_NAME = "ripieno.toml"
PINS_NAME = "ripieno.lock.toml"
ENSEMBLES_NAME = "ensembles"
_VERSION = 1
#: The keys that determine where a provider's requests go, and with which credentials.
_ENDPOINT_KEYS = ("base_url", "api_key", "headers", "cloud", "region", "project", "api_version")
#: Files and folders beneath a project that are read, and their bytes; a project with more cannot be trusted.
_FILES = 5_000
_BYTES = LARGEST


class Project(Value, kw_only=True):
    """The configuration files of a folder. ``digest`` covers everything they reach.

    It is empty if something cannot be covered; ``obstacle`` is then the reason why the project cannot be trusted.
    ``pins`` is its file of pins, beside its configuration, if it has one; ``descriptors`` are all its ensembles.
    """

    folder: pathlib.Path
    part: ConfigurationPart | None
    ensembles: pathlib.Path | None
    files: Mapping[str, str]
    digest: str
    pins: pathlib.Path | None = None
    descriptors: tuple[EnsembleDescriptor, ...] = ()
    obstacle: str = ""


def find_project(folder: pathlib.Path) -> Project | None:
    """The project in a folder, or None. Reads files beneath the folder; imports and starts nothing.

    Errors: ``InputError`` for a folder of another user, as the one in which ``sudo`` starts a command may be.
    """
    configuration, ensembles = folder / CONFIGURATION_NAME, folder / ENSEMBLES_NAME
    try:
        has_configuration, has_ensembles = configuration.is_file(), ensembles.is_dir()
    except PermissionError:
        advice = "Change to a folder of your own, or name one: --workspace FOLDER"
        raise InputError(f"The workspace, {folder}, cannot be read by this user. {advice}") from None
    if not has_configuration and not has_ensembles:
        return None
    part = read_configuration_part(configuration, layer="project") if has_configuration else None
    reached = _Reached(folder.resolve(), dict(part.files) if part is not None else {})
    paths = [] if part is None else list(paths_of(part))
    if has_ensembles:
        paths.insert(0, ensembles)
    found = load_ensembles([Layer(name="project", paths=tuple(paths), trusted=False, root=folder)])
    reached.files.update(found.files)
    _reach_beside([folder, *paths], reached)
    if has_ensembles and not ensembles.resolve().is_relative_to(reached.home):
        reached.obstacle = f"its {ENSEMBLES_NAME} folder is a link that leads out of it"
    inline = () if part is None else part.parts.get("ensembles", {}).get("inline", ())
    root = folder if part is None else part.parts.get("workspace", {}).get("root", folder)
    descriptors = (*found.descriptors, *inline)
    for descriptor in descriptors:
        for path in {**dict.fromkeys(code_named(descriptor, root)), **dict.fromkeys(code_named(descriptor, folder))}:
            if path.startswith((f"{folder}/", f"{reached.home}/")):
                reached.add(pathlib.Path(path), code=True)
    pins = folder / PINS_NAME
    has_pins = pins.is_file() and pins.resolve().is_relative_to(reached.home)
    if has_pins:
        reached.add(pins)
    listing = json.dumps(sorted(reached.files.items()), ensure_ascii=False).encode("utf-8", "surrogateescape")
    return Project(
        folder=folder,
        part=part,
        ensembles=ensembles if has_ensembles else None,
        files=reached.files,
        digest="" if reached.obstacle else hashlib.sha256(listing).hexdigest(),
        pins=pins if has_pins else None,
        descriptors=descriptors,
        obstacle=reached.obstacle,
    )


def paths_of(part: ConfigurationPart) -> tuple[pathlib.Path, ...]:
    """The paths under ``[ensembles] paths`` of a project's configuration that are in its own folder.

    Others do not belong to the project, may be a whole disk, and may change undetected.
    """
    named = part.parts.get("ensembles", {}).get("paths", ())
    return tuple(pathlib.Path(name) for name in named if _is_inside(name, part))


def _is_inside(path: str, part: ConfigurationPart) -> bool:
    return pathlib.Path(path).resolve().is_relative_to(pathlib.Path(part.file).parent.resolve())


@dataclasses.dataclass(slots=True)
class _Reached:
    """The files that a project reaches, with their digests, and why they are not all."""

    home: pathlib.Path
    files: dict[str, str]
    obstacle: str = ""
    #: The links out of the project that are code.
    linked: set[str] = dataclasses.field(default_factory=set[str])
    left: int = dataclasses.field(default_factory=lambda: _BYTES)

    def add(self, path: pathlib.Path, *, code: bool = False) -> None:
        """Adds a file once; of a link that leads out and is no ``code``, its target's path. Folders are ignored."""
        if self.obstacle or not path.exists() or path.is_dir():
            return
        try:
            target = path.resolve()
            outside = not target.is_relative_to(self.home)
            if str(path) in (self.linked if outside and code else self.files):
                return
            if code or not outside:
                size = path.stat().st_size
                if outside:
                    # The last digest of a target applies.
                    self.files.pop(str(path), None)
                    self.linked.add(str(path))
                self.files[str(path)] = digest_file(path, self.left)
                self.left -= size
            else:
                self.files[str(path)] = hashlib.sha256(os.fsencode(target)).hexdigest()
        except OSError as error:
            reason = error.strerror or str(error)
            if error.errno == errno.EFBIG:
                reason = f"with it, the files have more than {_BYTES / 2**20:.0f} MiB, too many to check"
            self.obstacle = f"{path} cannot be checked: {reason}"


def _reach_beside(places: list[pathlib.Path], reached: _Reached) -> None:
    """Adds the files that descriptors may name as ``./…``.

    Beside ``ripieno.toml`` these are Python files; beneath folders of ensembles, all files, including scripts.
    """
    seen = 0
    for number, place in enumerate(places):
        root = place if place.is_dir() else place.parent
        for directory, folders, names in os.walk(root):
            seen += len(names) + len(folders)
            if seen > _FILES:
                reached.obstacle = f"it has more than {_FILES} files beside its ensembles, too many to check"
            if reached.obstacle:
                return
            for name in sorted(names):
                if number or name.endswith(".py"):
                    reached.add(pathlib.Path(directory, name))
            if number == 0 or root == reached.home:
                break
            folders[:] = [name for name in folders if name != "__pycache__"]


def trust_command(folder: pathlib.Path, *options: str) -> str:
    """The command that trusts a folder, from the current one."""
    there = () if folder.resolve() == pathlib.Path.cwd().resolve() else (str(folder),)
    return shlex.join(("ripieno", "trust", *options, *there))


class TrustStore:
    """The trusted folders with the digests of their files, in one file of the user's state."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.file = folder / "trust.json"

    def trusts(self, project: Project) -> bool:
        """Whether exactly these files are trusted."""
        return bool(project.digest) and self._read().get(str(project.folder.resolve())) == project.digest

    def knows(self, project: Project) -> bool:
        """Whether this folder was trusted with files that have changed since."""
        known = self._read().get(str(project.folder.resolve()))
        return known is not None and known != project.digest

    def check(self, project: Project) -> None:
        """Errors: ``InputError`` if its files cannot all be read, so that it cannot be trusted."""
        if not project.digest:
            raise InputError(f"{project.folder} cannot be trusted: {project.obstacle}.")

    def add(self, project: Project) -> None:
        """Trusts these files as they are. Errors: those of ``check``."""
        self.check(project)
        self._write({**self._read(), str(project.folder.resolve()): project.digest})

    def remove(self, folder: pathlib.Path) -> bool:
        """Revokes the trust in a folder; returns whether there was any."""
        known = self._read()
        gone = known.pop(str(folder.resolve()), None)
        if gone is not None:
            self._write(known)
        return gone is not None

    def _read(self) -> dict[str, str]:
        try:
            stored = json.loads(read_regular(self.file))
            if stored["version"] != _VERSION:
                raise InputError(f"{self.file} has version {stored['version']!r}; this program supports {_VERSION}.")
            return dict(stored["trusted"])
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError) as error:
            # An unreadable file is no consent.
            raise InputError(f"{self.file} cannot be read ({error}). Delete it, then run: ripieno trust") from error

    def _write(self, trusted: Mapping[str, str]) -> None:
        text = json.dumps({"version": _VERSION, "trusted": dict(trusted)}, indent=2, sort_keys=True)
        replace_private(self.file, (text + "\n").encode())


def restrict(
    part: ConfigurationPart, outer: Mapping[str, Any], providers: frozenset[str], *, trusted: bool
) -> tuple[frozendict[str, Any], tuple[LeftOut, ...]]:
    """The keys that a project's configuration may set over the outer layers, and the keys that are left out.

    ``outer`` has the keys of all outer layers, ``providers`` the names of their providers.
    """
    kept: dict[str, Any] = {}
    out: list[LeftOut] = []

    def leave(key: str, reason: str) -> None:
        out.append(LeftOut(name=key, layer="project", file=part.file, reason=reason))

    for table, value in part.parts.items():
        if table == "confirmation":
            if value.get("approve"):
                leave("[confirmation] approve", "only the user's own configuration may approve")
            kept[table] = frozendict({key: rules for key, rules in value.items() if key != "approve"})
        elif table == "limits":
            kept[table] = _limits(value, outer.get("limits", {}), leave)
        elif table == "sandbox":
            kept[table] = _sandbox(value, outer.get("sandbox", {}), leave)
        elif table in ("plugins", "environment", "configuration", "journal", "gateway", "durable"):
            leave(f"[{table}]", "only the user's own configuration may set it")
        elif not trusted:
            if table == "ensembles" and "enabled" in value:
                kept[table] = frozendict({"narrowed": value["enabled"]})
            leave(f"[{table}]", UNTRUSTED)
        elif table == "providers":
            kept[table] = _providers(value, providers, leave)
        elif table == "agents":
            kept[table] = _agents(value, outer.get("limits", {}), leave)
        elif table in ("workspace", "ensembles"):
            kept[table] = _folders(value, part, leave)
        else:
            kept[table] = value
    return frozendict(kept), tuple(out)


def _sandbox(value: Mapping[str, Any], outer: Mapping[str, Any], leave: Any) -> frozendict[str, Any]:
    kept = tighten(value, outer)
    for key in value:
        if key not in kept:
            leave(f"[sandbox] {key}", "a project may only make the sandbox stricter")
    return frozendict(kept)


def _folders(value: Mapping[str, Any], part: ConfigurationPart, leave: Any) -> frozendict[str, Any]:
    """The folders inside the project. Consent to a project does not include others, nor their changes."""
    kept = dict(value)
    if "paths" in value:
        kept["paths"] = tuple(map(str, paths_of(part)))
        for path in value["paths"]:
            if not _is_inside(path, part):
                leave(f"[ensembles] paths: {path}", "it is outside the project's folder")
    if "root" in value and not _is_inside(value["root"], part):
        leave("[workspace] root", "it is outside the project's folder")
        del kept["root"]
    return frozendict(kept)


def _agents(value: Mapping[str, Any], outer: Mapping[str, Any], leave: Any) -> frozendict[str, Any]:
    kept: dict[str, Any] = {}
    for name, agent in value.items():
        limits = _limits(agent.get("limits", {}), outer, leave, f"[agents.{name}.limits]")
        kept[name] = frozendict({**agent, **({"limits": limits} if "limits" in agent else {})})
    return frozendict(kept)


def _limits(
    value: Mapping[str, Any], outer: Mapping[str, Any], leave: Any, title: str = "[limits]"
) -> frozendict[str, Any]:
    kept: dict[str, Any] = {}
    for key, limit in value.items():
        before = outer.get(key, getattr(Limits(), key))
        if before is not None and limit > before:
            leave(f"{title} {key}", f"a project may only lower it, and it is already {before}")
        else:
            kept[key] = limit
    return frozendict(kept)


def _providers(value: Mapping[str, Any], known: frozenset[str], leave: Any) -> frozendict[str, Any]:
    kept: dict[str, Any] = {}
    for name, keys in value.items():
        if name in known:
            taken = [key for key in _ENDPOINT_KEYS if key in keys]
            for key in taken:
                leave(f"[providers.{name}] {key}", "it belongs to an outer layer's provider")
            kept[name] = frozendict({key: one for key, one in keys.items() if key not in taken})
        else:
            kept[name] = keys
    return frozendict(kept)
