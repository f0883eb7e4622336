"""Names and arguments in the text of a call: strict JSON, and values between tags by their schema."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ripieno.exceptions import JsonInvalidity
from ripieno.jsonvalues import EMPTY, encode, is_list, is_table, parse
from ripieno.models.protocols.text_calls.grammar import Balanced, Tools, Verdict

#: A name, and its arguments as JSON or as unreadable text.
Found: TypeAlias = tuple[str, str]

_NAME = re.compile(r'"name"\s*:\s*"([^"\\\s]{1,128})"')
_BETWEEN = re.compile(r"[\s,;]*")
_ARGUMENTS = ("arguments", "parameters", "args")
_LITERALS: Mapping[str, Any] = {"True": True, "False": False, "None": None}


def objects_in(text: str) -> Sequence[Found] | None:
    """The calls in ``{"name", "arguments"}``, several of them, or a list; None if there are none.

    ``parameters`` is accepted for ``arguments``, and both in a ``function``. In invalid JSON, the first name counts,
    with all of the text as arguments, so that the model gets an error.
    """
    try:
        value = parse(text)
    except JsonInvalidity:
        objects = _apart(text)
        each = [objects_in(one) for one in objects] if len(objects) > 1 else [None]
        if None not in each:
            return [call for calls in each for call in calls or ()]
        name = _NAME.search(text)
        return None if name is None else [(name[1], text.strip())]
    tables = value if is_list(value) else [value]
    calls = [_call_in(table) if is_table(table) else None for table in tables]
    found = [call for call in calls if call is not None]
    return found if found and len(found) == len(calls) else None


def _apart(text: str) -> Sequence[str]:
    """Consecutive objects or lists, with blanks, commas or semicolons between them; empty for any other text."""
    objects: list[str] = []
    at = 0
    while (start := _BETWEEN.match(text, at)) and start.end() < len(text):
        at = start.end()
        end, verdict = Balanced().feed(text, at, final=True) if text[at] in "{[" else (at, Verdict.NONE)
        if verdict is not Verdict.ENDED:
            return ()
        objects.append(text[at:end])
        at = end
    return objects


def _call_in(table: Mapping[str, Any]) -> Found | None:
    inner = table.get("function")
    if is_table(inner):
        table = inner
    name = table.get("name") or (inner if isinstance(inner, str) else None)
    if not isinstance(name, str) or not name.strip():
        return None
    arguments = next((table[key] for key in _ARGUMENTS if key in table), None)
    return name.strip(), "{}" if arguments is None else text_of(arguments)


def fits(text: str, tools: Tools) -> Sequence[Found] | None:
    """The call of a known tool in an object without other keys; otherwise None."""
    try:
        value = parse(text)
    except JsonInvalidity:
        return None
    if not is_table(value) or not value.keys() <= {"name", "type", "id", *_ARGUMENTS} or value.get("name") not in tools:
        return None
    arguments = [value[key] for key in _ARGUMENTS if key in value]
    return objects_in(text) if len(arguments) == 1 and is_table(arguments[0]) else None


def text_of(arguments: object) -> str:
    """Arguments as text, which models may also send as JSON in a text."""
    if isinstance(arguments, str):
        return arguments
    try:
        return encode(arguments).decode()
    except JsonInvalidity:
        return repr(arguments)


def pairs(name: str, given: Iterable[tuple[str, str]], tools: Tools, raw: str) -> Found:
    """A call from parameters and their texts. A duplicate parameter makes the arguments unreadable."""
    properties = tools.get(name, EMPTY).get("properties")
    values: dict[str, Any] = {}
    for key, text in given:
        if key in values:
            return name, raw
        schema = properties.get(key) if is_table(properties) else None
        values[key] = typed(text, schema)
    return name, text_of(values)


def typed(text: str, schema: object) -> Any:
    """The value of a text: a text if the schema allows one or has no type, otherwise JSON.

    A text that is not valid JSON stays text, and validation reports it.
    """
    kinds = _kinds(schema)
    bare = text.strip()
    if "null" in kinds and bare in ("null", "None"):
        return None
    if not kinds or "string" in kinds:
        return text
    if bare in _LITERALS:
        return _LITERALS[bare]
    try:
        return parse(bare)
    except JsonInvalidity:
        return text


def _kinds(schema: object) -> frozenset[str]:
    """The types that the top level of a schema allows."""
    if not is_table(schema):
        return frozenset()
    kind = schema.get("type")
    kinds = {one for one in (kind if is_list(kind) else [kind]) if isinstance(one, str)}
    for key in ("anyOf", "oneOf"):
        choices = schema.get(key)
        for choice in choices if is_list(choices) else ():
            kinds |= _kinds(choice) or {"string"}
    kinds |= {"string" if isinstance(value, str) else "number" for value in schema.get("enum") or ()}
    return frozenset(kinds)
