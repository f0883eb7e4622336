"""Converts the return value of an invocable to contents and limits their size."""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard

from frozendict import frozendict

from ripieno.canisters import AudioContent, Content, DocumentContent, ImageContent, OpaqueContent, TextualContent
from ripieno.canisters.contents import legible
from ripieno.canisters.faults import Change, Fault
from ripieno.ensembles import Outcome
from ripieno.exceptions import JsonInvalidity
from ripieno.jsonvalues import encode, freeze

_CONTENTS = (TextualContent, ImageContent, AudioContent, DocumentContent, OpaqueContent)
#: Stores a text that is cut after that many bytes; returns how to read the rest, or "" if it could not be stored.
Keep: TypeAlias = Callable[[str, int], str]
#: The limit of binary contents, such as images, as a multiple of the limit of text.
_DATA_FACTOR = 16


def contents_of(value: Any) -> tuple[Content, ...]:
    """The contents of a string, JSON, a content, a sequence of contents, or an ``Outcome``.

    None is no content. Errors: ``TypeError`` for anything else; it names the type.
    """
    if isinstance(value, Outcome):
        value = value.content
    if isinstance(value, str):
        return (TextualContent(text=value if value.isascii() else legible(value)),)
    if value is None:
        return ()
    if isinstance(value, _CONTENTS):
        return (_checked(value),)
    if _are_contents(value):
        return tuple([_checked(one) for one in value])
    try:
        frozen = freeze(value)
    except JsonInvalidity as error:
        raise TypeError(
            f"An invocable returns a string, JSON, contents or an Outcome, not {type(value).__name__}: {error} Convert"
            ' a dataclass with dataclasses.asdict, a pydantic model with model_dump(mode="json"), and a date with str.'
        ) from error
    try:
        text = encode(frozen).decode()
    except JsonInvalidity:
        # Names of files that are not UTF-8 have lone surrogates, which JSON can escape.
        text = json.dumps(frozen, separators=(",", ":"))
    return (TextualContent(text=text, mime_type="application/json"),)


def _are_contents(value: object) -> TypeGuard[Sequence[Content]]:
    ones: Any = value
    return isinstance(value, Sequence) and len(ones) > 0 and all(isinstance(one, _CONTENTS) for one in ones)


def _checked(content: Any) -> Content:
    """The content with its field types checked: it is stored, compared, hashed and encoded later."""
    if isinstance(content, OpaqueContent):
        _check(content, "data", Mapping)
        return content
    _check(content, "mime_type", str)
    if isinstance(content, TextualContent):
        _check(content, "text", str)
        return content if content.text.isascii() else dataclasses.replace(content, text=legible(content.text))
    if isinstance(content, DocumentContent) and content.url is not None:
        _check(content, "url", str)
    else:
        _check(content, "data", bytes)
    checked: Content = content
    return checked


def _check(content: Any, name: str, kind: type) -> None:
    value = getattr(content, name)
    if not isinstance(value, kind):
        raise TypeError(f"{name} of {type(content).__name__} is {type(value).__name__}, not {kind.__name__}.")


def changes_of(outcome: Outcome, seen: Sequence[Change]) -> tuple[Change, ...]:
    """The changes that a tool reports, and those of other paths that were ``seen``.

    Errors: ``TypeError`` for anything but a sequence of changes.
    """
    changes: tuple[Any, ...] = tuple(outcome.changes)
    for change in changes:
        if not isinstance(change, Change):
            raise TypeError(f"changes of Outcome has a {type(change).__name__} among them, not only Change.")
    if not seen:
        return changes
    reported = {change.data.get("path") for change in changes} - {None}
    return (*changes, *(one for one in seen if one.data.get("path") not in reported))


def structure_of(value: object) -> object | None:
    """The JSON to which the result schema applies; None for text and contents."""
    if isinstance(value, Outcome):
        value = value.content
    if isinstance(value, (str, *_CONTENTS)) or _are_contents(value):
        return None
    return value


