"""Forms without a mark: an answer that is only an object, plain or fenced, which fits a known tool."""

import functools
import re
from collections.abc import Sequence

from ripieno.models.protocols.text_calls.forms.form import Form, Variant
from ripieno.models.protocols.text_calls.grammar import MORE, NO, SPACE, Head, Tools, Whole, sequence
from ripieno.models.protocols.text_calls.values import Found, fits

_KEYS = ('"name"', '"type"', '"id"', '"arguments"', '"parameters"', '"args"')
_KEY = re.compile(r'\{\s*("[a-z]*"?)?')
_NAMED = re.compile(r'\{\s*"name"')
_NAME = re.compile(r'\{\s*"name"\s*:?\s*(?:"([^"\\]*)("?))?')


def _object(fence: Head | None) -> Head:
    """The beginning of an object whose first key is one of a call, and whose name, if it is first, is known."""

    def find(text: str, at: int, tools: Tools) -> int:
        start = at - 1 if fence is None else fence(text, at, tools)
        if start < 0:
            return start
        found = _key(text, start)
        return _name(text, start, tools) if found == start and _NAMED.match(text, start) else found

    return find


def _key(text: str, start: int) -> int:
    """The position of an object, if its first key is one of a call."""
    key = _KEY.match(text, start)
    if key is None:
        return NO
    if key.end() == len(text):
        return MORE if any(known.startswith(key[1] or "") for known in _KEYS) else NO
    return start if key[1] in _KEYS else NO


def _name(text: str, start: int, tools: Tools) -> int:
    name = _NAME.match(text, start)
    if name is None or (name.end() < len(text) and not name[2]):
        return NO
    if name[2]:
        return start if name[1] in tools else NO
    return MORE if any(tool.startswith(name[1] or "") for tool in tools) else NO


def _fenced(raw: str, tools: Tools) -> Sequence[Found] | None:
    return fits(raw.strip().strip("`").removeprefix("json"), tools)


FORMS = (
    Form(
        name="fenced",
        opener="```",
        begins="text",
        variants=lambda _: (
            Variant(
                head=_object(sequence(("json", "\n", "\r"), SPACE, ("{",))),
                body=functools.partial(Whole, "```"),
                read=_fenced,
            ),
        ),
        examples=('```json\n{"name": "read", "arguments": {"path": "a.txt"}}\n```',),
    ),
    Form(
        name="object",
        opener="{",
        begins="text",
        variants=lambda _: (Variant(head=_object(None), body=Whole, read=fits),),
        examples=('{"name": "read", "parameters": {"path": "a.txt"}}',),
    ),
)
