"""What descriptors say of broken files: everything at once, each with its line, what was expected, and a way out."""

import tomllib
from collections.abc import Mapping
from typing import Any

import pytest

from ripieno.descriptors.ensembles import read_ensemble
from ripieno.descriptors.reader.problems import Source, dotted, excerpt, printable, undotted
from ripieno.exceptions import ConfigurationInvalidity, InputError, Problem
from tests.descriptors.descriptor_examples import IO, READ_FILE, SEARCH, TIME, WEATHER, ensemble, files


def test_everything_at_once_in_the_order_of_lines() -> None:
    text = SEARCH.replace('name = "search"', 'name = "Search"', 1).replace('effect = "read"', 'efect = "read"')
    text = text.replace('"2 MiB"', '"2 MB"').replace('"integer"', '"integr"').replace("argv = [", "argv = 1979-05-27 #")
    _, problems = ensemble(text)
    assert "\n".join(str(problem) for problem in problems) == (
        """\
x.toml:3: error: name must be a name of lower-case letters, digits, _ and -, beginning with a letter, not the string \
"Search"
  3 | name = "Search"
x.toml:8: error: [[invokers]] has no key efect
  8 | efect = "read"
  hint: Did you mean 'effect'?
x.toml:9: error: output must be a size such as "64 KiB" or "2 MiB", or a whole number of bytes above 0, not the \
string "2 MB"
  9 | output = "2 MB"
  hint: Write "2 MiB".
x.toml:18: error: JSON Schema has no type 'integr'
  18 | context = { type = "integr", minimum = 0 }
  hint: Did you mean 'integer'?
x.toml:22: error: argv must be a JSON value, not a date
  22 | argv = 1979-05-27 #"rg", "--json", { when = "context", argv = 1979-05-27 #"-C", "{context}"] }, "--", \
"{pattern}", "{path}"]
  hint: Write it in quotes."""
    )


