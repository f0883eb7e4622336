"""Kept outputs: whole, private, each one's own, and gone after a while; and what a result says of them."""

import functools
import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ripieno.canisters import ImageContent, TextualContent
from ripieno.canisters.faults import Fault
from ripieno.exceptions import ResourceFault
from ripieno.execution.results import bound, bound_fault
from ripieno.storage import outputs as store
from ripieno.storage.outputs import Outputs
from tests.counts import count

LIMIT = 1 << 24


def outputs(tmp_path: Path) -> Outputs:
    return Outputs(tmp_path / "state", tmp_path / "work")


def handle_of(kept: tuple[str, int] | None) -> str:
    assert kept is not None
    return kept[0]


def pages(found: Outputs, handle: str, limit: int, offset: int = 0) -> list[str]:
    texts: list[str] = []
    while True:
        page = found.read(handle, "c", offset, limit)
        assert page.offset == offset
        texts.append(page.text)
        if page.next >= page.total:
            return texts
        assert page.next > offset
        assert len(page.text.encode()) <= max(limit, 4)
        offset = page.next


@settings(max_examples=count(4_000, 80), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=st.text(alphabet="a\né漢🎻", min_size=1, max_size=200), room=st.integers(0, 100), limit=st.integers(1, 20))
def test_what_is_shown_and_what_is_read_on_are_the_whole(tmp_path: Path, text: str, room: int, limit: int) -> None:
    found = outputs(tmp_path)
    told: list[tuple[str, int]] = []

    def keep(whole: str, offset: int) -> str:
        told.append((handle_of(found.keep(whole, "c", LIMIT)), offset))
        assert found.load(told[-1][0], "c") == whole.encode()
        return "Read on."

    (shown,), total, cut = bound((TextualContent(text=text),), room, keep)
    assert isinstance(shown, TextualContent)
    assert total == len(text.encode())
    assert cut is (total > room) is bool(told)
    for handle, offset in told:
        head, _, _ = shown.text.partition("\n[… ")
        assert text.encode()[:offset].decode() + "".join(pages(found, handle, limit, offset)) == text
        assert text.encode()[:offset].decode() == shown.text[: len(text.encode()[:offset].decode())]
        assert "left out … Read on.]" in shown.text
        assert head is not None


def test_a_page_never_begins_within_a_character(tmp_path: Path) -> None:
    found = outputs(tmp_path)
    handle = handle_of(found.keep("a🎻b", "c", LIMIT))
    assert [found.read(handle, "c", at, 9).text for at in range(7)] == ["a🎻b", "🎻b", "b", "b", "b", "b", ""]
    assert found.read(handle, "c", 1, 1).text == "🎻"
    with pytest.raises(ResourceFault, match="6 bytes; offset 7 is beyond"):
        found.read(handle, "c", 7, 1)


def test_only_so_much_is_kept_and_no_half_of_a_character(tmp_path: Path) -> None:
    found = outputs(tmp_path)
    kept = found.keep("éé", "c", 3)
    assert kept is not None
    assert kept[1] == 2
    assert found.load(kept[0], "c").decode() == "é"
    shown = found.keep_rest("éé", 0, conversation="c", limit=3, reader="read_output")
    assert "Only the first 2 of its 4 bytes are kept." in shown


