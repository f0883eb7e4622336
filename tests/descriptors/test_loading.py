"""Loading: one file within its bounds, references beneath their folder, and layers over layers. Real files."""

import hashlib
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.descriptors.configuration import combine
from ripieno.descriptors.loading import Layer, load_ensembles, load_profiles, load_providers, locate
from ripieno.descriptors.loading.documents import parse_toml, read_beneath, read_toml
from ripieno.descriptors.loading.layers import read_configuration_part
from ripieno.exceptions import ConfigurationInvalidity, InputError, Problem
from ripieno.toolset import DATA
from tests.descriptors.descriptor_examples import ENSEMBLES, PROFILE, PROVIDER, READ_FILE

DELETE, SINGLE = "Delete one of them", "Write the text in single quotes"
LIST = "Write a comma between elements, and ] at the end."


def write(folder: Path, files: dict[str, str]) -> Path:
    """Writes files beneath a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def simple(name: str, **keys: str) -> str:
    """A small ensemble."""
    header = "".join(f"{key} = {value}\n" for key, value in keys.items())
    return f'invokers = []\n[ensemble]\nname = "{name}"\n{header}'


def only(problems: Iterable[Problem]) -> Problem:
    """The one problem."""
    (problem,) = problems
    return problem


def refusal(path: Path) -> Problem:
    """The one problem of a file that cannot be read."""
    with pytest.raises(ConfigurationInvalidity) as invalidity:
        read_toml(path)
    return only(invalidity.value.problems)


# --- One file -----------------------------------------------------------------------------------


def test_document(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(b"\xef\xbb\xbfa = 1\r\nb = '\xc3\xa9'\r\n")
    document = read_toml(str(path))
    assert document.mapping == {"a": 1, "b": "é"}
    assert document.path == path
    assert document.text == "a = 1\r\nb = 'é'\r\n"
    assert document.digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert document.source.file == str(path)


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        ("a = 1\nb = yes\n", 2, "this is not a value", "Write text in quotes, and true or false in lower case."),
        ("a = 1\nb\n", 2, "a key has no value", 'Write key = "value".'),
        ("a = 1\na = 2\n", 2, "this key is defined twice", f"{DELETE}."),
        ("[a]\n[b]\n[a]\n", 3, "the table 'a' is defined twice", f"{DELETE}, or write both as lists: [[name]]."),
        ("a = [1,\n2\n", 1, "this list has no closing bracket", LIST),
        ("x = 1\na = ['[',  # ]\n\n[b]\nc = 1\n", 2, "this list has no closing bracket", LIST),
        ("a = [\n 1,\nb = [2]\n", 1, "this list has no closing bracket", LIST),
        ('a = ["x"\n[[b]]\n', 1, "this list has no closing bracket", LIST),
        ("a = [1]\nb = yes\n", 2, "this is not a value", "Write text in quotes, and true or false in lower case."),
        ("a = [\n yes\n]\n", 2, "this is not a value", "Write text in quotes, and true or false in lower case."),
        ('a = "x\nb = 1\n', 1, "the text has no closing quotes", "Close the text on its line, or use three quotes."),
        ("a = 1 b = 2\n", 1, "a line must end here", "Write text in quotes, and one key per line."),
        ("a = {b = 1\n", 1, "a table has no closing brace", "Write an inline table in one line, or use [table]."),
        ("a = {b = 1, b = 2}", 1, "the key b is defined twice", "Delete one of them."),
        ('a = "c:\\d"\n', 1, "a backslash must be escaped in double quotes", f"{SINGLE}, or each backslash twice."),
        ("= 1\n", 1, "this is neither a key nor a table", 'Write key = "value", or [table].'),
        ("x = 1\ny = " + "9" * 5000, 2, "a number is too long", None),
        ("x = 1\n\x1b[2J = 1", 2, "this is neither a key nor a table", 'Write key = "value", or [table].'),
    ],
)
def test_syntax(tmp_path: Path, text: str, line: int, message: str, hint: str | None) -> None:
    path = tmp_path / "a.toml"
    path.write_text(text)
    problem = refusal(path)
    assert (problem.file, problem.line, problem.message, problem.hint) == (str(path), line, message, hint)
    lines = text.split("\n")
    assert problem.source is not None
    assert problem.source.isprintable()
    assert problem.source[:20] == lines[line - 1][:20].replace("\x1b", "\\x1b")[:20]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    problem = refusal(tmp_path / "ripieno.tml")
    assert problem.message == "it cannot be read: no such file or directory"
    write(tmp_path, {"ripieno.toml": ""})
    assert refusal(tmp_path / "ripieno.tml").hint == "Did you mean 'ripieno.toml'?"
    # A suffix in common is no similarity.
    write(tmp_path, {"s.toml": "", "note.md": ""})
    assert refusal(tmp_path / "missing.toml").hint is None
    assert refusal(tmp_path / "ss.toml").hint == "Did you mean 's.toml'?"
    assert "note.md" not in (refusal(tmp_path / "nope.toml").hint or "")
    assert "There is no folder" in (refusal(tmp_path / "absent" / "x.toml").hint or "")
    assert refusal(tmp_path).message == "it cannot be read: it is not a regular file"
    os.mkfifo(tmp_path / "pipe.toml")
    assert refusal(tmp_path / "pipe.toml").message == "it cannot be read: it is not a regular file"
    (tmp_path / "latin.toml").write_bytes(b"a = 1\nb = '\xe9'\n")
    problem = refusal(tmp_path / "latin.toml")
    assert (problem.message, problem.line) == ("the file is not UTF-8", 2)
    os.symlink("loop.toml", tmp_path / "loop.toml")
    assert "it cannot be read: too many" in refusal(tmp_path / "loop.toml").message


def test_bounds(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("#" * (256 * 1024))
    assert read_toml(path).mapping == {}
    path.write_text("#" * (256 * 1024 + 1))
    assert refusal(path).message == "the file is larger than 256 KiB"
    with open("/dev/zero", "rb") as endless, pytest.raises(ConfigurationInvalidity, match="not a regular file"):
        read_toml(endless.name)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("[" + ".".join("a" * 17) + "]\n" + ".".join("b" * 16) + " = 1", 2, "values are nested more than 32 deep"),
        ("a = 1\n" + ".".join("a" * 65) + " = 1", 2, "a key has more than 64 parts"),
        ("a = 1\n[" + " . ".join('"x"' for _ in range(50_000)) + "]", 2, "a key has more than 64 parts"),
        ("a = {\t" + ".".join("a" * 65) + " = 1 }", 1, "a key has more than 64 parts"),
        ("a = 1\nb = [\n" + "[" * 60_000, 3, "values are nested more than 32 deep"),
        ("a = 1\nb = [\n" + "[" * 33 + "]" * 34, 3, "values are nested more than 32 deep"),
        ("a = 1\nb = " + "{c = " * 40 + "1" + "}" * 40, 2, "values are nested more than 32 deep"),
        (".".join("a" * 33) + " = 1", 1, "values are nested more than 32 deep"),
        ("".join(f"[{'.'.join('a' * depth)}]\n" for depth in range(1, 40)), 33, "values are nested more than 32 deep"),
    ],
)
def test_bombs(text: str, line: int | None, message: str) -> None:
    started = time.process_time()
    with pytest.raises(ConfigurationInvalidity) as invalidity:
        parse_toml(text, "x.toml")
    assert time.process_time() - started < 5
    problem = only(invalidity.value.problems)
    assert (problem.line, problem.message) == (line, message)


def test_dots_are_no_bombs() -> None:
    text = "# " + "." * 100 + '\na = "' + "x." * 100 + '"\nb = """\n' + ".".join("a" * 100) + '\n"""\n'
    assert parse_toml(text)["a"] == "x." * 100
    assert parse_toml(".".join("a" * 32) + " = 1")
    assert parse_toml("a = " + "[" * 31 + "]" * 31)


PIECES = st.sampled_from(
    ["a", "a.", ".", '"', "'", "[", "]", "{", "}", "=", "\n", " ", '"""', "\\", "\x00", "9" * 50, "#"]
)


