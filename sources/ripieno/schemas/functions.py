"""A Python function as a tool."""

import dataclasses
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

from ripieno.exceptions import SchemaInvalidity, ValidationFault
from ripieno.schemas.annotations import Form, Reader, described, with_default
from ripieno.schemas.docstrings import documentation_of
from ripieno.schemas.schema import Schema


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What a function needs to be a tool.

    ``description`` is its docstring up to the descriptions of parameters. ``invocable(context, arguments)`` calls it
    with keywords, and gives it enumerations and dataclasses where it asks for them.
    """

    description: str
    schema: Schema
    invocable: Callable[[Any, Mapping[str, Any]], Any]


def function_schema(function: Callable[..., Any]) -> Schema:
    """The closed argument schema of a function, from annotations, defaults and docstring.

    A first parameter named ``context`` is left out. Descriptions come from ``Annotated[T, "…"]``, ``:param x:`` or an
    ``Args:`` section. Errors: ``SchemaInvalidity``, with function and parameter, for what cannot be expressed.
    """
    return define_function(function).schema


def define_function(function: Callable[..., Any]) -> Signature:
    """Schema, description and invocable of a function. Errors: as ``function_schema``."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    parameters = _parameters(function, name)
    context = next(iter(parameters.values()), None)
    if context is not None and context.name == "context":
        del parameters[context.name]
    else:
        context = None
    documentation = documentation_of(function)
    forms: dict[str, Form] = {}
    others: Form | None = None
    for parameter in parameters.values():
        form = described(_form(parameter, name), documentation.parameters.get(parameter.name))
        if parameter.kind is parameter.VAR_KEYWORD:
            others = form
        else:
            forms[parameter.name] = form
    return Signature(
        description=documentation.summary,
        schema=_schema(forms, others, [one.name for one in parameters.values() if _is_required(one)], name),
        invocable=_invocable(function, forms, others, context),
    )


def _parameters(function: Callable[..., Any], name: str) -> dict[str, inspect.Parameter]:
    """The parameters, with annotations that are no longer text."""
    body: Any = function if inspect.isroutine(function) else type(function).__call__
    try:
        parameters = inspect.signature(function, eval_str=True).parameters
        hints = (
            {} if hasattr(body, "__signature__") else typing.get_type_hints(inspect.unwrap(body), include_extras=True)
        )
    except (NameError, SyntaxError, TypeError, ValueError) as error:
        raise SchemaInvalidity(f"{name}: its signature cannot be read: {error}") from None
    return {key: one.replace(annotation=hints.get(key, one.annotation)) for key, one in parameters.items()}


def _is_required(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD


def _form(parameter: inspect.Parameter, function: str) -> Form:
    where = f"{function}, parameter {parameter.name!r}"
    if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
        raise SchemaInvalidity(f"{where}: arguments have names; a parameter that takes none cannot be filled.")
    if parameter.annotation is parameter.empty:
        raise SchemaInvalidity(f"{where}: it has no annotation. Annotate it; Any takes everything.")
    form = Reader(where).form(parameter.annotation)
    return form if parameter.default is parameter.empty else with_default(form, parameter.default)


def _schema(forms: Mapping[str, Form], others: Form | None, required: list[str], function: str) -> Schema:
    mapping: dict[str, Any] = {"type": "object", "properties": {name: form.schema for name, form in forms.items()}}
    if required:
        mapping["required"] = required
    if others is not None:
        mapping["additionalProperties"] = others.schema
    schema = Schema.of(mapping, closed=True)
    for problem in schema.validate(schema.complete({})):
        if problem.code != "missing_required":
            raise SchemaInvalidity(f"{function}: a default does not fit its annotation: {problem.message}")
    return schema


def _invocable(
    function: Callable[..., Any], forms: Mapping[str, Form], others: Form | None, context: inspect.Parameter | None
) -> Callable[[Any, Mapping[str, Any]], Any]:
    converting = {name: form for name, form in forms.items() if form.convert is not None}
    positional = context is not None and context.kind is not context.KEYWORD_ONLY

    def call(around: Any, arguments: Mapping[str, Any]) -> Any:
        given = dict(arguments)
        try:
            for name, value in given.items():
                form = converting.get(name, None if name in forms else others)
                if form is not None:
                    given[name] = form.value(value)
        except (TypeError, ValueError) as error:
            raise ValidationFault(f"The arguments do not fit together: {error}") from error
        if context is None:
            return function(**given)
        return function(around, **given) if positional else function(**given, context=around)

    async def call_later(around: Any, arguments: Mapping[str, Any]) -> Any:
        return await call(around, arguments)

    body = getattr(function, "__call__", None)  # noqa: B004
    return call_later if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(body) else call
