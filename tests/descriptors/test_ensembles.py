"""Descriptors of ensembles and invokers: what good files become, and how they are laid together."""

import json
import re
import tomllib
from typing import Any

import pytest
from frozendict import frozendict

from ripieno.descriptors import EnsembleDescriptor, Policy, RetryPolicy
from ripieno.descriptors.ensembles import read_ensemble
from ripieno.descriptors.invokers import NO_ARGUMENTS
from ripieno.descriptors.policy_keys import POLICY_KEYS
from ripieno.descriptors.reader.problems import Source
from tests.descriptors.descriptor_examples import IO, READ_FILE, SEARCH, TIME, WEATHER, files, good, only


def test_seed_forms() -> None:
    io = good(IO, files(read_file__toml=READ_FILE))
    assert (io.name, io.enabled, io.required, io.module) == ("io", True, True, "ripieno.toolset.files")
    assert (io.connection, io.prefix, io.scope, io.file) == (None, None, "application", "x.toml")
    invoker = only(io)
    assert (invoker.name, invoker.description, invoker.enabled) == ("read_file", "Reads contents of a file", True)
    assert invoker.policy == Policy(effect="read", timeout=30, retry=RetryPolicy(max_retries=3))
    assert invoker.arguments["properties"]["path"]["type"] == "string"
    assert invoker.invocable.origin == "python"
    assert invoker.invocable.settings == {"function": "ripieno.toolset.files:read_file"}
    assert invoker.file == "io/invokers/read_file.toml"


def test_inline_command() -> None:
    invoker = only(good(SEARCH))
    assert invoker.policy.output == 2 * 1024 * 1024
    assert invoker.invocable.origin == "command"
    assert invoker.invocable.settings["argv"][2] == {"when": "context", "argv": ("-C", "{context}")}
    assert invoker.file == "x.toml"


def test_presets_and_timeout_argument_are_policy() -> None:
    invoker = only(good(WEATHER))
    assert invoker.policy.presets == {"units": "metric"}
    assert invoker.policy.timeout_argument == "seconds"
    assert set(invoker.invocable.settings) == {"method", "url", "query", "headers"}


def test_discovered() -> None:
    time = good(TIME + '\n[defaults]\ntimeout = 5\neffect = "destructive"\nenabled = false\n')
    assert time.connection is not None
    assert time.connection.origin == "mcp"
    assert time.connection.settings["command"] == ("python", "-m", "mcp_server_time")
    known = time.discovered("get_current_time", description="whatever the server says", settings={"title": "Now"})
    assert known.description == "Tells the time"
    assert known.policy == Policy(effect="read", timeout=5)
    assert known.invocable.origin == "mcp"
    assert known.invocable.settings == {"title": "Now"}
    unknown = time.discovered("other", description="Does something", arguments={"type": "object"})
    assert (unknown.description, unknown.policy.effect) == ("Does something", "destructive")
    assert not unknown.enabled
    assert unknown.arguments == {"type": "object"}


def test_every_policy_key_is_laid_over_key_by_key() -> None:
    lists = {"reads": ["file:{path}"], "writes": ["a"], "supersedes": ["b"], "requires": ["c"], "tags": ["x"]}
    flags = ("idempotent", "confirm", "terminal")
    values = {"timeout": 7.5, "effect": "none", "on_error": "report", "max_parallel": 2, "repeats": 9, "cache": 60}
    values |= dict.fromkeys(flags, True)
    defaults = {**values, **lists, "output": "1.5 KiB", "max_retries": 0}
    kept = {**values, **{name: tuple(value) for name, value in lists.items()}, "output": 1536}
    expected, made = {**kept, "max_retries": 0}, {**kept, "retry": RetryPolicy(max_retries=0)}
    header = {"ensemble": {"name": "x", "module": "m"}, "defaults": defaults}
    own: dict[str, Any] = {"timeout": 1, "output": 10, "effect": "write", "reads": [], **dict.fromkeys(flags, False)}
    items: list[dict[str, Any]] = [{"name": "a", "description": "A"}, {"name": "b", "description": "B", **own}]
    descriptor, problems = read_ensemble({**header, "invokers": items})
    assert problems == ()
    assert descriptor is not None
    first, second = descriptor.invokers
    assert first.policy == Policy(**made)
    assert second.policy == Policy(**(made | own | {"reads": ()}))
    assert descriptor.defaults == expected


