"""The files of the page: small, from this server only, and with vendored modules that nobody changed."""

import gzip
import hashlib
import pathlib
import re

import pytest

from ripieno.servers.web.pages import PAGE

#: The files of preact 11.2.0 (MIT) and htm 3.1.1 (Apache-2.0) on npm, by their SHA-256.
VENDORED = {
    "preact.module.js": "bdcbd9abdf2c77c5c45326eab42191e949222d479d0d5f69467387a77040cb55",
    "hooks.module.js": "e862ab2973aa6455eaa0f77c5d832d2157d6be59a17c8ba546550a575b58c6b4",
    "htm.module.js": "ab33dd3f38059b9be4d5f5350128eefb2356639c4e0bbe9d9e8b3ba75847e9e4",
}
FILES = sorted(path for path in PAGE.rglob("*") if path.is_file() and path.name != "NOTICES")
OURS = [path for path in FILES if path.parent == PAGE and path.suffix != ".png"]


def test_the_whole_page_is_small() -> None:
    together = b"".join(path.read_bytes() for path in FILES)
    assert len(gzip.compress(together, 9)) < 40 * 1024


@pytest.mark.parametrize(("name", "digest"), VENDORED.items())
def test_vendored_modules_are_as_published(name: str, digest: str) -> None:
    assert hashlib.sha256((PAGE / "vendor" / name).read_bytes()).hexdigest() == digest
    assert name in (PAGE / "vendor" / "NOTICES").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_nothing_comes_from_elsewhere_or_from_inside_an_element(path: pathlib.Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"https?://\S+|\burl\(", text) == []
    # Styles in elements and code in attributes would need a weaker Content-Security-Policy.
    assert re.findall(r"\sstyle=|\son(?:click|error|input|key[a-z]+|load|submit)=|\beval\(|new Function", text) == []
    assert len(text.splitlines()) <= 400
    # Addresses are relative, so that the page works beneath any path.
    assert re.findall(r"(?:src|href|fetch\()=?[\"'`]/", text) == []


def test_html_is_inserted_in_one_place() -> None:
    uses = [path.name for path in OURS for _ in re.findall(r"innerHTML =|dangerously|insertAdjacent", path.read_text())]
    assert uses == ["ui.js"]
