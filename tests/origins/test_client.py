"""Tools that the application runs, and what the built-in origins say of themselves."""

import os
import pathlib
import sys

import jsonschema_rs
import pytest

from ripieno.assembly.builtins import ripieno_origins
from ripieno.descriptors.reader.keys import Table
from ripieno.descriptors.reader.kinds import INVALID
from ripieno.descriptors.reader.problems import Problems, Source
from ripieno.jsonvalues import freeze
from ripieno.origins.command import PROGRAM
from ripieno.origins.mcp.settings import CONNECTION
from ripieno.origins.python import FACTORY, FUNCTION
from ripieno.sandbox import ProcessLimits
from ripieno.sandbox.processes import LocalSpawner, clean_environment, collect
from tests.support.toml_ensembles import ORIGINS, check, make_ensemble, surround

TEXT = '[ensemble]\nname = "it"\n[[invokers]]\nname = "ask"\ndescription = "Asks"\ninvocable = { origin = "client" }'


async def test_a_tool_of_the_application_is_open(tmp_path: pathlib.Path) -> None:
    assert check(TEXT) == []
    async with make_ensemble(TEXT, surround(tmp_path)) as ensemble:
        invoker = ensemble.access_invoker("ask")
        assert (invoker.hosted, invoker.invocable) == ("caller", None)


def test_settings_that_are_wrong() -> None:
    (problem,) = check(TEXT.replace('"client" }', '"client", function = "a:b" }'))
    assert (problem.key, problem.message) == ("invokers[0].invocable.function", "[invocable] has no key function")
    for origin in ("client", "command", "http"):
        (problem,) = check(f'[ensemble]\nname = "it"\n[connection]\norigin = "{origin}"')
        assert problem.key == "connection.origin"
        assert problem.message == f"nothing can be connected to the origin {origin}"


def test_origins_have_the_names_of_their_registration() -> None:
    assert all(name == origin.name for name, origin in ORIGINS.items())


async def test_no_origin_costs_an_sdk_before_it_connects() -> None:
    modules = ", ".join(path.partition(":")[0] for path in ripieno_origins().values())
    code = f"import sys, {modules}; print(sorted({{'mcp', 'mcp_types', 'anyio', 'pydantic'}} & set(sys.modules)))"
    environment = clean_environment({"PYTHONPATH": os.pathsep.join(sys.path)})
    process = await LocalSpawner().start([sys.executable, "-c", code], environment, "/", ProcessLimits())
    completed = await collect(process)
    assert (completed.stdout.text, completed.stderr.text) == ("[]\n", "")


@pytest.mark.parametrize(
    ("table", "settings", "fits"),
    [
        (PROGRAM, {"argv": ["rg", {"when": "a", "argv": ["-a"]}, "--", {"each": "b"}]}, True),
        (PROGRAM, {"argv": ["rg"], "environment": {"A": "{env:B}"}, "stdin": "{a}", "success": [0, 1]}, True),
        (PROGRAM, {"argv": [{"each": "b"}]}, False),
        (PROGRAM, {"argv": ["rg", {"when": "a"}]}, False),
        (PROGRAM, {"argv": []}, False),
        (PROGRAM, {"argv": ["rg"], "directory": "/"}, False),
        (PROGRAM, {"argv": ["rg"], "directory": "a/b"}, True),
        (PROGRAM, {"argv": ["rg"], "stdin": 1}, False),
        (FUNCTION, {"function": "./a/b.py:c.d"}, True),
        (FUNCTION, {"function": "./../b.py:c"}, False),
        (FUNCTION, {"function": "a"}, False),
        (FACTORY, {"factory": "a.b:c"}, True),
        (FACTORY, {}, False),
        (CONNECTION, {"command": ["x"], "environment": {"A": "env:B"}, "timeout": 3}, True),
        (CONNECTION, {"command": ["x"], "environment": {"A": 1}}, False),
        (CONNECTION, {"command": ["x"], "transport": "pigeon"}, False),
    ],
)
def test_reader_and_schema_of_settings_agree(table: Table, settings: dict[str, object], fits: bool) -> None:
    problems = Problems(Source())
    assert (table.read(freeze(settings), (), problems) is not INVALID) is fits
    assert jsonschema_rs.Draft202012Validator(table.schema()).is_valid(settings) is fits
