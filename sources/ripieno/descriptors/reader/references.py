"""References: tables that may be in a file of their own, with ``source = "…"`` in their place."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

from ripieno.descriptors.reader.keys import Key, Table
from ripieno.descriptors.reader.kinds import INVALID, Kind, Text, refuse
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems, Source, dotted
from ripieno.exceptions import ConfigurationInvalidity, InputError
from ripieno.jsonvalues import is_table
from ripieno.values import Value

#: Reads the file of a reference. Errors: ``ConfigurationInvalidity`` for its contents, another ``InputError`` if it
#: cannot be read.
Reader: TypeAlias = Callable[[str], tuple[Mapping[str, Any], Source]]


class Reference(Value):
    """A path relative to the folder of the referring file."""

    relative: str


def reference_table(title: str, ending: str, example: str) -> Table:
    """A table with the key ``source`` only. Paths with ``..`` are refused here, and again where they are opened."""
    escaped = ending.replace(".", r"\.")
    kind = Text(
        pattern=rf"(?!/)(?!(?:[^\x00]*/)?\.\.(?:/|$))[^\x00-\x1f\\]*[^\x00-\x1f\\/]{escaped}",
        shape=f"a path of a {ending} file beneath this file's folder, without ..",
    )
    return Table(
        title,
        "A file with the keys of this table.",
        (Key("source", kind, "The path of the file, relative to this file's folder.", required=True, example=example),),
    )


class OrReference(Value, kw_only=True):
    """A kind, or a reference to a file with it. ``known`` are the keys of the kind itself."""

    kind: Kind
    reference: Table
    known: Collection[str]

    @property
    def expected(self) -> str:
        return self.kind.expected

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if not is_table(value):
            return refuse(self, value, path, problems)
        if self.refers(value):
            read = self.reference.read(value, path, problems)
            return INVALID if read is INVALID else Reference(read["source"])
        return self.kind.read(value, path, problems)

    def refers(self, value: Mapping[str, Any]) -> bool:
        """Whether a table has ``source``, or a misspelling of it."""
        return "source" in value or self.reference.resembles("source", value, self.known)

    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "if": {"required": ["source"]},
            "then": self.reference.schema(),
            "else": self.kind.schema(),
        }


def follow(
    reference: Reference, path: Path, problems: Problems, read: Reader | None
) -> tuple[Mapping[str, Any], Source] | None:
    """The file of the reference at ``path``; None after its problems were added."""
    at = (*path, "source")
    if read is None:
        problems.add(at, f"{dotted(at)} cannot be read: this ensemble has no file", "Write the keys here instead.")
        return None
    try:
        return read(reference.relative)
    except ConfigurationInvalidity as invalidity:
        problems.extend(invalidity.problems)
    except InputError as error:
        problems.add(at, str(error))
    return None
