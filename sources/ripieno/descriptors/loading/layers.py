"""Layers: the descriptors of all files, where a later layer replaces names of an earlier one; and configurations."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeAlias

from frozendict import frozendict

from ripieno.descriptors.configuration import change_paths, read_parts
from ripieno.descriptors.ensembles import EnsembleDescriptor, read_ensemble
from ripieno.descriptors.loading.catalogue import Catalogue, D, Descriptors, Unread
from ripieno.descriptors.loading.documents import Document, file_name, read_beneath, read_toml
from ripieno.descriptors.profiles import ProfileDescriptor, read_profile
from ripieno.descriptors.providers import ProviderDescriptor, read_provider
from ripieno.descriptors.reader.problems import Source
from ripieno.descriptors.reader.references import Reader
from ripieno.exceptions import ConfigurationInvalidity, InputError, Problem
from ripieno.jsonvalues import EMPTY, is_table
from ripieno.values import Value

#: The most files of one kind in one layer.
LAYER_FILES = 2_000


class Layer(Value, kw_only=True):
    """The files of one source.

    ``folders`` are data folders, with optional ``ensembles/``, ``providers/`` and ``profiles/``. ``paths`` are
    further folders or files of ensembles that the user named. A layer that is not ``trusted`` may only disable.
    ``root`` is the folder that all files must be in, also through links; None if the user named them.
    ``lazy``: a file is read only when its descriptor is looked up by the name of the file, and errors in it are raised
    then. The package's own files are lazy: they are checked before release, and most starts need few of them.
    """

    name: str
    folders: tuple[Path, ...] = ()
    paths: tuple[Path, ...] = ()
    trusted: bool = True
    root: Path | None = None
    lazy: bool = False


#: Why the files of a project are left out.
UNTRUSTED = "its folder is not trusted. Review its files, then run: ripieno trust"
CHANGED = "its folder has changed since you trusted it. Review its files, then run: ripieno trust"


class Shadowed(Value):
    """A descriptor that a later layer replaced, or disabled if that layer is not trusted."""

    name: str
    layer: str
    file: str | None
    by_layer: str
    by_file: str | None


class LeftOut(Value, kw_only=True):
    """A descriptor that was read but is not used, with the reason."""

    name: str
    layer: str
    file: str | None
    reason: str


class FoundFile(Value, kw_only=True):
    """The report of a loading. ``files`` has the SHA-256 of each file that was read, by path.

    ``refused`` are the names of trusted files with errors: those that they give, or else their own without ``.toml``.
    """

    problems: tuple[Problem, ...] = ()
    refused: tuple[str, ...] = ()
    shadowed: tuple[Shadowed, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    files: frozendict[str, str] = EMPTY


class Loaded(FoundFile, kw_only=True):
    """The ensembles by name, enabled or not. ``descriptors`` are all that were read, also those that are left out.

    ``unreadable`` are those with problems, as far as they could be read, for further checks.
    """

    ensembles: Catalogue
    descriptors: tuple[EnsembleDescriptor, ...] = ()
    unreadable: tuple[EnsembleDescriptor, ...] = ()


class LoadedProviders(FoundFile, kw_only=True):
    """The providers by name."""

    providers: Descriptors[ProviderDescriptor]


class LoadedProfiles(FoundFile, kw_only=True):
    """The profiles by name."""

    profiles: Descriptors[ProfileDescriptor]


#: Reads one document of a layer; files that it refers to are added to the files.
_Read: TypeAlias = Callable[[Document, Layer, dict[str, str]], tuple[D | None, tuple[Problem, ...]]]
#: The change that an untrusted layer may make to an earlier descriptor; None if it may make none, or never any.
_Restrict: TypeAlias = Callable[[D, D], D | None] | None


def load_ensembles(layers: Sequence[Layer]) -> Loaded:
    """Reads the ensembles of all layers, the outermost last. Problems of the files are collected, not raised."""
    documents: dict[str, Document] = {}
    descriptors: list[EnsembleDescriptor] = []
    unreadable: list[EnsembleDescriptor] = []

    def read(
        document: Document, layer: Layer, files: dict[str, str]
    ) -> tuple[EnsembleDescriptor | None, tuple[Problem, ...]]:
        folder = document.path.parent
        descriptor, problems = read_ensemble(
            document.mapping,
            document.source,
            read=reader(folder, files),
            folder=str(folder),
            layer=layer.name,
            outline=layer.lazy,
            partial=True,
        )
        if descriptor is not None and problems:
            if layer.trusted:
                unreadable.append(descriptor)
            descriptor = None
        if descriptor is not None:
            descriptors.append(descriptor)
            if layer.lazy and descriptor.file is not None:
                documents[descriptor.file] = document
        return descriptor, problems

    def complete(outline: EnsembleDescriptor) -> EnsembleDescriptor:
        if outline.file not in documents:
            return outline
        document, folder = documents[outline.file], documents[outline.file].path.parent
        whole, problems = read_ensemble(
            document.mapping, document.source, read=reader(folder, {}), folder=str(folder), layer=outline.layer
        )
        if whole is None:
            raise ConfigurationInvalidity(problems)
        return dataclasses.replace(whole, enabled=outline.enabled)

    def restrict(earlier: EnsembleDescriptor, later: EnsembleDescriptor) -> EnsembleDescriptor | None:
        return None if later.enabled else dataclasses.replace(earlier, enabled=False)

    collector = _Collector[EnsembleDescriptor]("ensemble", read, restrict, layers)
    catalogue = Catalogue(collector.descriptors(), complete)
    return Loaded(
        ensembles=catalogue, descriptors=tuple(descriptors), unreadable=tuple(unreadable), **collector.found()
    )


def load_providers(layers: Sequence[Layer]) -> LoadedProviders:
    """Reads the providers of all layers, the outermost last. Problems of the files are collected, not raised."""
    collector = _Collector[ProviderDescriptor]("provider", _plainly(read_provider), None, layers)
    return LoadedProviders(providers=collector.descriptors(), **collector.found())


def load_profiles(layers: Sequence[Layer]) -> LoadedProfiles:
    """Reads the profiles of all layers, the outermost last. Problems of the files are collected, not raised."""
    collector = _Collector[ProfileDescriptor]("profile", _plainly(read_profile), None, layers)
    return LoadedProfiles(profiles=collector.descriptors(), **collector.found())


def _plainly(read: Callable[..., tuple[D | None, tuple[Problem, ...]]]) -> _Read[D]:
    return lambda document, layer, _: read(document.mapping, document.source, layer=layer.name)


def reader(folder: Path, files: dict[str, str]) -> Reader:
    """A reader of referenced files beneath ``folder``, which adds their digests to ``files``."""

    def read(relative: str) -> tuple[Mapping[str, Any], Source]:
        document = read_beneath(folder, relative)
        files[str(document.path)] = document.digest
        return document.mapping, document.source

    return read


class _Collector(Generic[D]):
    """Reads the descriptors of one kind from all layers, and collects the report."""

    def __init__(self, kind: str, read: _Read[D], restrict: _Restrict[D], layers: Sequence[Layer]) -> None:
        self.kind = kind
        self._named: dict[str, D | Unread] = {}
        self._read: _Read[D] = read
        self._restrict: _Restrict[D] = restrict
        self._problems: list[Problem] = []
        self._shadowed: list[Shadowed] = []
        self._refused: list[str] = []
        self._left_out: list[LeftOut] = []
        self._files: dict[str, str] = {}
        for layer in layers:
            self._add_layer(layer)

    def descriptors(self) -> Descriptors[D]:
        return Descriptors(self._named, self._read_now)

    def found(self) -> dict[str, Any]:
        return {
            "problems": tuple(self._problems),
            "refused": tuple(self._refused),
            "shadowed": tuple(self._shadowed),
            "left_out": tuple(self._left_out),
            "files": frozendict(self._files),
        }

    def _add_layer(self, layer: Layer) -> None:
        paths = self._paths(layer)
        if layer.lazy:
            for path in paths:
                self._admit(Unread(name=path.stem, layer=layer.name, path=path), layer)
            return
        own: dict[str, D] = {}
        if len(paths) > LAYER_FILES:
            message = f"layer {layer.name!r} has {len(paths)} {self.kind} files; at most {LAYER_FILES} are read"
            self._complain(layer, [Problem(message=message, file=file_name(paths[-1].parent))])
        for path in paths[:LAYER_FILES]:
            descriptor = self._add_file(path, layer)
            if descriptor is None:
                continue
            twin = own.setdefault(descriptor.name, descriptor)
            if twin is not descriptor:
                message = f"there are two {self.kind}s named {descriptor.name!r}; the other is in {twin.file}"
                hint = "Rename or delete one. Only a later layer can replace a name."
                self._complain(layer, [Problem(message=message, file=descriptor.file, hint=hint)])
        for descriptor in own.values():
            self._admit(descriptor, layer)

    def _paths(self, layer: Layer) -> list[Path]:
        """The files of a layer, each once, folder by folder in the order of names."""
        folders = [folder / f"{self.kind}s" for folder in layer.folders]
        paths: dict[str, Path] = {}
        for named in (*folders, *(layer.paths if self.kind == "ensemble" else ())):
            try:
                names = sorted(name for name in os.listdir(named) if name.endswith(".toml") and name[0] != ".")
                found = [named / name for name in names]
            except FileNotFoundError:
                # A data folder need not have every kind; a path that the user named must exist.
                found = [named] if named in layer.paths else []
            except NotADirectoryError:
                found = [named]
            except OSError as error:
                message = f"it cannot be read: {(error.strerror or str(error)).lower()}"
                self._complain(layer, [Problem(message=message, file=file_name(named))])
                continue
            folder = os.path.realpath(found[0].parent) if found else ""
            for path in found:
                paths.setdefault(f"{folder}/{path.name}", path)
        return list(paths.values())

    def _add_file(self, path: Path, layer: Layer) -> D | None:
        try:
            document = read_toml(path) if layer.root is None else _read_inside(layer.root, path)
        except ConfigurationInvalidity as invalidity:
            self._refuse(path, layer, invalidity.problems)
            return None
        except InputError as error:
            self._refuse(path, layer, [Problem(message=str(error), file=file_name(path))])
            return None
        self._files[str(path)] = document.digest
        descriptor, problems = self._read(document, layer, self._files)
        if descriptor is None:
            self._refuse(path, layer, problems, document.mapping)
        else:
            self._complain(layer, problems)
        return descriptor

    def _read_now(self, unread: Unread) -> D:
        """The descriptor of a lazy layer. Errors: ``ConfigurationInvalidity``."""
        descriptor, problems = self._read(read_toml(unread.path), Layer(name=unread.layer, lazy=True), {})
        if descriptor is None:
            raise ConfigurationInvalidity(problems)
        return descriptor

    def _refuse(
        self, path: Path, layer: Layer, problems: Iterable[Problem], mapping: Mapping[str, Any] = EMPTY
    ) -> None:
        """Collects the problems of a file. One of an untrusted layer is also left out: it needs trust first."""
        self._complain(layer, problems)
        header = mapping.get(self.kind)
        name = header.get("name") if is_table(header) else None
        name = name if isinstance(name, str) and name else path.stem
        if layer.trusted:
            self._refused.append(name)
        else:
            self._left_out.append(LeftOut(name=name, layer=layer.name, file=file_name(path), reason=UNTRUSTED))

    def _complain(self, layer: Layer, problems: Iterable[Problem]) -> None:
        """Adds problems; those of an untrusted layer are warnings."""
        warnings = (dataclasses.replace(problem, severity="warning") for problem in problems)
        self._problems.extend(problems if layer.trusted else warnings)

    def _admit(self, descriptor: D | Unread, layer: Layer) -> None:
        earlier = self._named.get(descriptor.name)
        if layer.trusted or isinstance(descriptor, Unread):
            self._named[descriptor.name] = descriptor
        elif earlier and (restricted := self._restricted(earlier, descriptor)) is not None:
            self._named[descriptor.name] = restricted
        elif earlier is not None and is_same_file(earlier.file, descriptor.file):
            return  # The user named it by another path.
        else:
            left = LeftOut(name=descriptor.name, layer=layer.name, file=descriptor.file, reason=UNTRUSTED)
            self._left_out.append(left)
            return
        if earlier is not None:
            self._shadowed.append(
                Shadowed(descriptor.name, earlier.layer, earlier.file, by_layer=layer.name, by_file=descriptor.file)
            )

    def _restricted(self, earlier: D | Unread, later: D) -> D | None:
        if self._restrict is None:
            return None
        return self._restrict(self._read_now(earlier) if isinstance(earlier, Unread) else earlier, later)


def is_same_file(one: str | None, other: str | None) -> bool:
    """Whether two paths lead to the same file, also through links."""
    return one is not None and other is not None and os.path.realpath(one) == os.path.realpath(other)


def _read_inside(root: Path, path: Path) -> Document:
    """Reads a file that must be in a folder, also through links. Errors: those of ``read_beneath``."""
    true = os.path.realpath(root)
    relative = os.path.relpath(os.path.join(os.path.realpath(path.parent), path.name), true)
    return dataclasses.replace(read_beneath(true, relative), path=path)


class ConfigurationPart(Value, kw_only=True):
    """The read keys of one file, table by table. ``files`` has the SHA-256 of each file that was read, by path."""

    parts: frozendict[str, Any] = EMPTY
    file: str
    layer: str = ""
    problems: tuple[Problem, ...] = ()
    files: frozendict[str, str] = EMPTY


def read_configuration_part(path: Path | str, *, layer: str = "") -> ConfigurationPart:
    """Reads one configuration file. Raises nothing: a missing file is a problem, too."""
    path = Path(os.path.abspath(path))
    try:
        document = read_toml(path)
    except ConfigurationInvalidity as invalidity:
        return ConfigurationPart(file=file_name(path), layer=layer, problems=invalidity.problems)
    files = {str(path): document.digest}
    parts, problems = read_parts(
        document.mapping, document.source, read=reader(path.parent, files), folder=str(path.parent), layer=layer
    )
    parts = frozendict[str, Any](change_paths(parts, os.path.expanduser))
    return ConfigurationPart(parts=parts, file=file_name(path), layer=layer, problems=problems, files=frozendict(files))