@given(st.lists(PIECES, max_size=40).map("".join))
def test_whatever_the_text_says(text: str) -> None:
    problems: tuple[Problem, ...] = ()
    try:
        parse_toml(text, "x.toml")
    except ConfigurationInvalidity as invalidity:
        problems = invalidity.problems
    for problem in problems:
        assert str(problem).replace("\n", "").replace("\t", "").isprintable()
        assert problem.file == "x.toml"


# --- References ---------------------------------------------------------------------------------


def test_references_stay_beneath_their_folder(tmp_path: Path) -> None:
    folder = write(tmp_path / "in", {"a.toml": "x = 1", "deep/er/b.toml": "x = 2", "s.json": '{"x": 3}'})
    write(tmp_path / "out", {"secret.toml": "x = 9"})
    os.symlink("deep/er", folder / "inner")
    os.symlink("deep/er/b.toml", folder / "link.toml")
    os.symlink(tmp_path / "out", folder / "away")
    os.symlink(tmp_path / "out" / "secret.toml", folder / "secret.toml")
    os.symlink("../out/secret.toml", folder / "sly.toml")
    values = {"a.toml": 1, "deep/er/b.toml": 2, "./a.toml": 1, "inner/b.toml": 2, "link.toml": 2, "s.json": 3}
    for relative, value in values.items():
        document = read_beneath(folder, relative)
        assert document.mapping == {"x": value}
        assert document.path == Path(folder, relative)
    refused = ["../out/secret.toml", "deep/../../out/secret.toml", str(folder / "a.toml"), "/etc/passwd", "", "."]
    for relative in [*refused, "away/secret.toml", "secret.toml", "sly.toml", "a\0.toml"]:
        with pytest.raises(InputError) as failure:
            read_beneath(folder, relative)
        assert "cannot be read" in str(failure.value)
        assert "9" not in str(failure.value).replace(str(tmp_path), "")
    with pytest.raises(InputError, match=r"a link leads out of the folder"):
        read_beneath(folder, "away/secret.toml")
    with pytest.raises(InputError, match=r"no such file or directory. Did you mean 'b.toml'\?"):
        read_beneath(folder, "deep/er/bb.toml")


