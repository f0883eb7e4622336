"""All forms and the frames of quoted output: what begins at a position, what quoting escapes, and what is an echo."""

# ruff: noqa: RUF001  models write these characters
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from ripieno.canisters import Canister, DocumentCanister, ResultCanister
from ripieno.canisters.contents import text_of
from ripieno.models.protocols.text_calls.forms import bare, brackets, harmony, tags, tokens
from ripieno.models.protocols.text_calls.forms.form import NAMESPACE, Form, Variant
from ripieno.models.protocols.text_calls.grammar import LONGEST, MORE, NO, WIDEST, Tools, literal
from ripieno.values import Value

FORMS: tuple[Form, ...] = (*tags.FORMS, *brackets.FORMS, *tokens.FORMS, *harmony.FORMS, *bare.FORMS)
#: The beginnings and ends of quoted tool output, in which nothing is a call.
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


class Opening(Value):
    """The beginning of a frame, whose body begins ``body`` characters after its opener."""

    variant: Variant
    body: int


class Mark(Value):
    """The beginning of a quotation, or a wrapper; ``length`` is its number of characters."""

    length: int
    #: The end of the quotation; empty for a wrapper.
    closer: str = ""


def _by_sign(begins: Iterable[str]) -> dict[str, tuple[Form, ...]]:
    signs: dict[str, tuple[Form, ...]] = {}
    for form in FORMS:
        if form.begins in begins:
            signs[form.opener[0]] = (*signs.get(form.opener[0], ()), form)
    return signs


#: The forms that may begin at a position, by their first character.
ANYWHERE = _by_sign({""})
AT_LINE = _by_sign({"", "line"})
AT_TEXT = _by_sign({"", "line", "text"})
#: Positions in open text that may begin a form.
STOPS = re.compile(r"[`\n]|<(?=[A-Za-z/|｜]|\Z)|\[(?=[/T]|\Z)")
_QUOTES = tuple(QUOTES)
_QUOTING = frozenset(quote[0] for quote in QUOTES)


def mark_at(text: str, at: int, ends: tuple[str, ...]) -> Mark | bool:
    """The mark at a position; otherwise whether one may follow."""
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
    """The frame at a position; otherwise whether one may follow.

    No form is tried before all earlier ones are excluded: the result must not depend on how much text has arrived.
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
    """The frame of a call right behind another one; otherwise whether one may follow."""
    view = text[at : at + WIDEST]
    body = variant.head(view, 0, tools)
    return Opening(variant, body) if body >= 0 else body == MORE and len(view) < WIDEST


def _opener(form: Form, text: str, at: int) -> tuple[int, str]:
    """The length of a form's opener, and its namespace; or ``MORE``, or ``NO``."""
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


# Quoted texts.

_TAGS = "|".join(re.escape(form.opener[1:]) for form in FORMS if form.opener.startswith("<"))
_CLOSERS = "|".join(re.escape(mark[1:]) for mark in (*QUOTES, *QUOTES.values()) if mark.startswith("<"))
_MARKUP = re.compile(rf"<(?={NAMESPACE}?(?:{_TAGS})|{_CLOSERS})|\[(?=/?TOOL_(?:CALLS|RESULTS)\])")
#: The line beginnings of forms without a mark of their own.
_LINES = re.compile(r"^([ \t]*)(?:(\[)(?=\s*[A-Za-z_][\w.-]*\s*\()|(functools)(?=\[))", re.MULTILINE)
#: The part of a call that any echo of it repeats exactly, whatever its blanks.
_MARK = re.compile(r"<[|｜]?\w+|\[TOOL|functools|.", re.DOTALL)
_ESCAPES = {"<": "&lt;", "[": "&#91;", "functools": "functools&#8203;"}


def neutralize(text: str) -> str:
    """The text with the first character of all call markup escaped as in HTML, so that it has no calls."""
    text = _MARKUP.sub(lambda match: _ESCAPES[match.group()], text)
    return _LINES.sub(lambda match: match[1] + _ESCAPES[match[2] or match[3]], text)


def echoes_of(canisters: Sequence[Canister]) -> Callable[[str], bool]:
    """A check whether a call's text occurs in a result or document of the conversation, blanks aside."""

    def echoed(raw: str) -> bool:
        mark, bare = _MARK.match(raw), _bare(raw)
        # Few texts have the mark, so the comparison is rare.
        return mark is not None and any(mark.group() in text and bare in _bare(text) for text in _foreign(canisters))

    return echoed


def _foreign(canisters: Sequence[Canister]) -> Iterable[str]:
    for canister in canisters:
        if isinstance(canister, ResultCanister):
            yield canister.text
        elif isinstance(canister, DocumentCanister):
            yield text_of(canister.content)


def _bare(text: str) -> str:
    return "".join(text.split())
