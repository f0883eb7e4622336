"""The encodings in which a secret may appear: its forms, and views of a text with its escapes decoded.

Encodings of whole texts (base64, hexadecimal) are forms to search for. Encodings of single characters (percent signs,
backslashes, entities) can be mixed freely, so these are decoded in the text instead. Both ignore case.
"""

import base64
import contextlib
import html
import json
import re
import urllib.parse
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from ripieno.lazy.expressions import expression
from ripieno.values import Value

#: Levels of encodings of characters inside each other, and of JSON.
_LEVELS = 3
_ESCAPE = expression(
    r"(?:\\u[0-9a-f]{4})+|(?:\\x[0-9a-f]{2})+|\\u\{[0-9a-f]{1,6}\}|(?:%[0-9a-f]{2})+"
    r"|(?:\\[0-3][0-7]{2})+|(?-i:(?:=(?:[0-9A-F]{2}|\r?\n))+)|&(?:#x[0-9a-f]{1,6}|#[0-9]{1,7}|[a-z][a-z0-9]{1,15});|\\.",
    re.IGNORECASE | re.DOTALL,
)
#: An end of a line after and before what may be base64.
_WRAPPED = expression(r"\n(?<=[\w+/-]{11}[\r\w+/-]\n)[ \t]*(?=[\w+/-]{2})", re.ASCII)
_BREAK = expression(r"[ \t\r]*\n[ \t]*")
_UNIT = expression(r"\\[ux][0-9a-f]{2,4}|\\[0-3][0-7]{2}|%[0-9a-f]{2}|(?:=\r?\n)*=[0-9a-f]{2}", re.IGNORECASE)
#: What may begin an escape, a character of several escapes, or a break of base64, at the end of a text.
_BEGUN = expression(
    r"(?:\\+ud[89ab][0-9a-f]{2}|(?:\\+x|%(?:25)*|=)[89a-f][0-9a-f]|\\+[23][0-7]{2})*"
    r"(?:\\+(?:u\{?[0-9a-f]{0,6}|x[0-9a-f]?|[0-3][0-7]?)?|%[0-9a-f]*|=[0-9a-f]?|=\r|&[#a-z0-9;]*)?\Z"
    r"|(?<=[\w+/-]{12})[ \t]*(?:\r\n?|\n)[ \t]*[\w+/-]?\Z",
    re.IGNORECASE,
)
_NAMED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
#: Characters around escapes in which a part of a form can be recognised. Escapes that are as near form a group.
NEAR = 24
#: Patterns of the escapes to decode.
Escapes = tuple[re.Pattern[str], ...]
#: The decoded characters of a match, each with the number of characters that encode it.
_Decode = Callable[[re.Match[str]], Iterable[tuple[str, int]]]


class View(Value):
    """A text in lower case, as it is or decoded. ``locate`` gives the place of each character in the given text."""

    text: str
    locate: Callable[[], Sequence[int]] | None = None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The place of a part of the view in the given text."""
        places = None if self.locate is None else self.locate()
        return (start, end) if places is None else (places[start], places[end])


def fold(text: str) -> str:
    """The text in lower case, with as many characters as before."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(low if len(low := one.lower()) == 1 else one for one in text)


def escapes(secrets: Collection[str]) -> Escapes:
    """The escapes that need decoding when these secrets are sought: few, since decoding takes time.

    Forms have the quotes and ends of lines of JSON. Escapes of other characters do not matter if all are ASCII, and
    those of tabs only matter to a secret with one.
    """
    tab = "" if any("\t" in secret for secret in secrets) else "t"
    in_ascii = all(map(str.isascii, secrets))
    if any(sign in secret for secret in secrets for sign in '\\"\n'):
        slashes = r"\\[^\\]"
    elif in_ascii:
        slashes = rf'\\(?:[^n"\\u{tab}]|u\{{|u00[0-7])'
    else:
        slashes = rf'\\[^n"\\{tab}]'
    # Several patterns that begin with a character each are faster than one.
    patterns = (
        slashes,
        r"\\n(?<=[\w+/]{11}[\\\w+/]\\n)[ \t]*",
        r"%[0-7][0-9a-fA-F]" if in_ascii else r"%[0-9a-fA-F]{2}",
        r"=(?:[0-9A-F]{2}|\r?\n|\\[rn\\])",
        r"&(?:#|[a-zA-Z][a-zA-Z0-9]{1,15};)",
    )
    return tuple(re.compile(pattern, re.ASCII | re.DOTALL) for pattern in patterns)


def groups(text: str, escaped: Escapes) -> Iterator[tuple[int, int, bool]]:
    """Start and end of each group of escapes and ends of lines near each other, and whether there are several in it."""
    found = sorted(match.span() for pattern in (*escaped, _WRAPPED) for match in pattern.finditer(text))
    first = 0
    for at, (start, end) in enumerate(found):
        if not at or start > found[at - 1][1] + NEAR:
            first = at
        if at + 1 == len(found) or found[at + 1][0] > end + NEAR:
            yield found[first][0], end, first < at


def views(text: str, escaped: Escapes) -> Iterator[View]:
    """The views of a text in which to search for forms: itself, and, if it is escaped, without its escapes."""
    steps: list[tuple[re.Pattern[str], _Decode]] = []

    def view(now: str) -> View:
        done = tuple(steps)
        return View(fold(now), (lambda: _places(text, done)) if done else None)

    yield view(text)
    now = text
    for level in range(_LEVELS + 1):
        if _WRAPPED.search(now):
            steps.append((_BREAK, _nothing))
            yield view(_BREAK.sub("", now))
            steps.pop()
        if level == _LEVELS or not any(pattern.search(now) for pattern in escaped):
            return
        before, now = now, _ESCAPE.sub(_decoded, now)
        if now == before:
            return
        steps.append((_ESCAPE, _units))
        yield view(now)


