"""A workspace reads and writes beneath its root, and nothing outside, with any path and under any exchange."""

import os
import pathlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ripieno.exceptions import PermissionFault, ResourceFault, ToolFault, ValidationFault
from ripieno.toolset.workspace.walk import MAX_LINKS
from ripieno.toolset.workspace.workspace import Workspace
from tests.counts import count
from tests.toolset.furnished_workspace import CANARY, furnish, read, snapshot


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("readme", "readme"),
        ("./a//b", "a/b"),
        ("a/../readme", "readme"),
        ("a/c/../b", "a/b"),
        ("link", "readme"),
        ("chain", "readme"),
        ("folder/b", "a/b"),
        ("folder/c/d", "a/c/d"),
        ("a/up/e", "sub/e"),
        ("a/up/../readme", "readme"),  # beneath what the link points to, as the system has it
        ("a/c/far", "sub/e"),
        ("absolute", "sub/e"),
        ("here/here/readme", "readme"),
        ("top/top/a/b", "a/b"),
        ("{root}/a/b", "a/b"),
        ("//{root}/a/../readme", "readme"),
        (".hidden", ".hidden"),
    ],
)
def test_what_lies_beneath_is_read(files: Workspace, root: pathlib.Path, path: str, name: str) -> None:
    path = path.format(root=root)
    assert read(files, path) == f"inside: {name}".encode() == (root / path).read_bytes()


