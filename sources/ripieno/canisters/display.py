"""Texts and contents as people see them: safe on a terminal, and brief."""

import re

from ripieno.canisters.contents import AudioContent, DocumentContent, ImageContent, OpaqueContent

#: Characters of a text that a line shows.
SHOWN = 160
#: Characters of an identifier that people see.
SHORT = 8
#: An identifier that was drawn by chance, or is a digest.
_RANDOM = re.compile("[0-9a-f]{32}")
#: Characters that can move a cursor, hide text or reverse its direction; joiners, which scripts need, are allowed.
DANGEROUS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def clean(text: str) -> str:
    """Text that is safe on a terminal: lines and tabs stay, control characters become visible."""
    return DANGEROUS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text.replace("\r\n", "\n"))


def brief(text: str, length: int = SHOWN) -> str:
    """The first line of a text, up to a length, with a mark if something is left out."""
    stripped = text.strip()
    shown = stripped.partition("\n")[0].rstrip()[:length]
    return clean(shown) if shown == stripped else f"{clean(shown)} ..."


def short(identifier: str) -> str:
    """The identifier for people, who type it: the beginning of a random one, and all of one that was chosen.

    Those of a schedule, for example, have the same beginning.
    """
    return identifier[:SHORT] if _RANDOM.fullmatch(identifier) else identifier


def count(number: int, thing: str) -> str:
    """``1 call``, ``2 calls``."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def label(content: ImageContent | AudioContent | DocumentContent | OpaqueContent) -> str:
    """The label of a content that is not text: its type, and its size or URL. It may be unsafe on a terminal."""
    if isinstance(content, OpaqueContent):
        return f"[{content.kind}, for {content.protocol} only]"
    if content.data is None:
        return f"[{content.mime_type}, at {content.url}]"
    return f"[{content.mime_type}, {count(len(content.data), 'byte')}]"
