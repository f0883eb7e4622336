"""Attachments and long outputs over HTTP: uploads that are checked and limited, and contents by reference and range."""

import base64
import contextlib
import pathlib
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from ripieno.canisters import DocumentContent, ImageContent, TextualContent
from ripieno.ensembles import Context
from ripieno.exceptions import NameAbsence
from ripieno.servers.chat.chat import Chat
from ripieno.servers.chat.contents import SHOWN_BYTES
from ripieno.servers.chat.messages import ChatLimits
from ripieno.servers.chat.uploads import Uploads, read_upload
from ripieno.servers.http.limits import Refused
from tests.servers.chat.test_application import begin, events, over_http
from tests.support.chats import chatting
from tests.support.scripted_models import Scripted, invoke, invokes, says, scripted, tool

PNG = b"\x89PNG\r\n\x1a\n" + b"x" * 20
FILES = {
    "image/png": PNG,
    "image/jpeg": b"\xff\xd8\xff\xe0...",
    "image/gif": b"GIF89a...",
    "image/webp": b"RIFF\x01\x02\x03\x04WEBPVP8 ",
    "application/pdf": b"%PDF-1.7 ...",
    "text/plain": "Grüße\n".encode(),
}
LONG = "ä" * SHOWN_BYTES
SAFE = {
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
}


@contextlib.asynccontextmanager
async def client(
    folder: pathlib.Path, model: Scripted | None = None, *tools: Any, **limits: int
) -> AsyncGenerator[tuple[httpx2.AsyncClient, Chat], None]:
    async with (
        chatting(folder, model or scripted(says("I see.")), *tools, limits=ChatLimits(**limits)) as chat,
        over_http(chat) as one,
    ):
        yield one, chat


async def upload(one: httpx2.AsyncClient, path: str, data: bytes, kind: str, **headers: str) -> httpx2.Response:
    return await one.post(f"{path}/attachments", content=data, headers={"content-type": kind, **headers})


async def say(one: httpx2.AsyncClient, path: str, text: str, *references: str) -> dict[str, Any]:
    """Says something with uploads, and returns the conversation after the answer."""
    position = (await one.get(path)).json()["position"]
    body = {"text": text, "attachments": [{"reference": name} for name in references]}
    said = await one.post(f"{path}/messages", json=body)
    assert said.status_code == 200, said.text
    await events(one, path, "ConductEnded", **{"last-event-id": position})
    found: dict[str, Any] = (await one.get(path)).json()
    return found


async def test_files_are_uploaded_named_in_a_message_and_fetched(tmp_path: pathlib.Path) -> None:
    model = scripted(says("I see."))
    async with client(tmp_path, model) as (one, _):
        path = await begin(one)
        references: list[str] = []
        for kind, data in FILES.items():
            uploaded = (await upload(one, path, data, kind)).json()
            assert (uploaded["mime_type"], uploaded["bytes"]) == (kind, len(data))
            references.append(uploaded["reference"])
            # A page shows it before it is sent.
            assert (await one.get(f"{path}/contents/{references[-1]}")).content == data
        assert (await one.delete(f"{path}/attachments/{references[2]}")).status_code == 200
        assert (await one.delete(f"{path}/attachments/{references[2]}")).status_code == 404
        message = (await say(one, path, "Look.", references[0], references[5]))["messages"][0]
        assert [part["type"] for part in message["content"]] == ["text", "image", "document"]
        assert [part.get("reference") for part in message["content"]][1:] == [references[0], references[5]]
        (canisters, *_), *_ = model.asked
        assert [type(part) for part in canisters[0].content] == [TextualContent, ImageContent, DocumentContent]
        # They are the message's now, and the others still wait.
        answer = await one.post(f"{path}/messages", json={"attachments": [{"reference": references[0]}]})
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
        assert "Upload it again" in answer.json()["error"]["message"]
        for place, (kind, data) in enumerate(FILES.items()):
            fetched = await one.get(f"{path}/contents/{references[place]}")
            if place == 2:
                assert fetched.status_code == 404
                continue
            assert (fetched.status_code, fetched.content) == (200, data)
            assert SAFE.items() <= dict(fetched.headers).items()
            is_pdf = kind == "application/pdf"
            assert fetched.headers["content-disposition"] == ("attachment" if is_pdf else "inline")
            assert fetched.headers["content-type"].partition(";")[0] == ("application/octet-stream" if is_pdf else kind)


