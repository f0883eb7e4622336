"""JSON values: types, tables and lists, freezing and thawing, strict parsing, encoding.

Arguments from a model or a client are parsed once, by :func:`parse`, which refuses text that two parsers could
read differently. They are stored frozen (:func:`freeze`), and tools get plain copies (:func:`thaw`). :func:`encode`
converts values to bytes.
"""

import hashlib
import json
import math
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias, TypeGuard, TypeVar, overload

import orjson
from frozendict import frozendict

from ripieno.exceptions import JsonInvalidity
from ripieno.lazy.expressions import expression

Item = TypeVar("Item")
#: A table without keys.
EMPTY: frozendict[str, Any] = frozendict()
_NO_TABLES = frozenset({str, int, float, bool, type(None), list, tuple, bytes})  # Asking for a mapping is slow.


def is_table(value: object) -> TypeGuard[Mapping[Any, Any]]:
    """Whether a value is a table. Its keys are strings in TOML; in a program they may be of any type."""
    return isinstance(value, dict) or (type(value) not in _NO_TABLES and isinstance(value, Mapping))


def is_list(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether a value is a list."""
    return isinstance(value, (list, tuple))


def listed(given: Iterable[Item]) -> tuple[Item, ...]:
    """Values that a program gives: a single text is not read letter by letter."""
    one: Any = given
    return (one,) if isinstance(given, str) else tuple(given)


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> frozendict[str, Any]:
    """``base`` with the keys of ``over``, level by level; lists are replaced. Values are as frozen as they were."""
    if not over:
        return base if isinstance(base, frozendict) else frozendict(base)
    merged = dict(base)
    for name, value in over.items():
        below = merged.get(name)
        merged[name] = merge(below, value) if is_table(value) and is_table(below) else value
    return frozendict(merged)


JsonScalar: TypeAlias = str | int | float | bool | None
#: Any JSON value, plain or frozen.
JsonValue: TypeAlias = "JsonScalar | Mapping[str, JsonValue] | Sequence[JsonValue]"
#: An immutable, hashable JSON value.
FrozenValue: TypeAlias = "JsonScalar | frozendict[str, FrozenValue] | tuple[FrozenValue, ...]"

MAX_BYTES = 256 * 1024
MAX_DEPTH = 64

_PLAIN: frozenset[object] = frozenset({str, int, bool, type(None)})
#: The types of values that have no parts.
SCALARS: frozenset[object] = _PLAIN | {float}
_OBJECTS: frozenset[object] = frozenset({dict, frozendict})
_ARRAYS: frozenset[object] = frozenset({list, tuple})
_kind_of: Callable[[Any], object] = type
_PASSTHROUGH = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
_ESCAPES = expression(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
_TOO_DEEP = "The value is nested too deeply, or contains itself."


@overload
def freeze(value: Mapping[str, Any]) -> frozendict[str, FrozenValue]: ...
@overload
def freeze(value: object) -> FrozenValue: ...
def freeze(value: Any) -> Any:
    """The immutable form: mappings become ``frozendict``, sequences ``tuple``, scalars stay.

    A value that is frozen already is returned itself. Subclasses of scalars (string enumerations, numbers of other
    libraries) become the plain type. Errors: ``JsonInvalidity``, with the place, for bytes, sets, other objects, keys
    that are not strings, NaN and infinities. Lone surrogates are not checked.
    """
    try:
        return value if _is_frozen(value) else _freeze(value)
    except TypeError:
        reason = _invalidity(value) or "The value is not JSON."
    except RecursionError:
        reason = _TOO_DEEP
    raise JsonInvalidity(reason)


def freeze_containers(value: Any) -> Any:
    """The value with plain dicts, lists and tuples immutable, at any depth; other objects stay, whatever they are.

    Errors: ``JsonInvalidity`` for a value that contains itself.
    """
    kind = _kind_of(value)
    try:
        if kind in _OBJECTS:
            return _frozen({key: freeze_containers(item) for key, item in value.items()})
        return tuple([freeze_containers(item) for item in value]) if kind in _ARRAYS else value
    except RecursionError:
        raise JsonInvalidity(_TOO_DEEP) from None


def _is_frozen(value: Any) -> bool:
    kind = _kind_of(value)
    if kind is frozendict:
        "".join(value)
        value = value.values()
    elif kind is not tuple:
        return kind in _PLAIN or (kind is float and math.isfinite(value))
    return all(type(item) in _PLAIN or _is_frozen(item) for item in value)


def _freeze(value: Any) -> Any:
    kind = _kind_of(value)
    if kind in _OBJECTS:
        "".join(value)  # The fastest check that every key is a string.
        return _frozen({key: item if type(item) in _PLAIN else _freeze(item) for key, item in value.items()})
    if kind in _ARRAYS:
        return tuple([item if type(item) in _PLAIN else _freeze(item) for item in value])
    if kind is float:
        if math.isfinite(value):
            return value
        raise TypeError
    if kind in _PLAIN:
        return value
    return _freeze_other(value)


def _constructor() -> Callable[[Any], Any]:
    """``frozendict``, without the Python code of its constructor where it has any (0.35 µs, not 1.1; measured)."""
    kind: Any = frozendict
    slot = getattr(kind, "_hash", None)
    if not (isinstance(slot, types.MemberDescriptorType) and issubclass(kind, dict)):
        return kind  # type: ignore[no-any-return]
    new: Callable[[Any], Any] = dict.__new__
    update, unset = dict[Any, Any].update, slot.__set__

    def construct(items: Any) -> Any:
        made = new(kind)
        update(made, items)
        unset(made, -1)
        return made

    return construct


_frozen = _constructor()


def _freeze_other(value: Any) -> Any:
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return _freeze(float.__float__(value))
    if is_table(value):
        return _freeze(dict(value))
    if _is_sequence(value):
        return _freeze(list(value))
    raise TypeError


def _invalidity(value: Any, place: str = "the value") -> str | None:
    """The reason why a value is not JSON, with its place; None if it is."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"At {place}: {value!r} is not a JSON number."
    if value is None or isinstance(value, str | int | float):
        return None
    items: Iterable[tuple[Any, Any]]
    if is_table(value):
        items = value.items()
        if odd := [key for key in value if not isinstance(key, str)]:
            return f"At {place}: the key {odd[0]!r} is not a string."
    elif _is_sequence(value):
        items = enumerate(value)
    else:
        return f"At {place}: {type(value).__name__} is not a JSON type."
    return next(filter(None, (_invalidity(item, f"{place}[{key!r}]") for key, item in items)), None)


def _is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview)


