"""Secrets in other encodings: however a text, bytes, JSON or a log has them, they are replaced."""

import base64
import html.entities
import json
import quopri
import random
import shlex
import string
import tempfile
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ripieno.storage.journal import Journal
from ripieno.storage.records import Record
from ripieno.storage.redaction import HIDDEN, Redactor
from tests.counts import count

Encode = Callable[[str], str]


def b64(text: str, before: str = "") -> str:
    return base64.b64encode((before + text).encode()).decode()


def in_json(text: str, *, in_ascii: bool = True) -> str:
    return json.dumps(text, ensure_ascii=in_ascii)[1:-1]


def each(form: str, *, utf16: bool = False) -> Encode:
    """Encodes each byte, character or unit of UTF-16 by a format."""

    def encode(text: str) -> str:
        if not utf16:
            return "".join(form.format(one) for one in text.encode())
        data = text.encode("utf-16-be")
        return "".join(form.format(data[at] << 8 | data[at + 1]) for at in range(0, len(data), 2))

    return encode


def joined(between: str, form: str = "{:02x}") -> Encode:
    return lambda text: between.join(form.format(one) for one in text.encode())


def wrapped(text: str, width: int = 16, end: str = "\n") -> str:
    whole = b64(text)
    return end.join(whole[at : at + width] for at in range(0, len(whole), width))


#: The longest name of each character that has one in HTML, such as ``equals;``.
NAMES = {
    one: name
    for name, one in sorted(html.entities.html5.items(), key=lambda entry: len(entry[0]))
    if name.endswith(";") and len(name) <= 17 and len(one) == 1
}


def entities(form: str) -> Encode:
    return lambda text: "".join(form.format(ord(one)) for one in text)


def mixed(text: str) -> str:
    """Each character in another encoding."""
    encodings: list[Encode] = [each("%{:02x}"), str, each("\\u{:04x}", utf16=True), entities("&#{};"), str.upper]
    return "".join(encodings[at % len(encodings)](one) for at, one in enumerate(text))