def bound(contents: tuple[Content, ...], limit: int, keep: Keep | None = None) -> tuple[tuple[Content, ...], int, bool]:
    """The contents with at most ``limit`` bytes of text, the original size in bytes, and whether any were left out.

    Head and tail stay; a line between them states how much is missing, and how to read it if ``keep`` stored the text.
    Images and other binary contents have their own limit; one beyond it is replaced by a line of text.
    """
    room, data_room, total = limit, limit * _DATA_FACTOR, 0
    bounded: list[Content] = []
    cut = False
    for content in contents:
        kept: Content = content
        size = size_of(content)
        if isinstance(content, TextualContent):
            if size > room:
                kept = TextualContent(text=shorten(content.text, room, keep), mime_type=content.mime_type)
            room = max(0, room - size)
        elif size > data_room:
            kind = content.kind if isinstance(content, OpaqueContent) else content.mime_type
            kept = TextualContent(text=f"[{size} bytes of {kind} left out]")
        else:
            data_room -= size
        cut = cut or kept is not content
        total += size
        bounded.append(kept)
    return tuple(bounded), total, cut


def cut_streams(outcome: Outcome, size: int, limit: int) -> tuple[bool, bool]:
    """Whether a text of ``size`` bytes lost some of standard output, and some of standard error, in ``shorten``.

    A result that does not say where standard error begins counts as standard output.
    """
    if outcome.stdout_bytes is None:
        return True, False
    head = _head(limit)
    return outcome.stdout_bytes > head, outcome.stdout_bytes < size - (limit - head)


def size_of(content: Content) -> int:
    """The bytes of a content; a link has none."""
    if isinstance(content, TextualContent):
        return len(content.text) if content.text.isascii() else len(content.text.encode())
    if isinstance(content, OpaqueContent):
        return len(encode(content.data))
    return 0 if content.data is None else len(content.data)


def bound_fault(fault: Fault, limit: int, keep: Keep | None = None) -> Fault:
    """The fault with its texts bounded. Details share the limit: small ones stay, and texts keep head and tail."""
    details = len(encode(fault.details)) if fault.details else 0
    suggestion = fault.suggestion or ""
    if (len(fault.message) + len(suggestion)) * 4 + details <= limit:
        return fault
    return dataclasses.replace(
        fault,
        message=_short(fault.message, limit, keep),
        suggestion=_short(suggestion, limit) if suggestion else fault.suggestion,
        details=fault.details if details <= limit else _bound_details(fault.details, limit, details),
    )


def _bound_details(details: Mapping[str, object], limit: int, size: int) -> frozendict[str, object]:
    """Details of ``size`` bytes within about ``limit`` bytes of JSON."""
    sizes = {name: len(encode({name: value})) for name, value in details.items()}
    bounded: dict[str, object] = {}
    room = limit
    # The smallest first: each leaves what it does not need to the others.
    for left, name in zip(range(len(sizes), 0, -1), sorted(sizes, key=lambda name: sizes[name]), strict=True):
        share, value = room // left, details[name]
        if sizes[name] <= share:
            bounded[name] = value
        elif isinstance(value, str):
            # As JSON, a text is longer.
            bounded[name] = shorten(value, max(share, 0) * len(value.encode()) // sizes[name])
        else:
            bounded[name] = f"[{sizes[name]} bytes left out]"
        room -= len(encode({name: bounded[name]}))
    if room < -limit:
        return frozendict({"left_out": f"{size} bytes"})
    return frozendict({name: bounded[name] for name in details})


def _short(text: str, limit: int, keep: Keep | None = None) -> str:
    return shorten(text, limit, keep) if len(text.encode()) > limit else text


def _head(limit: int) -> int:
    """The bytes of a shortened text that are from its head."""
    return limit * 2 // 3


def shorten(text: str, limit: int, keep: Keep | None = None) -> str:
    """Head and tail of a text, together about ``limit`` bytes of UTF-8, with a line that states what is missing."""
    data = text.encode("utf-8", "backslashreplace")
    behind = limit - _head(limit)
    head = data[: _head(limit)].decode("utf-8", "ignore")
    tail = data[len(data) - behind :].decode("utf-8", "ignore") if limit > 0 else ""
    missing = len(data) - len(head.encode()) - len(tail.encode())
    more = "" if keep is None else keep(text, len(head.encode()))
    return f"{head}\n[… {missing} bytes left out …{f' {more}' if more else ''}]\n{tail}"
