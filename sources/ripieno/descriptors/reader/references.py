"""Tables that may stand in a file of their own: ``source = "…"`` in their place."""

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

from ripieno.descriptors.reader.keys import Key, Table
from ripieno.descriptors.reader.kinds import INVALID, Kind, Text, refuse
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems, Source, dotted
from ripieno.exceptions import ConfigurationInvalidity, InputError
from ripieno.jsonvalues import is_table

#: Reads the file of a reference. Errors: ``ConfigurationInvalidity`` for what is wrong inside it, another
#: ``InputError`` when it cannot be read at all.
Reader: TypeAlias = Callable[[str], tuple[Mapping[str, Any], Source]]


@dataclasses.dataclass(frozen=True, slots=True)
class Reference:
    """A path, relative to the folder of the file that refers."""

    relative: str


def reference_table(title: str, ending: str, example: str) -> Table:
    """A table that only has a source. Paths that climb are refused here, and again where they are opened."""
    kind = Text(
        pattern=rf"(?!/)(?!(?:[^\x00]*/)?\.\.(?:/|$))[^\x00-\x1f\\]*[^\x00-\x1f\\/]{re_escape(ending)}",
        shape=f"a path of a {ending} file beneath this file's folder, without ..",
    )
    return Table(
        title=title,
        documentation="A file that has this table's keys.",
        keys=(Key(name="source", kind=kind, documentation="The file, relative.", required=True, example=example),),
    )


def re_escape(text: str) -> str:
    """Dots as JSON Schema's dialect of regular expressions wants them."""
    return text.replace(".", r"\.")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OrReference:
    """A kind, or a reference to a file that has it. ``known`` are the keys of the kind itself."""

    kind: Kind
    reference: Table
    known: Collection[str]

    @property
    def expected(self) -> str:
        return self.kind.expected

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if not is_table(value):
            return refuse(self, value, path, problems)
        if "source" in value or self.reference.resembles("source", value, self.known):
            read = self.reference.read(value, path, problems)
            return INVALID if read is INVALID else Reference(read["source"])
        return self.kind.read(value, path, problems)

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
    """The file of a reference that stands at ``path``, or None after its problems were added."""
    at = (*path, "source")
    if read is None:
        problems.add(at, f"{dotted(at)} cannot be read: this ensemble has no file", "Write the keys themselves here.")
        return None
    try:
        return read(reference.relative)
    except ConfigurationInvalidity as invalidity:
        problems.extend(invalidity.problems)
    except InputError as error:
        problems.add(at, str(error))
    return None
