"""Removal of invisible characters from foreign text: controls, directional overrides, and other hidden characters.

The tags of U+E0000 and directional overrides are used to hide instructions in descriptions.
"""

import re
from typing import Any

from ripieno.jsonvalues import is_list, is_table

#: Terminal escape sequences; C0 and C1 without tab and newline; soft hyphens; marks and overrides of direction;
#: zero-width and invisible characters; variation selectors; tags; noncharacters and half surrogates.
_HIDDEN = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-~]"
    "|[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\ud800-\udfff\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
#: Keywords of JSON Schema that people and models read.
_ANNOTATIONS = frozenset({"title", "description", "$comment"})
#: Keywords whose value is a table of schemas by name.
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
#: Keywords whose value is data, left unchanged.
_DATA = frozenset({"enum", "const", "default", "examples", "required"})


def clean(text: str) -> tuple[str, int]:
    """The text without hidden characters, and their number. A carriage return and newline become a newline."""
    return _HIDDEN.subn("", text.replace("\r\n", "\n"))


def clean_schema(schema: Any) -> tuple[Any, int]:
    """A JSON Schema with clean titles and descriptions, and the number of removed characters."""
    if is_list(schema):
        pairs = [clean_schema(one) for one in schema]
        return [one for one, _ in pairs], sum(count for _, count in pairs)
    if not is_table(schema):
        return schema, 0
    cleaned: dict[str, Any] = {}
    total = 0
    for keyword, value in schema.items():
        cleaned[keyword], count = _clean_keyword(keyword, value)
        total += count
    return cleaned, total


def _clean_keyword(keyword: str, value: Any) -> tuple[Any, int]:
    if keyword in _ANNOTATIONS and isinstance(value, str):
        return clean(value)
    if keyword in _NAMED and is_table(value):
        named = {name: clean_schema(one) for name, one in value.items()}
        return {name: one for name, (one, _) in named.items()}, sum(count for _, count in named.values())
    return (value, 0) if keyword in _DATA else clean_schema(value)
