"""The files of the page: small, from this server only, and with vendored modules that nobody changed."""

import asyncio
import functools
import gzip
import hashlib
import pathlib
import re
from collections.abc import Callable

import pytest
from starlette.datastructures import Headers
from starlette.responses import Response

from ripieno.servers.web.pages import PAGE, Page
from tests.servers.web.conftest import Connect
from tests.support.scripted_models import says, scripted
from tests.support.web_pages import FIRST, ServedPage

#: Bytes that a browser receives at most for all that the page has.
ALL = 57 * 1024

#: The files of preact 11.2.0 (MIT) and htm 3.1.1 (Apache-2.0) on npm, by their SHA-256.
VENDORED = {
    "preact.module.js": "bdcbd9abdf2c77c5c45326eab42191e949222d479d0d5f69467387a77040cb55",
    "hooks.module.js": "e862ab2973aa6455eaa0f77c5d832d2157d6be59a17c8ba546550a575b58c6b4",
    "htm.module.js": "ab33dd3f38059b9be4d5f5350128eefb2356639c4e0bbe9d9e8b3ba75847e9e4",
}
FILES = sorted(path for path in PAGE.rglob("*") if path.is_file() and path.name != "NOTICES")
OURS = [path for path in FILES if path.parent == PAGE and path.suffix != ".png"]


_IMPORT = re.compile(rb'^(?:import|export) [^;]*?from "([^"]+)"', re.MULTILINE)
_LATER = re.compile(rb'import\("([^"]+)"\)')


async def send(served: ServedPage, path: str, encoding: str = "gzip, deflate, br") -> tuple[str, bytes]:
    """The head and the body of an answer, as bytes that were sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    request = f"GET /{path} HTTP/1.1\r\nhost: 127.0.0.1\r\naccept-encoding: {encoding}\r\nconnection: close\r\n\r\n"
    writer.write(request.encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return head.decode().lower(), body


async def test_a_browser_receives_40_kb_to_chat_and_57_kb_for_everything(connect: Connect) -> None:
    async with connect(scripted(says())) as (served, _):
        first, later = await loaded(served, ["", *_in_document()])
        everything, _ = await loaded(served, ["", *_in_document(), *later, "static/views.css"])
        assert sum(first.values()) <= FIRST, first
        assert sum(everything.values()) <= ALL, everything
        # No file is served that the page does not use.
        assert {name.removeprefix("static/") for name in everything if name} == {
            path.relative_to(PAGE).as_posix() for path in FILES if path.name != "index.html"
        }


def _in_document() -> list[str]:
    return re.findall(r'(?:href|src)="([^"]+)"', (PAGE / "index.html").read_text(encoding="utf-8"))


async def loaded(served: ServedPage, names: list[str]) -> tuple[dict[str, int], set[str]]:
    """The sizes of files and of all that they import, as they were sent; and the modules that they import later."""
    sizes: dict[str, int] = {}
    later: set[str] = set()
    vendored = dict(re.findall(r'"([a-z/]+)": "\./([^"]+)"', (PAGE / "index.html").read_text(encoding="utf-8")))
    while names:
        name = names.pop()
        if name in sizes:
            continue
        head, body = await send(served, name)
        assert head.startswith("http/1.1 200"), name
        sizes[name] = len(body)
        text = gzip.decompress(body) if "content-encoding: gzip" in head else body
        if name.endswith(".js"):
            names += [_address(one.decode(), vendored) for one in _IMPORT.findall(text)]
            later |= {_address(one.decode(), vendored) for one in _LATER.findall(text)}
    return sizes, later


def _address(imported: str, vendored: dict[str, str]) -> str:
    return vendored.get(imported) or f"static/{imported.removeprefix('./')}"


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [("gzip", True), ("br;q=1.0, GZIP ; q=0.5", True), ("", False), ("identity", False), ("gzip;q=0", False)],
)
async def test_a_file_is_compressed_for_who_takes_it(connect: Connect, encoding: str, *, packed: bool) -> None:
    async with connect(scripted(says())) as (served, _):
        head, body = await send(served, "static/app.js", encoding)
        assert ("content-encoding: gzip" in head) is packed
        assert "vary: accept-encoding" in head
        assert f"content-length: {len(body)}" in head
        sent = gzip.decompress(body) if packed else body
        written = (PAGE / "app.js").read_bytes()
        # Without its comments, and each line at its number.
        pairs = zip(written.split(b"\n"), sent.split(b"\n"), strict=True)
        left_out = [line for line, got in pairs if line != got]
        assert left_out
        assert all(re.fullmatch(rb"\s*(//|/\*\*).*", line) for line in left_out)
        assert not re.search(rb"(?m)^\s*(//|/\*\*)", sent)
        # A picture is compressed already.
        assert "content-encoding" not in (await send(served, "static/icon.png", encoding))[0]
        # Only files of the page: a text with secrets would tell its length.
        assert "content-encoding" not in (await send(served, "api/models", encoding))[0]


@pytest.mark.parametrize("packed", [True, False])
def test_a_file_that_the_browser_has_is_not_sent_again(*, packed: bool) -> None:
    page = Page()
    asked = {"accept-encoding": "gzip"} if packed else {}
    ways: list[Callable[[Headers], Response | None]] = [page.document, functools.partial(page.file, "app.js")]
    for again in ways:
        answer = again(Headers(asked))
        assert answer is not None
        tag = answer.headers["etag"]
        for known in (tag, f"W/{tag}", f'"other", {tag}'):
            unchanged = again(Headers({**asked, "if-none-match": known}))
            assert unchanged is not None
            assert (unchanged.status_code, unchanged.body) == (304, b"")
            # A browser takes the policy of the newest answer.
            for name in ("content-security-policy", "cache-control", "vary", "etag"):
                assert unchanged.headers[name] == answer.headers[name]
        # The other form of the file has other bytes.
        other = again(Headers({**({} if packed else {"accept-encoding": "gzip"}), "if-none-match": tag}))
        assert other is not None
        assert other.status_code == 200


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
