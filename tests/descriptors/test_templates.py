"""The template grammar: what it takes, what it refuses, and that no value can be more than a value."""

import getopt
import posixpath
import urllib.parse
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.descriptors.templates import ArgvTemplate, Placeholder, Template
from ripieno.exceptions import InputError, ValidationFault

#: What models send when they mean harm, or only paths with odd names.
NASTY = ["-rf", "--", "-", "--exec=rm", "..", ".", "../..", "", "a b", "%2e%2e", "a/b", "\\", "@host", "://", "#"]
NASTY += ["?x=1", "&"]
NASTY += ["\r\nX: y", "\n", "{x}", "$(rm)", ";", "ü", "\u2028", "💥", "-\u0301", "a=b", "\t", "\x7f", "\x1b[0m"]
TEXTS = st.one_of(st.sampled_from(NASTY), st.text(max_size=12))
VALUES = st.one_of(TEXTS, st.integers(), st.booleans(), st.floats(allow_nan=False, allow_infinity=False))
WRITABLE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
Result = TypeVar("Result")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ()),
        ("plain", ("plain",)),
        ("{a}", (Placeholder(name="a"),)),
        ("--depth={n}", ("--depth=", Placeholder(name="n"))),
        ("{a}{b-c.d}x", (Placeholder(name="a"), Placeholder(name="b-c.d"), "x")),
        ("{{{a}}}", ("{", Placeholder(name="a"), "}")),
        ("{{a}}", ("{a}",)),
        ("Bearer {env:TOKEN}", ("Bearer ", Placeholder(name="TOKEN", variable=True))),
    ],
)
def test_the_grammar(text: str, parts: tuple[Any, ...]) -> None:
    template = Template.parse(text, variables=True)
    assert template.parts == parts
    assert template == Template(parts=parts)


@pytest.mark.parametrize(
    ("text", "where", "advice"),
    [
        ("ab{c", "the brace at character 3", "{{"),
        ("ab}c", "the brace at character 3", "}}"),
        ("{}", "{} at character 1", "write an argument as {name}"),
        ("{a b}", "{a b} at character 1", 'a literal brace as "{{"'),
        ('{"a": 1}', "is not a placeholder", 'a literal brace is "{{"'),
        ("x{ENV:A}", "{ENV:A} at character 2", "variables {env:NAME}"),
        ("x{env:A-B}", "{env:A-B} at character 2", "is not a placeholder"),
        ("{a{b}}", "the brace at character 1", "never closed"),
    ],
)
def test_text_that_makes_no_sense_is_located(text: str, where: str, advice: str) -> None:
    with pytest.raises(InputError) as raised:
        Template.parse(text, variables=True)
    assert where in str(raised.value)
    assert advice in str(raised.value)


def double(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


@given(text=st.text(max_size=30))
def test_law_text_with_doubled_braces_means_itself(text: str) -> None:
    assert Template.parse(double(text)).literal == text


@given(text=st.text(alphabet="{}ae:nv_ 1", max_size=12))
def test_law_any_text_is_understood_or_refused(text: str) -> None:
    try:
        template = Template.parse(text, variables=True)
    except InputError as error:
        again = str(error)
    else:
        again = "".join(str(part) if isinstance(part, Placeholder) else double(part) for part in template.parts)
    assert again == text or " at character " in again


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "true"), (False, "false"), (3, "3"), (1.5, "1.5"), (1e300, "1e+300"), ("x", "x"), ("", "")],
)
def test_values_are_written_as_json_writes_them(value: object, text: str) -> None:
    assert Template.parse("<{a}>").text({"a": value}) == f"<{text}>"


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (None, "missing_required"),
        *((value, "invalid_type") for value in ([], {})),
        *((text, "invalid_value") for text in ("a\0b", "\ud800")),
    ],
)
def test_values_that_fit_nowhere(value: object, code: str) -> None:
    template = Template.parse("{a}")
    for expand in (template.text, template.element, template.segment, template.query, template.header):
        with pytest.raises(ValidationFault, match="'a'") as raised:
            expand({"a": value})
        assert (raised.value.code, raised.value.details) == (code, {"parameter": "a"})


