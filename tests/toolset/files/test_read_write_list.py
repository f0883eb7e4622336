"""The tools of the ensemble ``io``: what a model reads of files and directories, and of what is wrong with them."""

import os
import pathlib
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.ensembles import Context
from ripieno.exceptions import ResourceFault, ToolFault, ValidationFault
from ripieno.toolset.files.listing import list_files
from ripieno.toolset.files.read import read_file
from ripieno.toolset.files.session import READ_CAP
from ripieno.toolset.files.write import write_file
from tests.support import toml_ensembles
from tests.support.scripted_models import ensemble, tool
from tests.support.toml_ensembles import surround


def make_context(workspace: pathlib.Path | None) -> Context:
    around = None if workspace is None else surround(workspace)
    return toml_ensembles.make_context(ensemble(tool("read_file", read_file), surroundings=around), "read_file")


@pytest.fixture
def context(tmp_path: pathlib.Path) -> Context:
    return make_context(tmp_path)


def read(context: Context, path: str, **arguments: Any) -> str:
    return read_file(context, {"path": path, **arguments})


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("utf-8", "aé€😀".encode()),
        ("utf-8", b"\xef\xbb\xbfa\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"),
        ("utf-16", "aé€😀".encode("utf-16")),
        ("utf-16", b"\xfe\xff" + "aé€😀".encode("utf-16-be")),
    ],
)
def test_encodings_and_their_marks(context: Context, tmp_path: pathlib.Path, encoding: str, data: bytes) -> None:
    (tmp_path / "text").write_bytes(data)
    assert read(context, "text", encoding=encoding) == "aé€😀"


def test_a_wrong_encoding_names_others(context: Context, tmp_path: pathlib.Path) -> None:
    (tmp_path / "text").write_bytes("caf\xe9".encode("latin-1"))
    assert read(context, "text", encoding="latin-1") == "café"
    with pytest.raises(ValidationFault) as caught:
        read(context, "text")
    assert (caught.value.code, str(caught.value)) == (
        "wrong_encoding",
        "'text' is not utf-8: unexpected end of data at byte 3.",
    )
    assert caught.value.suggestion is not None
    assert '"ascii", "latin-1", "utf-16"' in caught.value.suggestion
    with pytest.raises(ValidationFault, match="is not ascii"):
        read(context, "text", encoding="ascii")
    (tmp_path / "odd").write_bytes(b"\xff\xfea")
    with pytest.raises(ValidationFault, match="is not utf-16"):
        read(context, "odd", encoding="utf-16")


def test_a_text_in_utf_16_is_not_called_binary(context: Context, tmp_path: pathlib.Path) -> None:
    (tmp_path / "text").write_text("hello", encoding="utf-16")
    with pytest.raises(ValidationFault) as caught:
        read(context, "text")
    assert caught.value.suggestion == 'Try encoding "utf-16".'


@given(
    lines=st.lists(st.text("ab\r\x0b\x0c\u2028 ", max_size=4), max_size=8),
    ended=st.booleans(),
    start=st.integers(1, 10),
    length=st.integers(1, 10),
)
def test_law_ranges_are_slices_of_lines(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], ended: bool, start: int, length: int
) -> None:
    folder = tmp_path_factory.getbasetemp()
    text = "\n".join(lines) + ("\n" if ended and lines else "")
    (folder / "lines").write_bytes(text.encode())
    context = make_context(folder)
    whole = text.split("\n")
    kept = [line + "\n" for line in whole[:-1]] + ([whole[-1]] if whole[-1] else [])
    if start > max(1, len(kept)):
        with pytest.raises(ValidationFault, match=f"'lines' has {len(kept)} lines?; there is no line {start}"):
            read(context, "lines", start_line=start)
        return
    assert read(context, "lines", start_line=start) == "".join(kept[start - 1 :])
    end = start + length - 1
    assert read(context, "lines", start_line=start, end_line=end) == "".join(kept[start - 1 : end])
    assert read(context, "lines", end_line=length) == "".join(kept[:length])


def test_a_range_that_ends_before_it_begins_is_refused(context: Context) -> None:
    with pytest.raises(ValidationFault, match="start_line 3 comes after end_line 2"):
        read(context, "whatever", start_line=3, end_line=2)


