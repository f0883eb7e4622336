"""The JSON Schemas of ``[arguments]`` and ``[results]``, with checks beyond JSON Schema.

JSON Schema ignores unknown keywords, so a misspelling such as ``requierd`` would have no effect. In our own files an
unknown keyword is an error, and so is a required argument without a property.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ripieno.descriptors.reader.kinds import INVALID, plain, refuse
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems, dotted, spelling
from ripieno.exceptions import SchemaInvalidity
from ripieno.jsonvalues import is_list, is_table
from ripieno.schemas import Schema
from ripieno.schemas.description import types_of
from ripieno.schemas.graph import HOLDING, parts
from ripieno.values import Value

TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_OTHERS = frozenset(
    {
        *("type", "enum", "const", "required", "format", "pattern", "minLength", "maxLength"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minItems", "maxItems", "uniqueItems", "minContains", "maxContains"),
        *("minProperties", "maxProperties", "dependentRequired", "contentEncoding", "contentMediaType"),
        *("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"),
        *("$schema", "$id", "$anchor", "$ref", "$dynamicRef", "$dynamicAnchor", "$vocabulary", "$comment"),
    }
)
#: Keywords that may declare further properties.
_ELSEWHERE = ("patternProperties", "allOf", "anyOf", "oneOf", "$ref", "$dynamicRef", "if", "dependentSchemas")
#: The keywords of draft 2020-12, and ``definitions``, the older name of ``$defs``.
KEYWORDS = (HOLDING - {"additionalItems", "dependencies"}) | _OTHERS


class ArgumentSchema(Value, kw_only=True):
    """A JSON Schema, stored frozen. Arguments are closed and always an object; results need not be."""

    arguments: bool
    expected: str = "a JSON Schema"

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if not is_table(value):
            return refuse(self, value, path, problems)
        frozen = plain(value, path, problems)
        if frozen is INVALID:
            return INVALID
        before = len(problems)
        _inspect(value, path, problems)
        if self.arguments and len(problems) == before and value.get("type") != "object":
            problems.add((*path, "type"), "arguments must be an object", 'Write: type = "object".')
        try:
            if self.arguments:
                Schema.of(frozen, closed=True)
            else:
                Schema.of_results(frozen)
        except SchemaInvalidity as invalidity:
            _explain(invalidity, value, path, problems)
        return INVALID if len(problems) > before else frozen

    def schema(self) -> dict[str, Any]:
        any_schema = {"type": ["object", "boolean"]}
        names = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
        keywords: dict[str, Any] = {name: {} for name in sorted(KEYWORDS)}
        keywords |= {"properties": {"type": "object", "additionalProperties": any_schema}, "required": names}
        if self.arguments:
            keywords["type"] = {"const": "object"}
        return {
            "type": "object",
            "properties": keywords,
            "patternProperties": {"^x-": True},
            "additionalProperties": False,
            **({"required": ["type"]} if self.arguments else {}),
        }


def _explain(invalidity: SchemaInvalidity, value: Mapping[str, Any], path: Path, problems: Problems) -> None:
    """Adds all errors of a refused schema, except at places where one is reported."""
    from ripieno.schemas.refused_schemas import explain_refusal  # It imports jsonschema.

    refusals = () if invalidity.pointer == "/$schema" else explain_refusal(value)
    for one in refusals:
        at = (*path, *one.path)
        if not problems.has(at):
            problems.add(at, f"{dotted(at)} {one.predicate}", one.hint)
    at = (*path, *_follow(invalidity.pointer, value))
    if not refusals and not problems.has(at):
        problems.add(at, str(invalidity).removesuffix(f" (at {invalidity.pointer})"))


def check_value(arguments: Mapping[str, Any], name: str, value: Any, key: str) -> Iterator[tuple[str, str]]:
    """A message and a hint for each reason why a configured value does not fit the schema of its argument.

    ``key`` is its key in the file, such as ``default``. The schema of the arguments is valid.
    """
    schema = arguments["properties"][name]
    whole = Schema.of({keyword: one for keyword, one in arguments.items() if keyword != "required"})
    for problem in whole.validate({name: value}):
        if problem.parameter.partition(".")[0].partition("[")[0] != name:
            continue  # Of the arguments that are not configured.
        hint = ""
        if is_table(schema) and problem.parameter == name:
            from ripieno.schemas.refused_schemas import nearest_form

            if isinstance(value, str) and is_list(choices := schema.get("enum")):
                hint = spelling(value, [one for one in choices if isinstance(one, str)])
            elif problem.code == "invalid_type":
                hint = nearest_form(key, types_of(schema), value)
        yield problem.message.removesuffix("."), hint


def _inspect(schema: Mapping[str, Any], path: Path, problems: Problems) -> None:
    for keyword, value in schema.items():
        if keyword in _OTHERS:
            continue
        at = (*path, keyword)
        if keyword not in KEYWORDS:
            if not keyword.startswith("x-"):
                hint = spelling(keyword, KEYWORDS) or _advise_property(keyword, value)
                problems.add(at, f"JSON Schema has no keyword {keyword!r}", hint)
            continue
        for key, inner in parts(keyword, value):
            if is_table(inner):
                _inspect(inner, at if key is None else (*at, key), problems)
    _inspect_type(schema.get("type"), path, problems)
    _inspect_required(schema, path, problems)


def _advise_property(name: str, value: Any) -> str:
    """Advice for what was probably meant as an argument; empty if it does not look like one."""
    kind = value.get("type") if is_table(value) else value
    known = isinstance(kind, str) and kind in TYPES
    return f'An argument stands under properties: properties.{name} = {{ type = "{kind}" }}' if known else ""


def _inspect_type(value: Any, path: Path, problems: Problems) -> None:
    for name in (value,) if isinstance(value, str) else value if is_list(value) else ():
        if isinstance(name, str) and name not in TYPES:
            problems.add((*path, "type"), f"JSON Schema has no type {name!r}", spelling(name, TYPES))


def _inspect_required(schema: Mapping[str, Any], path: Path, problems: Problems) -> None:
    required = schema.get("required")
    if isinstance(required, bool):
        problems.add(
            (*path, "required"),
            "required must be a list of names, not true or false",
            "Name the required arguments in the table that has the properties.",
        )
    properties = schema.get("properties")
    open_ended = schema.get("additionalProperties") or not schema.keys().isdisjoint(_ELSEWHERE)
    if not is_list(required) or not is_table(properties) or open_ended:
        return
    for index, name in enumerate(required):
        if isinstance(name, str) and name not in properties:
            at = (*path, "required", index)
            problems.add(at, f"{name!r} is required but is not a property", spelling(name, properties))


def _follow(pointer: str, value: Any) -> Path:
    """A JSON Pointer as a path, as far as it exists in the value."""
    path: Path = ()
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if is_table(value) and name in value:
            path, value = (*path, name), value[name]
        elif is_list(value) and name.isdecimal() and int(name) < len(value):
            path, value = (*path, int(name)), value[int(name)]
        else:
            break
    return path