def test_variables() -> None:
    template = Template.parse("Bearer {env:TOKEN} {a}", variables=True)
    assert (template.variables, template.placeholders) == (("TOKEN",), ("a",))
    assert template.header({"a": 1}, {"TOKEN": "x"}) == "Bearer x 1"
    with pytest.raises(InputError, match="The variable TOKEN is not set"):
        template.text({"a": 1})
    with pytest.raises(InputError, match="The variable TOKEN has characters that a header cannot contain"):
        template.header({"a": 1}, {"TOKEN": "x\n"})


ARGV = ArgvTemplate.parse(
    [
        *("prog", "-C", "{a}", "--depth={b}", "-n{b}", {"when": "w", "argv": ["--when={w}", "-w"]}),
        *("{c}{d}", "--", "{d}", {"each": "e"}, "last"),
    ]
)


def expanded(expand: Callable[[], Result]) -> Result | None:
    """What is expanded, or None when an argument was refused, by its name."""
    try:
        return expand()
    except ValidationFault as fault:
        if fault.details["parameter"] not in "abcdwe":
            raise
        return None


@given(
    arguments=st.fixed_dictionaries(
        {"a": VALUES, "b": VALUES, "c": TEXTS, "d": TEXTS, "w": st.none() | VALUES},
        optional={"e": st.lists(VALUES, max_size=4)},
    )
)
def test_law_no_value_adds_an_element_or_an_option(arguments: dict[str, Any]) -> None:
    argv = expanded(lambda: ARGV.expand(arguments))
    if argv is None:
        return
    written = Template.parse("{x}")
    a, b, c, d = (written.text({"x": arguments[name]}) for name in "abcd")
    several = [written.text({"x": one}) for one in arguments.get("e", ())]
    conditional: list[tuple[str, str]] = []
    if arguments["w"] is not None and arguments["w"] is not False:
        conditional = [("--when", written.text({"x": arguments["w"]})), ("-w", "")]
    options, rest = getopt.gnu_getopt(argv[1:], "C:n:w", ["depth=", "when=", "exec="])
    assert options == [("-C", a), ("--depth", b), ("-n", b), *conditional]
    assert rest == [c + d, d, *several, "last"]
    assert argv[0] == "prog"


@pytest.mark.parametrize("value", ["-rf", "--", "-", "-1", -1, -1.5])
def test_a_value_that_looks_like_an_option_is_refused_before_two_dashes(value: object) -> None:
    argv = ArgvTemplate.parse(["prog", "{a}"])
    with pytest.raises(ValidationFault, match="must not begin with '-'") as raised:
        argv.expand({"a": value})
    assert raised.value.suggestion == (
        "If it is a path, write ./ before it."
        if isinstance(value, str)
        else "The author of this tool can allow negative numbers: write an option and its number as one element, such "
        'as "--number={a}", or "--" before the number.'
    )
    with pytest.raises(ValidationFault, match="would be read as an option"):
        ArgvTemplate.parse(["prog", "-n", "{a}"]).expand({"a": value})
    assert ArgvTemplate.parse(["prog", "--", "{a}"]).expand({"a": value})[2] == str(value)
    assert ArgvTemplate.parse(["prog", "--a={a}"]).expand({"a": value})[1] == f"--a={value}"


def test_an_option_may_not_lose_its_value_to_the_next_element() -> None:
    argv = ArgvTemplate.parse(["prog", "-C{a}", "--b={a}", "next"])
    assert argv.expand({"a": "1"}) == ["prog", "-C1", "--b=1", "next"]
    with pytest.raises(ValidationFault, match="'a' must not be empty"):
        argv.expand({"a": ""})
    assert ArgvTemplate.parse(["prog", "--b={a}"]).expand({"a": ""}) == ["prog", "--b="]


def test_two_dashes_that_are_left_out_protect_nothing() -> None:
    argv = ArgvTemplate.parse(["git", "log", {"when": "path", "argv": ["--", "{path}"]}, "{b}"])
    assert argv.expand({"path": "-x", "b": "-y"}) == ["git", "log", "--", "-x", "-y"]
    with pytest.raises(ValidationFault):
        argv.expand({"b": "-y"})


