"""Whether the places of a template fit the arguments that a JSON Schema declares, as far as it can be seen."""

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from ripieno.exceptions import nearest

#: Keywords by which a schema may declare arguments that cannot be seen in its ``properties``.
_ELSEWHERE = frozenset({"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas"})
_SCALARS = frozenset({"string", "integer", "number", "boolean"})


def is_table(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether it is a table, whose keys are strings then."""
    return isinstance(value, Mapping)


def is_list(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether it is a list, frozen or not; strings are none."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """What is wrong with a template; ``path`` leads from the template to the place."""

    message: str
    hint: str | None = None
    path: tuple[str | int, ...] = ()

    def __str__(self) -> str:
        where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)
        return " ".join(part for part in (f"{where}:" if where else "", f"{self.message}.", self.hint or "") if part)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """The arguments that a schema declares, as far as they can be seen. ``given`` always have a value."""

    properties: Mapping[str, Any]
    given: frozenset[str]
    #: Others may be declared where they cannot be seen.
    open: bool

    @classmethod
    def of(cls, schema: Mapping[str, Any], given: Collection[str]) -> "Declared":
        properties: Mapping[str, Any] = schema.get("properties", {})
        defaults = (name for name, one in properties.items() if is_table(one) and "default" in one)
        return cls(
            properties=properties,
            given=frozenset((*schema.get("required", ()), *defaults, *given)),
            open=not _ELSEWHERE.isdisjoint(schema),
        )

    def complain_all(self, names: Iterable[str], path: tuple[str | int, ...]) -> Iterator[Complaint]:
        """What is wrong with places for one value each."""
        for name in names:
            yield from self.complain(name, path)

    def complain(
        self, name: str, path: tuple[str | int, ...], *, listed: bool = False, anything: bool = False
    ) -> Iterator[Complaint]:
        """What is wrong with a place for this argument: for one value, for a list of values, or for anything."""
        if name not in self.properties:
            if not self.open and name not in self.given:
                near = nearest(name, self.properties)
                hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else _known(self.properties)
                yield Complaint(message=f"{name!r} is none of the arguments", hint=hint, path=path)
            return
        if anything:
            return
        if listed:
            if not _may_be(self.properties[name], {"array"}):
                yield Complaint(message=f"{name!r} is no list", hint=f'Write "{{{name}}}".', path=path)
            elif not _may_be(_items_schema(self.properties[name]), _SCALARS):
                yield Complaint(message=f"the items of {name!r} are no strings or numbers", path=path)
            return
        if not _may_be(self.properties[name], _SCALARS):
            listed_hint = (
                f'Write {{ each = "{name}" }} after "--".' if _may_be(self.properties[name], {"array"}) else None
            )
            message = f"{name!r} is a list or an object, and cannot fill one place"
            yield Complaint(message=message, hint=listed_hint, path=path)
        elif name not in self.given and not self.open:
            hint = f'Make it required, give it a default, or write {{ when = "{name}", argv = [...] }} in an argv.'
            yield Complaint(message=f"{name!r} may be absent", hint=hint, path=path)


def _may_be(schema: Any, types: Collection[str]) -> bool:
    """Whether a value may be of one of these types, as far as the schema can be seen."""
    declared = schema.get("type") if is_table(schema) else None
    if is_list(declared):
        return any(one in types for one in declared)
    return declared is None or declared in types


def _items_schema(schema: Any) -> Any:
    return schema.get("items") if is_table(schema) else None


def _known(names: Collection[str]) -> str:
    return f"Known: {', '.join(sorted(names))}." if names else "This tool has no arguments."