def unfinished(text: str) -> int:
    """The position of an escape that the text may only begin, or its end."""
    found = _BEGUN.search(text)
    return len(text) if found is None else found.start()


def forms(secret: str) -> Iterator[str]:
    """A secret and its encodings; in base64 and base32 also as part of a longer text."""
    encoded = secret.encode("utf-8", "surrogatepass")
    yield secret
    yield secret[::-1]
    yield secret.upper()
    # As in views; what follows may be part of the escape at its end.
    decoded = _ESCAPE.sub(_decoded, secret)
    yield from (decoded, decoded.rstrip("\\="))
    yield encoded.decode("utf-8", "surrogateescape")
    yield repr(encoded)[2:-1]
    yield urllib.parse.quote_plus(encoded)
    yield secret.replace(" ", "+")
    yield secret.replace("'", "'\"'\"'")
    yield secret.replace("'", "'\\\"'\\\"'")
    yield secret.replace("'", "''")
    yield secret.replace('"', '""')
    for in_ascii in (False, True):
        written = secret
        for _ in range(_LEVELS):
            written = json.dumps(written, ensure_ascii=in_ascii)[1:-1]
            yield written
    pairs = [f"{one:02x}" for one in encoded]
    for between in ("", ":", " ", "-", ", 0x", ",0x", " 0x"):
        yield between.join(pairs)
    for between in (",", ", ", " "):
        yield between.join(map(str, encoded))
    for data in (encoded, secret.encode("utf-16-le", "surrogatepass")):
        for core in _cores(data, base64.b64encode, 6):
            yield from _both(core)
            yield from _cores(core.encode(), base64.b64encode, 6)
    yield base64.b64encode(encoded).decode()
    for digits in (encoded.hex(), encoded.hex().upper()):
        yield from _cores(digits.encode(), base64.b64encode, 6)
    yield from _cores(encoded, base64.b32encode, 5)
    yield from (base64.b85encode(encoded).decode(), base64.a85encode(encoded).decode())


def _both(text: str) -> Iterator[str]:
    yield text
    yield text.replace("+", "-").replace("/", "_")


def _cores(data: bytes, encode: Callable[[bytes], bytes], bits: int) -> Iterator[str]:
    """The characters that all encodings of these bytes among others share, by the number of bytes before them."""
    for offset in range(3 if bits == 6 else 5):
        yield encode(bytes(offset) + data).decode()[-(-offset * 8 // bits) : (offset + len(data)) * 8 // bits]


def _nothing(match: re.Match[str]) -> Iterable[tuple[str, int]]:
    del match
    return ()


def _decoded(match: re.Match[str]) -> str:
    text = match[0]
    # The most frequent ones.
    if len(text) == 2 and text[0] == "\\":
        return _NAMED.get(text[1], text[1])
    if len(text) == 6 and text[:2] == "\\u" and text[2] != "{":
        return chr(int(text[2:], 16))
    if text[0] == "%":
        with contextlib.suppress(UnicodeDecodeError):
            return bytes.fromhex(text.replace("%", "")).decode()
    return "".join([one for one, _ in _units(match)])


def _units(match: re.Match[str]) -> Iterable[tuple[str, int]]:
    text = match[0]
    if text[0] == "&":
        return ((html.unescape(text)[:1], len(text)),)
    if text[0] == "\\" and len(text) == 2:
        return ((_NAMED.get(text[1], text[1]), 2),)
    if text[:2] in ("\\u", "\\U"):
        return _characters(text) if text[2] != "{" else ((_character(int(text[3:-1], 16)), len(text)),)
    return _bytes(text)


def _character(number: int) -> str:
    return chr(number) if number <= 0x10FFFF else ""


def _characters(text: str) -> Iterator[tuple[str, int]]:
    """The characters of UTF-16 units in hexadecimal."""
    units = _UNIT.findall(text)
    numbers = [int(unit[-4:], 16) for unit in units]
    position = 0
    while position < len(units):
        first, size = numbers[position], len(units[position])
        position += 1
        if 0xD800 <= first < 0xDC00 and position < len(units) and 0xDC00 <= numbers[position] < 0xE000:
            first = 0x10000 + ((first - 0xD800) << 10) + numbers[position] - 0xDC00
            size += len(units[position])
            position += 1
        yield chr(first), size


def _bytes(text: str) -> Iterator[tuple[str, int]]:
    """The characters of bytes in hexadecimal or octal: UTF-8, and Latin-1 where it is not that."""
    sizes = list(map(len, units := _UNIT.findall(text)))
    position = 0
    for one in bytes(map(_byte, units)).decode("utf-8", "surrogateescape"):
        raw = 0xDC80 <= ord(one) < 0xDD00
        count = 1 if raw else len(one.encode())
        yield chr(ord(one) - 0xDC00) if raw else one, sum(sizes[position : position + count])
        position += count


def _byte(unit: str) -> int:
    return int(unit[1:], 8) if unit[1] in "0123" and unit[0] == "\\" else int(unit[-2:], 16)


def _places(text: str, steps: Sequence[tuple[re.Pattern[str], _Decode]]) -> Sequence[int]:
    """The place in a text of each character after these steps, and of the end."""
    places: Sequence[int] = range(len(text) + 1)
    for pattern, decode in steps:
        parts: list[str] = []
        kept: list[int] = []
        at = 0
        for match in pattern.finditer(text):
            start, end = match.span()
            parts.append(text[at:start])
            kept.extend(places[at:start])
            for one, size in decode(match):
                parts.append(one)
                kept.extend([places[start]] * len(one))
                start += size
            at = end
        parts.append(text[at:])
        kept.extend(places[at:])
        text, places = "".join(parts), kept
    return places