async def test_names_of_attachments_are_kept(tmp_path: pathlib.Path) -> None:
    text = base64.b64encode(b"Hello.").decode()
    inline = {"mime_type": "text/plain", "data": text, "name": "b.txt"}
    async with client(tmp_path) as (one, chat):
        path = await begin(one)
        reference = (await upload(one, path, PNG, "image/png")).json()["reference"]
        body = {"attachments": [{"reference": reference, "name": "a.png"}, inline, {**inline, "name": ""}]}
        for wrong in (1, None, "x" * 256):
            answer = await one.post(f"{path}/messages", json={"attachments": [{**inline, "name": wrong}]})
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, "attachments[0].name")
        position = (await one.get(path)).json()["position"]
        assert (await one.post(f"{path}/messages", json=body)).status_code == 200
        ((_, said), *_) = await events(one, path, "ConductEnded", **{"last-event-id": position})
        assert [part.get("name") for part in said["message"]["content"]] == ["a.png", "b.txt", None]
        # The upload is the message's now, though the message has given it a name.
        with pytest.raises(NameAbsence):
            chat.uploads.find("ada", path.rpartition("/")[2], reference)
    async with client(tmp_path) as (one, _):
        (message, _) = (await one.get(path)).json()["messages"]
        assert [part.get("name") for part in message["content"]] == ["a.png", "b.txt", None]


@pytest.mark.parametrize(
    ("kind", "data", "headers", "expected"),
    [
        ("image/png", FILES["image/jpeg"], {}, (415, "of the type image/jpeg")),
        ("image/png", b"<svg onload='alert(1)'/>", {}, (415, "of the type text/plain")),
        ("image/svg+xml", b"<svg/>", {}, (415, "of the type text/plain")),
        ("text/html", b"<script></script>", {}, (415, "of the type text/plain")),
        ("text/plain", b"\xff\xfe\x00", {}, (415, "of none of these types: image/png")),
        ("text/plain", b"a\0b", {}, (415, "of none of these types")),
        ("", PNG, {}, (415, "Content-Type is missing")),
        ("image/png", b"", {}, (400, "The file is empty")),
        ("image/png", PNG * 10, {}, (413, "larger than 100 bytes")),
        (
            "text/plain",
            b"a",
            {"sec-fetch-site": "cross-site", "origin": "https://evil.example"},
            (403, "other origins"),
        ),
        # An old browser says only the origin; a form can send text without asking.
        ("text/plain", b"a", {"origin": "https://evil.example"}, (403, "other origins")),
        ("text/plain", b"a", {"origin": "null"}, (403, "other origins")),
        ("text/plain", b"a", {"origin": "https://app.example.com"}, (200, "")),
    ],
)
async def test_uploads_that_are_refused_and_why(
    tmp_path: pathlib.Path, kind: str, data: bytes, headers: dict[str, str], expected: tuple[int, str]
) -> None:
    status, words = expected
    async with client(tmp_path, upload_bytes=100) as (one, _):
        path = await begin(one)
        answer = await upload(one, path, data, kind, **headers)
        assert answer.status_code == status
        if words:
            assert words in answer.json()["error"]["message"]
        for name, wanted in (("bob", 404), ("ada", status)):
            assert (await upload(one, path, data, kind, **headers, **{"x-user": name})).status_code in (wanted, 403)


