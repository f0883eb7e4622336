"""The channels of Harmony (gpt-oss): analysis is reasoning, commentary to a function is a call, the rest is text."""

import re
from collections.abc import Sequence

from ripieno.models.protocols.text_calls.forms.form import Form, Variant
from ripieno.models.protocols.text_calls.grammar import LONGEST, MORE, NO, Balanced, Empty, Head, Tools, literal
from ripieno.models.protocols.text_calls.values import Found

_MESSAGE = "<|message|>"
_TO = re.compile(r"\bto=functions\.([^\s<|]+)")
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")
_OPENER = "<|channel|>"
_ENDS = ("<|end|>", "<|return|>", "<|call|>")


def _header(*, calls: bool, channel: str = "") -> Head:
    def find(text: str, at: int, _: Tools) -> int:
        end = text.find(_MESSAGE, at, at + LONGEST)
        if end < 0:
            return NO if "\n" in text[at : at + LONGEST] or len(text) - at >= LONGEST else MORE
        # The channel may be in the opener, before this position.
        header = text[at - len(_OPENER) if text.endswith(_OPENER, 0, at) else at : end]
        if "\n" in header or (_TO.search(header) is not None) is not calls:
            return NO
        end += len(_MESSAGE)
        if not calls:
            named = _CHANNEL.search(header)
            return end if (named is not None and named[1] == "analysis") is (channel == "analysis") else NO
        while end < len(text) and text[end].isspace():
            end += 1
        return end if literal(text, end, ("{",)) >= 0 else (MORE if end == len(text) else NO)

    return find


def _call(raw: str, _: Tools) -> Sequence[Found] | None:
    header, _message, arguments = raw.partition(_MESSAGE)
    found = _TO.search(header)
    return None if found is None else [(found[1], arguments.strip())]


_VARIANTS = (
    Variant(head=_header(calls=True), body=Balanced, read=_call, ends=_ENDS, channel=""),
    Variant(head=_header(calls=False, channel="analysis"), body=Empty, ends=_ENDS, channel="analysis"),
    Variant(head=_header(calls=False), body=Empty, ends=_ENDS, channel=""),
)

FORMS = (
    Form(
        name="harmony",
        opener=_OPENER,
        variants=lambda _: _VARIANTS,
        examples=('<|channel|>commentary to=functions.read <|constrain|>json<|message|>{"path": "a.txt"}<|call|>',),
    ),
    Form(
        name="harmony_message",
        opener="<|start|>assistant",
        variants=lambda _: _VARIANTS,
        examples=(
            '<|start|>assistant to=functions.read<|channel|>commentary json<|message|>{"path": "a.txt"}<|call|>',
        ),
    ),
)
