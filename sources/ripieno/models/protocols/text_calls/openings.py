"""Which form begins at a place of a text, if any; decided by as little of what follows as can be.

All forms, in the order in which they are tried, and the frames around what is only quoted.
"""


# ruff: noqa: RUF001  models write these signs

# ruff: noqa: RUF001  models write these signs
import dataclasses
import re
from collections.abc import Iterable, Mapping

from ripieno.models.protocols.text_calls.forms import bare, brackets, harmony, tags, tokens
from ripieno.models.protocols.text_calls.forms.form import NAMESPACE, Form, Variant
from ripieno.models.protocols.text_calls.grammar import LONGEST, MORE, NO, WIDEST, Tools, literal

FORMS: tuple[Form, ...] = (*tags.FORMS, *brackets.FORMS, *tokens.FORMS, *harmony.FORMS, *bare.FORMS)
#: What begins a quotation of a tool's output, and what ends it: nothing in it is a call.
QUOTES: Mapping[str, str] = {
    "<tool_result": "</tool_result",
    "<tool_response": "</tool_response",
    "<tool_output": "</tool_output",
    "<function_result": "</function_result",
    "[TOOL_RESULTS]": "[/TOOL_RESULTS]",
    "<｜tool▁outputs▁begin｜>": "<｜tool▁outputs▁end｜>",
    "<｜tool▁output▁begin｜>": "<｜tool▁output▁end｜>",
}


_SPACED = re.compile(f"<{NAMESPACE}")
_SPACING = re.compile(r"<[A-Za-z][\w.-]{0,31}")


@dataclasses.dataclass(frozen=True, slots=True)
class Opening:
    """A frame begins. Its body begins ``body`` characters after its opener."""

    variant: Variant
    body: int


@dataclasses.dataclass(frozen=True, slots=True)
class Mark:
    """Something that is no frame, and ends ``length`` characters later: a quotation's beginning, or a wrapping."""

    length: int
    #: What ends the quotation; empty for a wrapping.
    closer: str = ""


def _by_sign(begins: Iterable[str]) -> dict[str, tuple[Form, ...]]:
    signs: dict[str, tuple[Form, ...]] = {}
    for form in FORMS:
        if form.begins in begins:
            signs[form.opener[0]] = (*signs.get(form.opener[0], ()), form)
    return signs


#: The forms that may begin at a place, by their first character.
ANYWHERE = _by_sign({""})
AT_LINE = _by_sign({"", "line"})
AT_TEXT = _by_sign({"", "line", "text"})
#: Where a text in the open is looked at more closely.
STOPS = re.compile(r"[`\n]|<(?=[A-Za-z/|｜]|\Z)|\[(?=[/T]|\Z)")
_QUOTES = tuple(QUOTES)
_QUOTING = frozenset(quote[0] for quote in QUOTES)


def mark_at(text: str, at: int, ends: tuple[str, ...]) -> Mark | bool:
    """The mark at a place; otherwise whether one may come."""
    if text[at] not in _QUOTING:
        return False
    end = literal(text, at, ends)
    if end >= 0:
        return Mark(end - at)
    quote = literal(text, at, _QUOTES)
    if quote >= 0:
        return Mark(quote - at, QUOTES[text[at:quote]])
    return MORE in (end, quote)


def opening_at(text: str, at: int, forms: tuple[Form, ...], tools: Tools) -> Opening | bool:
    """The frame that begins at a place; otherwise whether one may.

    No form is tried before those in front of it are out of the question: what is taken for a call must not depend on
    how much of the text is there yet.
    """
    for form in forms:
        length, namespace = _opener(form, text, at)
        if length == MORE:
            return True
        if length == NO:
            continue
        view = text[at : at + LONGEST]
        for variant in form.variants(namespace):
            body = variant.head(view, length, tools)
            if body >= 0:
                return Opening(variant, body)
            if body == MORE and len(view) < LONGEST:
                return True
    return False


def following_at(text: str, at: int, variant: Variant, tools: Tools) -> Opening | bool:
    """The frame of a call that stands right behind another one; otherwise whether one may."""
    view = text[at : at + WIDEST]
    body = variant.head(view, 0, tools)
    return Opening(variant, body) if body >= 0 else body == MORE and len(view) < WIDEST


def _opener(form: Form, text: str, at: int) -> tuple[int, str]:
    """How long the opener of a form is, and its namespace; or ``MORE``, or ``NO``."""
    end = literal(text, at, (form.opener,))
    if end >= 0:
        return end - at, ""
    if end == MORE or not form.namespaced:
        return end, ""
    view = text[at : at + WIDEST]
    spaced = _SPACED.match(view)
    if spaced is not None:
        end = literal(view, spaced.end(), (form.opener[1:],))
        return end, spaced.group()[1:]
    may = len(view) < WIDEST and (_SPACING.fullmatch(view) is not None or "<｜DSML｜".startswith(view))
    return (MORE if may else NO), ""
