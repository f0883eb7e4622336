"""Bodies of requests: their storage as differences, and the comparison of two bodies.

A body grows with the conversation, so a cassette stores only changes: new values of keys, and for lists (messages,
tools) the number of items that stay and the items that follow.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ripieno.jsonvalues import canonical, is_list, is_table

#: Maximum characters of a value in a message.
_SHOWN = 120
#: Characters of it before the first difference.
_BEFORE = 20
_ABSENT = object()


def read_body(body: bytes) -> dict[str, Any]:
    """A body as JSON; other bodies become text."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {"text": body.decode("utf-8", "backslashreplace")}
    return dict(value) if is_table(value) else {"value": value}


def digest(body: Mapping[str, Any]) -> str:
    """SHA-256 over the canonical JSON of a body, hexadecimal."""
    try:
        data = canonical(body)
    except ValueError:
        data = json.dumps(body, sort_keys=True).encode()
    return hashlib.sha256(data).hexdigest()


def shorten(body: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """The changes in a body since the last one; ``lengthen`` reverses it."""
    new: dict[str, Any] = {"set": {}, "lists": {}, "gone": [name for name in before if name not in body]}
    for name, value in body.items():
        old = before.get(name, _ABSENT)
        if old is not _ABSENT and same(old, value):
            continue
        if is_list(value) and is_list(old):
            kept = next((at for at, pair in enumerate(zip(old, value, strict=False)) if not same(*pair)), len(old))
            kept = min(kept, len(value))
            new["lists"][name] = [kept, list(value[kept:])]
        else:
            new["set"][name] = value
    return {name: part for name, part in new.items() if part}


def lengthen(new: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """The complete body. Errors: ``ValueError`` for invalid changes."""
    gone, changed, lists = new.get("gone", []), new.get("set", {}), new.get("lists", {})
    if not (is_list(gone) and is_table(changed) and is_table(lists)):
        raise ValueError("invalid body")
    body = {name: value for name, value in before.items() if name not in gone}
    body.update(changed)
    for name, entry in lists.items():
        old = body.get(name, [])
        if not (is_list(entry) and is_list(old) and len(entry) == 2 and type(entry[0]) is int and is_list(entry[1])):
            raise ValueError(f"invalid list {name!r} in its body")
        body[name] = [*old[: max(entry[0], 0)], *entry[1]]
    return body


def same(one: object, other: object) -> bool:
    """Whether two JSON values are equal; 1, 1.0 and True differ."""
    if type(one) is not type(other):
        return False
    if is_table(one) and is_table(other):
        return one.keys() == other.keys() and all(same(item, other[key]) for key, item in one.items())
    if is_list(one) and is_list(other):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


def differ(recorded: object, now: object, place: str = "") -> str:
    """The first difference of two values, with its place."""
    if is_table(recorded) and is_table(now):
        for key in dict.fromkeys((*recorded, *now)):
            if not same(recorded.get(key, _ABSENT), now.get(key, _ABSENT)):
                return differ(recorded.get(key, _ABSENT), now.get(key, _ABSENT), f"{place}.{key}" if place else key)
    if is_list(recorded) and is_list(now):
        for at in range(max(len(recorded), len(now))):
            before = recorded[at] if at < len(recorded) else _ABSENT
            after = now[at] if at < len(now) else _ABSENT
            if not same(before, after):
                return differ(before, after, f"{place}[{at}]")
    before, after = map(_written, (recorded, now))
    # Of long values, the part that differs.
    alike = next((at for at, pair in enumerate(zip(before, after, strict=False)) if len({*pair}) > 1), 0)
    start = max(0, alike - _BEFORE) if max(len(before), len(after)) > _SHOWN else 0
    return f"{place or 'the body'}: recorded as {_excerpt(before, start)}, now {_excerpt(after, start)}"


def _written(value: object) -> str:
    return "nothing" if value is _ABSENT else json.dumps(value, ensure_ascii=False, default=repr)


def _excerpt(text: str, start: int) -> str:
    end = start + _SHOWN
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