@pytest.mark.parametrize(("value", "present"), [(None, 0), (False, 0), (True, 1), (0, 1), ("", 1), ([], 1)])
def test_when_asks_whether_there_is_anything(value: object, present: int) -> None:
    argv = ArgvTemplate.parse(["prog", {"when": "a", "argv": ["-a"]}])
    assert argv.expand({"a": value}) == ["prog", "-a"][: 1 + present]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "must be a list"),
        ("prog {a}", 'names a program and its arguments. Write: argv = ["prog", "{a}"]'),
        ("prog 'a", 'Write: argv = ["wc", "-w", "{path}"]'),
        (["{a}"], "[0]: the program must be a literal name. An argument cannot choose the program."),
        ([""], "[0]: the program must be a literal name"),
        ([{"when": "a", "argv": ["x"]}], "[0]: this is not an element of an argv. Write the program's name"),
        (["p", 1], "[1]: this is not an element of an argv"),
        (["p", {"when": "a"}], "[1]: this is not an element of an argv"),
        (["p", {"when": "a", "argv": []}], "[1]: this is not an element of an argv"),
        (["p", {"when": "a", "argv": ["{b"]}], "[1].argv[0]: the brace at character 1"),
        (["p", {"when": "a", "argv": [["x"]]}], "[1].argv[0]: this must be a string"),
        (["p", {"each": "a", "x": 1}], "[1]: this is not an element of an argv"),
        (["p", {"each": "a"}], "[1]: { each = ... } is allowed only after a literal --"),
        (["p", {"when": "a", "argv": ["--"]}, {"each": "a"}], "[2]: { each = ... } is allowed only after a literal --"),
        (["p", "-{a}"], "[1]: an argument would name the option"),
        (["p", "--{a}"], "[1]: an argument would name the option"),
        (["p", "--no-{a}=1"], "[1]: an argument would name the option"),
        (["p", {"when": "a", "argv": ["-{a}"]}], "[1].argv[0]: an argument would name the option"),
        (["p", "a\0"], "[1]: an argument of a program cannot contain NUL"),
        (["p", "{env:TOKEN}"], "[1]: {env:TOKEN} at character 1 of '{env:TOKEN}': variables are not allowed here"),
    ],
)
def test_an_argv_that_could_do_harm_is_refused_when_it_is_read(argv: Any, message: str) -> None:
    with pytest.raises(InputError) as raised:
        ArgvTemplate.parse(argv)
    assert message in str(raised.value)


def test_all_that_is_wrong_with_an_argv_is_said_at_once() -> None:
    template, complaints = ArgvTemplate.read(["p", "{", "}", {"x": 1}])
    assert template is None
    assert [complaint.path for complaint in complaints] == [(1,), (2,), (3,)]


SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["pattern", "paths", "table"],
    "properties": {
        "pattern": {"type": "string"},
        "paths": {"type": "array", "items": {"type": "string"}},
        "tables": {"type": "array", "items": {"type": "object"}},
        "table": {"type": "object"},
        "depth": {"type": "integer", "default": 3},
        "context": {"type": ["integer", "null"]},
        "anything": {},
    },
}


BRACE = 'A literal brace is written "{{".'
NO_VALUE = "'paths' is a list or an object, not one value"


@pytest.mark.parametrize(
    ("argv", "complaints"),
    [
        (["p", "{pattern}", "{depth}", "--", {"each": "paths"}], []),
        (["p", {"when": "context", "argv": ["-C", "{context}", "{pattern}"]}], []),
        (["p", {"when": "table", "argv": ["-t"]}, "--", {"each": "anything"}], []),
        (["p", "{patern}"], ["[1]: 'patern' is not an argument. Did you mean 'pattern'?"]),
        (["p", {"when": "contxt", "argv": ["-c"]}], ["[1].when: 'contxt' is not an argument. Did you mean 'context'?"]),
        (["p", "--", {"each": "path"}], ["[2].each: 'path' is not an argument. Did you mean 'paths' or 'depth'?"]),
        (["p", "{zzz}"], [f"[1]: 'zzz' is not an argument. Known: {', '.join(sorted(SCHEMA['properties']))}. {BRACE}"]),
        (["p", "{paths}"], [f'[1]: {NO_VALUE}. Write {{ each = "paths" }} after "--".']),
        (["p", "{table}"], ["[1]: 'table' is a list or an object, not one value."]),
        (["p", "--", {"each": "pattern"}], ["[2].each: 'pattern' is not a list. Write \"{pattern}\"."]),
        (["p", "--", {"each": "tables"}], ["[2].each: the items of 'tables' are neither strings nor numbers."]),
    ],
)
def test_places_are_checked_against_the_arguments(argv: list[Any], complaints: list[str]) -> None:
    assert [str(complaint) for complaint in ArgvTemplate.parse(argv).check(SCHEMA)] == complaints