SECONDS = "timeout must be a number of seconds above 0, at most 86400, not"
RETRIES = "max_retries must be a whole number from 0 to 100, not"
EFFECTS = 'effect must be one of "none", "read", "write", "destructive", not'
MODULE = 'module must be a module such as "package.module", or a file such as "./tools.py", not'
OUTPUT, LIMIT = 'output = "2 MiB"', 'timeout_argument = "seconds"'
EMPTY = '[ensemble]\nname = "x"\n'
BARE = EMPTY + '[[invokers]]\nname = "a"\ndescription = "A"\n'
NAME = "name must be a name of letters, digits, _ and -, at most 64, not"
TABLES = "invokers must be a list of tables, each one invoker, not a table"
DESCRIBED = 'description = "Reads a file"'
STRING, PATTERN = '{ type = "string" }', "required"
PROPERTY = f"An argument stands under properties: properties.text = {STRING}"
NAME_THEM = "Name the required arguments in the table that has the properties."
NEITHER = "Add [connection] or [[invokers]]. If it has no invokers, write invokers = []."
NO_FUNCTION = 'Add module = "package.module" to [ensemble], or an [invocable] table to the invoker.'
TWIN = '[[invokers]]\nname = "read_file"\ndescription = "Again"\n[[invokers]]'
RENAME = "Rename one of them, or delete it. It is also in x.toml."
OVERRIDE = "[overrides.search]\nconfirm = true\n[ensemble]"
DECLARED = "Write the keys at the invoker; [overrides] is for tools that a connection discovers."
#: A text, what is replaced in it, by what; then message, line and hint of the one problem.
CASES: list[tuple[str, str, str, str, int, str | None]] = [
    (SEARCH, "[ensemble]", "[ensembl]", "an ensemble's file has no key ensembl", 2, "Did you mean 'ensemble'?"),
    (SEARCH, '[ensemble]\nname = "search"', "[ensemble]", "[ensemble] lacks name", 2, 'Example: name = "io"'),
    (IO, "enabled = true", "timeout = 5", "[ensemble] has no key timeout", 4, "timeout belongs in [defaults]."),
    (IO, "30", '"30"', f'{SECONDS} the string "30"', 8, "Write 30, without quotes."),
    (IO, "30", '"30 s"', f'{SECONDS} the string "30 s"', 8, "Write a plain number of seconds, without a unit."),
    (IO, "30", '"ten"', f'{SECONDS} the string "ten"', 8, "Write: timeout = 10"),
    (IO, "retries = 3", 'retries = "no"', f'{RETRIES} the string "no"', 9, "Write: max_retries = 10"),
    (IO, "30", "0", f"{SECONDS} the number 0", 8, None),
    (IO, "30", "inf", f"{SECONDS} the number inf", 8, None),
    (IO, "retries = 3", "retries = 3.0", f"{RETRIES} the number 3.0", 9, "Write 3, without a point."),
    (IO, "retries = 3", "retries = true", f"{RETRIES} true", 9, None),
    (IO, "true", '"yes"', 'enabled must be true or false, not the string "yes"', 4, "Write true, without quotes."),
    (SEARCH, '"read"', '"reads"', f'{EFFECTS} the string "reads"', 8, "Did you mean 'read'?"),
    (SEARCH, '"read"', "5", f"{EFFECTS} the number 5", 8, None),
    (SEARCH, OUTPUT, 'tags = "a"', 'tags must be a list of words, not the string "a"', 9, 'Write a list: ["a"].'),
    (SEARCH, OUTPUT, 'tags = ["a",\n3]', "tags[1] must be a string, not the number 3", 10, 'Write it in quotes: "3".'),
    (SEARCH, OUTPUT, 'output = "2 GiB"', "output must be at most 1024 MiB", 9, None),
    (SEARCH, 'search"\nd', 'a b"\nd', f'{NAME} the string "a b"', 6, None),
    (SEARCH, 'description = "Searches files"\n', "", "[[invokers]] lacks description", 5, f"Example: {DESCRIBED}"),
    (SEARCH, "[[invokers]]", "[invokers]", TABLES, 5, "Write two brackets: [[invokers]]."),
    (SEARCH, '["pattern"]', '["patern"]', "'patern' is required but is not a property", 13, "Did you mean 'pattern'?"),
    (SEARCH, "{ type", "{ required = true, type", "required must be a list of names, not true or false", 16, NAME_THEM),
    (SEARCH, "minimum = 0", "minimun = 0", "JSON Schema has no keyword 'minimun'", 18, "Did you mean 'minimum'?"),
    (SEARCH, PATTERN, f"text = {STRING}\n{PATTERN}", "JSON Schema has no keyword 'text'", 13, PROPERTY),
    (SEARCH, 'type = "object"\n', "", "arguments must be an object", 11, 'Write: type = "object".'),
    (SEARCH, '= "."', "= 1979-05-27", "default must be a JSON value, not a date", 17, "Write it in quotes."),
    (SEARCH, 'origin = "command"', "", "[invocable] lacks origin", 20, 'Example: origin = "command".'),
    (SEARCH, "origin", "orgin", "[invocable] has no key orgin", 21, "Did you mean 'origin'?"),
    (WEATHER, "presets = { units", "presets = { unit", "'unit' is not an argument", 25, "Did you mean 'units'?"),
    (WEATHER, LIMIT, 'timeout_argument = "second"', "'second' is not an argument", 26, "Did you mean 'seconds'?"),
    (WEATHER, '"seconds"', '"city"', "the argument 'city' must be a number of seconds", 26, 'Give it type = "number".'),
    (WEATHER, "timeout_", "again_", "the argument 'seconds' must be a string", 26, 'Give it type = "string".'),
    (WEATHER, LIMIT, 'again_argument = "cite"', "'cite' is not an argument", 26, "Did you mean 'city'?"),
    (TIME, 'origin = "mcp"', "", "[connection] lacks origin", 5, 'Example: origin = "mcp"'),
    (TIME, 'origin = "mcp"', 'origine = "mcp"', "[connection] has no key origine", 6, "Did you mean 'origin'?"),
    (TIME, "stdio", "\\u001b[2J", "", 0, None),
    (TIME, "effect", "efect", "[overrides.<tool>] has no key efect", 12, "Did you mean 'effect'?"),
    (TIME, '["python", "-m"', "[1979-05-27", "command[0] must be a JSON value, not a date", 8, "Write it in quotes."),
    (EMPTY, "", "", "it has neither [connection] nor [[invokers]]", 1, NEITHER),
    (BARE, "", "", "'a' has no function and no [invocable]", 3, NO_FUNCTION),
    (IO, "source", "enabled = false\nsource", "[[invokers]] has no key enabled", 12, "Known: source."),
    (IO, "[[invokers]]", TWIN, "there are two invokers named 'read_file'", 14, RENAME),
    (SEARCH, "[ensemble]", OVERRIDE, "'search' is declared in this ensemble", 2, DECLARED),
    (EMPTY, "x", 'x"\nmodule = "a:b"\n[configuration]\nx = nan #', f'{MODULE} the string "a:b"', 3, None),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[3])
