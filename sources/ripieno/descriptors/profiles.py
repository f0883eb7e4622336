"""One profile: a named selection of ensembles."""

from collections.abc import Mapping
from typing import Any

from ripieno.descriptors.ensembles import ENSEMBLE_NAME, ENSEMBLE_NAMES
from ripieno.descriptors.reader.keys import Key, Table, description_key
from ripieno.descriptors.reader.kinds import INVALID, Several, Text
from ripieno.descriptors.reader.problems import NO_SOURCE, Problems, Source
from ripieno.exceptions import Problem
from ripieno.jsonvalues import is_table
from ripieno.values import Value, uncompared


@uncompared("file", "layer")
class ProfileDescriptor(Value, kw_only=True):
    """One profile. It selects all ensembles of its categories, then those that it names, in their order.

    ``configurable`` ensembles also fit it, but are enabled only if the configuration includes them.
    """

    name: str
    description: str = ""
    categories: tuple[str, ...] = ()
    ensembles: tuple[str, ...] = ()
    configurable: tuple[str, ...] = ()
    file: str | None = None
    layer: str = ""

    def mapping(self) -> dict[str, Any]:
        """The mapping of an equivalent file. Reading it gives an equal descriptor."""
        selections = {"categories": self.categories, "ensembles": self.ensembles, "configurable": self.configurable}
        lists = {key: list(names) for key, names in selections.items() if names or key == "ensembles"}
        return {"profile": {"name": self.name, "description": self.description, **lists}}


HEADER = Table(
    "[profile]",
    "A named selection of ensembles.",
    (
        Key("name", ENSEMBLE_NAME, "Its name.", required=True, example="minimal"),
        description_key("Its purpose, for people.", "Only files"),
        Key(
            "categories",
            Several(Text(), "words", once=True),
            "Categories. All ensembles of these categories are enabled.",
            (),
            ["file_read", "git"],
        ),
        Key("ensembles", ENSEMBLE_NAMES, "Further ensembles, in the order in which models see them.", (), ["io"]),
        Key("configurable", ENSEMBLE_NAMES, "Fitting ensembles, enabled only by [ensembles] include.", (), ["network"]),
    ),
)
PROFILE = Table("a profile's file", "One profile.", (HEADER.key("profile", required=True),))


def read_profile(
    mapping: Mapping[str, Any], source: Source = NO_SOURCE, *, layer: str = ""
) -> tuple[ProfileDescriptor | None, tuple[Problem, ...]]:
    """The descriptor of a profile's file, and its problems. Raises nothing.

    With problems, it has what could be read, so that wrong names in it are found at once; None without a name.
    """
    problems = Problems(source)
    parts = PROFILE.read(mapping, (), problems)
    if parts is INVALID:
        given = mapping.get("profile") if is_table(mapping) else None
        header = HEADER.read_parts(given, ("profile",), Problems(NO_SOURCE))
    else:
        header = parts["profile"]
    descriptor = ProfileDescriptor(**header, file=source.file, layer=layer) if "name" in header else None
    return descriptor, problems.finished()
