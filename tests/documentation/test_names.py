"""Names in the documentation: their modules, packages, files, keys, and the keywords that ``explain`` shows."""

import contextlib
import dataclasses
import importlib
import inspect
import itertools
import json
import re
import sys
import tomllib
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ripieno
from ripieno.descriptors.json_schema import FILES
from ripieno.descriptors.reader.keys import Key, Table
from ripieno.testing.scores import Score
from tests.documentation.code_blocks import DOCUMENTATION, texts
from tests.support.command_line import ROOT, SOURCES, User
from tests.support.users import Done

Call = Callable[..., Done]
PACKAGE = SOURCES / "ripieno"
_DIRECTIVE = re.compile(r"^\.\. auto(?P<kind>\w+):: (?P<target>[\w.]+).*\n(?P<options>(?:   .*\n)*)", re.MULTILINE)
#: Modules of which the page imports only some names.
_WHOLE = ("ripieno.canisters.events", "ripieno.exceptions")


def documented(page: str) -> dict[str, set[str]]:
    """The classes that a page documents, and the functions that it names, by their modules."""
    names: dict[str, set[str]] = defaultdict(set)
    for found in _DIRECTIVE.finditer((DOCUMENTATION / f"{page}.rst").read_text()):
        target = found["target"]
        if found["kind"] != "module":
            module, _, name = target.rpartition(".")
            names[module].add(name)
            continue
        chosen = re.findall(r"\w+", found["options"].partition(":members:")[2])
        members = vars(importlib.import_module(target))
        names[target].update(chosen or (name for name, value in members.items() if _belongs(name, value, target)))
    return names


def _belongs(name: str, value: Any, module: str) -> bool:
    return inspect.isclass(value) and value.__module__ == module and name != "Encodable" and not name.startswith("_")


def imported(block: str) -> dict[str, set[str]]:
    """The names that a block imports, by their modules; it is run."""
    exec(compile(block, "api.rst", "exec"), {})
    names: dict[str, set[str]] = defaultdict(set)
    for module, listed in re.findall(r"^from ([\w.]+) import ([\w, ]+)", block, re.MULTILINE):
        names[module].update(re.findall(r"\w+", listed))
    return names


def test_the_reference_says_where_each_name_is_imported_from() -> None:
    face, others = map(imported, texts("reference/api", "python", "python"))
    given = {name for name in ripieno.__all__ if name != "__version__"}
    assert face == {"ripieno": given}
    shown = documented("reference/api")
    # A package may export what one of its modules defines: whole modules are documented, and packages imported from.
    for module in set(shown) - set(others) - set(_WHOLE):
        package = module.rpartition(".")[0]
        if package in others:
            shown[package] |= shown.pop(module)
    assert given <= {name for names in shown.values() for name in names}
    for module, names in shown.items():
        rest = names - given
        if module in _WHOLE:
            assert others.pop(module) <= rest
        elif rest:
            assert others.pop(module) == rest, module
    assert not others


def test_names_with_a_module_are_there() -> None:
    found = 0
    for page in DOCUMENTATION.rglob("*.rst"):
        for dotted in re.findall(r"``(ripieno(?:\.[a-z_]+)*\.[A-Z]\w+)", page.read_text()):
            module, _, name = dotted.rpartition(".")
            assert hasattr(importlib.import_module(module), name), (page, dotted)
            found += 1
    assert found


def test_errors_of_providers_have_their_module() -> None:
    text = (DOCUMENTATION / "tutorials/keep-going.rst").read_text()
    assert "``ripieno.exceptions.ProviderFailure``" in text
    assert "``ProviderFailure``" not in text


_PLAIN = """
[[invokers]]
name = "plain"
description = "Counts words."
effect = "read"
[invokers.invocable]
origin = "command"
argv = ["wc", "--", "{path}"]
[invokers.arguments]
type = "object"
required = ["path"]
properties.path.type = "string"
"""
_PARTED = _PLAIN.replace("plain", "parted") + "allOf = [{ maxProperties = 1 }]\n"
_TOOLS = f'[ensemble]\nname = "words"\n{_PLAIN}{_PARTED}'