def test_one_problem(case: tuple[str, str, str, str, int, str | None]) -> None:
    text, old, new, message, line, hint = case
    assert old in text
    descriptor, problems = ensemble(text.replace(old, new, 1) if old else text, files(read_file__toml=READ_FILE))
    if not message:
        assert problems == ()
        return
    assert descriptor is None
    problem = problems[0]
    assert (problem.message, problem.line, problem.hint) == (message, line, hint)
    assert problem.file == "x.toml"
    assert problem.source == text.replace(old, new, 1).split("\n")[line - 1]
    assert problem.severity == "error"
    assert len(problems) == (2 if "nan" in new else 1)


@pytest.mark.parametrize(
    "source", ["/etc/passwd.toml", "../x.toml", "a/../b.toml", "a/..", "..", "x.txt", "", "a\\b.toml", "a\u0000.toml"]
)
def test_sources_that_climb(source: str) -> None:
    def read(relative: str) -> tuple[Mapping[str, Any], Source]:
        raise AssertionError(f"{relative} must not be read")

    mapping = {"ensemble": {"name": "x"}, "invokers": [{"source": source}]}
    _, problems = read_ensemble(mapping, read=read)
    (problem,) = problems
    assert "source must be a path of a .toml file beneath this file's folder" in problem.message


def test_sources_that_cannot_be_read() -> None:
    def read(relative: str) -> tuple[Mapping[str, Any], Source]:
        raise InputError(f"{relative} cannot be read: no such file")

    _, problems = ensemble(IO, read)
    assert problems == (
        Problem(
            message="io/invokers/read_file.toml cannot be read: no such file",
            file="x.toml",
            line=12,
            key="invokers[0].source",
            source='source = "io/invokers/read_file.toml"',
        ),
    )
    _, problems = ensemble(IO)
    assert problems[0].line == 12
    assert "this ensemble has no file" in problems[0].message


def test_problems_of_sources_name_their_own_file() -> None:
    broken = READ_FILE.replace("effect", "efect").replace('"object"', '"objct"')
    _, problems = ensemble(IO.replace("max_retries", "max_retry"), files(read_file__toml=broken))
    assert [(problem.file, problem.line) for problem in problems] == [
        ("x.toml", 9),
        ("io/invokers/read_file.toml", 6),
        ("io/invokers/read_file.toml", 9),
    ]

    def read(relative: str) -> tuple[Mapping[str, Any], Source]:
        raise ConfigurationInvalidity([Problem(message="syntax", file=relative, line=7)])

    _, problems = ensemble(IO, read)
    assert [(problem.file, problem.line) for problem in problems] == [("io/invokers/read_file.toml", 7)]


def test_what_cannot_be_printed_is_not() -> None:
    text = TIME.replace('name = "time"', 'name = "\\u001b]0;x\\u0007\\u202e"').replace("# ", "")
    text = text.replace("[ensemble]", '[ensemble]\n"\\u0007\\u202e" = "' + "x" * 5000 + '"')
    _, problems = ensemble(text)
    assert len(problems) == 2
    for problem in problems:
        assert str(problem).replace("\n", "").isprintable()
        assert len(str(problem)) < 1000


@pytest.mark.parametrize("path", [("a", 1, "b c", 0), ("invokers", 3), ("", "a.b"), ("a-b", "c_d", "é")])
def test_paths_are_written_and_read(path: tuple[str | int, ...]) -> None:
    assert undotted(dotted(path)) == path


def test_printable() -> None:
    assert printable("a\tb") == "a\tb"
    assert printable("a\x1b[2Jb\u202e\udc80") == "a\\x1b[2Jb\\u202e\\udc80"
    assert printable("x" * 200) == "x" * 159 + "…"


