"""Ensembles by name, of which some are read whole only when they are looked up."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from ripieno.descriptors import EnsembleDescriptor


class Catalogue(Mapping[str, EnsembleDescriptor]):
    """Immutable. What only needs names, or the header of each ensemble, asks for ``outlines`` and reads no more.

    ``complete`` makes a whole descriptor of an outline. Errors of looking one up: whatever it raises, which is
    ``ConfigurationInvalidity`` for broken files.
    """

    def __init__(
        self,
        outlines: Mapping[str, EnsembleDescriptor],
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
        """The same with these descriptors, each in the place of the one that has its name, if any."""
        others = {one.name: one for one in descriptors}
        return Catalogue({**self.outlines, **others}, self._complete, {**self._whole, **others})