def test_json_problems_have_lines(tmp_path: Path) -> None:
    write(tmp_path, {"a.json": '{\n "a": 1,\n "a": 2\n}', "b.json": "[]", "c.json": '{\n "a": }'})
    for name, line in (("a.json", None), ("b.json", 1), ("c.json", 2)):
        with pytest.raises(ConfigurationInvalidity) as invalidity:
            read_beneath(tmp_path, name)
        problem = only(invalidity.value.problems)
        assert (problem.file, problem.line) == (str(tmp_path / name), line)


def test_problems_of_all_files_at_once(tmp_path: Path) -> None:
    files = {f"ensembles/{name}.toml": text for name, text in ENSEMBLES.items()}
    files["ensembles/io/invokers/read_file.toml"] = READ_FILE
    assert load_ensembles([Layer(name="user", folders=(write(tmp_path / "good", files),))]).problems == ()
    broken = {name: text.replace("name = ", "nam = ", 1) for name, text in files.items()}
    schema = {"type": "object", "properties": {"a": {"type": "strng"}}}
    broken["ensembles/s.toml"] = (
        '[ensemble]\nname = "s"\nmodule = "m"\n[[invokers]]\nname = "a"\ndescription = "A"\n'
        'arguments = { source = "s.json" }\n[[invokers]]\nsource = "absent.toml"\n'
    )
    broken["ensembles/s.json"] = json.dumps(schema, indent=1)
    broken["ensembles/z.toml"] = "a = \n"
    folder = write(tmp_path / "bad", broken)
    loaded = load_ensembles([Layer(name="user", folders=(folder,))])
    assert loaded.ensembles == {}
    assert [(str(Path(one.file or "").relative_to(folder / "ensembles")), one.line) for one in loaded.problems] == [
        ("io.toml", 3),
        ("io/invokers/read_file.toml", 3),
        ("s.toml", 9),
        ("s.json", 5),
        ("search.toml", 3),
        ("time.toml", 3),
        ("weather.toml", 3),
        ("z.toml", 1),
    ]
    for problem in loaded.problems:
        assert problem.source is not None
        assert problem.file is not None
        line = Path(problem.file).read_text().split("\n")[(problem.line or 0) - 1]
        assert problem.source == line


