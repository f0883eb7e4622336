"""``ripieno schema``: an editor that validates by it finds the slips that ``ripieno check`` finds."""

import copy
import json
import tomllib
from typing import Any

import jsonschema
import pytest

from ripieno.cli.common import exit_codes
from ripieno.descriptors.json_schema import settings_table
from ripieno.ensembles.origin import tables_of
from tests.counts import count
from tests.descriptors.descriptor_examples import whole
from tests.descriptors.test_reader_laws import edits
from tests.support.command_line import User
from tests.support.toml_ensembles import ORIGINS
from tests.support.users import Call

TABLES = [(name, table) for name, origin in ORIGINS.items() for table in tables_of(origin)]
HEADER = '[ensemble]\nname = "it"\ndescription = "It"\n'
CONNECTION = HEADER + "[connection]\n"
INVOKER = HEADER + '[[invokers]]\nname = "do_it"\ndescription = "Does it"\neffect = "none"\n[invokers.invocable]\n'


def validator(call: Call, kind: str) -> Any:
    """What an editor validates by."""
    done = call("schema", kind)
    assert done.code == 0
    schema = json.loads(done.out)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize(
    ("text", "slip", "meant"),
    [
        (f'{INVOKER}origin = "command"\nargv = ["true"]\n', "argvv", "argv"),
        (f'{INVOKER}origin = "http"\nurl = "http://a.example/"\nmethod = "POST"\njson = 1\n', "jsn", "json"),
        (f'{INVOKER}origin = "python"\nfunction = "json:dumps"\n', "fuction", "function"),
        (f'{INVOKER}origin = "client"\ntimeout_argument = "who"\n', "timout_argument", "timeout_argument"),
        (f'{CONNECTION}origin = "mcp"\ncommand = ["true"]\n', "comand", "command"),
        (f'{CONNECTION}origin = "mcp"\nurl = "https://a.example/"\noauth = {{ scope = "read" }}\n', "scop", "scope"),
        (f'{CONNECTION}origin = "python"\nfactory = "json:dumps"\n', "factry", "factory"),
    ],
)
def test_a_slip_is_found_by_editors_and_by_check(call: Call, user: User, text: str, slip: str, meant: str) -> None:
    ensembles = validator(call, "ensemble")
    ensembles.validate(tomllib.loads(text))
    mistyped = text.replace(f"{meant} =", f"{slip} =")
    assert not ensembles.is_valid(tomllib.loads(mistyped))
    done = call("check", "--no-import", str(user.ensemble("it", mistyped)))
    assert done.code == exit_codes.INPUT
    assert f" has no key {slip}\n" in done.out
    assert f"Did you mean {meant!r}?" in done.out


def test_a_slip_in_the_file_of_an_invoker(call: Call, user: User) -> None:
    text = '[invoker]\nname = "a"\ndescription = "A"\n[invocable]\norigin = "command"\nargvv = ["true"]\n'
    assert not validator(call, "invoker").is_valid(tomllib.loads(text))
    file = user.workspace / "a.toml"
    file.write_text(text)
    done = call("check", str(file))
    assert (done.code, "a.toml:6: error: [invocable] has no key argvv" in done.out) == (exit_codes.INPUT, True)
    assert "Did you mean 'argv'?" in done.out
    file.write_text(text.replace("argvv", "argv"))
    assert call("check", str(file)).code == 0
    file.write_text(text.replace('"command"', '"comand"'))
    assert "Did you mean 'command'?" in call("check", str(file)).out


@pytest.mark.parametrize(("name", "table"), TABLES)
def test_every_key_of_every_origin_is_known_and_no_slip_of_it(call: Call, name: str, table: str) -> None:
    settings = {**whole(settings_table(table, tables_of(ORIGINS[name])[table])), "origin": name}
    inside: dict[str, Any] = {"connection": settings}
    if table == "invocable":
        inside = {"invokers": [{"name": "a", "description": "A", "invocable": settings}]}
    file = {"ensemble": {"name": "it"}, **inside}
    ensembles, configurations = validator(call, "ensemble"), validator(call, "config")
    ensembles.validate(file)
    configurations.validate({"ensembles": [file]})
    for key in settings:
        slips = list(dict.fromkeys(edits(key)))
        for slip in slips[:: len(slips) // count(len(slips), 10)]:
            if slip and slip not in settings:
                wrong = copy.deepcopy(file)
                at = wrong["connection"] if table == "connection" else wrong["invokers"][0]["invocable"]
                at[slip] = at.pop(key)
                assert not ensembles.is_valid(wrong), slip
