"""Quotations of tools' results in a score's texts: ``{label}``, ``{label.line:1}`` and others."""

import re
from collections.abc import Mapping
from typing import Any

from ripieno.canisters import ResultCanister
from ripieno.exceptions import JsonInvalidity
from ripieno.jsonvalues import encode, is_list, is_table, parse

LABEL = r"[a-zA-Z_][a-zA-Z0-9_-]*"
_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_FIELD = re.compile(rf"({LABEL})(?:\.(?:(line|lines):([1-9][0-9]{{0,5}})|(json):((?:/[^{{}}]*)?)|(error)))?")
_ERROR = re.compile(r"(?:\s*Error:)+\s*")

EXPECTED = "{label}, {label.line:1}, {label.lines:3}, {label.json:/pointer} or {label.error}; a brace is {{ or }}"


def labels_of(text: str) -> tuple[list[str], list[str]]:
    """The labels in a text, and its parts that are neither a reference nor a doubled brace."""
    labels: list[str] = []
    invalid: list[str] = []
    for token in _TOKEN.finditer(text):
        if token.group() in ("{{", "}}"):
            continue
        field = None if token[1] is None else _FIELD.fullmatch(token[1])
        if field is None:
            invalid.append(token.group())
        else:
            labels.append(field[1])
    return labels, invalid


def fill(text: str, results: Mapping[str, ResultCanister]) -> str:
    """The text with its references replaced by results, or by a note in brackets if something is missing."""

    def replace(token: re.Match[str]) -> str:
        if token.group() in ("{{", "}}"):
            return token.group()[0]
        field = None if token[1] is None else _FIELD.fullmatch(token[1])
        return token.group() if field is None else _quote(field, results)

    return _TOKEN.sub(replace, text)


def fill_all(value: Any, results: Mapping[str, ResultCanister]) -> Any:
    """A JSON value with all its strings filled; keys stay."""
    if isinstance(value, str):
        return fill(value, results)
    if is_table(value):
        return {name: fill_all(item, results) for name, item in value.items()}
    if is_list(value):
        return [fill_all(item, results) for item in value]
    return value


def strings_of(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if is_table(value):
        return [text for item in value.values() for text in strings_of(item)]
    return [text for item in value for text in strings_of(item)] if is_list(value) else []


def failed(result: ResultCanister | None) -> bool:
    """Whether a call failed. A wire without a mark for it shows it by the first word of the result's text."""
    return result is not None and (result.error is not None or result.text.startswith("Error:"))


def error_of(result: ResultCanister) -> str:
    """The first line of the error, without the word ``Error:``; empty for a good result."""
    if not failed(result):
        return ""
    return _ERROR.sub("", result.text, count=1).partition("\n")[0]


def _quote(field: re.Match[str], results: Mapping[str, ResultCanister]) -> str:
    label, lines, number, json, pointer, error = field.groups()
    result = results.get(label)
    if result is None:
        return f"[{label} has no result]"
    if error:
        return error_of(result) or f"[{label} did not fail]"
    if json:
        return _member(label, result.text, pointer)
    return _lines(label, result.text, int(number), alone=lines == "line") if lines else result.text


def _lines(label: str, text: str, number: int, *, alone: bool) -> str:
    lines = text.splitlines()
    if not alone:
        return "\n".join(lines[:number])
    return lines[number - 1] if number <= len(lines) else f"[{label} has {len(lines)} lines, and no line {number}]"


def _member(label: str, text: str, pointer: str) -> str:
    """The value at a JSON Pointer (RFC 6901) in a text: a string as it is, anything else as JSON."""
    try:
        value: Any = parse(text)
    except JsonInvalidity:
        return f"[{label} is not JSON]"
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if is_table(value) and name in value:
            value = value[name]
        elif is_list(value) and re.fullmatch(r"0|[1-9][0-9]{0,9}", name) and int(name) < len(value):
            value = value[int(name)]
        else:
            return f"[{label} has nothing at {pointer}]"
    return value if isinstance(value, str) else encode(value).decode()