# --- Layers -------------------------------------------------------------------------------------


def test_later_layers_replace(tmp_path: Path) -> None:
    inner = write(tmp_path / "inner", {"ensembles/a.toml": simple("a"), "ensembles/b.toml": simple("b")})
    outer = write(tmp_path / "outer", {"ensembles/x.toml": simple("a", description='"mine"')})
    layers = [Layer(name="package", folders=(inner,)), Layer(name="user", folders=(outer, tmp_path / "absent"))]
    loaded = load_ensembles(layers)
    assert loaded.problems == ()
    assert set(loaded.ensembles) == {"a", "b"}
    mine = loaded.ensembles["a"]
    assert (mine.description, mine.layer, mine.folder) == ("mine", "user", str(outer / "ensembles"))
    (shadowed,) = loaded.shadowed
    assert (shadowed.name, shadowed.layer, shadowed.by_layer) == ("a", "package", "user")
    assert shadowed.file == str(inner / "ensembles/a.toml")
    assert shadowed.by_file == str(outer / "ensembles/x.toml")
    assert set(loaded.files) == {str(path) for path in tmp_path.rglob("*.toml")}
    assert load_ensembles(layers[::-1]).ensembles["a"].description == ""


def test_two_of_one_name_in_one_layer(tmp_path: Path) -> None:
    folder = write(tmp_path, {"ensembles/a.toml": simple("same"), "ensembles/b.toml": simple("same")})
    problem = only(load_ensembles([Layer(name="user", folders=(folder,))]).problems)
    assert problem.file == str(folder / "ensembles/b.toml")
    assert f"two ensembles named 'same'; the other is in {folder / 'ensembles/a.toml'}" in problem.message


def test_named_paths(tmp_path: Path) -> None:
    files = {"some/a.toml": simple("a"), "some/.hidden.toml": "x", "some/b.txt": "x", "c.toml": simple("c")}
    folder = write(tmp_path, files)
    os.symlink("some", folder / "again")
    layer = Layer(name="user", paths=(folder / "some", folder / "c.toml", folder / "again", folder / "c.toml"))
    loaded = load_ensembles([layer])
    assert loaded.problems == ()
    assert list(loaded.ensembles) == ["a", "c"]
    problem = only(load_ensembles([Layer(name="user", paths=(folder / "absent",))]).problems)
    assert problem.file == str(folder / "absent")
    assert "no such file" in problem.message
    assert load_providers([layer]).providers == {}


def test_links_of_the_user_are_followed(tmp_path: Path) -> None:
    store = write(tmp_path / "store", {"a.toml": simple("a")})
    (tmp_path / "user" / "ensembles").mkdir(parents=True)
    os.symlink(store / "a.toml", tmp_path / "user" / "ensembles" / "a.toml")
    assert list(load_ensembles([Layer(name="user", folders=(tmp_path / "user",))]).ensembles) == ["a"]
    strange = load_ensembles(
        [Layer(name="project", folders=(tmp_path / "user",), trusted=False, root=tmp_path / "user")]
    )
    assert strange.ensembles == {}
    assert "leads out" in only(strange.problems).message


def test_folders_that_cannot_be_listed(tmp_path: Path) -> None:
    os.symlink("ensembles", tmp_path / "ensembles")
    problem = only(load_ensembles([Layer(name="user", folders=(tmp_path,))]).problems)
    assert problem.file == str(tmp_path / "ensembles")
    assert "it cannot be read: too many levels" in problem.message