async def test_the_uploads_of_an_owner_are_limited_and_expire(tmp_path: pathlib.Path) -> None:
    async with client(tmp_path, waiting_bytes=len(PNG) * 2) as (one, chat):
        path, other = await begin(one), await begin(one)
        kept = (await upload(one, path, PNG, "image/png")).json()["reference"]
        assert (await upload(one, other, PNG + b"1", "image/png")).status_code == 429
        assert (await upload(one, other, PNG, "image/png")).status_code == 200
        refused = (await upload(one, path, PNG, "image/png")).json()["error"]
        assert refused["code"] == "too_many_uploads"
        assert f"all together may have {len(PNG) * 2}. Send the message, or delete uploads." in refused["message"]
        # A body without a length counts as the largest one.
        assert (
            await one.post(f"{path}/attachments", content=_chunks(), headers={"content-type": "image/png"})
        ).status_code == 429
        await say(one, path, "Look.", kept)
        await one.delete(other)
        assert (await upload(one, path, PNG + b"12", "image/png")).status_code == 200
        with pytest.raises(Refused), chat.uploads.receiving("ada", len(PNG)):
            pass
        with chat.uploads.receiving("bob", len(PNG)):
            pass
    now = 0.0
    uploads = Uploads(10, lambda: now)
    reference = uploads.add("ada", "one", read_upload(b"0123456789", "text/plain"))
    assert uploads.find("ada", "one", reference)
    now = 3601.0
    with uploads.receiving("ada", 10), pytest.raises(Refused), uploads.receiving("ada", 1):
        pass
    with uploads.receiving("ada", 10):
        pass


async def _chunks() -> AsyncGenerator[bytes, None]:
    yield PNG


async def test_a_long_output_is_fetched_in_parts(tmp_path: pathlib.Path) -> None:
    async def look(context: Context, arguments: dict[str, Any]) -> str:
        return LONG

    long = tool("look", look, output=len(LONG) * 2)
    async with client(tmp_path, scripted(invokes(invoke("look")), says()), long) as (one, _):
        path = await begin(one)
        snapshot = await say(one, path, "Look.")
        (part,) = next(message for message in snapshot["messages"] if message["type"] == "result")["content"]
        whole = LONG.encode()
        assert (part["bytes"], len(part["text"])) == (len(whole), SHOWN_BYTES // 2)
        place = f"{path}/contents/{part['reference']}"
        answer = await one.get(place)
        assert (answer.content, answer.headers["content-type"]) == (whole, "text/plain; charset=utf-8")
        assert SAFE.items() <= dict(answer.headers).items()
        # The rest of what is shown.
        shown = len(part["text"].encode())
        rest = await one.get(place, headers={"range": f"bytes={shown}-"})
        assert (rest.status_code, part["text"] + rest.text) == (206, LONG)
        assert rest.headers["content-range"] == f"bytes {shown}-{len(whole) - 1}/{len(whole)}"
        size = len(whole)
        for wanted, expected in (
            ("bytes=0-9", whole[:10]),
            ("bytes=-10", whole[-10:]),
            (f"bytes={size - 1}-{size + 99}", whole[-1:]),
            (f"bytes=-{size * 2}", whole),
            ("bytes=0-1,4-5", whole),
            ("bytes=-", whole),
            ("lines=0-1", whole),
            (f"bytes={size}-", None),
            ("bytes=9-2", None),
            ("bytes=-0", None),
        ):
            found = await one.get(place, headers={"range": wanted})
            assert found.status_code == (416 if expected is None else 200 if expected == whole else 206), wanted
            assert found.content == (expected or found.content), wanted
            assert expected or f"has {size} bytes" in found.json()["error"]["message"]
        for name in ("1", f"{size}-", f"{size}-{'0' * 32}", "9" * 99, "²-0", part["reference"] + "0"):
            assert (await one.get(f"{path}/contents/{name}")).status_code == 404
        foreign = await one.get(place, headers={"x-user": "bob"})
        assert foreign.status_code == 404


async def test_images_of_tools_are_shown_only_if_they_are_images(tmp_path: pathlib.Path) -> None:
    svg = b"<svg onload='alert(1)'/>" + b"\0"

    async def look(context: Context, arguments: dict[str, Any]) -> Any:
        return [ImageContent(data=PNG, mime_type="image/png"), ImageContent(data=svg, mime_type="image/png")]

    async with client(tmp_path, scripted(invokes(invoke("look")), says()), tool("look", look)) as (one, _):
        path = await begin(one)
        snapshot = await say(one, path, "Look.")
        content = next(message for message in snapshot["messages"] if message["type"] == "result")["content"]
        assert [base64.b64decode(part["data"]) for part in content] == [PNG, svg]
        kinds = [(await one.get(f"{path}/contents/{part['reference']}")).headers for part in content]
        assert [(one["content-type"], one["content-disposition"]) for one in kinds] == [
            ("image/png", "inline"),
            ("application/octet-stream", "attachment"),
        ]
