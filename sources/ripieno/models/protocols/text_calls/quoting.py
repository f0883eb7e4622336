"""Texts of others, quoted so that no call can be read from them, and calls that only echo such texts."""

# ruff: noqa: RUF001  models write these signs

import re
from collections.abc import Callable, Iterable, Sequence

from ripieno.canisters import Canister, DocumentCanister, ResultCanister
from ripieno.canisters.contents import text_of
from ripieno.models.protocols.text_calls.forms.form import NAMESPACE
from ripieno.models.protocols.text_calls.openings import FORMS, QUOTES

_TAGS = "|".join(re.escape(form.opener[1:]) for form in FORMS if form.opener.startswith("<"))
_CLOSERS = "|".join(re.escape(mark[1:]) for mark in (*QUOTES, *QUOTES.values()) if mark.startswith("<"))
_MARKUP = re.compile(rf"<(?={NAMESPACE}?(?:{_TAGS})|{_CLOSERS})|\[(?=/?TOOL_(?:CALLS|RESULTS)\])")
#: What begins a line with a form that has no mark of its own.
_LINES = re.compile(r"^([ \t]*)(?:(\[)(?=\s*[A-Za-z_][\w.-]*\s*\()|(functools)(?=\[))", re.MULTILINE)
#: What of a call stands in an echo of it as it is, however its blanks differ.
_MARK = re.compile(r"<[|｜]?\w+|\[TOOL|functools|.", re.DOTALL)
_ESCAPES = {"<": "&lt;", "[": "&#91;", "functools": "functools&#8203;"}


def neutralize(text: str) -> str:
    """The text with the first character of all markup of calls escaped as in HTML: none can be read from it."""
    text = _MARKUP.sub(lambda match: _ESCAPES[match.group()], text)
    return _LINES.sub(lambda match: match[1] + _ESCAPES[match[2] or match[3]], text)


def echoes_of(canisters: Sequence[Canister]) -> Callable[[str], bool]:
    """Says of the text of a call whether a result or a document of the conversation has it, blanks aside."""

    def echoed(raw: str) -> bool:
        mark, bare = _MARK.match(raw), _bare(raw)
        # Few texts have the mark: the others are not looked at more closely.
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
