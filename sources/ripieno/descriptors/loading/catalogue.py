"""Descriptors by name, of which those of lazy layers are read when they are looked up."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Generic, TypeVar, cast

from ripieno.descriptors.ensembles import EnsembleDescriptor
from ripieno.descriptors.loading.documents import file_name
from ripieno.descriptors.profiles import ProfileDescriptor
from ripieno.descriptors.providers import ProviderDescriptor
from ripieno.values import Value

D = TypeVar("D", bound=EnsembleDescriptor | ProviderDescriptor | ProfileDescriptor)


class Unread(Value, kw_only=True):
    """A descriptor of a lazy layer. Its file, at ``path``, has its name."""

    name: str
    layer: str
    path: Path

    @property
    def file(self) -> str:
        """The file as messages name it."""
        return file_name(self.path)


class Descriptors(Mapping[str, D], Generic[D]):
    """Descriptors by name; immutable. A look-up reads one that is ``Unread``. Errors: ``ConfigurationInvalidity``."""

    def __init__(self, named: Mapping[str, D | Unread], read: Callable[[Unread], D] | None = None) -> None:
        self._named = dict(named)
        self._read = read

    def __getitem__(self, name: str) -> D:
        found = self._named[name]
        if isinstance(found, Unread) and self._read is not None:
            found = self._named[name] = self._read(found)
        return cast(D, found)

    def __contains__(self, name: object) -> bool:
        return name in self._named

    def __iter__(self) -> Iterator[str]:
        return iter(self._named)

    def __len__(self) -> int:
        return len(self._named)

    @property
    def layers(self) -> dict[str, str]:
        """The names, each with the layer of its descriptor. Reads none."""
        return {name: one.layer for name, one in self._named.items()}

    @property
    def known(self) -> dict[str, D]:
        """The descriptors that were read."""
        return {name: one for name, one in self._named.items() if not isinstance(one, Unread)}

    def replaced(self, descriptors: Mapping[str, D], without: Iterable[str] = ()) -> "Descriptors[D]":
        """The same with these descriptors, which replace those of the same names, and ``without`` others."""
        named = {**self._named, **descriptors}
        for name in without:
            named.pop(name, None)
        return Descriptors(named, self._read)


class Catalogue(Mapping[str, EnsembleDescriptor]):
    """Ensembles by name; immutable. ``outlines`` has their headers, without reading invokers.

    A look-up calls ``complete`` to read the whole descriptor of an outline. Errors: ``ConfigurationInvalidity``.
    """

    def __init__(
        self,
        outlines: Descriptors[EnsembleDescriptor],
        complete: Callable[[EnsembleDescriptor], EnsembleDescriptor] | None = None,
        whole: Mapping[str, EnsembleDescriptor] | None = None,
    ) -> None:
        #: The ensembles by name; they may lack their invokers.
        self.outlines = outlines
        self._complete = complete
        self._whole = dict(whole or {})

    def __getitem__(self, name: str) -> EnsembleDescriptor:
        if name not in self._whole:
            outline = self.outlines[name]
            self._whole[name] = outline if self._complete is None else self._complete(outline)
        return self._whole[name]

    def __contains__(self, name: object) -> bool:
        return name in self.outlines

    def __iter__(self) -> Iterator[str]:
        return iter(self.outlines)

    def __len__(self) -> int:
        return len(self.outlines)

    def replaced(self, descriptors: Iterable[EnsembleDescriptor]) -> "Catalogue":
        """The catalogue with these descriptors, which replace those of the same names."""
        others = {one.name: one for one in descriptors}
        return Catalogue(self.outlines.replaced(others), self._complete, {**self._whole, **others})
