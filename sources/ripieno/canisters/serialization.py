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
from ripieno.jsonvalues import freeze, is_list, is_table, thaw

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

    def read_fields(fields: Mapping[str, Any]) -> Any:
        found = fields.get("type")
        if found != name:
            _fail(f"its type is {found!r}, not {name!r}")
        return _read_fields(kind, fields, _TYPE)

    value: T = _read_at(name, read_fields, fields)
    return value


def deserialize_canister(mapping: Mapping[str, Any]) -> Canister:
    """The canister of a mapping. Errors: ``SerializationInvalidity``."""
    canister: Canister = _read_at("canister", _codec(Canister).read, _unversioned(mapping))
    return canister


def deserialize_conversation(mapping: Mapping[str, Any]) -> Conversation:
    """The conversation of a mapping, with empty namespaces. Errors: ``SerializationInvalidity``."""
    return deserialize(Conversation, mapping)


def write(kind: Any, value: Any, change: Change | None = None) -> Any:
    """The JSON of a value of a type, or of a union of registered types, as a part of a versioned mapping."""
    return _codec(kind).write(value, change)


def read(kind: Any, value: object, place: str) -> Any:
    """The inverse of ``write``. ``place`` names the value in errors. Errors: ``SerializationInvalidity``."""
    return _read_at(place, _codec(kind).read, value)


def describe(value: Any) -> dict[str, Any]:
    """All fields of a frozen value as JSON, including defaults. For display; it cannot be read back."""
    members = _members(value.__class__)
    return {name: codec.write(getattr(value, name), None) for name, (_, codec) in members.items()}