ENCODINGS: dict[str, Encode] = {
    "itself": str,
    "upper case": str.upper,
    "lower case": str.lower,
    "swapped case": str.swapcase,
    "title case": str.title,
    "reversed": lambda text: text[::-1],
    "URL": lambda text: urllib.parse.quote(text, safe=""),
    "URL, lower case": lambda text: urllib.parse.quote(text, safe="").lower(),
    "URL, path": urllib.parse.quote,
    "URL, component": lambda text: urllib.parse.quote(text, safe="!'()*"),
    "URL, form": urllib.parse.quote_plus,
    "URL, every byte": each("%{:02X}"),
    "URL, every byte, lower case": each("%{:02x}"),
    "URL twice": lambda text: urllib.parse.quote(urllib.parse.quote(text, safe=""), safe=""),
    "URL three times": lambda text: each("%25{:02X}")(text).replace("%", "%25"),
    "JSON": in_json,
    "JSON in UTF-8": lambda text: in_json(text, in_ascii=False),
    "JSON with slashes": lambda text: in_json(text).replace("/", "\\/"),
    "JSON, every character": each("\\u{:04x}", utf16=True),
    "JSON, every character, upper case": each("\\u{:04X}", utf16=True),
    "JSON, some characters": lambda text: text[:2] + each("\\u{:04x}", utf16=True)(text[2:5]) + in_json(text[5:]),
    "JSON in JSON": lambda text: in_json(in_json(text)),
    "JSON in JSON in JSON": lambda text: in_json(in_json(in_json(text))),
    "JSON, every character, in JSON": lambda text: in_json(each("\\u{:04x}", utf16=True)(text)),
    "URL in JSON": lambda text: in_json(urllib.parse.quote(text)).replace("/", "\\/"),
    "JavaScript": lambda text: "".join(f"\\u{{{ord(one):x}}}" for one in text),
    "escaped bytes": each("\\x{:02x}"),
    "escaped bytes, upper case": each("\\x{:02X}"),
    "octal bytes": each("\\{:03o}"),
    "octal bytes in JSON": lambda text: in_json(each("\\{:03o}")(text)),
    "repr": lambda text: repr(text)[1:-1],
    "repr of bytes": lambda text: repr(text.encode())[2:-1],
    "HTML": html.escape,
    "HTML twice": lambda text: html.escape(html.escape(text)),
    "HTML, every character": entities("&#{};"),
    "HTML, every character in hexadecimal": entities("&#x{:X};"),
    "HTML with names": lambda text: "".join(f"&{NAMES[one]}" if one in NAMES else one for one in text),
    "hexadecimal": joined(""),
    "hexadecimal, upper case": joined("", "{:02X}"),
    "hexadecimal with colons": joined(":"),
    "hexadecimal with spaces": joined(" "),
    "hexadecimal in C": joined(", ", "0x{:02x}"),
    "numbers": joined(", ", "{}"),
    "numbers in JSON": joined(",", "{}"),
    "base64": b64,
    "base64 without padding": lambda text: b64(text).rstrip("="),
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "base64 behind 1": lambda text: b64(text, "u"),
    "base64 behind 2": lambda text: b64(text, "u:"),
    "base64 behind a name": lambda text: b64(text, "name:"),
    "base64 in a URL": lambda text: urllib.parse.quote(b64(text), safe=""),
    "base64 in JSON": lambda text: b64(text).replace("/", "\\/"),
    "base64 in lines": wrapped,
    "base64 in lines of mail": lambda text: wrapped(text, 20, "\r\n"),
    "base64 in lines in JSON": lambda text: wrapped(text, 20, "\\n"),
    "base64 twice": lambda text: b64(b64(text)),
    "base64 twice behind names": lambda text: b64(b64(text, "a:"), "b:"),
    "base64 of hexadecimal": lambda text: b64(text.encode().hex()),
    "base64 of hexadecimal, upper case": lambda text: b64(text.encode().hex().upper(), "id"),
    "base64 of UTF-16": lambda text: base64.b64encode(text.encode("utf-16-le")).decode(),
    "base32": lambda text: base64.b32encode(text.encode()).decode(),
    "base32 behind 3": lambda text: base64.b32encode(b"abc" + text.encode()).decode().lower(),
    "base85": lambda text: base64.b85encode(text.encode()).decode(),
    "quoted printable": lambda text: quopri.encodestring(text.encode(), quotetabs=True).decode(),
    "shell": shlex.quote,
    "shell with backslashes": lambda text: "".join(one if one.isalnum() else f"\\{one}" for one in text),
    "SQL": lambda text: text.replace("'", "''"),
    "CSV": lambda text: text.replace('"', '""'),
    "each character differently": mixed,
}
SECRETS = (
    *(
        'zebra"7781/quilt ü',
        "sk-proj-Ab3/xY+9_zQ",
        "plainpass",
        "it's a $ecret & <more>",
        "back\\slash\\new",
        "12345678",
    ),
    *("🦓 stripes 🦓 are white", "a+b=c%41d&amp;e", "Aa0" * 30),
)


