"""Names in the documentation: their modules, and the keywords that ``explain`` shows."""

import importlib
import inspect
import json
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

import ripieno
from tests.documentation.code_blocks import DOCUMENTATION, texts
from tests.support.command_line import User
from tests.support.users import Done

Call = Callable[..., Done]
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
