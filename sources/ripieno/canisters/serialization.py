"""Conversion of frozen values to JSON mappings with a version, and back. The field types are the format.

::

    {
        "version": 1,
        "kind": "user",
        "timestamp": "2026-01-01T00:00:00+00:00",
        "content": [{"type": "text", "text": "Hi."}],
    }

Fields with their default value are left out. Bytes are base64, times are ISO 8601 with a zone. An unknown type, version
or field, and a value that does not fit its field, are errors that name the place. Only types that a field or the reader
names are created: stored text selects among them by the names of ``register``, never by a class.
"""

import base64
import collections.abc
import dataclasses
import datetime
import functools
import math
import types
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar

from frozendict import frozendict

from ripieno.canisters.canisters import (
    AssistantCanister,
    Canister,
    DocumentCanister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from ripieno.canisters.contents import AudioContent, DocumentContent, ImageContent, OpaqueContent, TextualContent
from ripieno.canisters.conversation import Conversation
from ripieno.exceptions import JsonInvalidity, SerializationInvalidity
from ripieno.jsonvalues import freeze, is_table, thaw

VERSION = 1
#: What the mapping of a registered type has beside its fields.
_TYPE = ("type",)
T = TypeVar("T")
#: A function that is applied to each free text, bytes or JSON before it is written; literals of a type stay unchanged.
Change: TypeAlias = Callable[[Any], Any]
#: The names of types that are stored by themselves or in unions.
_TYPES: dict[Any, str] = {
    UserCanister: "user",
    AssistantCanister: "assistant",
    SupervisorCanister: "supervisor",
    DocumentCanister: "document",
    InvocationCanister: "invocation",
    ResultCanister: "result",
    TextualContent: "text",
    ImageContent: "image",
    AudioContent: "audio",
    DocumentContent: "document",
    OpaqueContent: "opaque",
    Conversation: "conversation",
}


def register(types: Mapping[type, str]) -> None:
    """Names frozen dataclasses: those that are stored by themselves, and the members of unions."""
    _TYPES.update(types)


def serialize(value: Any, change: Change | None = None) -> dict[str, Any]:
    """The JSON mapping of a canister, a conversation, or another value of a registered type."""
    return {"version": VERSION, "type": _TYPES[type(value)], **_codec(type(value)).write(value, change)}


def deserialize(kind: type[T], mapping: Mapping[str, Any]) -> T:
    """The value of a registered type. Errors: ``SerializationInvalidity``."""
    fields, name = _unversioned(mapping), _TYPES[kind]
    found = fields.get("type")
    if found != name:
        _fail(name, f"its type is {found!r}, not {name!r}")
    value: T = _read_fields(kind, fields, name, _TYPE)
    return value


def deserialize_canister(mapping: Mapping[str, Any]) -> Canister:
    """The canister of a mapping. Errors: ``SerializationInvalidity``."""
    canister: Canister = _codec(Canister).read(_unversioned(mapping), "canister")
    return canister


def deserialize_conversation(mapping: Mapping[str, Any]) -> Conversation:
    """The conversation of a mapping, with empty namespaces. Errors: ``SerializationInvalidity``."""
    return deserialize(Conversation, mapping)


def write(kind: Any, value: Any, change: Change | None = None) -> Any:
    """The JSON of a value of a type, or of a union of registered types, as a part of a versioned mapping."""
    return _codec(kind).write(value, change)


def read(kind: Any, value: object, place: str) -> Any:
    """The inverse of ``write``. ``place`` names the value in errors. Errors: ``SerializationInvalidity``."""
    return _codec(kind).read(value, place)


def describe(value: Any) -> dict[str, Any]:
    """All fields of a frozen value as JSON, including defaults. For display; it cannot be read back."""
    members = _members(value.__class__)
    return {name: codec.write(getattr(value, name), None) for name, (_, codec) in members.items()}


def _unversioned(mapping: Mapping[str, Any]) -> dict[str, Any]:
    fields = dict(_mapping(mapping, "stored data"))
    version = fields.pop("version", None)
    if type(version) is not int or version != VERSION:
        _fail("stored data", f"its version is {version!r}; this is version {VERSION}")
    return fields


def _fail(place: str, what: str) -> NoReturn:
    raise SerializationInvalidity(f"{place}: {what}.")


def _mapping(value: object, place: str) -> Mapping[str, Any]:
    if not is_table(value):
        _fail(place, f"expected an object, not {type(value).__name__}")
    return value


class _Codec(typing.NamedTuple):
    """``read`` takes a JSON value and its place, for errors."""

    write: Callable[[Any, Change | None], Any]
    read: Callable[[Any, str], Any]


def _codec(hint: Any) -> _Codec:
    """The codec of a type."""
    found = _CODECS.get(hint)
    if found is None:
        found = _CODECS[hint] = _make_codec(hint)
    return found


def _make_codec(hint: Any) -> _Codec:
    origin, members = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return _Codec(_same, functools.partial(_read_literal, members))
    if origin in (frozendict, collections.abc.Mapping):
        return _mappings(origin, members[1])
    if origin is tuple:
        return _sequence(_codec(members[0]))
    if origin not in (types.UnionType, typing.Union):
        return _Codec(functools.partial(_write_fields, hint), functools.partial(_read_fields, hint))
    if type(None) in members:
        return _optional(_codec(typing.Union[tuple(one for one in members if one is not type(None))]))  # noqa: UP007
    return _choice({_TYPES[member]: member for member in members})


def _optional(inner: _Codec) -> _Codec:
    def write(value: Any, change: Change | None) -> Any:
        return None if value is None else inner.write(value, change)

    def read(value: Any, place: str) -> Any:
        return None if value is None else inner.read(value, place)

    return _Codec(write, read)


def _sequence(inner: _Codec) -> _Codec:
    def write(value: Any, change: Change | None) -> list[Any]:
        return [inner.write(item, change) for item in value]

    def read(value: Any, place: str) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            _fail(place, f"expected an array, not {type(value).__name__}")
        items = typing.cast("list[Any]", value)
        return tuple(inner.read(item, f"{place}[{index}]") for index, item in enumerate(items))

    return _Codec(write, read)


def _mappings(origin: Any, member: Any) -> _Codec:
    if member in (Any, object):
        return _Codec(_write_frozen if origin is frozendict else _write_json, _read_json)
    inner = _codec(member)

    def write(value: Mapping[str, Any], change: Change | None) -> dict[str, Any]:
        return {name: inner.write(item, change) for name, item in value.items()}

    def read(value: Any, place: str) -> frozendict[str, Any]:
        items = _mapping(value, place).items()
        return frozendict({name: inner.read(item, f"{place}[{name!r}]") for name, item in items})

    return _Codec(write, read)


def _choice(kinds: Mapping[str, Any]) -> _Codec:
    def write(value: Any, change: Change | None) -> dict[str, Any]:
        return {"type": _TYPES[type(value)], **_codec(type(value)).write(value, change)}

    def read(value: Any, place: str) -> Any:
        kind = _mapping(value, place).get("type")
        if not isinstance(kind, str) or kind not in kinds:
            _fail(place, f"there is no type {kind!r}; known are {', '.join(kinds)}")
        return _read_fields(kinds[kind], value, place, _TYPE)

    return _Codec(write, read)


@functools.cache
def _members(kind: Any) -> Mapping[str, tuple[Any, _Codec]]:
    """The default and the codec of each field of a dataclass. A look-up for each value would take half of the time."""
    hints = typing.get_type_hints(kind)
    return {field.name: (field.default, _codec(hints[field.name])) for field in dataclasses.fields(kind)}


def _write_fields(kind: Any, value: Any, change: Change | None) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for name, (default, codec) in _members(kind).items():
        part = getattr(value, name)
        if default is dataclasses.MISSING or (part is not default and part != default):
            written[name] = codec.write(part, change)
    return written


def _read_fields(kind: Any, value: Any, place: str, labels: Collection[str] = ()) -> Any:
    """The value of the fields, beside ``labels``, which are none."""
    stored = _mapping(value, place)
    members = _members(kind)
    parts: dict[str, Any] = {}
    for name, part in stored.items():
        if (member := members.get(name)) is not None:
            parts[name] = member[1].read(part, f"{place}.{name}")
        elif name not in labels:
            _fail(place, f"there is no field {name!r}; known are {', '.join(members)}")
    if len(parts) < len(members):
        for name, (default, _) in members.items():
            if default is dataclasses.MISSING and name not in parts:
                _fail(place, f"the field {name!r} is missing")
    try:
        return kind(**parts)
    except ValueError as error:
        raise SerializationInvalidity(f"{place}: {error}") from error


def _same(value: Any, _: Change | None) -> Any:
    return value


def _write_frozen(value: Any, change: Change | None) -> Any:
    return thaw(value) if change is None else change(thaw(value))


def _write_json(value: Any, change: Change | None) -> Any:
    return _write_frozen(freeze(value), change)


def _read_literal(members: tuple[Any, ...], value: Any, place: str) -> Any:
    if not isinstance(value, str) or value not in members:
        _fail(place, f"expected one of {', '.join(map(str, members))}, not {value!r}")
    return value


def _read_json(value: Any, place: str) -> frozendict[str, object]:
    frozen: frozendict[str, object] = _read_any(_mapping(value, place), place)
    return frozen


def _read_any(value: Any, place: str) -> Any:
    try:
        return freeze(value)
    except JsonInvalidity as error:
        raise SerializationInvalidity(f"{place}: {error}") from error


def _plain(kind: type, write: Callable[[Any, Change | None], Any] = _same) -> _Codec:
    def read(value: Any, place: str) -> Any:
        if type(value) is not kind:
            _fail(place, f"expected {kind.__name__}, not {type(value).__name__}")
        return value

    return _Codec(write, read)


def _read_float(value: Any, place: str) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        _fail(place, f"expected a number, not {value!r}")
    return float(value)


def _write_bytes(value: bytes, change: Change | None) -> str:
    return base64.b64encode(value if change is None else change(value)).decode()


def _read_bytes(value: Any, place: str) -> bytes:
    if not isinstance(value, str):
        _fail(place, f"expected base64 text, not {type(value).__name__}")
    try:
        return base64.b64decode(value, validate=True)
    except ValueError as error:
        raise SerializationInvalidity(f"{place}: the text is not base64 ({error}).") from error


def _write_time(value: datetime.datetime, _: Change | None) -> str:
    if value.tzinfo is None:
        _fail("timestamp", f"{value} has no time zone")
    return value.isoformat()


def _read_time(value: Any, place: str) -> datetime.datetime:
    try:
        time = datetime.datetime.fromisoformat(value)
    except (TypeError, ValueError):
        _fail(place, f"{value!r} is not an ISO 8601 time")
    if time.tzinfo is None:
        _fail(place, f"{value!r} has no time zone")
    return time


_CODECS: dict[Any, _Codec] = {
    Any: _Codec(_write_json, _read_any),
    str: _plain(str, lambda value, change: value if change is None else change(value)),
    int: _plain(int),
    bool: _plain(bool),
    float: _Codec(_same, _read_float),
    bytes: _Codec(_write_bytes, _read_bytes),
    datetime.datetime: _Codec(_write_time, _read_time),
}