@pytest.mark.parametrize(("name", "keyword"), [("plain", "additionalProperties"), ("parted", "unevaluatedProperties")])
def test_the_keyword_that_closes_a_schema_is_explained(user: User, call: Call, name: str, keyword: str) -> None:
    user.ensemble("words", _TOOLS)
    assert all(keyword not in invoker["arguments"] for invoker in tomllib.loads(_TOOLS)["invokers"])
    explained = call("explain", f"words.{name}", "--protocol", "openai-chat", "--format", "json")
    assert explained.code == 0, explained.err
    assert json.dumps({keyword: False})[1:-1] in json.dumps(json.loads(explained.out))
    for page in ("tutorials/schemas-on-the-wire", "tutorials/write-a-tool"):
        assert keyword in (DOCUMENTATION / f"{page}.rst").read_text()


# The architecture page, and the reference of keys.


@contextlib.contextmanager
def extension(monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[Any]:
    """A module of the documentation's own."""
    monkeypatch.syspath_prepend(str(ROOT / "documentation" / "extensions"))
    try:
        yield importlib.import_module(name)
    finally:
        del sys.modules[name]


def test_the_picture_has_every_package(monkeypatch: pytest.MonkeyPatch) -> None:
    with extension(monkeypatch, "packages") as packages:
        rows = packages.layers((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        drawn = ET.fromstring(packages.svg(rows))
    names = {path.stem for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert {name for row in rows for name in row} == {one for one in names if not one.startswith("__")} - {"data"}
    texts = {text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")}
    assert texts >= {name for row in rows for name in row}


def test_the_files_that_the_page_names_exist() -> None:
    page = (ROOT / "documentation" / "architecture" / "index.rst").read_text(encoding="utf-8")
    named = set(re.findall(r"``([a-z_]+(?:/[a-z_]+)+(?:\.py|/)?|[a-z_]+(?:\.py|/))``", page))
    assert len(named) > 30
    assert [name for name in sorted(named) if not (PACKAGE / name).exists() and not (ROOT / name).exists()] == [
        "ripieno/data"
    ]


def tables(value: Any) -> Iterator[Table]:
    """All tables in a table, however deep."""
    if isinstance(value, Table):
        yield value
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            part = getattr(value, field.name)
            for one in part if isinstance(part, tuple) else (part,):
                if isinstance(one, Key) or dataclasses.is_dataclass(one):
                    yield from tables(one)


def test_every_key_of_every_table_has_a_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    with extension(monkeypatch, "keys") as pages:
        for page, kinds in pages.KINDS.items():
            text = (DOCUMENTATION / "reference" / page).read_text(encoding="utf-8")
            assert text == pages.page(page), f"{page} is not what its tables say. Write it again: make pages"
            for kind in FILES.keys() & kinds:
                keys = {key.name for table in tables(FILES[kind]) for key in table.keys}
                assert len(keys) > 5
                # The form ``source = "FILE"`` of a table is part of what its key expects.
                assert [name for name in sorted(keys - {"source"}) if f"``{name}``\n" not in text] == []


def test_the_reference_has_tables_under_their_names() -> None:
    names = {
        "descriptors": ("[ensemble]", "[defaults]", "[overrides.<name>]", "[invokers.invocable]", "[[invokers]]"),
        "configuration": ("[ensembles]", "[agents.<name>.limits]", "[sandbox]", "[[providers.<name>.models]]"),
    }
    for page, titles in names.items():
        text = (DOCUMENTATION / "reference" / f"{page}.rst").read_text(encoding="utf-8")
        assert [title for title in titles if f"\n``{title}``\n" not in text] == []
        for title, rule in itertools.pairwise(text.splitlines()):
            assert title == title.rstrip()
            assert len(title) < 200
            assert title.count("``") % 2 == 0, "A literal ends in the line that it begins in."
            assert not rule or set(rule) != {"-"} or len(rule) == len(title)
    descriptors = (DOCUMENTATION / "reference" / "descriptors.rst").read_text(encoding="utf-8")
    assert 'Default: ``"write"``.' in descriptors
    assert "``timeout = 60``" in descriptors


def test_the_example_of_a_score_is_one() -> None:
    score = Score.of(tomllib.loads("".join(texts("reference/scores", "toml", "toml"))))
    assert (score.name, score.tools) == ("demo", ("read_file",))