@overload
def thaw(value: Mapping[str, Any]) -> dict[str, Any]: ...
@overload
def thaw(value: object) -> Any: ...
def thaw(value: Any) -> Any:
    """A copy of plain dicts and lists, which the caller may change."""
    kind = _kind_of(value)
    if kind in _OBJECTS:
        return {key: item if type(item) in SCALARS else thaw(item) for key, item in value.items()}
    if kind in _ARRAYS:
        return [item if type(item) in SCALARS else thaw(item) for item in value]
    if is_table(value):
        return {key: thaw(item) for key, item in value.items()}
    return value


def parse(text: str | bytes, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> JsonValue:
    """Parses one JSON document strictly into plain dicts and lists. Integers are exact.

    Errors: ``JsonInvalidity``, with the position if known, for text that is not JSON or follows it, duplicate keys,
    NaN and infinities (also numbers that overflow to one), lone surrogates, invalid UTF-8, a byte order mark, more
    than ``max_bytes`` bytes, nesting deeper than ``max_depth``, integers beyond Python's limit of digits.
    """
    if not isinstance(text, str):
        text = _decode(text, max_bytes)
    if len(text) > max_bytes or not text.isascii():
        _check_characters(text, max_bytes)
    start = len(text) - len(text.lstrip(_SPACES)) if text[:1] in _SPACES else 0
    value: Any
    try:
        value, end = _decoder.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise _syntax_error(error, text) from None
    except JsonInvalidity:
        raise
    except ValueError:
        raise JsonInvalidity("An integer has more digits than can be read.") from None
    except RecursionError:
        raise JsonInvalidity(_too_deep(max_depth)) from None
    if end != len(text) and (rest := text[end:].lstrip(_SPACES)):
        position = len(text) - len(rest)
        raise JsonInvalidity(f"Text follows the JSON value, at character {position}.", position=position)
    if "\\u" in text:
        _check_escapes(text)
    if len(text) > 2 * max_depth and text.count("[") + text.count("{") > max_depth:
        _check_depth(value, max_depth)
    return value  # type: ignore[no-any-return]


_SPACES = " \t\n\r"


def _decode(data: bytes, max_bytes: int) -> str:
    if len(data) > max_bytes:
        raise JsonInvalidity(f"The text has {len(data)} bytes; at most {max_bytes} are read.")
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise JsonInvalidity(f"The text is not UTF-8: byte {error.start} is invalid.", position=error.start) from None


def _check_characters(text: str, max_bytes: int) -> None:
    """Checks size in bytes, byte order mark and lone surrogates of a text that is long or not ASCII."""
    size = len(text)
    if size <= max_bytes:
        if text.startswith("\ufeff"):
            raise JsonInvalidity("The text begins with a byte order mark. Remove it.", position=0)
        try:
            size = len(text.encode())
        except UnicodeEncodeError as error:
            raise _lone_surrogate(text[error.start], error.start) from None
    if size > max_bytes:
        raise JsonInvalidity(f"The text has {size} bytes or more; at most {max_bytes} are read.")


def _check_escapes(text: str) -> None:
    r"""Refuses ``\ud800`` to ``\udfff`` that are not pairs. Backslashes occur only in strings."""
    high: re.Match[str] | None = None
    for match in _ESCAPES.finditer(text):
        unit = int(match[1], 16) if match[1] else 0
        if high is not None and not (match.start() == high.end() and 0xDC00 <= unit <= 0xDFFF):
            break
        if high is not None:
            high = None
        elif 0xD800 <= unit <= 0xDBFF:
            high = match
        elif 0xDC00 <= unit <= 0xDFFF:
            raise _lone_surrogate(match[0], match.start())
    if high is not None:
        raise _lone_surrogate(high[0], high.start())


def _check_depth(value: Any, max_depth: int) -> None:
    """Checks the depth level by level, so that no depth exhausts the stack."""
    level = [value]
    for _ in range(max_depth):
        level = [item for container in level for item in _children(container) if type(item) not in SCALARS]
        if not level:
            return
    raise JsonInvalidity(_too_deep(max_depth))


def _children(value: Any) -> Iterable[Any]:
    if is_table(value):
        return value.values()
    return value if _is_sequence(value) and not isinstance(value, str) else ()


def _too_deep(max_depth: int) -> str:
    return f"Containers are nested too deeply: more than {max_depth} levels."


def _lone_surrogate(surrogate: str, position: int) -> JsonInvalidity:
    text = f"A lone surrogate, {surrogate!a}, at character {position}: half of a character."
    return JsonInvalidity(text, position=position)


def _syntax_error(error: json.JSONDecodeError, text: str) -> JsonInvalidity:
    near = f": {text[error.pos : error.pos + 20]!r}" if error.pos < len(text) else ", where the text ends"
    return JsonInvalidity(f"{error.msg} at character {error.pos} of the JSON text{near}.", position=error.pos)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        double = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise JsonInvalidity(f"The key {double[:80]!r} occurs twice in one object.")
    return result


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise JsonInvalidity(f"The number {text[:80]} is too large.")
    return value


def _constant(name: str) -> NoReturn:
    raise JsonInvalidity(f"{name} is not JSON.")


_decoder = json.JSONDecoder(object_pairs_hook=_object, parse_float=_number, parse_constant=_constant)


def encode(value: object) -> bytes:
    """Compact JSON, in UTF-8, of a plain or frozen value; keys keep their order, integers are exact.

    Errors: ``JsonInvalidity`` for a value that is not JSON.
    """
    return _encode(value, _PASSTHROUGH, sort=False)


def encode_parsed(value: object) -> bytes:
    """``encode`` for parsed values and parts of them: without the check for NaN and infinity."""
    try:
        return orjson.dumps(value, option=_PASSTHROUGH)
    except orjson.JSONEncodeError:
        return _encode_slowly(value, sort=False)


def canonical(value: object) -> bytes:
    """Equal bytes for equal values, frozen or plain, with keys sorted by code point. For hashing, not for sending.

    ``1`` and ``1.0`` are different values, and so are ``0.0`` and ``-0.0``.
    """
    return _encode(value, _PASSTHROUGH | orjson.OPT_SORT_KEYS, sort=True)


def _encode(value: object, options: int, *, sort: bool) -> bytes:
    try:
        encoded = orjson.dumps(value, option=options)
    except orjson.JSONEncodeError:
        return _encode_slowly(value, sort=sort)
    if b"null" in encoded:  # Orjson writes this also for NaN and infinities.
        _check_finite(value)
    return encoded


def _encode_slowly(value: object, *, sort: bool) -> bytes:
    """Encodes integers beyond 64 bits and uncommon mappings, and finds the reason for a refusal."""
    frozen = freeze(value)
    try:
        text = json.dumps(frozen, ensure_ascii=False, separators=(",", ":"), sort_keys=sort)
        return text.encode()
    except UnicodeEncodeError as error:
        raise _lone_surrogate(error.object[error.start], error.start) from None
    except RecursionError:
        raise JsonInvalidity(_TOO_DEEP) from None
    except ValueError:
        raise JsonInvalidity("An integer has more digits than can be written.") from None


def _check_finite(value: object) -> None:
    try:
        _finite.encode(value)
    except (TypeError, ValueError, RecursionError):
        reason = _invalidity(value)
        if reason is not None:
            raise JsonInvalidity(reason) from None


_finite = json.JSONEncoder(allow_nan=False, check_circular=False, ensure_ascii=False)


def digest(value: object) -> str:
    """The SHA-256 of a value's canonical JSON, in hexadecimal digits. Errors: ``JsonInvalidity``."""
    return hashlib.sha256(canonical(value)).hexdigest()