def test_a_place_for_an_argument_that_may_be_absent() -> None:
    template = ArgvTemplate.parse(["p", "{context}", {"when": "depth", "argv": ["{anything}"]}])
    assert [(one.path, one.message) for one in template.check(SCHEMA)] == [
        ((1,), "'context' may be absent"),
        ((2, "argv", 0), "'anything' may be absent"),
    ]
    assert 'write { when = "context", argv = [...] }.' in str(template.check(SCHEMA)[0])
    # Only an argv has such tables.
    (complaint,) = Template.parse("a {context}").check(SCHEMA)
    assert complaint.hint == "Make it required, or give it a default."
    (complaint,) = Template.parse("{paths}").check(SCHEMA)
    assert complaint.hint is None
    assert template.check(SCHEMA, given=["context", "anything"]) == ()


def test_each_needs_a_list() -> None:
    argv = ArgvTemplate.parse(["p", "--", {"each": "a"}])
    assert argv.expand({"a": ["x", 1, True]}) == ["p", "--", "x", "1", "true"]
    for value in ("text", 3, {"x": 1}):
        with pytest.raises(ValidationFault, match="'a' must be a list"):
            argv.expand({"a": value})
    with pytest.raises(ValidationFault, match="'a' is required"):
        argv.expand({"a": [None]})


def test_what_a_schema_hides_is_not_complained_about() -> None:
    schema = {"type": "object", "allOf": [{"properties": {"a": {"type": "string"}}}]}
    assert Template.parse("{a}").check(schema) == ()
    assert len(Template.parse("{a}").check({"type": "object"})) == 1


@given(a=TEXTS, b=TEXTS)
def test_law_no_value_adds_a_segment_or_a_host(a: str, b: str) -> None:
    one = expanded(lambda: Template.parse("{a}").segment({"a": a}))
    two = expanded(lambda: Template.parse("v.{a}{b}").segment({"a": a, "b": b}))
    if one is None or two is None:
        return
    url = urllib.parse.urlsplit(f"https://api.example.org/{one}/{two}/end?q=1")
    assert (url.netloc, url.query, url.fragment) == ("api.example.org", "q=1", "")
    assert posixpath.normpath(url.path) == url.path
    assert [urllib.parse.unquote(part) for part in url.path.split("/")] == ["", a, f"v.{a}{b}", "end"]


@pytest.mark.parametrize(("text", "a"), [("{a}", ".."), ("{a}", "."), ("{a}", ""), (".{a}", "."), ("{a}{a}", ".")])
def test_a_segment_neither_climbs_nor_vanishes(text: str, a: str) -> None:
    with pytest.raises(ValidationFault, match="cannot be used in a path"):
        Template.parse(text).segment({"a": a})


@given(a=WRITABLE)
def test_law_a_query_has_the_values_that_it_was_given(a: str) -> None:
    query = f"x={Template.parse('& {a}').query({'a': a})}&y=2"
    assert urllib.parse.parse_qsl(query, keep_blank_values=True) == [("x", f"& {a}"), ("y", "2")]


@given(a=TEXTS)
def test_law_a_header_is_one_line_of_ascii(a: str) -> None:
    try:
        header = Template.parse("Token {a}").header({"a": a})
    except ValidationFault:
        assert not a.isascii() or any(ord(one) < 32 or ord(one) == 127 for one in a)
    else:
        assert header == f"Token {a}"
        assert header.isascii()
        assert header.splitlines() == [header]