def test_without_trust_files_only_disable(tmp_path: Path) -> None:
    inner = write(tmp_path / "inner", {"ensembles/a.toml": simple("a"), "ensembles/b.toml": simple("b")})
    files = {
        "ensembles/a.toml": simple("a", enabled="false", module='"evil"'),
        "ensembles/b.toml": simple("b", description='"mine"'),
        "ensembles/c.toml": simple("c"),
        "ensembles/d.toml": simple("d", enabled="false"),
        "ensembles/e.toml": "e = ",
        "ensembles/f.toml": simple("named") + "\n[[invoker]]",
        "providers/p.toml": PROVIDER,
        "profiles/p.toml": PROFILE,
    }
    outer = write(tmp_path / "outer", files)
    layers = [Layer(name="package", folders=(inner,)), Layer(name="project", folders=(outer,), trusted=False)]
    loaded = load_ensembles(layers)
    assert [(one.name, one.enabled, one.module, one.layer) for one in loaded.ensembles.values()] == [
        ("a", False, None, "package"),
        ("b", True, None, "package"),
    ]
    # Those with mistakes, too: that they are not trusted comes first.
    assert {one.name for one in loaded.left_out} == {"b", "c", "d", "e", "named"}
    assert all("not trusted" in one.reason and one.layer == "project" for one in loaded.left_out)
    assert [one.name for one in loaded.shadowed] == ["a"]
    assert {problem.severity for problem in loaded.problems} == {"warning"}
    assert load_providers(layers).providers == {}
    assert [one.name for one in load_profiles(layers).left_out] == ["minimal"]


def test_too_many_files(tmp_path: Path) -> None:
    folder = write(tmp_path, {f"ensembles/e{index}.toml": "" for index in range(2_001)})
    loaded = load_ensembles([Layer(name="user", folders=(folder,))])
    assert "has 2001 ensemble files; at most 2000 are read" in loaded.problems[0].message
    assert len(loaded.files) == 2_000


# --- Configurations -----------------------------------------------------------------------------


def test_configurations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    folder = write(
        tmp_path,
        {
            "config.toml": '[ensembles]\npaths = ["mine", "~/x", "/abs"]\nprofile = "p"\n[limits]\nturns = 3\n',
            "p/ripieno.toml": '[ensembles]\nenabled = ["io"]\n[limits]\ncalls = 4\n[workspace]\nroot = "."\n',
            "p/inline.toml": '[[ensembles]]\nname = "x"\nmodule = "m"\ninvokers = [{ source = "t/read.toml" }]\n',
            "p/t/read.toml": READ_FILE,
        },
    )
    monkeypatch.chdir(folder / "p")
    parts = [read_configuration_part(path) for path in (folder / "config.toml", "ripieno.toml", "inline.toml")]
    assert [part.problems for part in parts] == [(), (), ()]
    configuration = combine([part.parts for part in parts])
    assert configuration.paths == (str(folder / "mine"), "/home/me/x", "/abs")
    # A list is exact, and later layers win.
    assert (configuration.enabled, configuration.include) == (("x",), ())
    assert (configuration.limits.turns, configuration.limits.calls) == (3, 4)
    assert Path(configuration.workspace or "") == folder / "p"
    assert [one.name for one in configuration.inline] == ["x"]
    assert configuration.inline[0].folder == str(folder / "p")
    assert set(parts[2].files) == {str(folder / "p/inline.toml"), str(folder / "p/t/read.toml")}


def test_broken_configurations_are_all_reported(tmp_path: Path) -> None:
    folder = write(tmp_path, {"a.toml": "[limit]\n", "b.toml": "x\n", "c.toml": "[limits]\nturns = 0\n"})
    parts = [read_configuration_part(folder / name) for name in ("a.toml", "b.toml", "c.toml", "d.toml")]
    assert [(one.file, one.line) for part in parts for one in part.problems] == [
        (str(folder / "a.toml"), 1),
        (str(folder / "b.toml"), 1),
        (str(folder / "c.toml"), 2),
        (str(folder / "d.toml"), None),
    ]
    part = read_configuration_part(folder / "d.toml", layer="user")
    assert (part.layer, part.parts, part.files) == ("user", {}, {})


