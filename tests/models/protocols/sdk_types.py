"""Whether a value is what an SDK's own parameter types say, down to every key."""

import functools
import json
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import google.genai.types
import pydantic
import typing_extensions


def problems(value: object, hint: Any, place: str = "it") -> list[str]:
    """What is wrong with a plain JSON value; nothing when it fits. Unknown keys are wrong, too.

    pydantic has the last word about values; it passes over unknown keys, so these are looked for first.
    """
    found = _unknown(value, hint, place)
    if found:
        return found
    try:
        _exhaust(_adapter(hint).validate_python(value))
    except pydantic.ValidationError as error:
        return [f"{place}: {one['loc']}: {one['msg']}" for one in error.errors()[:5]]
    return []


#: The body of a request of the generateContent wire, whose SDK has models instead.
GENERATE_CONTENT: Mapping[str, Any] = {
    "contents": list[google.genai.types.Content],
    "systemInstruction": google.genai.types.Content,
    "tools": list[google.genai.types.Tool],
    "toolConfig": google.genai.types.ToolConfig,
    "generationConfig": google.genai.types.GenerationConfig,
}


def model_problems(body: Mapping[str, Any], hints: Mapping[str, Any]) -> list[str]:
    """What is wrong with a body, each of whose members has a model that forbids what it does not know."""
    found = [f"it has the unknown key {key!r}" for key in body if key not in hints]
    for key, hint in hints.items():
        try:
            if key in body:
                _adapter(hint).validate_json(json.dumps(body[key]))
        except pydantic.ValidationError as error:
            found += [f"{key}: {one['loc']}: {one['msg']}" for one in error.errors()[:5]]
    return found


@functools.cache
def _adapter(hint: Any) -> pydantic.TypeAdapter[Any]:
    """Kept: it is slow to make, and must outlive the iterators that it gives."""
    return pydantic.TypeAdapter(hint)


@functools.cache
def _keys(hint: Any) -> Mapping[str, Any]:
    """The types of a typed dictionary's keys."""
    return typing_extensions.get_type_hints(hint)


def _exhaust(value: object) -> None:
    """Iterables are validated while they are iterated."""
    if isinstance(value, Mapping):
        for one in value.values():
            _exhaust(one)
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for one in value:
            _exhaust(one)


def _unknown(value: object, hint: Any, place: str) -> list[str]:  # noqa: PLR0911  one line a kind of type
    """Keys that no alternative of the type knows, and keys that are missing."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Annotated, typing_extensions.Required, typing.Required):
        return _unknown(value, arguments[0], place)
    if origin is typing.Union:
        tried = [_unknown(value, one, place) for one in arguments if _may_be(value, one)]
        return min(tried, key=len, default=[f"{place}: {value!r} fits nothing of {hint}"])
    if typing_extensions.is_typeddict(hint):
        if not isinstance(value, dict):
            return [f"{place}: {value!r} is no object"]
        keys = _keys(hint)
        if getattr(hint, "__pydantic_config__", {}).get("extra") == "allow":
            return []
        found = [f"{place} has the unknown key {key!r}" for key in value if key not in keys]
        found += [f"{place} lacks {key!r}" for key in hint.__required_keys__ if key not in value]
        return found + [
            one for key, inner in value.items() if key in keys for one in _unknown(inner, keys[key], f"{place}.{key}")
        ]
    if isinstance(value, list) and arguments:
        return [one for n, inner in enumerate(value) for one in _unknown(inner, arguments[0], f"{place}[{n}]")]
    return [] if _may_be(value, hint) else [f"{place}: {value!r} is not {hint}"]


def _may_be(value: object, hint: Any) -> bool:  # noqa: PLR0911  one line a kind of type
    """Whether a value has the kind of a type: what tells the members of a union apart."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Annotated, typing_extensions.Required, typing.Required):
        return _may_be(value, arguments[0])
    if origin is typing.Union:
        return any(_may_be(value, one) for one in arguments)
    if origin is Literal:
        return value in arguments
    if typing_extensions.is_typeddict(hint):
        keys = _keys(hint)
        tags = [key for key in ("type", "role") if key in keys and isinstance(value, dict)]
        return isinstance(value, dict) and all(key not in value or _may_be(value[key], keys[key]) for key in tags)
    if isinstance(value, dict):
        return origin in (dict, Mapping) or hint in (object, Any)
    if isinstance(value, list):
        return bool(arguments) and origin not in (dict, Mapping)
    kind = origin or hint
    return hint in (object, Any) or (isinstance(kind, type) and isinstance(value, kind)) or _is_number(value, kind)


def _is_number(value: object, kind: Any) -> bool:
    return kind is float and isinstance(value, int) and not isinstance(value, bool)