def test_a_large_file_is_read_in_part(context: Context, tmp_path: pathlib.Path) -> None:
    lines = READ_CAP // 8
    (tmp_path / "log").write_text("".join(f"{number:07}\n" for number in range(1, lines + 1)))
    assert len(read(context, "log")) == READ_CAP
    with (tmp_path / "log").open("a") as file:
        file.write("one more\n")
    with pytest.raises(ResourceFault) as caught:
        read(context, "log")
    assert caught.value.code == "too_large"
    assert caught.value.details == {"size": READ_CAP + 9, "limit": READ_CAP}
    assert caught.value.suggestion is not None
    assert caught.value.suggestion.startswith("Read a part of it: read_file with start_line and end_line")
    assert read(context, "log", start_line=2, end_line=3) == "0000002\n0000003\n"
    assert read(context, "log", start_line=lines, end_line=lines) == f"{lines:07}\n"
    for arguments in ({"start_line": lines}, {"start_line": lines + 1, "end_line": lines + 1}):
        with pytest.raises(ResourceFault, match=rf"only the first {READ_CAP} bytes can be read: lines 1 to {lines}\."):
            read(context, "log", **arguments)


def test_half_a_character_at_the_cap_is_no_fault(context: Context, tmp_path: pathlib.Path) -> None:
    (tmp_path / "text").write_text("a\n" + "€" * (READ_CAP // 3 + 10))
    assert read(context, "text", start_line=1, end_line=1) == "a\n"
    with pytest.raises(ResourceFault, match="lines 1 to 1"):
        read(context, "text", start_line=2, end_line=2)


def memory(field: str) -> int:
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def test_hostile_files_are_answered_soon_and_cheaply(context: Context, tmp_path: pathlib.Path) -> None:
    """Each costs at most 32 MiB."""
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 1 << 40)
    (tmp_path / "line").write_bytes(b"x" * (READ_CAP + 1))
    os.truncate(tmp_path / "line", 1 << 40)
    (tmp_path / "ends").write_bytes(b"\n" * READ_CAP)
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for path, arguments in (
            ("sparse", {}),
            ("sparse", {"start_line": 1}),
            ("line", {}),
            ("line", {"start_line": 1, "end_line": 1}),
            ("ends", {"start_line": READ_CAP + 1}),
            ("fifo", {}),
            ("socket", {}),
            (".", {}),
        ):
            pathlib.Path("/proc/self/clear_refs").write_text("5")
            before = memory("VmRSS")
            with pytest.raises(ToolFault):
                read(context, path, **arguments)
            assert memory("VmHWM") - before <= 32 * 2**20, path


def test_a_file_that_has_more_than_its_size_says_is_bounded() -> None:
    """Files of /proc have size 0."""
    assert read(make_context(pathlib.Path("/proc/self")), "status").startswith("Name:")


def test_what_cannot_be_written_is_refused(context: Context, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValidationFault, match="half of a surrogate pair, at position 1"):
        write_file(context, {"path": "x", "content": "a\ud800"})
    assert list(tmp_path.iterdir()) == []


def test_a_directory_is_listed_by_name(context: Context, tmp_path: pathlib.Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "c.txt").write_text("12345")
    (tmp_path / "a").symlink_to("/etc")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / ".git").mkdir()
    assert list_files(context, {}) == "a -> /etc\nb/\nc.txt (5 bytes)\npipe (not a file)"
    assert list_files(context, {"path": ".", "include_hidden": True}).startswith(".git/\na -> ")
    assert list_files(context, {"path": "b", "include_hidden": True}) == "b is empty."
    assert list_files(context, {"path": "b"}) == "b is empty or has only hidden entries."
    for path in ("a", "c.txt", "nothing", ".."):
        with pytest.raises(ToolFault):
            list_files(context, {"path": path})


def test_no_name_can_pose_as_another_entry(context: Context, tmp_path: pathlib.Path) -> None:
    for name in (b"x\nfake/", b"\x1b[31mred", b"\xff\xfe", "right\u202eleft".encode(), "zwölf".encode()):
        if b"/" not in name:
            (tmp_path / os.fsdecode(name)).touch()
    (tmp_path / "x\nfake").touch()
    assert list_files(context, {}).splitlines() == [
        "\\x1b[31mred (0 bytes)",
        "right\\u202eleft (0 bytes)",
        "x\\nfake (0 bytes)",
        "zwölf (0 bytes)",
        "\\xff\\xfe (0 bytes)",
    ]


def test_without_a_workspace_nothing_is_reached() -> None:
    for function, arguments in ((read_file, {"path": "x"}), (list_files, {})):
        with pytest.raises(ResourceFault, match="no workspace"):
            function(make_context(None), arguments)
