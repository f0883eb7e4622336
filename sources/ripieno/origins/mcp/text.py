"""Removal of invisible characters from foreign text: controls, directional overrides, and other hidden characters.

The tags of U+E0000 and directional overrides are used to hide instructions in descriptions.
"""

import re
from typing import Any

from ripieno.exceptions import InputError
from ripieno.jsonvalues import is_list, is_table

#: Terminal escape sequences; C0 and C1 without tab and newline; soft hyphens; marks and overrides of direction;
#: zero-width and invisible characters; variation selectors; tags; noncharacters and half surrogates.
_HIDDEN = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-~]"
    "|[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\ud800-\udfff\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
#: Keywords of JSON Schema that people and models read, and data in them that nothing is compared with.
_ANNOTATIONS = frozenset({"title", "description", "$comment"})
_SHOWN = frozenset({"default", "examples", "example"})
#: Keywords whose value is a table of schemas by name.
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
#: Keywords whose value is data that a value is compared with.
_DATA = frozenset({"enum", "const", "required", "dependentRequired"})


def clean(text: str) -> tuple[str, int]:
    """The text without hidden characters, and their number. A carriage return and newline become a newline."""
    return _HIDDEN.subn("", text.replace("\r\n", "\n"))


def clean_schema(schema: Any, *, whole: bool = False) -> tuple[Any, int]:
    """A JSON Schema without hidden characters, and the number of those removed.

    They are removed from titles, descriptions, defaults and examples. Choices of ``enum`` and optional properties that
    have some are left out, since their clean form means another value; each counts as one. Errors: ``InputError`` if
    they are anywhere else, where the schema would mean something else without them; with ``whole``, also in choices and
    names of properties.
    """
    if is_list(schema):
        pairs = [clean_schema(one, whole=whole) for one in schema]
        return [one for one, _ in pairs], sum(count for _, count in pairs)
    if not is_table(schema):
        return _refuse(schema, "a value"), 0
    cleaned: dict[str, Any] = {}
    total = 0
    for keyword, value in schema.items():
        cleaned[_refuse(keyword, "a keyword")], count = _clean_keyword(keyword, value, whole=whole)
        total += count
    return cleaned, total


def _clean_keyword(keyword: str, value: Any, *, whole: bool) -> tuple[Any, int]:
    if keyword in _ANNOTATIONS and isinstance(value, str):
        return clean(value)
    if keyword in _SHOWN:
        return _clean_data(value)
    if keyword in _NAMED and is_table(value):
        kept = {name: clean_schema(one, whole=whole) for name, one in value.items() if not clean(name)[1]}
        left_out = len(value) - len(kept)
        if whole and left_out:
            raise InputError("the name of a property has hidden characters")
        return {name: one for name, (one, _) in kept.items()}, left_out + sum(count for _, count in kept.values())
    if keyword == "enum" and is_list(value) and not whole:
        choices = [one for one in value if not _clean_data(one)[1]]
        if value and not choices:
            raise InputError("all choices of an enum have hidden characters")
        return choices, len(value) - len(choices)
    if keyword in _DATA:
        return _refuse(value, keyword), 0
    return clean_schema(value, whole=whole)


def _clean_data(value: Any) -> tuple[Any, int]:
    """A value with its texts and keys cleaned."""
    if isinstance(value, str):
        return clean(value)
    if is_table(value):
        pairs = [(clean(name), _clean_data(one)) for name, one in value.items()]
        return {name: one for (name, _), (one, _) in pairs}, sum(first + second for (_, first), (_, second) in pairs)
    if is_list(value):
        items = [_clean_data(one) for one in value]
        return [one for one, _ in items], sum(count for _, count in items)
    return value, 0


def _refuse(value: Any, where: str) -> Any:
    """Errors: ``InputError`` if a value has hidden characters."""
    if _clean_data(value)[1]:
        raise InputError(f"{where} has hidden characters")
    return value
