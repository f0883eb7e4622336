"""What is shown of contents that are no text: by ``ripieno invoke``, and in the line of a result."""

import base64
import io
import json

import pytest
from frozendict import frozendict

from ripieno.canisters import (
    AudioContent,
    Content,
    DocumentContent,
    ImageContent,
    InvocationCanister,
    OpaqueContent,
    ResultCanister,
    TextualContent,
)
from ripieno.canisters.events import ResultReady
from ripieno.canisters.faults import Report
from ripieno.conducting.observers.console import show
from tests.support.command_line import Screen, User
from tests.support.mcp_server_process import play_band

LABELS = [
    "[image/png, 4 bytes]",
    "[audio/wav, 4 bytes]",
    "[application/pdf, 4 bytes]",
    "[text/markdown, 5 bytes]",
    "[text/plain, 1 byte]",
    "[application/pdf, at https://example.org/papers/one.pdf]",
]
ADVICE = "For contents that are not text, use --format json (base64) or --output DIR (files)."
CALL = ("invoke", "band.everything", "--yes")


def test_in_a_pipe_only_text_is_the_output(user: User) -> None:
    play_band(user)
    done = user.call(*CALL)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "words")
    assert [line for line in done.stderr.splitlines() if line in (*LABELS, ADVICE)] == [*LABELS, ADVICE]


def test_at_a_terminal_the_order_is_kept(user: User) -> None:
    play_band(user)
    with Screen(user, *CALL) as screen:
        screen.wait_for("\r\n".join(["words", *LABELS, ADVICE]))
        assert screen.end() == 0


def test_json_has_every_content(user: User) -> None:
    play_band(user)
    done = user.call(*CALL, "--format", "json")
    mapping = json.loads(done.stdout[done.stdout.index("{") :])
    assert mapping["output"] == "words"
    kinds = [one["type"] for one in mapping["content"]]
    assert kinds == ["text", "image", "audio", "document", "document", "document", "document"]
    assert base64.b64decode(mapping["content"][1]["data"]) == b"\x89PNG"
    assert mapping["content"][-1]["url"] == "https://example.org/papers/one.pdf"
    assert "--format json" not in done.stderr


def test_what_is_no_text_is_saved_as_files(user: User) -> None:
    play_band(user)
    assert user.call(*CALL, "--output", "saved/here").returncode == 0
    done = user.call(*CALL, "--output", "saved/here")
    assert (done.returncode, ADVICE in done.stderr) == (0, False)
    saved = [line for line in done.stderr.splitlines() if "aved: " in line]
    assert saved == [
        "Saved: saved/here/2-image-2.png",
        "Saved: saved/here/3-sound-2.wav",
        "Saved: saved/here/4-document-2.pdf",
        "Saved: saved/here/5-document-2.md",
        "Saved: saved/here/6-document-2.txt",
        "Not saved: document 7 is at https://example.org/papers/one.pdf",
    ]
    folder = user.workspace / "saved" / "here"
    assert (folder / "2-image.png").read_bytes() == (folder / "2-image-2.png").read_bytes() == b"\x89PNG"


def line(*content: Content) -> str:
    invocation = InvocationCanister(identifier="call_1", name="look", arguments=frozendict())
    result = ResultCanister(invocation_id="call_1", content=content, report=Report(duration_ms=12.3, attempts=1))
    stream = io.StringIO()
    show(ResultReady(invocation=invocation, result=result, tool="a.look"), stream)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ((), "(nothing)"),
        ((TextualContent(text="one"),), "one"),
        ((ImageContent(data=b"x", mime_type="image/png"),), "[image/png, 1 byte]"),
        ((AudioContent(data=b"xy", mime_type="audio/wav"), TextualContent(text="one")), "one [audio/wav, 2 bytes]"),
        ((DocumentContent(url="https://a.b/c", mime_type="a/\x1b[2J"),), "[a/\\x1b[2J, at https://a.b/c]"),
        ((OpaqueContent(protocol="gemini", kind="thought", data=frozendict()),), "[thought, for gemini only]"),
    ],
)
def test_the_line_of_a_result_names_what_is_no_text(content: tuple[Content, ...], shown: str) -> None:
    assert line(*content) == f"< a.look (12 ms) {shown}\n"


def test_the_line_of_many_contents_is_bounded() -> None:
    assert len(line(*[ImageContent(data=b"x", mime_type="image/png")] * 1000)) < 200
