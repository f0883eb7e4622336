"""The properties of a flat JSON Schema as questions to a person: a label for each, and values out of typed lines."""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

from ripieno.descriptors.tables import is_list, is_table

_YES = frozenset({"y", "yes", "true", "1"})
_NO = frozenset({"n", "no", "false", "0"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One property. What a line means depends on its type; one that means nothing stays text, and is refused later."""

    name: str
    kind: str
    label: str

    def read(self, line: str) -> object:
        """The value that somebody typed."""
        if self.kind == "boolean":
            word = line.casefold()
            return True if word in _YES else False if word in _NO else line
        if self.kind in ("integer", "number"):
            try:
                value: object = json.loads(line)
            except ValueError:
                return line
            return value
        if self.kind == "array":
            return [part.strip() for part in line.split(",")]
        return line


def fields_of(schema: Mapping[str, Any]) -> Iterator[Field]:
    """The properties in their order, each with its title, choices, default, and whether it may be left out."""
    required = schema.get("required") or ()
    properties = schema.get("properties")
    for name, one in properties.items() if is_table(properties) else ():
        if not is_table(one):
            continue
        kind = one.get("type")
        notes = [str(kind)] if isinstance(kind, str) else []
        choices = one.get("enum")
        if is_list(choices):
            notes.append("one of " + ", ".join(map(str, choices)))
        if "default" in one:
            notes.append(f"default {one['default']}")
        elif name not in required:
            notes.append("may be left out")
        label = str(one.get("title") or name)
        if description := one.get("description"):
            label += f" ({description})"
        yield Field(name=name, kind=str(kind), label=f"{label} [{'; '.join(notes)}]" if notes else label)
