"""With ripgrep and without it, a search says the same, whatever the tree, the pattern and the globs are."""

import asyncio
import pathlib
import re
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ripieno.exceptions import ValidationFault
from ripieno.toolset.arguments import check_glob, matcher
from ripieno.toolset.search.expressions import Expression
from tests.counts import count
from tests.toolset.bundled_tools import text_of
from tests.toolset.search.search_tools import make, needs_ripgrep, searching

SLOW = settings(
    max_examples=count(600, 60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

NAMES = st.sampled_from(
    ["a", "b", "A.py", "b.py", "c.txt", ".hid", ".hid.py", "no x", "-f", "x[1]", "é", "{y}", "a,b", "!n", "#h", "z.log"]
)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
WORDS = st.sampled_from(["foo", "Foo", "FOO", "bar", "b.r", "foo bar", "é", "É", "ß", "٣", "1", "-x", "$", "(", "\t"])
LINES = st.lists(WORDS, max_size=4).map("".join)
ENDS = st.sampled_from(["\n", "\n", "\n", "\r\n", "\n\n"])
CONTENTS = st.lists(st.tuples(LINES, ENDS).map("".join), max_size=8).map("".join).map(str.encode)
ODD = st.sampled_from([b"\0", b"foo\n\0foo", b"\xff\xfefoo", b"\xc3", b"", b"foo", b"\xef\xbb\xbffoo"])
RULES = st.lists(
    st.sampled_from(
        ["a", "b/", "/a", "*.py", "!b.py", "!.hid", ".hid", "a/b", "**/b", "a/**", "a/**/b", "# c", "", "*.l?g",
        "x\\[1\\]",
         "[ab]", "[!a]*", "{a,b}", "no x", "no x  ", "\\!n", "\\#h", "*", "!*/", "!*.txt", "é", "[", "b\\"]
    ),
    max_size=4,
).map("\n".join).map(str.encode)  # fmt: skip
TREES = st.dictionaries(PATHS, CONTENTS | CONTENTS | ODD, max_size=8)
GLOBS = st.none() | st.sampled_from(
    [
        *("*.py", "*.{py,txt}", "a/**", "**/b", "a", "a/", "/a/*", "!n", "#h", "[ab]*", "**", "x\\[1\\]", "b.??"),
        *(".hid", ".*", "é"),
    ]
)
LITERALS = WORDS | st.sampled_from(["o b", "oo", ".", "^", "--", "-e", "[", "\\"])
REGEXES = st.sampled_from(
    ["fo+", "^foo", "bar$", "^$", "b.r", r"\d", r"\w+ \w+", r"\s", r"\bfoo\b", "foo|bar", "(?:foo){2}", "[a-f]oo",
    r"[^\w\s]",
     r"\W", r"\D$", r"\S", ".", "o{2,}", r"^\s*$", r"\$", "é", r"[\d(]", "(?i)foo", r"\Bo", "x*", r"[^a]$", "-"]
)  # fmt: skip


class Both:
    """The tools of one workspace twice, on one loop."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.runner = asyncio.Runner()

    def fill(self, tree: Mapping[str, bytes], rules: Mapping[str, bytes]) -> None:
        shutil.rmtree(self.root)
        self.root.mkdir()
        for name, data in [*tree.items(), *((f"{one}/.gitignore", text) for one, text in rules.items())]:
            try:
                make(self.root, {name: data})
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                continue  # A name is a file already, or a folder.

    def ask(self, tool: str, arguments: Mapping[str, Any]) -> list[str]:
        """What each says, without its name."""

        async def once(engine: str) -> str:
            async with searching(self.root, engine) as tools:
                text = text_of(await tools(tool, **arguments))
            return re.sub(r"\b(with|)(out )?ripgrep\)", "engine)", text, count=1)

        return [self.runner.run(once(engine)) for engine in ("ripgrep", "without ripgrep")]


@pytest.fixture
def both(tmp_path: pathlib.Path) -> Iterator[Both]:
    (tmp_path / "workspace").mkdir()
    found = Both(tmp_path / "workspace")
    with found.runner:
        yield found


@needs_ripgrep
@SLOW
@given(
    tree=TREES,
    rules=st.dictionaries(st.sampled_from([".", "a", "a/b", "b"]), RULES, max_size=3),
    pattern=st.tuples(LITERALS, st.just("literal")) | st.tuples(REGEXES, st.just("regex")),
    include=GLOBS,
    exclude=GLOBS,
    path=st.sampled_from([".", ".", "a", "a/b"]),
    flags=st.fixed_dictionaries(
        {
            "case_sensitive": st.booleans(),
            "include_hidden": st.booleans(),
            "include_ignored": st.booleans(),
            "max_results": st.sampled_from([1, 3, 50]),
            "context_lines": st.sampled_from([0, 1, 3]),
        }
    ),
)
@example(
    tree={},
    rules={".": b"", "a/b": b"", "a": b"["},
    pattern=("fo+", "regex"),
    include=None,
    exclude=None,
    path="a/b",
    flags={
        "case_sensitive": False,
        "include_hidden": False,
        "include_ignored": False,
        "max_results": 1,
        "context_lines": 0,
    },
)
def test_both_say_the_same(  # noqa: PLR0917
    both: Both,
    tree: dict[str, bytes],
    rules: dict[str, bytes],
    pattern: tuple[str, str],
    include: str | None,
    exclude: str | None,
    path: str,
    flags: dict[str, Any],
) -> None:
    both.fill(tree, rules)
    if any(b"\xff" in data or data == b"\xc3" for data in tree.values()) and pattern[1] == "regex":
        # Of bytes that are no text, an expression says something else in each.
        return
    globs = {"include_pattern": include, "exclude_pattern": exclude}
    arguments = {name: value for name, value in globs.items() if value is not None} | flags
    arguments |= {"pattern": pattern[0], "type": pattern[1], "path": path}
    ripgrep, fallback = both.ask("ripgrep", arguments)
    assert ripgrep == fallback


@settings(max_examples=count(20_000, 200), deadline=None)
@given(st.text("ab*?/[]{}!,\\^-. é\n", max_size=12), st.text("ab/. é-", max_size=12))
def test_a_glob_is_refused_or_decides(glob: str, path: str) -> None:
    try:
        check_glob(glob)
    except ValidationFault:
        return
    for names in (True, False):
        assert matcher(glob, names=names)(path) in (True, False)


@settings(max_examples=count(20_000, 200), deadline=None)
@given(st.text("ab.*+?()[]{}|^$\\dwsWSD1,-é", max_size=10), st.lists(st.text("ab1- é", max_size=8), max_size=5))
def test_an_expression_is_refused_or_finds_whole_lines(pattern: str, lines: list[str]) -> None:
    try:
        expression = Expression(pattern, literal=False, case_sensitive=True)
    except ValidationFault:
        return
    data = "\n".join(lines).encode()
    spots = list(expression.spots(data))
    for start, stop, _ in spots:
        assert start == 0 or data[start - 1 : start] == b"\n"
        assert stop == len(data) or data[stop : stop + 1] == b"\n"
    assert spots == sorted(set(spots))


@pytest.mark.parametrize("character", ["x", "\r", "\u2028", "\u0085"])
def test_a_dot_is_any_character_of_a_line(character: str) -> None:
    """As in ripgrep."""
    data = f"a{character}b\na\nb\n".encode()
    expression = Expression("a.b", literal=False, case_sensitive=True)
    assert [data[start:stop] for start, stop, _ in expression.spots(data)] == [f"a{character}b".encode()]