def test_it_is_private_and_outside_of_the_workspace(tmp_path: Path) -> None:
    found = outputs(tmp_path)
    old = os.umask(0)
    try:
        handle = handle_of(found.keep("text", "c", LIMIT))
    finally:
        os.umask(old)
    files = [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert [stat.S_IMODE(path.stat().st_mode) for path in files] == [0o600]
    assert stat.S_IMODE(files[0].parent.stat().st_mode) == 0o700
    assert not any(handle in str(path) for path in files)
    assert not (tmp_path / "work").exists()
    inside = Outputs(tmp_path / "work" / "state", tmp_path / "work")
    assert inside.keep("text", "c", LIMIT) is None
    assert not (tmp_path / "work").exists()


def test_it_belongs_to_one_conversation_of_one_workspace(tmp_path: Path) -> None:
    found = outputs(tmp_path)
    handle = handle_of(found.keep("text", "c", LIMIT))
    for other, conversation in ((found, "d"), (found, ""), (Outputs(tmp_path / "state", tmp_path / "other"), "c")):
        with pytest.raises(ResourceFault, match="has no kept output"):
            other.read(handle, conversation, 0, 9)
        with pytest.raises(ResourceFault):
            other.load(handle, conversation)
    for wrong in ("", "../x", "\0", "\ud800", handle[:-1], handle.swapcase()):
        with pytest.raises(ResourceFault):
            found.read(wrong, "c", 0, 9)
    # What belongs to nobody is not kept.
    assert found.keep("text", "", LIMIT) is None
    assert found.keep("text", "c", 0) is None
    assert outputs(tmp_path).read(handle, "c", 0, 9).text == "text"
    found.forget("d")
    assert found.read(handle, "c", 0, 9).text == "text"
    found.forget("c")
    with pytest.raises(ResourceFault):
        found.read(handle, "c", 0, 9)


def test_handles_are_others_each_time(tmp_path: Path) -> None:
    found = outputs(tmp_path)
    handles = {handle_of(found.keep("same", "c", LIMIT)) for _ in range(20)}
    assert len(handles) == 20
    assert min(map(len, handles)) >= 22


def test_what_is_old_and_what_is_too_much_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "TOTAL_BYTES", 100)
    found = outputs(tmp_path)
    old = handle_of(found.keep("x" * 10, "c", LIMIT))
    aged = time.time() - store.AGE - 60
    (path,) = (one for one in found.folder.rglob("*") if one.is_file())
    os.utime(path, (aged, aged))
    # Another program looks at it anew.
    found = outputs(tmp_path)
    handles: list[str] = []
    for _ in range(6):
        handles.append(handle_of(found.keep("x" * 25, "c", LIMIT)))

    def there(handle: str) -> bool:
        try:
            return bool(found.load(handle, "c"))
        except ResourceFault:
            return False

    assert not there(old)
    assert there(handles[-1])
    assert sum(map(there, handles)) * 25 <= 100
    # The latest one stays, whatever it holds.
    large = handle_of(found.keep("x" * 300, "d", LIMIT))
    assert found.read(large, "d", 0, 9).total == 300


def test_where_nothing_can_be_kept_a_result_is_cut(tmp_path: Path) -> None:
    found = outputs(tmp_path)
    found.folder.parent.mkdir(parents=True)
    found.folder.write_text("in the way")
    keep = functools.partial(found.keep_rest, conversation="c", limit=LIMIT, reader="read_output")
    (shown,), _, _ = bound((TextualContent(text="x" * 99),), 9, keep)
    assert isinstance(shown, TextualContent)
    assert shown.text == f"{'x' * 6}\n[… 90 bytes left out …]\n{'x' * 3}"


def test_each_text_that_is_cut_is_kept_and_nothing_else() -> None:
    kept: list[Any] = []

    def keep(text: str, offset: int) -> str:
        kept.append((text, offset))
        return f"Number {len(kept)}."

    picture = ImageContent(data=b"x" * 999, mime_type="image/png")
    contents = (TextualContent(text="short"), picture, TextualContent(text="y" * 30), TextualContent(text="z" * 30))
    shown, _, _ = bound(contents, 20, keep)
    assert next(one.text for one in shown if isinstance(one, TextualContent)) == "short"
    assert kept == [("y" * 30, 10), ("z" * 30, 0)]
    assert isinstance(shown[-1], TextualContent)
    assert shown[-1].text == "\n[… 30 bytes left out … Number 2.]\n"
    fault = bound_fault(Fault(category="execution", message="m" * 99, suggestion="s" * 99), 30, keep)
    assert kept[2:] == [("m" * 99, 20)]
    assert "Number 3." in fault.message
    assert "Number" not in str(fault.suggestion)