def remains(form: str, shown: str) -> bool:
    """Whether a part of a form is left that is longer than what its neighbours share with it."""
    size = max(8, len(form) // 3)
    return form in shown or any(form[at : at + size] in shown for at in range(len(form) - size + 1))


def secrets(full: int) -> list[str]:
    chance = random.Random(36)
    # A secret that has escapes itself is ambiguous where escapes of other encodings are in it: see SECRETS for those.
    signs = string.ascii_letters + string.digits + "+/_-.~!@#$^*'\" <>üé漢🦓"
    found = ["".join(chance.choices(signs, k=chance.randrange(8, 70))).strip() for _ in range(full)]
    return [*SECRETS, *(one for one in found if len(one) >= 12 and "\\n" not in one)]


@pytest.mark.parametrize("name", ENCODINGS)
def test_no_encoding_of_a_secret_is_shown(name: str) -> None:
    chance = random.Random(name)
    broken: list[str] = []
    for secret in secrets(count(1000)):
        form = ENCODINGS[name](secret)
        redactor = Redactor([secret, "another secret"])
        before, after = (
            chance.choice(["", "It is ", "x=1&y=%20;", '{"a": "\\n']),
            chance.choice(["", ".", ' "}', "\n\n"]),
        )
        shown = redactor.text(f"{before}{form}{after}")
        if remains(form, shown) or HIDDEN not in shown or not redactor.suspects(form):
            broken.append(secret)
    assert not broken, f"{len(broken)} of {len(secrets(count(1000)))}: {broken[:5]}"


@pytest.mark.parametrize("name", ENCODINGS)
def test_no_encoding_of_a_secret_is_in_a_journal(name: str) -> None:
    chance = random.Random(name)
    for secret in chance.sample(secrets(count(400)), count(100, 50)):
        form = ENCODINGS[name](secret)
        # In JSON, the ends of lines of mail may be in the middle of a character.
        inner = form if name == "quoted printable" else json.dumps({"a": form})
        details: dict[str, Any] = {"a": f"It is {form}.", "b": [{form: inner}]}
        with tempfile.TemporaryDirectory() as folder, Journal(Path(folder, "j"), secrets=[secret]) as journal:
            journal.record([Record(stage="said", conversation=f"c {form}", turn=1, tool="t", details=details)])
            data = b"".join(one.read_bytes() for one in Path(folder).iterdir()).decode("utf-8", "replace")
        assert not any(remains(one, data) for one in (form, in_json(form, in_ascii=False))), secret


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_secret_that_arrives_in_pieces_is_held_back(name: str) -> None:
    chance = random.Random(name)
    for secret in secrets(count(60)):
        form = ENCODINGS[name](secret)
        redactor = Redactor([secret])
        (start, _), *_ = redactor.spans(form)
        cut = chance.randrange(start + 1, len(form))
        if not redactor.spans(form[:cut]):
            assert redactor.unsettled(f"It is {form[:cut]}", 0) <= 6 + start, (secret, form, cut)


@pytest.mark.parametrize("name", ENCODINGS)
def test_bytes_are_redacted_too(name: str) -> None:
    for secret in SECRETS:
        form = ENCODINGS[name](secret)
        shown = Redactor([secret]).data(f"It is {form}.".encode())
        assert not remains(form, shown.decode())
        binary = Redactor([secret]).data(b"\xff\x00" + secret.encode() + b"\xfe" + b64(secret).encode() + b"\x80")
        assert binary == b"\xff\x00[hidden]\xfe[hidden]\x80"


def test_texts_without_a_secret_stay_as_they_are() -> None:
    chance = random.Random(5)
    redactor = Redactor(SECRETS)
    signs = 'abcXYZ019 \\u0041%41=41&#65;\\n\\"+/\n\t\\üßİ🦓'
    for _ in range(count(4000)):
        text = "".join(chance.choices(signs, k=chance.randrange(200)))
        assert redactor.text(text) == text
        assert redactor.data(text.encode("utf-16")) == text.encode("utf-16")


def test_mail_in_json_has_escaped_ends_of_lines() -> None:
    secret = "Aa0" * 30
    for end in ("=\n", "=\r\n"):
        form = in_json(f"{secret[:40]}{end}{secret[40:]}")
        assert Redactor([secret]).text(f"It is {form}.") == "It is [hidden]."


def test_what_is_around_a_secret_stays() -> None:
    redactor = Redactor(["zebra-7781-quilt"])
    assert redactor.text("%7a%65bra-7781-quilt%20%C3%BC \\u00fc") == "[hidden]%20%C3%BC \\u00fc"
    assert redactor.text("İİ ZEBRA-7781-QUILT İ") == "İİ [hidden] İ"
    assert redactor.text("\\u007aebra-7781-quilt\\n\\u0041") == "[hidden]\\n\\u0041"


def test_any_text_can_be_read() -> None:
    chance = random.Random(8)
    redactor = Redactor(SECRETS)
    for _ in range(count(100_000)):
        text = "".join(chance.choices("\\\\\\%=&#;uUxX{}0123456789abfFdD8z\n\r \ud800\udc80é", k=chance.randrange(30)))
        redactor.text(text)
        redactor.unsettled(text, 0)


def test_no_part_of_a_secret_counts_as_one() -> None:
    for secret in SECRETS:
        redactor = Redactor([secret])
        assert not redactor.spans(secret[1:])
        assert not redactor.spans(secret[:-1])
