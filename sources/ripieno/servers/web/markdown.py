"""Markdown of models as HTML that loads nothing, runs nothing, and shows the host of each link."""

import asyncio
import collections
import functools
import hashlib
import html
import re
import urllib.parse
from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexers import find_lexer_class_by_name

from ripieno.canisters.display import clean
from ripieno.ensembles.threads import run_in_thread

#: Characters that are rendered; a longer text is shown as it is (measured: 10,000 take 20 ms).
MOST_CHARACTERS = 64 * 1024
#: Opening brackets that are rendered: each is compared with the rest of the text (measured: 20,000 take 1 s).
MOST_BRACKETS = 1000
#: Characters of code that are coloured (measured: 10,000 take 60 ms).
MOST_CODE = 16 * 1024
#: Characters of the kept HTML of all texts together.
_KEPT = 16 * 1024 * 1024
#: Languages that are coloured. Others stay plain: a lexer is code that reads what a stranger may have written.
LANGUAGES = (
    "bash c c++ console cpp css diff docker dockerfile go html ini java javascript js json jsx kotlin lua make "
    "makefile php py python rb rs ruby rust sh shell sql swift toml ts tsx typescript xml yaml yml zsh"
)
#: The boxes of tasks.
_TASKS = {"[ ] ": "☐", "[x] ": "☑", "[X] ": "☑"}
_LINK = re.compile(r"(?:https?://[^/\\\s]|mailto:[^/\\\s])", re.IGNORECASE)


class MarkdownRenderer:
    """Renders texts in a thread, one request at a time, and keeps their HTML."""

    def __init__(self) -> None:
        self._kept: collections.OrderedDict[bytes, str] = collections.OrderedDict()
        self._size = 0
        self._one = asyncio.Semaphore(1)

    async def render(self, texts: Sequence[str]) -> list[str]:
        """The HTML of each text."""
        digests = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
        async with self._one:
            found = {digest: self._kept[digest] for digest in digests if digest in self._kept}
            lacking = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in found}
            if lacking:
                rendered = await run_in_thread(_render_all, list(lacking.values()), name="markdown", patient=False)
                found |= dict(zip(lacking, rendered, strict=True))
            for digest, text in found.items():
                self._keep(digest, text)
        return [found[digest] for digest in digests]

    def _keep(self, digest: bytes, text: str) -> None:
        if digest not in self._kept:
            self._size += len(text)
        self._kept[digest] = text
        self._kept.move_to_end(digest)
        while self._size > _KEPT:
            _, oldest = self._kept.popitem(last=False)
            self._size -= len(oldest)


def _render_all(texts: Sequence[str]) -> list[str]:
    return [render(text) for text in texts]


def render(text: str) -> str:
    """The HTML of a Markdown text. Control characters and those that reverse the direction are shown as escapes."""
    shown = clean(text)
    if len(shown) > MOST_CHARACTERS or shown.count("[") > MOST_BRACKETS:
        return f'<div class="plain">{html.escape(shown)}</div>\n'
    return str(_parser().render(shown))


@functools.cache
def _parser() -> MarkdownIt:
    # Images would be requests to other hosts, with what a model has written into their addresses.
    parser = _Parser("js-default", {"html": False, "highlight": _coloured}).disable("image")
    parser.add_render_rule("link_open", _open_link)
    parser.add_render_rule("link_close", _close_link)
    for cell in ("th_open", "td_open"):
        parser.add_render_rule(cell, _open_cell)
    parser.core.ruler.push("tasks", _show_tasks)
    return parser


class _Parser(MarkdownIt):
    """A parser whose links have a host: a relative link would point at this server."""

    def validateLink(self, url: str) -> bool:
        return _LINK.match(url) is not None and _place(url) != ""


def _open_link(renderer: Any, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    token = tokens[place]
    token.attrs.pop("title", None)
    token.attrSet("target", "_blank")
    token.attrSet("rel", "noreferrer noopener")
    return str(renderer.renderToken(tokens, place, options, env))


def _show_tasks(state: Any) -> None:
    """Shows ``[ ]`` and ``[x]`` at the beginning of the items of a list as boxes."""
    for item, _, inline in zip(state.tokens, state.tokens[1:], state.tokens[2:], strict=False):
        text = inline.children[0] if item.type == "list_item_open" and inline.children else None
        if text is not None and text.type == "text" and text.content[:4] in _TASKS:
            text.content = f"{_TASKS[text.content[:4]]} {text.content[4:]}"


def _open_cell(renderer: Any, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    """A cell whose alignment is a class: the page allows no styles in attributes."""
    style = tokens[place].attrs.pop("style", None)
    if style is not None:
        tokens[place].attrSet("class", str(style).rpartition(":")[2])
    return str(renderer.renderToken(tokens, place, options, env))


def _close_link(renderer: Any, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    """The end of a link, and the host to which it goes, unless its text is its address."""
    begins = max(index for index in range(place) if tokens[index].type == "link_open")
    address = str(tokens[begins].attrGet("href") or "")
    shown = "".join(token.content for token in tokens[begins + 1 : place])
    end = str(renderer.renderToken(tokens, place, options, env))
    return end if shown == address else f'{end} <span class="host">({html.escape(_place(address))})</span>'


def _place(address: str) -> str:
    """The target of a link: a host, or an address of mail; "" if that cannot be read."""
    try:
        parts = urllib.parse.urlsplit(address)
        return parts.path if parts.scheme.lower() == "mailto" else parts.hostname or ""
    except ValueError:
        return ""


def _coloured(code: str, language: str, _: str) -> str:
    """The code as HTML with the classes of Pygments; "" to show it as it is."""
    name = language.strip().lower()
    if name not in LANGUAGES.split() or len(code) > MOST_CODE:
        return ""
    coloured: str = highlight(code, find_lexer_class_by_name(name)(), HtmlFormatter(nowrap=True))
    return coloured
