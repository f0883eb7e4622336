"""Annotations as JSON Schema, and JSON values as what the annotations promise."""

import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Union

from ripieno.exceptions import JsonInvalidity, SchemaInvalidity
from ripieno.jsonvalues import freeze, thaw
from ripieno.schemas.docstrings import documentation_of
from ripieno.schemas.graph import is_sequence
from ripieno.schemas.schema import Schema

_SCALARS: Mapping[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_ARRAYS = (list, Sequence, Iterable)
_OBJECTS = (dict, Mapping)
_ANYTHING = (Any, object)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """An annotation: its schema, and (where JSON has no such value) how a JSON value becomes one."""

    schema: Mapping[str, Any]
    convert: Callable[[Any], Any] | None = None

    def value(self, value: Any) -> Any:
        """What a function receives for a valid JSON value."""
        return value if self.convert is None else self.convert(value)


class Reader:
    """Reads the annotations of one function. ``where`` names it and the parameter, for errors."""

    def __init__(self, where: str) -> None:
        self.where = where
        self._within: list[object] = []

    def form(self, annotation: Any) -> Form:
        """Errors: ``SchemaInvalidity`` for what JSON Schema, or this, cannot express."""
        if isinstance(annotation, typing.NewType):
            return self.form(annotation.__supertype__)
        if type(annotation).__name__ == "TypeAliasType":
            return self.form(annotation.__value__)
        if (origin := typing.get_origin(annotation)) is not None:
            return self._generic(annotation, origin, typing.get_args(annotation))
        if annotation in _ANYTHING:
            return Form(schema={})
        if annotation is None or annotation in _SCALARS:
            return Form(schema={"type": _SCALARS.get(annotation, "null")})
        if isinstance(annotation, type):
            return self._of_class(annotation)
        raise self._strange(annotation)

    def _strange(self, annotation: Any) -> SchemaInvalidity:
        shown = inspect.formatannotation(annotation)
        return SchemaInvalidity(
            f"{self.where}: JSON Schema cannot express {shown}. Use str, int, float, bool, None, list, dict, Literal,"
            " an enumeration, a dataclass, a TypedDict, or unions of these."
        )

    def _generic(self, annotation: Any, origin: Any, arguments: tuple[Any, ...]) -> Form:
        if not arguments:
            return self._of_class(origin)
        if origin in (typing.Annotated, typing.Required, typing.NotRequired):
            return described(
                self.form(arguments[0]), next((one for one in arguments[1:] if isinstance(one, str)), None)
            )
        if origin is Literal:
            return self._choice(annotation, arguments)
        if origin in (Union, types.UnionType):
            return self._union([self.form(one) for one in arguments])
        if origin in _OBJECTS and arguments[0] is str:
            return self._object(self.form(arguments[1]))
        if origin in _ARRAYS or (origin is tuple and arguments[1:] == (...,)):
            return self._array(self.form(arguments[0]), tuple if origin is tuple else None)
        raise self._strange(annotation)

    def _of_class(self, annotation: type[Any]) -> Form:
        if annotation in _ARRAYS:
            return Form(schema={"type": "array"})
        if annotation in _OBJECTS:
            return Form(schema={"type": "object"})
        if issubclass(annotation, enum.Enum):
            form = self._choice(annotation, tuple(member.value for member in annotation))
            return dataclasses.replace(form, convert=annotation)
        if annotation in self._within:
            raise SchemaInvalidity(f"{self.where}: {annotation.__qualname__} contains itself.")
        self._within.append(annotation)
        try:
            if dataclasses.is_dataclass(annotation):
                return self._of_dataclass(annotation)
            if typing.is_typeddict(annotation):
                return self._of_typeddict(annotation)
        finally:
            self._within.pop()
        raise self._strange(annotation)

    def _choice(self, annotation: Any, values: tuple[Any, ...]) -> Form:
        kinds = {_SCALARS.get(type(value)) for value in values}
        if None in kinds or not values:
            raise self._strange(annotation)
        schema: dict[str, Any] = {"enum": list(values)}
        return Form(schema={"type": kinds.pop(), **schema} if len(kinds) == 1 else schema)

    def _union(self, forms: Sequence[Form]) -> Form:
        """The first form that takes a value converts it."""

        def convert(value: Any) -> Any:
            takers = (form for form in forms if not Schema.of_results(form.schema).validate(value))
            return next((form.value(value) for form in takers), value)

        changes = any(form.convert for form in forms)
        return Form(schema={"anyOf": [form.schema for form in forms]}, convert=convert if changes else None)

    def _array(self, item: Form, make: Callable[[list[Any]], Any] | None) -> Form:
        def convert(value: list[Any]) -> Any:
            items = [item.value(one) for one in value]
            return make(items) if make else items

        schema = {"type": "array", **({"items": item.schema} if item.schema else {})}
        changes = item.convert is not None or make is not None
        return Form(schema=schema, convert=convert if changes else None)

    def _object(self, item: Form) -> Form:
        def convert(value: dict[str, Any]) -> dict[str, Any]:
            return {name: item.value(one) for name, one in value.items()}

        schema = {"type": "object", **({"additionalProperties": item.schema} if item.schema else {})}
        return Form(schema=schema, convert=convert if item.convert else None)

    def _of_dataclass(self, annotation: type[Any]) -> Form:
        hints = self._hints(annotation)
        texts = documentation_of(annotation).parameters
        forms: dict[str, Form] = {}
        required: list[str] = []
        for field in dataclasses.fields(annotation):
            if not field.init:
                continue
            form = described(self.form(hints[field.name]), texts.get(field.name))
            if field.default is not dataclasses.MISSING:
                form = with_default(form, field.default)
            elif field.default_factory is not dataclasses.MISSING:
                form = with_default(form, field.default_factory())
            else:
                required.append(field.name)
            forms[field.name] = form
        return _record(forms, required, annotation)

    def _of_typeddict(self, annotation: Any) -> Form:
        hints = self._hints(annotation)
        texts = documentation_of(annotation).parameters
        forms = {name: described(self.form(hint), texts.get(name)) for name, hint in hints.items()}
        return _record(forms, [name for name in forms if name in annotation.__required_keys__], dict)

    def _hints(self, annotation: type[Any]) -> dict[str, Any]:
        try:
            return typing.get_type_hints(annotation, include_extras=True)
        except (NameError, TypeError) as error:
            raise SchemaInvalidity(f"{self.where}: {annotation.__qualname__} cannot be read: {error}.") from None


def described(form: Form, description: str | None) -> Form:
    """The form with a description, where there is one and it has none yet."""
    if not description or "description" in form.schema:
        return form
    return dataclasses.replace(form, schema={**form.schema, "description": description})


def with_default(form: Form, default: object) -> Form:
    """The form with a default that JSON can say and the schema admits; None is often only a mark."""
    try:
        value = thaw(freeze(_plain(default)))
    except JsonInvalidity:
        return form
    if value is None and not _admits_null(form.schema):
        return form
    return dataclasses.replace(form, schema={**form.schema, "default": value})


def _plain(value: Any) -> Any:
    """The JSON value that would become this one."""
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value) if field.init}
    return [_plain(one) for one in value] if is_sequence(value) else value


def _admits_null(schema: Mapping[str, Any]) -> bool:
    if "anyOf" in schema:
        return any(_admits_null(one) for one in schema["anyOf"])
    return None in schema["enum"] if "enum" in schema else schema.get("type", "null") == "null"


def _record(forms: Mapping[str, Form], required: Sequence[str], make: Callable[..., Any]) -> Form:
    schema = {
        "type": "object",
        "properties": {name: form.schema for name, form in forms.items()},
        **({"required": list(required)} if required else {}),
        "additionalProperties": False,
    }

    def convert(value: Mapping[str, Any]) -> Any:
        return make(**{name: forms[name].value(one) for name, one in value.items()})

    changes = make is not dict or any(form.convert for form in forms.values())
    return Form(schema=schema, convert=convert if changes else None)
