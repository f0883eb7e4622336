"""The examples of the documentation: the texts of its code blocks."""

import dataclasses
import pathlib
import re
import textwrap

DOCUMENTATION = pathlib.Path(__file__).parents[2] / "documentation"
_START = re.compile(r"(?P<indent> *)(?:\.\. (?:code-block|testcode|testoutput):: *(?P<kind>\w*)|(?!\.\. ).*::)")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One block. ``kind`` is its language, or empty for a literal one; ``line`` counts from 1."""

    kind: str
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    """All blocks of a page, in their order."""
    lines = (DOCUMENTATION / f"{page}.rst").read_text(encoding="utf-8").splitlines()
    found: list[Block] = []
    at = 0
    while at < len(lines):
        match = _START.fullmatch(lines[at])
        at += 1
        if match is None:
            continue
        start, depth = at, len(match["indent"])
        while at < len(lines) and (not lines[at].strip() or len(lines[at]) - len(lines[at].lstrip()) > depth):
            at += 1
        text = textwrap.dedent("\n".join(lines[start:at])).strip() + "\n"
        found.append(Block(kind=match["kind"] or "", text=text, line=start))
    return found


def texts(page: str, *kinds: str) -> list[str]:
    """The texts of a page's blocks, of exactly these kinds, so that no new block stays untested."""
    found = blocks(page)
    assert [block.kind for block in found] == list(kinds), [(block.line, block.kind) for block in found]
    return [block.text for block in found]