def test_the_root_may_be_given_through_a_link(root: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    with Workspace(tmp_path / "alias") as files:
        for path in ("readme", f"{tmp_path}/alias/readme", f"{root}/readme"):
            assert read(files, path) == b"inside: readme"


REFUSALS = [
    ("..", "outside_workspace"),
    ("../{outside.name}/secret", "outside_workspace"),
    ("a/../../{outside.name}/secret", "outside_workspace"),
    ("../workspace/readme", "outside_workspace"),
    ("{outside}/secret", "outside_workspace"),
    ("/etc/passwd", "outside_workspace"),
    ("/", "outside_workspace"),
    ("{root}-other/readme", "outside_workspace"),
    ("{root}/../{outside.name}/secret", "outside_workspace"),
    ("escape", "outside_workspace"),
    ("escape-folder/secret", "outside_workspace"),
    ("escape-up/secret", "outside_workspace"),
    ("sub/escape-far", "outside_workspace"),
    ("escape-and-back", "outside_workspace"),
    ("magic/etc/passwd", "outside_workspace"),
    ("magic-cwd/readme", "outside_workspace"),
    ("a/up/../../..", "outside_workspace"),
    ("self", "link_loop"),
    ("ping/x", "link_loop"),
    ("dangling", "not_found"),
    ("nothing", "not_found"),
    ("nothing/..", "not_found"),
    ("a/nothing/b", "not_found"),
    ("readme/x", "not_a_directory"),
    ("a", "is_directory"),
    (".", "is_directory"),
    ("here", "is_directory"),
    ("", "empty_path"),
    ("read\0me", "invalid_path"),
    ("\ud800", "invalid_path"),
    ("~/readme", "invalid_path"),
    ("x" * 300, "too_long"),
    ("a/" * 2100, "too_long"),
    ("x" * 300 + "/y", "too_long"),
]
#: Other codes are of a ``ResourceFault``.
KINDS: dict[str, type[ToolFault]] = {
    "outside_workspace": PermissionFault,
    **dict.fromkeys(("empty_path", "invalid_path", "too_long"), ValidationFault),
}


@pytest.mark.parametrize(("path", "code"), REFUSALS)
def test_what_is_refused_says_so(
    files: Workspace, root: pathlib.Path, outside: pathlib.Path, path: str, code: str
) -> None:
    path = path.format(root=root, outside=outside) if "{" in path else path
    before, descriptors = snapshot(outside), len(os.listdir("/proc/self/fd"))
    with pytest.raises(KINDS.get(code, ResourceFault)) as caught:
        read(files, path)
    assert caught.value.code == code
    assert repr(path) in str(caught.value) or code in ("too_long", "empty_path")
    for append in () if code in ("link_loop", "not_found") else (False, True):
        with pytest.raises(ToolFault):
            files.write_file(path, b"overwritten", append=append)
    assert snapshot(outside) == before
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_links_end_at_forty(files: Workspace, root: pathlib.Path) -> None:
    for number in range(MAX_LINKS + 1):
        (root / f"hop{number + 1}").symlink_to(f"hop{number}")
    (root / "hop0").write_text("end")
    assert read(files, f"hop{MAX_LINKS}") == b"end"
    with pytest.raises(ResourceFault, match="more than 40 links"):
        read(files, f"hop{MAX_LINKS + 1}")


def test_a_long_way_ends(files: Workspace, root: pathlib.Path) -> None:
    """Links whose texts go up and down cannot make a walk endless."""
    (root / "l0").symlink_to("a/c/../../" * 400 + "readme")
    for number in range(30):
        (root / f"l{number + 1}").symlink_to("a/c/../../" * 400 + f"l{number}")
    assert read(files, "l0") == b"inside: readme"
    with pytest.raises(ValidationFault, match="too many directories"):
        read(files, "l30")


@pytest.mark.parametrize("name", ["root/etc/passwd", "cwd", "exe", "fd/0", "fd/{held}", "ns/net", "root/{held_path}"])
def test_magic_links_are_no_door(name: str, outside: pathlib.Path) -> None:
    held = os.open(outside / "secret", os.O_RDONLY)
    try:
        with Workspace("/proc/self") as files, pytest.raises(ToolFault):
            read(files, name.format(held=held, held_path=outside / "secret"))
    finally:
        os.close(held)


def test_a_root_that_is_none_is_refused(tmp_path: pathlib.Path) -> None:
    for path in (tmp_path / "nothing", __file__):
        with pytest.raises(ResourceFault, match=r"workspace .* cannot be opened"):
            Workspace(path)


NAMES = [
    *"ab", "..", ".", "", "sub", "link", "chain", "folder", "up", "here", "top", "absolute", "escape", "a/up", "secret",
    "escape-folder", "escape-up", "escape-and-back", "magic", "self", "ping", "new", "~", "tmp", "etc", "passwd", "\0",
]  # fmt: skip


def paths(root: pathlib.Path, outside: pathlib.Path) -> st.SearchStrategy[str]:
    beginnings = [
        *("", "/", f"{root}/", f"{outside}/", f"../{outside.name}/", f"/proc/self/root{outside}/", f"{root}/../"),
    ]
    names = st.one_of(st.sampled_from(NAMES), st.sampled_from([root.name, outside.name]), st.text(max_size=5))
    return st.builds(
        lambda begin, rest: begin + "/".join(rest), st.sampled_from(beginnings), st.lists(names, max_size=8)
    )


@pytest.fixture(scope="module")
def lasting_root(tmp_path_factory: pytest.TempPathFactory, outside: pathlib.Path) -> pathlib.Path:
    workspace = tmp_path_factory.mktemp("workspace")
    furnish(workspace, outside)
    return workspace


def attempt(act: Callable[[], object]) -> object:
    try:
        return act()
    except ToolFault as fault:
        return fault


@settings(max_examples=count(2_000), deadline=None)
@given(data=st.data())
def test_law_no_path_reads_outside(lasting_root: pathlib.Path, outside: pathlib.Path, data: st.DataObject) -> None:
    path = data.draw(paths(lasting_root, outside))
    with Workspace(lasting_root) as files:
        result = attempt(lambda: read(files, path))
    if isinstance(result, bytes):
        assert result != CANARY
        # What is read is what the system has there, and the system has it beneath.
        resolved = (lasting_root / path).resolve()
        assert resolved.is_relative_to(lasting_root)
        assert result == resolved.read_bytes()


@settings(max_examples=count(1_000), deadline=None)
@given(data=st.data(), append=st.booleans(), create=st.booleans())
def test_law_no_path_writes_outside(
    lasting_root: pathlib.Path, outside: pathlib.Path, data: st.DataObject, append: bool, create: bool
) -> None:
    path = data.draw(paths(lasting_root, outside))
    before = snapshot(outside)
    beside = sorted(os.listdir(lasting_root.parent))
    with Workspace(lasting_root) as files:
        result = attempt(lambda: files.write_file(path, b"written", append=append, create_directories=create))
    assert snapshot(outside) == before
    assert sorted(os.listdir(lasting_root.parent)) == beside
    assert not list(lasting_root.rglob(".ripieno-*"))
    if not isinstance(result, ToolFault):
        assert (lasting_root / result.steps[-1].path).read_bytes().endswith(b"written")