def test_locate(tmp_path: Path) -> None:
    folder = write(tmp_path, {"a.toml": ENSEMBLES["search"], "broken.toml": "="})
    file = str(folder / "a.toml")
    found = Problem(message="m", file=file, key="invokers[0].invocable.argv[2].when")
    known = Problem(message="m", file=file, key="ensemble", line=77)
    nowhere = [Problem(message="m", file=str(folder / name), key="ensemble") for name in ("absent.toml", "broken.toml")]
    nowhere += [Problem(message="m", key="a"), Problem(message="m", file=file)]
    located = locate([found, known, *nowhere])
    assert (located[0].line, located[0].message) == (22, "m")
    assert located[0].source is not None
    assert located[0].source.startswith('argv = ["rg"')
    assert located[1:] == (known, *nowhere)


# --- Layers that are read when they are looked up --------------------------------------------------


def deferred(folder: Path, source: str) -> Layer:
    """A layer with one ensemble, whose only invoker stands in a file of its own."""
    text = f'[ensemble]\nname = "quiet"\nmodule = "os.path"\ncategory = "c"\n[[invokers]]\nsource = "{source}"\n'
    return Layer(name="package", folders=(write(folder, {"ensembles/quiet.toml": text}),), lazy=True)


def test_what_is_deferred_is_read_when_it_is_looked_up_and_is_the_same(tmp_path: Path) -> None:
    layer = deferred(tmp_path, "read.toml")
    known = load_ensembles([layer]).ensembles
    assert (list(known), "quiet" in known, len(known)) == (["quiet"], True, 1)
    assert (known.outlines["quiet"].category, known.outlines["quiet"].invokers) == ("c", ())
    # The file comes only now: nobody has missed it.
    write(tmp_path, {"ensembles/read.toml": READ_FILE})
    eager = load_ensembles([Layer(name="package", folders=layer.folders)]).ensembles
    assert known["quiet"] == eager["quiet"]
    assert [one.name for one in known["quiet"].invokers] == ["read_file"]


def test_what_is_broken_in_a_deferred_layer_is_told_where_it_is_looked_up(tmp_path: Path) -> None:
    loaded = load_ensembles([deferred(tmp_path, "absent.toml")])
    assert loaded.problems == ()
    with pytest.raises(ConfigurationInvalidity, match=r"absent\.toml"):
        loaded.ensembles["quiet"]


def test_a_project_disables_what_is_deferred_and_an_outer_layer_replaces_it(tmp_path: Path) -> None:
    layer = deferred(tmp_path / "package", "read.toml")
    write(tmp_path / "package", {"ensembles/read.toml": READ_FILE})
    off = write(tmp_path / "project", {"off.toml": simple("quiet", enabled="false")})
    known = load_ensembles([layer, Layer(name="project", paths=(off,), trusted=False)]).ensembles
    assert (known["quiet"].enabled, len(known["quiet"].invokers)) == (False, 1)
    outer = write(tmp_path / "user", {"ensembles/quiet.toml": simple("quiet")})
    replaced = load_ensembles([layer, Layer(name="user", folders=(outer,))]).ensembles
    assert (replaced["quiet"].layer, replaced["quiet"].invokers) == ("user", ())
    assert replaced.replaced([known["quiet"]])["quiet"].enabled is False


def test_a_deferred_layer_is_known_by_the_names_of_its_files(tmp_path: Path) -> None:
    files = {"ensembles/quiet.toml": "broken", "providers/house.toml": "broken", "profiles/all.toml": "broken"}
    layers = [Layer(name="package", folders=(write(tmp_path, files),), lazy=True)]
    for loaded, named, name in (
        (one := load_ensembles(layers), one.ensembles, "quiet"),
        (two := load_providers(layers), two.providers, "house"),
        (three := load_profiles(layers), three.profiles, "all"),
    ):
        assert (list(named), loaded.files, loaded.problems) == ([name], {}, ())
        with pytest.raises(ConfigurationInvalidity, match=rf"{name}\.toml"):
            named[name]


def test_bundled_files_have_the_names_of_their_descriptors() -> None:
    layers = [Layer(name="package", folders=(DATA,), lazy=True)]
    for named in (load_ensembles(layers).ensembles, load_providers(layers).providers, load_profiles(layers).profiles):
        assert len(named) > 4
        assert [one.name for one in named.values()] == list(named)
