"""Laws of descriptors: written ones read back equal, one slip is one problem, nothing makes a reader raise, and the
JSON Schemas for editors say of a file what the readers say of it.
"""

import copy
import json
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from ripieno.descriptors import deserialize, serialize
from ripieno.descriptors.ensembles import read_ensemble
from ripieno.descriptors.json_schema import FILES, schema
from ripieno.descriptors.reader.keys import Table
from ripieno.descriptors.reader.problems import Source, is_slip
from ripieno.descriptors.reader.references import OrReference
from ripieno.exceptions import NameAbsence, SerializationInvalidity
from tests.counts import count
from tests.descriptors.descriptor_examples import (
    CONFIGURATION,
    ENSEMBLES,
    PROFILE,
    PROVIDER,
    READ_FILE,
    READERS,
    whole,
    within,
)
from tests.descriptors.descriptor_strategies import ensembles, profiles, providers

FILES_OF = {"ensemble": ensembles(), "provider": providers(), "profile": profiles}


@pytest.mark.parametrize("kind", FILES_OF)
def test_written_descriptors_read_back_equal(kind: str) -> None:
    @given(FILES_OF[kind])
    def law(mapping: dict[str, Any]) -> None:
        descriptor, problems = READERS[kind](mapping)
        assert problems == ()
        text = tomli_w.dumps(descriptor.mapping())
        again, problems = READERS[kind](tomllib.loads(text), Source(file="x.toml", text=text))
        assert problems == ()
        assert again == descriptor
        assert hash(again) == hash(descriptor)
        revived = deserialize(json.loads(json.dumps(serialize(descriptor))))
        assert revived == descriptor
        assert type(revived) is type(descriptor)

    law()


def read_invoker(mapping: Any, _: Any = None) -> Any:
    """Reads an invoker's file, which its ensemble refers to."""
    ensemble = {"ensemble": {"name": "x", "module": "m"}, "invokers": [{"source": "a.toml"}]}
    return read_ensemble(ensemble, read=lambda _: (mapping, Source(file="a.toml")))


def edits(name: str) -> Iterator[str]:
    """Everything that one character makes of a name."""
    for at in range(len(name) + 1):
        before, after = name[:at], name[at:]
        yield before + after[1:]
        yield before + after[1:2] + after[:1] + after[2:]
        for one in "aes_":
            yield before + one + after
            yield before + one + after[1:]


def tables(table: Table, mapping: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], frozenset[str]]]:
    """Where the tables of a file stand, and which keys they know."""
    yield path, frozenset(table.known)
    for key in table.keys:
        kind, _, at = within(key)
        if isinstance(key.kind, OrReference) and key.name in ("arguments", "results"):
            yield (*path, *at), frozenset(key.kind.known)
        if isinstance(kind, Table):
            yield from tables(kind, mapping, (*path, *at))


def reach(mapping: Any, path: tuple[Any, ...]) -> Any:
    """What stands at a path."""
    for part in path:
        mapping = mapping[part]
    return mapping


def renamed(mapping: Any, path: tuple[Any, ...], old: str, new: str) -> Any:
    """The same file with one key renamed, in its place."""
    changed = copy.deepcopy(mapping)
    table = reach(changed, path)
    items = [(new if name == old else name, value) for name, value in table.items()]
    table.clear()
    table.update(items)
    return changed


