"""Forms: the properties of a flat JSON Schema as labelled questions, and typed lines as values."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ripieno.exceptions import JsonInvalidity
from ripieno.jsonvalues import EMPTY, encode, freeze, is_list, is_table, parse
from ripieno.schemas import Schema
from ripieno.values import Value

_YES = frozenset({"y", "yes", "true", "1"})
_NO = frozenset({"n", "no", "false", "0"})
#: The formats that are checked when a line is typed, with descriptions.
_FORMATS: Mapping[str, str] = {
    "email": "an e-mail address, such as ada@example.org",
    "uri": "a URI, such as https://example.org",
    "date": "a date, such as 2026-01-31",
    "date-time": "a date and a time, such as 2026-01-31T12:00:00Z",
}
#: Keywords of the root that a property may refer to.
_SHARED = ("$schema", "$defs", "definitions")


class Choice(Value, kw_only=True):
    """One of the allowed values, with its name for people if it has one."""

    value: object
    title: str = ""

    def __str__(self) -> str:
        word = _typed(self.value)
        return f"{word} ({self.title})" if self.title and self.title != word else word


class Field(Value, kw_only=True):
    """One property. A line is read by its type and its choices; an invalid one stays text, and is refused.

    ``needed``: an empty line is no answer. ``schema`` is the schema of an object with only this property.
    """

    name: str
    kind: str
    label: str
    needed: bool = False
    choices: tuple[Choice, ...] = ()
    item: str = "string"
    schema: Mapping[str, Any] = EMPTY

    def read(self, line: str) -> object:
        """The value of a typed line."""
        if self.kind != "array":
            return self._value(line, self.kind)
        if line.startswith("["):
            value = _parsed(line)
            if is_list(value):
                return value
        return [self._value(part.strip(), self.item) for part in line.split(",")]

    def complaint(self, line: str) -> str:
        """The problem of a line, as a sentence; empty for a valid one."""
        if not line:
            return "A value is required." if self.needed else ""
        value = self.read(line)
        for problem in Schema.of(self.schema, closed=False).validate({self.name: value}):
            message = problem.message
            return f"It{message.removeprefix(f'`{self.name}`')}" if problem.parameter == self.name else message
        property_schema = self.schema.get("properties", EMPTY).get(self.name)
        shape = property_schema.get("format") if is_table(property_schema) else None
        if isinstance(value, str) and isinstance(shape, str) and shape in _FORMATS:
            import jsonschema_rs

            if not jsonschema_rs.is_valid({"format": shape}, value, validate_formats=True):
                return f"It must be {_FORMATS[shape]}."
        return ""

    def _value(self, word: str, kind: str) -> object:
        if self.choices:
            return next((one.value for one in self.choices if word in (_typed(one.value), one.title)), word)
        if kind == "boolean":
            folded = word.casefold()
            return True if folded in _YES else False if folded in _NO else word
        return _parsed(word) if kind in ("integer", "number") else word


def fields_of(schema: Mapping[str, Any]) -> Iterator[Field]:
    """The properties in their order, each with all that a person needs to answer."""
    required = schema.get("required") or ()
    properties = schema.get("properties")
    shared = {keyword: schema[keyword] for keyword in _SHARED if keyword in schema}
    for name, one in properties.items() if is_table(properties) else ():
        if not is_table(one):
            continue
        kind = _kind(one)
        items: Any = one.get("items") if kind == "array" else None
        inner: Mapping[str, Any] = items if is_table(items) else EMPTY
        choices = _choices(inner if kind == "array" else one)
        needed = name in required and "default" not in one
        notes = list(_notes(one, kind, choices))
        if "default" in one:
            notes.append(f"default {_typed(one['default'])}")
        elif not needed:
            notes.append("optional")
        label = str(one.get("title") or name)
        if description := one.get("description"):
            label += f" ({description})"
        yield Field(
            name=name,
            kind=kind,
            label=f"{label} [{'; '.join(notes)}]" if notes else label,
            needed=needed,
            choices=choices,
            item=_kind(inner) or "string",
            schema=freeze({**shared, "type": "object", "properties": {name: one}}),
        )


def _kind(schema: Mapping[str, Any]) -> str:
    """The type; of several, the first that is not null; empty if there is none."""
    declared = schema.get("type")
    kinds: Sequence[Any] = declared if is_list(declared) else (declared,)
    return next((kind for kind in kinds if isinstance(kind, str) and kind != "null"), "")


def _choices(schema: Mapping[str, Any]) -> tuple[Choice, ...]:
    """The values of ``enum``, with the names in ``enumNames``; or the constants of ``oneOf`` or ``anyOf``."""
    values = schema.get("enum")
    if is_list(values):
        names = schema.get("enumNames")
        titles: Sequence[Any] = names if is_list(names) and len(names) == len(values) else ("",) * len(values)
        return tuple(Choice(value=value, title=str(title)) for value, title in zip(values, titles, strict=True))
    for keyword in ("oneOf", "anyOf"):
        parts = schema.get(keyword)
        if is_list(parts) and parts and all(is_table(one) and "const" in one for one in parts):
            return tuple(Choice(value=one["const"], title=str(one.get("title") or "")) for one in parts)
    return ()


def _notes(schema: Mapping[str, Any], kind: str, choices: tuple[Choice, ...]) -> Iterator[str]:
    """The requirements of a value, in words."""
    listed = ", ".join(map(str, choices))
    if kind == "array":
        yield f"several of {listed}, separated by commas" if choices else "several, separated by commas"
    else:
        yield from ["yes or no"] if kind == "boolean" else [kind] if kind else []
        if choices:
            yield f"one of {listed}"
    shape = schema.get("format")
    if isinstance(shape, str):
        yield _FORMATS.get(shape, shape)
    yield from _range(schema.get("minimum"), schema.get("maximum"), "")
    if "exclusiveMinimum" in schema:
        yield f"above {schema['exclusiveMinimum']}"
    if "exclusiveMaximum" in schema:
        yield f"below {schema['exclusiveMaximum']}"
    yield from _range(schema.get("minLength"), schema.get("maxLength"), " character")
    yield from _range(schema.get("minItems"), schema.get("maxItems"), " of them")
    if isinstance(schema.get("pattern"), str):
        yield f"matching {schema['pattern']}"


def _range(least: object, most: object, unit: str) -> Iterator[str]:
    bounds = [one for one in (least, most) if one is not None]
    if not bounds:
        return
    plural = "s" if unit == " character" and bounds[-1] != 1 else ""
    words = f"{least} to {most}" if len(bounds) > 1 else f"at {'most' if least is None else 'least'} {bounds[0]}"
    yield f"{words}{unit}{plural}"


def _typed(value: object) -> str:
    """A value as a person would type it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if is_list(value):
        return ", ".join(map(_typed, value))
    return encode(freeze(value)).decode()


def _parsed(text: str) -> object:
    """A JSON value, or the text if it is not JSON."""
    try:
        return parse(text)
    except JsonInvalidity:
        return text
