"""Python functions as tools: pydantic reads their annotations and converts arguments. Importing it takes 60 ms."""

import dataclasses
import datetime
import decimal
import enum
import inspect
import pathlib
import sys
import types
import typing
import uuid
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NotRequired, Required, Union

from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, NoDefault
from pydantic_core import ArgsKwargs, to_jsonable_python

from ripieno.exceptions import SchemaInvalidity, ValidationFault
from ripieno.jsonvalues import SCALARS, is_list, is_table
from ripieno.schemas.docstrings import documentation_of
from ripieno.schemas.schema import Schema
from ripieno.values import Value

#: Classes of results that become JSON, as arguments of these classes are made of it. Dataclasses are others.
_CONVERTED = (
    *(BaseModel, enum.Enum, decimal.Decimal, uuid.UUID, pathlib.PurePath),
    *(datetime.date, datetime.time, datetime.timedelta),
)
_CONTEXT = "The context of a call is passed as the first parameter if its name is context."


class Signature(Value, kw_only=True):
    """The parts of a tool that is made of a function.

    ``description`` is its docstring up to the descriptions of parameters. ``invocable(context, arguments)`` calls it
    with keywords converted to the annotated types: enumerations, dataclasses, models, tuples. Such results become JSON.
    """

    description: str
    schema: Schema
    invocable: Callable[[Any, Mapping[str, Any]], Any]


def define_function(function: Callable[..., Any]) -> Signature:
    """The description, the closed argument schema and the invocable of a function.

    A first parameter named ``context`` is left out. Descriptions come from ``Annotated[T, "…"]``, ``Field``,
    ``:param x:`` or an ``Args:`` section. Errors: ``SchemaInvalidity``, with function and parameter, for a type that
    JSON Schema cannot express.
    """
    name = getattr(function, "__qualname__", type(function).__qualname__)
    parameters = _parameters(function, name)
    context = next(iter(parameters.values()), None)
    if context is not None and context.name == "context":
        del parameters[context.name]
    else:
        context = None
    adapter = _adapter(parameters, name)
    documentation = documentation_of(function)
    mapping = _described(adapter.json_schema(schema_generator=_Generator), documentation.parameters)
    schema = Schema.of(mapping, closed=True)
    for problem in schema.validate(schema.complete({})):
        if problem.code != "missing_required":
            raise SchemaInvalidity(f"{name}: a default does not fit its annotation: {problem.message}")
    return Signature(description=documentation.summary, schema=schema, invocable=_invocable(function, adapter, context))


def _parameters(function: Callable[..., Any], name: str) -> dict[str, inspect.Parameter]:
    """The parameters, with their annotations evaluated."""
    body: Any = function if inspect.isroutine(function) else type(function).__call__
    try:
        parameters = inspect.signature(function, eval_str=True).parameters
        hints = (
            {} if hasattr(body, "__signature__") else typing.get_type_hints(inspect.unwrap(body), include_extras=True)
        )
    except (NameError, SyntaxError, TypeError, ValueError) as error:
        raise SchemaInvalidity(f"{name}: its signature cannot be read: {error}") from None
    return {key: one.replace(annotation=hints.get(key, one.annotation)) for key, one in parameters.items()}


def _adapter(parameters: Mapping[str, inspect.Parameter], function: str) -> TypeAdapter[Any]:
    """A converter of ``ArgsKwargs`` to the values of these parameters, by name."""

    def collect(**arguments: Any) -> dict[str, Any]:
        return arguments

    annotations: dict[str, Any] = {}
    for name, parameter in parameters.items():
        where = f"{function}, parameter {name!r}"
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise SchemaInvalidity(f"{where}: arguments are passed by name, and it is positional. Make it a keyword.")
        if parameter.annotation is parameter.empty:
            raise SchemaInvalidity(f"{where}: it has no annotation. Add a type; `Any` accepts everything. {_CONTEXT}")
        try:
            annotations[name] = _readable(parameter.annotation)
            TypeAdapter[Any](annotations[name]).json_schema(schema_generator=_Generator)
        except (PydanticUserError, NameError, RecursionError) as error:
            reason = "it contains itself" if isinstance(error, RecursionError) else str(error).splitlines()[0]
            raise SchemaInvalidity(
                f"{where}: JSON Schema cannot express {inspect.formatannotation(parameter.annotation)}. Use str, int,"
                " float, bool, None, list, dict, Literal, an enumeration, a dataclass, a TypedDict, a pydantic model,"
                f" or unions of these. {_CONTEXT} ({reason})"
            ) from None
    made: Any = collect
    made.__annotations__, made.__signature__ = annotations, inspect.Signature([*parameters.values()])
    return TypeAdapter(made)