def test_enabled_is_a_default_too() -> None:
    text = '[ensemble]\nname = "x"\nmodule = "m"\n[defaults]\nenabled = false\n'
    one = '[[invokers]]\nname = "a"\ndescription = "A"\n'
    two = '[[invokers]]\nname = "b"\ndescription = "B"\nenabled = true\n'
    assert [invoker.enabled for invoker in good(text + one + two).invokers] == [False, True]


def test_configuration_is_merged_in_depth() -> None:
    text = """
    [ensemble]
    name = "x"
    module = "m"
    [configuration]
    a = 1
    deep = { list = [1, 2], kept = true }
    [[invokers]]
    name = "a"
    description = "A"
    [invokers.configuration]
    b = 2
    deep = { list = [3] }
    """
    descriptor = good(text)
    assert descriptor.configuration == {"a": 1, "deep": {"list": (1, 2), "kept": True}}
    assert only(descriptor).configuration == {"a": 1, "b": 2, "deep": {"list": (3,), "kept": True}}
    assert isinstance(only(descriptor).configuration["deep"], frozendict)


def test_nothing_left_to_guess() -> None:
    invoker = only(good('[ensemble]\nname = "x"\nmodule = "./t.py"\n[[invokers]]\nname = "a"\ndescription = "A"\n'))
    assert invoker.arguments == NO_ARGUMENTS
    assert invoker.results is None
    assert invoker.policy == Policy()
    assert invoker.policy.effect == "write"
    assert invoker.invocable.settings == {"function": "./t.py:a"}


@pytest.mark.parametrize(
    ("table", "origin", "settings"),
    [
        ('function = "other:f"', "python", {"function": "other:f"}),
        ('origin = "python"', "python", {"function": "m:a"}),
        ('origin = "client"', "client", {}),
        ("presets = {}", "python", {"function": "m:a"}),
    ],
)
def test_invocable(table: str, origin: str, settings: dict[str, str]) -> None:
    text = '[ensemble]\nname = "x"\nmodule = "m"\n[[invokers]]\nname = "a"\ndescription = "A"\n[invokers.invocable]\n'
    invocable = only(good(text + table)).invocable
    assert (invocable.origin, invocable.settings) == (origin, settings)


def test_header() -> None:
    header: dict[str, Any] = {"pin": "required", "prefix": "", "scope": "conversation", "category": "files"}
    header |= {"required": False, "enabled": False}
    descriptor, problems = read_ensemble({"ensemble": {"name": "x", **header}, "invokers": []})
    assert problems == ()
    assert {name: getattr(descriptor, name) for name in header} == header


def test_schemas_in_files_of_their_own() -> None:
    text = """
    [ensemble]
    name = "x"
    module = "m"
    [[invokers]]
    name = "a"
    description = "A"
    arguments = { source = "a.schema.json" }
    results = { source = "b.schema.json" }
    """
    arguments = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    def read(relative: str) -> tuple[dict[str, Any], Source]:
        value = arguments if relative.startswith("a") else {"type": "array", "items": {"type": "string"}}
        return value, Source(file=relative, text=json.dumps(value, indent=1), json=True)

    invoker = only(good(text, read))
    assert invoker.arguments == frozendict(arguments | {"required": ("n",)})
    assert invoker.results == {"type": "array", "items": {"type": "string"}}
    arguments["required"] = ["m"]
    _, problems = read_ensemble(tomllib.loads(text), Source(file="x.toml", text=text), read=read)
    (problem,) = problems
    assert (problem.file, problem.line, problem.key) == ("a.schema.json", 9, "required[0]")
    assert problem.source is not None
    assert '"m"' in problem.source


