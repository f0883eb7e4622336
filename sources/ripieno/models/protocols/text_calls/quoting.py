"""Escapes foreign texts so that they contain no calls, and detects calls that only echo such texts."""

# ruff: noqa: RUF001  models write these characters

import re
from collections.abc import Callable, Iterable, Sequence

from ripieno.canisters import Canister, DocumentCanister, ResultCanister
from ripieno.canisters.contents import text_of
from ripieno.models.protocols.text_calls.forms.form import NAMESPACE
from ripieno.models.protocols.text_calls.openings import FORMS, QUOTES

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