def _unversioned(mapping: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = _read_at("stored data", _read_version, mapping)
    return fields


def _read_version(mapping: object) -> dict[str, Any]:
    fields = dict(_mapping(mapping))
    version = fields.pop("version", None)
    if type(version) is not int or version != VERSION:
        _fail(f"its version is {version!r}; this is version {VERSION}")
    return fields


class _Misfit(Exception):
    """A value that does not fit. Each level adds its place on the way out, so that values that fit cost no places."""

    def __init__(self, what: str, place: str = "") -> None:
        self.what = what
        self.place = place

    def within(self, place: str) -> "_Misfit":
        return _Misfit(self.what, f"{place}{self.place}")


def _fail(what: str) -> NoReturn:
    raise _Misfit(f"{what}.")


def _read_at(place: str, read: Callable[[Any], Any], value: object) -> Any:
    try:
        return read(value)
    except _Misfit as misfit:
        raise SerializationInvalidity(f"{place}{misfit.place}: {misfit.what}") from misfit.__cause__


def _mapping(value: object) -> Mapping[str, Any]:
    if not is_table(value):
        _fail(f"expected an object, not {type(value).__name__}")
    return value


class _Codec(typing.NamedTuple):
    """``write`` makes JSON of a value, and ``read`` the value of JSON. Errors of ``read``: ``_Misfit``."""

    write: Callable[[Any, Change | None], Any]
    read: Callable[[Any], Any]


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

    def read(value: Any) -> Any:
        return None if value is None else inner.read(value)

    return _Codec(write, read)


def _sequence(inner: _Codec) -> _Codec:
    def write(value: Any, change: Change | None) -> list[Any]:
        return [inner.write(item, change) for item in value]

    def read(value: Any) -> tuple[Any, ...]:
        if not is_list(value):
            _fail(f"expected an array, not {type(value).__name__}")
        found: list[Any] = []
        for item in value:
            try:
                found.append(inner.read(item))
            except _Misfit as misfit:
                raise misfit.within(f"[{len(found)}]") from misfit.__cause__
        return tuple(found)

    return _Codec(write, read)


def _mappings(origin: Any, member: Any) -> _Codec:
    if member in (Any, object):
        return _Codec(_write_frozen if origin is frozendict else _write_json, _read_json)
    inner = _codec(member)

    def write(value: Mapping[str, Any], change: Change | None) -> dict[str, Any]:
        return {name: inner.write(item, change) for name, item in value.items()}

    def read(value: Any) -> frozendict[str, Any]:
        found: dict[str, Any] = {}
        for name, item in _mapping(value).items():
            try:
                found[name] = inner.read(item)
            except _Misfit as misfit:
                raise misfit.within(f"[{name!r}]") from misfit.__cause__
        return frozendict(found)

    return _Codec(write, read)


def _choice(kinds: Mapping[str, Any]) -> _Codec:
    def write(value: Any, change: Change | None) -> dict[str, Any]:
        return {"type": _TYPES[type(value)], **_codec(type(value)).write(value, change)}

    def read(value: Any) -> Any:
        kind = _mapping(value).get("type")
        if not isinstance(kind, str) or kind not in kinds:
            _fail(f"there is no type {kind!r}; known are {', '.join(kinds)}")
        return _read_fields(kinds[kind], value, _TYPE)

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


def _read_fields(kind: Any, value: Any, labels: Collection[str] = ()) -> Any:
    """The value of the fields, beside ``labels``, which are none."""
    stored, members = _mapping(value), _members(kind)
    parts: dict[str, Any] = {}
    for name, part in stored.items():
        if (member := members.get(name)) is not None:
            try:
                parts[name] = member[1].read(part)
            except _Misfit as misfit:
                raise misfit.within(f".{name}") from misfit.__cause__
        elif name not in labels:
            _fail(f"there is no field {name!r}; known are {', '.join(members)}")
    if len(parts) < len(members):
        for name, (default, _) in members.items():
            if default is dataclasses.MISSING and name not in parts:
                _fail(f"the field {name!r} is missing")
    try:
        return kind(**parts)
    except ValueError as error:
        raise _Misfit(str(error)) from error


def _same(value: Any, _: Change | None) -> Any:
    return value


def _write_frozen(value: Any, change: Change | None) -> Any:
    return thaw(value) if change is None else change(thaw(value))


def _write_json(value: Any, change: Change | None) -> Any:
    return _write_frozen(freeze(value), change)


def _read_literal(members: tuple[Any, ...], value: Any) -> Any:
    if not isinstance(value, str) or value not in members:
        _fail(f"expected one of {', '.join(map(str, members))}, not {value!r}")
    return value


def _read_json(value: Any) -> frozendict[str, object]:
    frozen: frozendict[str, object] = _read_any(_mapping(value))
    return frozen


def _read_any(value: Any) -> Any:
    try:
        return freeze(value)
    except JsonInvalidity as error:
        raise _Misfit(str(error)) from error


def _plain(kind: type, write: Callable[[Any, Change | None], Any] = _same) -> _Codec:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            _fail(f"expected {kind.__name__}, not {type(value).__name__}")
        return value

    return _Codec(write, read)


def _read_float(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        _fail(f"expected a number, not {value!r}")
    return float(value)


def _write_bytes(value: bytes, change: Change | None) -> str:
    return base64.b64encode(value if change is None else change(value)).decode()


def _read_bytes(value: Any) -> bytes:
    if not isinstance(value, str):
        _fail(f"expected base64 text, not {type(value).__name__}")
    try:
        return base64.b64decode(value, validate=True)
    except ValueError as error:
        raise _Misfit(f"the text is not base64 ({error}).") from error


def _write_time(value: datetime.datetime, _: Change | None) -> str:
    if value.tzinfo is None:
        raise SerializationInvalidity(f"timestamp: {value} has no time zone.")
    return value.isoformat()


def _read_time(value: Any) -> datetime.datetime:
    try:
        time = datetime.datetime.fromisoformat(value)
    except (TypeError, ValueError):
        _fail(f"{value!r} is not an ISO 8601 time")
    if time.tzinfo is None:
        _fail(f"{value!r} has no time zone")
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