def test_sources_of_invokers_may_refer_to_schemas() -> None:
    tool = READ_FILE[: READ_FILE.index("[arguments]")] + '[arguments]\nsource = "deep/a.json"\n'
    schema = {"type": "object", "properties": {}}

    def read(relative: str) -> tuple[dict[str, Any], Source]:
        return (schema, Source(file=relative)) if relative.endswith(".json") else (tomllib.loads(tool), Source())

    assert only(good(IO, read)).arguments == schema


def test_flat_ensembles_stand_in_a_configuration_only() -> None:
    _, problems = read_ensemble({"name": "x", "module": "m", "invokers": []})
    assert any("lacks ensemble" in problem.message for problem in problems)


def test_an_empty_file_is_answered_with_how_it_begins() -> None:
    _, (problem,) = read_ensemble({})
    assert problem.message == "an ensemble's file lacks ensemble"
    header, _, keys = str(problem.hint).partition(", followed by: ")
    assert header == "It begins with the line [ensemble]"
    # The next problem is another one, with a hint of its own.
    _, (problem,) = read_ensemble(tomllib.loads(f"[ensemble]\n{keys}"))
    assert "[[invokers]]" in str(problem.hint)


def read(**keys: Any) -> tuple[EnsembleDescriptor | None, list[str]]:
    mapping = {
        "ensemble": {"name": "mine", "module": "m", **keys.pop("ensemble", {})},
        "defaults": keys.pop("defaults", {}),
        "invokers": [
            {
                "name": "work",
                "description": "Works",
                "arguments": {"type": "object", "properties": {"path": {"type": "string"}}, **keys.pop("schema", {})},
                **keys,
            }
        ],
    }
    descriptor, problems = read_ensemble(mapping)
    return descriptor, [f"{problem.message} {problem.hint or ''}".strip() for problem in problems]


def readable(**keys: Any) -> EnsembleDescriptor:
    descriptor, problems = read(**keys)
    assert problems == []
    assert descriptor is not None
    return descriptor


def test_what_is_declared_is_kept_and_an_empty_list_is_no_absence() -> None:
    descriptor = readable(reads=[], writes=["file:{path}", "network", "file:{path}/../{{x}}"])
    policy = descriptor.invokers[0].policy
    assert (policy.reads, policy.writes) == ((), ("file:{path}", "network", "file:{path}/../{{x}}"))
    other = readable().invokers[0].policy
    assert (other.reads, other.writes) == (None, None)
    assert read_ensemble(descriptor.mapping())[0] == descriptor


@pytest.mark.parametrize("key", ["reads", "writes"])
def test_a_place_that_is_none_of_the_arguments_is_told_with_the_nearest(key: str) -> None:
    _, problems = read(**{key: ["file:{pth}"]})
    assert len(problems) == 1
    assert "'pth' is not an argument" in problems[0]
    assert "path" in problems[0]


@pytest.mark.parametrize("text", ["", ":", "file:", "file:{", "file:{path", "file:}", "File:x", "{path}", "file:{a b}"])
def test_what_is_no_resource_is_told(text: str) -> None:
    _, problems = read(writes=[text])
    assert len(problems) == 1
    pattern = next(key.kind.schema()["anyOf"][1]["pattern"] for key in POLICY_KEYS if key.name == "writes")
    assert re.search(pattern, text) is None


def test_arguments_that_cannot_be_seen_are_taken_on_trust() -> None:
    readable(writes=["file:{other}"], schema={"allOf": [{"properties": {"other": {}}}]})


def test_defaults_are_for_all_and_need_not_fit_each() -> None:
    policy = readable(defaults={"writes": ["file:{directory}"], "max_parallel": 2}).invokers[0].policy
    assert (policy.writes, policy.max_parallel) == (("file:{directory}",), 2)