def test_a_program_may_give_anything() -> None:
    mapping: dict[Any, Any] = {"ensemble": {"name": "x", 3: 4}, "configuration": {"f": print, "n": 2**70}, None: 1}
    _, problems = read_ensemble({**mapping, "invokers": (), "defaults": []})
    assert len(problems) == 5
    assert all(problem.line is None and problem.file is None for problem in problems)
    text = '[ensemble]\nname = "x"\ninvokers = []\n'
    assert read_ensemble(tomllib.loads(text))[0] is None


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "word"),
    [
        ("minimum = 0", 'minimum = "0"', 18, "context.minimum", "number"),
        ('{ type = "string" }', '{ "$ref" = "https://example.org/a.json" }', 16, 'pattern."$ref"', "outside"),
        ('{ type = "string" }', '{ pattern = "(" }', 16, "pattern.pattern", ""),
        ('{ type = "string" }', "{ anyOf = [true, { enum = 3 }] }", 16, "pattern.anyOf[1].enum", "array"),
        ('{ type = "string" }', "3", 16, "pattern", ""),
        ('{ type = "string" }', "{ anyOf = [true, { enm = 3 }] }", 16, "pattern.anyOf[1].enm", "keyword"),
        ('{ type = "string" }', '{ "$defs" = { a = { tpe = "string" } } }', 16, 'pattern."$defs".a.tpe', "keyword"),
        ('{ type = "string" }', '{ items = { type = ["strng"] } }', 16, "pattern.items.type", "no type"),
        ('{ type = "string" }', '{ type = "string", minimum = 9223372036854775808 }', 16, "pattern.minimum", "64 bits"),
        ('path = { type = "string", default = "." }', "path = 1", 17, "path", ""),
    ],
)
def test_schemas_are_checked_with_positions(old: str, new: str, line: int, key: str, word: str) -> None:
    text = SEARCH.replace(old, new, 1)
    _, problems = ensemble(text)
    (problem,) = problems
    assert (problem.line, problem.key) == (line, f"invokers[0].arguments.properties.{key}")
    assert word in problem.message
    assert "(at /" not in problem.message


def test_extensions_of_schemas_are_let_be() -> None:
    descriptor, problems = ensemble(SEARCH.replace('{ type = "string" }', '{ type = "string", x-widget = "area" }'))
    assert problems == ()
    assert descriptor is not None
    assert descriptor.invokers[0].arguments["properties"]["pattern"]["x-widget"] == "area"


def test_schemas_of_sources_that_cannot_be_read() -> None:
    def read(relative: str) -> tuple[Mapping[str, Any], Source]:
        raise InputError(f"{relative} is away")

    text = '[ensemble]\nname = "x"\nmodule = "m"\n[[invokers]]\nname = "a"\ndescription = "A"\n'
    _, problems = ensemble(text + '[invokers.arguments]\nsource = "a.json"\n', read)
    assert [(problem.message, problem.line) for problem in problems] == [("a.json is away", 8)]


def test_deep_tables_of_a_program() -> None:
    value: Any = 1
    for _ in range(1000):
        value = {"a": [value]}
    _, problems = read_ensemble({"ensemble": {"name": "x"}, "invokers": [], "configuration": value})
    assert [problem.message for problem in problems] == ["tables and lists are nested more than 64 deep"]


@pytest.mark.parametrize(
    ("line", "path", "shown"),
    [
        ('secret = "abc"', ("gateway", "secret"), "secret = …"),
        ('headers = { x = "{sk" }', ("providers", "a", "headers", "x"), "headers = …"),
        ('laptop = "plain"', ("gateway", "keys", "laptop"), "laptop = …"),
        ('KEY = "sk"', ("connection", "environment", "KEY"), "KEY = …"),
        ('"api_key": "sk",', ("api_key",), '"api_key": …'),
        # Where the file cannot be read, nobody knows what belongs to what.
        ('  api_key = "sk-1', (), "  api_key = …"),
        ('allow = ["PATH", 3]', ("environment", "allow"), 'allow = ["PATH", 3]'),
        ("keys = { type = 1 }", ("invokers", 0, "arguments", "properties", "keys"), "keys = { type = 1 }"),
        ('name = "Search"', ("ensemble", "name"), 'name = "Search"'),
        ('house = { api_key = "sk", tpyo = 1 }', ("providers", "house", "tpyo"), "house = { api_key = …"),
        ('headers = { Authorization = "Bearer sk", }', (), "headers = …"),
        ('headers = { "X-Api-Key" = "sk" "x" = 1 }', (), "headers = …"),
        ('"X-Api-Key" = "sk" "x" = 1', (), '"X-Api-Key" = …'),
        ('gateway = { secret = "sk", tpyo = 1 }', ("gateway", "tpyo"), "gateway = { secret = …"),
        ('providers.house.api_key = "sk-SECRET6" x', (), "providers.house.api_key = …"),
        ("max_tokens = 1 x", (), "max_tokens = 1 x"),
    ],
)
def test_no_line_shows_a_secret(line: str, path: tuple[str | int, ...], shown: str) -> None:
    assert excerpt(line, path) == shown