def _readable(annotation: Any) -> Any:
    """The annotation in pydantic's form: a text in ``Annotated`` becomes a field's description."""
    if sys.version_info < (3, 12) and typing.is_typeddict(annotation):  # Pydantic refuses those of typing.
        from typing_extensions import TypedDict

        fields = {
            name: (Required if name in annotation.__required_keys__ else NotRequired)[_readable(hint)]
            for name, hint in typing.get_type_hints(annotation, include_extras=True).items()
        }
        make: Any = TypedDict
        made = make(annotation.__name__, fields)
        made.__doc__ = annotation.__doc__
        return made
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal or not arguments:
        return annotation
    inner = tuple(map(_readable, arguments))
    if origin is Annotated:
        texts = [Field(description=one) for one in inner if isinstance(one, str)]
        return Annotated[(inner[0], *texts[:1], *inner[1:])]
    if origin in (Union, types.UnionType):
        return Union[inner]  # noqa: UP007
    return origin[inner if inner[1:] else inner[0]]


class PlainSchemas(GenerateJsonSchema):
    """Schemas without titles of fields and null defaults: as a default, None often only marks what is absent."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012  as pydantic declares it

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False

    def get_default_value(self, schema: Any) -> Any:
        value = super().get_default_value(schema)
        return NoDefault if value is None else value


class _Generator(PlainSchemas):
    """Schemas for models: closed, described by docstrings, and without references, which not every server reads."""

    _definitions: Mapping[str, Any]

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        plain: Any = {key: value for key, value in schema.items() if key != "ref"}
        made = super().generate_inner(plain)
        made = {key: value for key, value in made.items() if key not in ("title", "discriminator")}
        if (cls := schema.get("cls")) is None:
            return made
        if made.get("description") == inspect.cleandoc(cls.__doc__ or ""):
            del made["description"]
        if "properties" in made:
            made.setdefault("additionalProperties", False)
        return _described(made, documentation_of(cls).parameters)

    def definitions_schema(self, schema: Any) -> JsonSchemaValue:
        self._definitions = {one["ref"]: one for one in schema["definitions"]}
        return self.generate_inner(schema["schema"])

    def definition_ref_schema(self, schema: Any) -> JsonSchemaValue:
        return self.generate_inner(self._definitions[schema["schema_ref"]])

    def field_is_present(self, field: Any) -> bool:
        return field.get("init", True) and super().field_is_present(field)

    def encode_default(self, dft: Any) -> Any:
        encoded = super().encode_default(dft)
        for field in dataclasses.fields(dft) if dataclasses.is_dataclass(dft) else ():
            if not field.init:
                encoded.pop(field.name, None)
        return encoded


def _described(schema: JsonSchemaValue, texts: Mapping[str, str]) -> JsonSchemaValue:
    """The schema with these texts as descriptions of properties that have none."""
    for name, one in schema.get("properties", {}).items():
        if name in texts:
            one.setdefault("description", texts[name])
    return schema


def _invocable(
    function: Callable[..., Any], adapter: TypeAdapter[Any], context: inspect.Parameter | None
) -> Callable[[Any, Mapping[str, Any]], Any]:
    positional = context is not None and context.kind is not context.KEYWORD_ONLY

    def call(call_context: Any, arguments: Mapping[str, Any]) -> Any:
        try:
            given = adapter.validate_python(ArgsKwargs((), dict(arguments)))
        except (TypeError, ValueError) as error:
            raise ValidationFault(f"The arguments do not fit together: {_reason(error)}") from error
        if context is None:
            return function(**given)
        return function(call_context, **given) if positional else function(**given, context=call_context)

    def call_plain(call_context: Any, arguments: Mapping[str, Any]) -> Any:
        return _as_json(call(call_context, arguments))

    async def call_async(call_context: Any, arguments: Mapping[str, Any]) -> Any:
        return _as_json(await call(call_context, arguments))

    body = getattr(function, "__call__", None)  # noqa: B004
    return call_async if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(body) else call_plain


def _as_json(value: Any) -> Any:
    """The value with models, dataclasses, enumerations, dates and the like as JSON, at any depth; others stay."""
    if type(value) in SCALARS:
        return value
    if is_table(value):
        return {key: _as_json(item) for key, item in value.items()}
    if is_list(value):
        return [_as_json(item) for item in value]
    # A ``Value``, such as a content, counts as a dataclass, and so does the class of one.
    record = dataclasses.is_dataclass(value) and not isinstance(value, type | Value)
    return to_jsonable_python(value) if record or isinstance(value, _CONVERTED) else value


def _reason(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg'].removeprefix('Value error, ')}" for one in found)
