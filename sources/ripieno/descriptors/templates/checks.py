"""Checks of a template's placeholders against a JSON Schema of arguments."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from ripieno.exceptions import nearest
from ripieno.jsonvalues import is_list, is_table
from ripieno.values import Value

#: Keywords by which a schema may declare arguments outside its ``properties``.
INDIRECT = frozenset({"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas"})
_SCALARS = frozenset({"string", "integer", "number", "boolean"})


class Complaint(Value):
    """A problem of a template; ``path`` leads from the template to the place."""

    message: str
    hint: str | None = None
    path: tuple[str | int, ...] = ()

    def __str__(self) -> str:
        where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)
        return " ".join(part for part in (f"{where}:" if where else "", f"{self.message}.", self.hint or "") if part)


class Declared(Value, kw_only=True):
    """The arguments that a schema declares in ``properties``. Those in ``given`` always have a value."""

    properties: Mapping[str, Any]
    given: frozenset[str]
    #: Whether other keywords may declare more.
    open: bool
    #: Whether the template is an argv, in which tables stand for any number of elements.
    argv: bool = False

    @classmethod
    def of(cls, schema: Mapping[str, Any], given: Collection[str], *, argv: bool = False) -> "Declared":
        properties: Mapping[str, Any] = schema.get("properties", {})
        defaults = (name for name, one in properties.items() if is_table(one) and "default" in one)
        return cls(
            properties=properties,
            given=frozenset((*schema.get("required", ()), *defaults, *given)),
            open=not INDIRECT.isdisjoint(schema),
            argv=argv,
        )

    def complain_all(self, names: Iterable[str], path: tuple[str | int, ...]) -> Iterator[Complaint]:
        """The problems of placeholders for one value each."""
        for name in names:
            yield from self.complain(name, path)

    def complain(
        self, name: str, path: tuple[str | int, ...], *, listed: bool = False, anything: bool = False
    ) -> Iterator[Complaint]:
        """The problems of a placeholder for one value, for a list of values, or for any value."""
        if name not in self.properties:
            if not self.open and name not in self.given:
                near = nearest(name, self.properties)
                known = (
                    f"Known: {', '.join(sorted(self.properties))}."
                    if self.properties
                    else "This tool has no arguments."
                )
                known += ' A literal brace is written "{{".'
                hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else known
                yield Complaint(f"{name!r} is not an argument", hint=hint, path=path)
            return
        if anything:
            return
        schema = self.properties[name]
        if listed:
            if not _may_be(schema, {"array"}):
                yield Complaint(f"{name!r} is not a list", hint=f'Write "{{{name}}}".', path=path)
            elif not _may_be(schema.get("items") if is_table(schema) else None, _SCALARS):
                yield Complaint(f"the items of {name!r} are neither strings nor numbers", path=path)
            return
        if not _may_be(schema, _SCALARS):
            advice = f'Write {{ each = "{name}" }} after "--".' if self.argv and _may_be(schema, {"array"}) else None
            yield Complaint(f"{name!r} is a list or an object, not one value", hint=advice, path=path)
        elif name not in self.given and not self.open:
            advice = "Make it required, or give it a default."
            if self.argv:
                advice = f'Make it required, give it a default, or write {{ when = "{name}", argv = [...] }}.'
            yield Complaint(f"{name!r} may be absent", hint=advice, path=path)


def _may_be(schema: Any, types: Collection[str]) -> bool:
    """Whether a schema allows a value of one of these types; a schema without a type does."""
    declared = schema.get("type") if is_table(schema) else None
    if is_list(declared):
        return any(one in types for one in declared)
    return declared is None or declared in types