SLIPS = [
    (kind, path, name, slip)
    for kind, table in FILES.items()
    for path, known in tables(table, whole(table))
    for name in reach(whole(table), path)
    if name in known
    for slip in dict.fromkeys(edits(name))
    if slip not in known and slip
]
SLIP_STEP = max(1, len(SLIPS) // count(len(SLIPS)))


@pytest.mark.parametrize("kind", FILES)
def test_one_slip_is_one_problem_that_names_the_right_spelling(kind: str) -> None:
    reader: Callable[..., Any] = READERS.get(kind, read_invoker)
    mapping = whole(FILES[kind])
    assert reader(mapping)[1] == ()
    tried = 0
    for _, path, name, slip in [one for one in SLIPS if one[0] == kind][::SLIP_STEP]:
        tried += 1
        _, problems = reader(renamed(mapping, path, name, slip))
        assert len(problems) == 1, (path, name, slip, [str(problem) for problem in problems])
        assert repr(name) in (problems[0].hint or ""), (path, name, slip, str(problems[0]))
        assert slip in problems[0].message or not slip.isascii()
    assert tried > 3


@pytest.mark.parametrize("table", ["invokers", "arguments", "results"])
def test_slips_for_source(table: str) -> None:
    for slip in set(edits("source")) - {"source"}:
        item: dict[str, Any] = {"name": "a", "description": "A", table: {slip: "a.json"}}
        if table == "invokers":
            item = {slip: "a.toml"}
        _, problems = read_ensemble({"ensemble": {"name": "x", "module": "m"}, "invokers": [item]})
        assert [problem.hint for problem in problems] == ["Did you mean 'source'?"], slip


@given(st.text("abc", max_size=5), st.text("abc", max_size=5))
def test_is_slip(one: str, other: str) -> None:
    exchanged = {one[:at] + one[at + 1 : at + 2] + one[at : at + 1] + one[at + 2 :] for at in range(len(one))}
    shorter = {one[:at] + one[at + 1 :] for at in range(len(one))}
    others = {one[:at] + letter + one[at + skip :] for at in range(len(one) + 1) for letter in "abc" for skip in (0, 1)}
    assert is_slip(one, other) == (other in (exchanged | shorter | others) and one != other)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def anything(table: Table) -> st.SearchStrategy[Any]:
    """Tables with the right names and anything at all behind them."""
    inner: dict[str, st.SearchStrategy[Any]] = {}
    for key in table.keys:
        kind, wrap, _ = within(key)
        inner[key.name] = JSON | (anything(kind).map(wrap) if isinstance(kind, Table) else st.just(whole_value(key)))
    return st.fixed_dictionaries({}, optional=inner) | JSON


def whole_value(key: Any) -> Any:
    """A legal value of one key."""
    return whole(Table(title="", documentation="", keys=(key,)))[key.name]


@pytest.mark.parametrize("kind", FILES)
def test_readers_never_raise(kind: str) -> None:
    reader: Callable[..., Any] = READERS.get(kind, read_invoker)

    @given(anything(FILES[kind]))
    def law(mapping: Any) -> None:
        descriptor, problems = reader(mapping)
        assert problems or descriptor is not None
        # A profile with problems keeps what could be read, for the checks of names.
        assert descriptor is None or not problems or kind == "profile"
        for problem in problems:
            assert str(problem).replace("\n", "").replace("\t", "").isprintable()

    law()


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({}, "version None"),
        ({"version": 2}, "version 2"),
        ({"version": 1, "kind": "x", "tables": {}}, "'x' is unknown"),
        ({"version": 1, "kind": "profile"}, "missing"),
        ({"version": 1, "kind": "profile", "tables": {"profile": {"ensembles": []}}}, "lacks name"),
    ],
)
def test_unknown_forms_are_never_revived(value: dict[str, Any], says: str) -> None:
    with pytest.raises(SerializationInvalidity, match=says):
        deserialize(value)


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
        ("ensemble", ENSEMBLES["io"], "30", '"30"'),
        ("ensemble", ENSEMBLES["io"], "io/invokers/read_file.toml", "../read_file.toml"),
        ("ensemble", ENSEMBLES["io"], "io/invokers/read_file.toml", "/read_file.toml"),
        ("ensemble", ENSEMBLES["io"], 'name = "io"', 'name = "Io"'),
        ("ensemble", ENSEMBLES["search"], "2 MiB", "2 MB"),
        ("ensemble", ENSEMBLES["search"], '"read"', '"reads"'),
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


def test_unknown_kinds() -> None:
    with pytest.raises(NameAbsence, match="'ensemble'"):
        schema("ensembel")


def test_schemas_are_new_each_time() -> None:
    """Whoever changes one changes nobody else's."""
    first = schema("profile")
    before = copy.deepcopy(first)
    first["properties"].clear()
    assert schema("profile") == before
