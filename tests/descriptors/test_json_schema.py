"""JSON Schemas for editors and the reference: they say of a file what the readers say of it."""

import copy
import itertools
import tomllib
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings

from ripieno.descriptors.json_schema import FILES, reference, schema
from ripieno.exceptions import NameAbsence
from tests.counts import count
from tests.descriptors.descriptor_examples import CONFIGURATION, ENSEMBLES, PROFILE, PROVIDER, READ_FILE, whole
from tests.descriptors.descriptor_strategies import ensembles, profiles, providers
from tests.descriptors.test_reader_laws import SLIPS, renamed

EXAMPLES = [
    *(("ensemble", text) for text in ENSEMBLES.values()),
    ("invoker", READ_FILE),
    ("provider", PROVIDER),
    ("profile", PROFILE),
    ("config", CONFIGURATION),
    ("config", '[[ensembles]]\nname = "x"\nmodule = "m"\ninvokers = []\n'),
    ("config", '[[ensembles]]\ninvokers = []\n[ensembles.ensemble]\nname = "x"\n'),
]
VALIDATORS = {kind: jsonschema.Draft202012Validator(schema(kind)) for kind in FILES}


@pytest.mark.parametrize("kind", FILES)
def test_they_are_schemas(kind: str) -> None:
    value = schema(kind)
    jsonschema.Draft202012Validator.check_schema(value)
    assert value["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    VALIDATORS[kind].validate(whole(FILES[kind]))


@pytest.mark.parametrize("kind", FILES)
def test_every_key_is_described(kind: str) -> None:
    def walk(value: Any) -> int:
        if isinstance(value, list):
            return sum(walk(item) for item in value)
        if not isinstance(value, dict) or "patternProperties" in value:
            return 0
        described = value.get("properties", {})
        for name, item in described.items():
            assert item["description"], name
        inner = [item for name, item in value.items() if name not in ("examples", "default")]
        return len(described) + sum(walk(item) for item in [*inner, *described.values()] if item is not described)

    assert walk(schema(kind)) >= 4


@pytest.mark.parametrize(("kind", "text"), EXAMPLES)
def test_examples_are_accepted(kind: str, text: str) -> None:
    VALIDATORS[kind].validate(tomllib.loads(text))


@pytest.mark.parametrize(
    ("kind", "text", "old", "new"),
    [
        ("ensemble", ENSEMBLES["io"], "timeout", "tiemout"),
        ("ensemble", ENSEMBLES["io"], "30", '"30"'),
        ("ensemble", ENSEMBLES["io"], "io/invokers/read_file.toml", "../read_file.toml"),
        ("ensemble", ENSEMBLES["io"], "io/invokers/read_file.toml", "/read_file.toml"),
        ("ensemble", ENSEMBLES["io"], 'name = "io"', 'name = "Io"'),
        ("ensemble", ENSEMBLES["search"], "2 MiB", "2 MB"),
        ("ensemble", ENSEMBLES["search"], '"read"', '"reads"'),
        ("ensemble", ENSEMBLES["search"], "description", "descripton"),
        ("ensemble", ENSEMBLES["time"], 'origin = "mcp"\n', ""),
        ("invoker", READ_FILE, '"object"', '"string"'),
        ("invoker", READ_FILE, 'required = ["path"]', "required = true"),
        ("provider", PROVIDER, "strict = true", "strict = 1"),
        ("profile", PROFILE, '["io"]', '["io", "io"]'),
        ("config", CONFIGURATION, "turns = 50", "turns = 0"),
    ],
)
def test_what_is_wrong_is_refused(kind: str, text: str, old: str, new: str) -> None:
    assert old in text
    with pytest.raises(jsonschema.ValidationError):
        VALIDATORS[kind].validate(tomllib.loads(text.replace(old, new)))


@pytest.mark.parametrize("kind", FILES)
def test_slips_are_refused(kind: str) -> None:
    """Except in tables that are open for the settings of an origin: a schema cannot know its slips."""
    mapping = whole(FILES[kind])
    slips = [one for one in SLIPS if one[0] == kind and "invocable" not in one[1]]
    step = max(1, len(slips) // count(4000))
    for _, path, name, slip in slips[::step]:
        if path[-1:] == ("connection",) and name != "origin":
            continue
        assert not VALIDATORS[kind].is_valid(renamed(mapping, path, name, slip)), (path, name, slip)


@settings(max_examples=count(300))
@given(ensembles(), providers(), profiles)
def test_what_readers_accept_is_accepted(ensemble: Any, provider: Any, profile: Any) -> None:
    VALIDATORS["ensemble"].validate(ensemble)
    VALIDATORS["provider"].validate(provider)
    VALIDATORS["profile"].validate(profile)


@pytest.mark.parametrize("kind", FILES)
def test_reference_names_every_key(kind: str) -> None:
    text = reference(kind)

    def walk(table: Any) -> None:
        for key in table.keys:
            assert f"\n``{key.name}``\n" in text
            assert key.documentation in text

    walk(FILES[kind])
    for line in text.splitlines():
        assert len(line) < 200
        assert line == line.rstrip()
        assert line.count("``") % 2 == 0, "A literal ends in the line that it begins in."
    lines = text.splitlines()
    for title, rule in itertools.pairwise(lines):
        if rule and set(rule) == {"-"}:
            assert len(rule) == len(title)


def test_reference_has_the_tables_under_their_names() -> None:
    text = reference("ensemble")
    names = ("ensemble", "defaults", "connection", "overrides.<name>", "invokers.invocable")
    for name in names:
        assert f"``[{name}]``\n" in text
    assert "``[[invokers]]``\n" in text
    assert 'Default: ``"write"``.' in text
    assert "    timeout = 60\n" in text
    text = reference("config")
    for name in ("ensembles", "providers.<name>.capabilities", "agents.<name>", "agents.<name>.limits", "sandbox"):
        assert f"``[{name}]``\n" in text
    assert "``[[providers.<name>.models]]``\n" in text


def test_unknown_kinds() -> None:
    with pytest.raises(NameAbsence, match="'ensemble'"):
        schema("ensembel")
    with pytest.raises(NameAbsence):
        reference("")


def test_schemas_are_new_each_time() -> None:
    """Whoever changes one changes nobody else's."""
    first = schema("profile")
    before = copy.deepcopy(first)
    first["properties"].clear()
    assert schema("profile") == before
