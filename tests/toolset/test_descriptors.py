"""What the descriptors of the bundled tools promise: effects, narrow schemas, and the schemas of seed 000."""

import pathlib
from collections.abc import Mapping
from typing import Any

import pytest

from ripieno.descriptors import EnsembleDescriptor
from ripieno.descriptors.loading import Layer, load_ensembles
from ripieno.jsonvalues import thaw

DATA = pathlib.Path(__file__).parents[2] / "data"
BUNDLED: Mapping[str, EnsembleDescriptor] = load_ensembles([Layer(name="package", folders=(DATA,))]).ensembles
#: The effects of the tools of each ensemble; all others of it write.
EFFECTS = {
    "reasoning": {"none": "think plan summarize reflect"},
    "file_read": {"read": "read_file read_lines head tail cat"},
    "file_write": {"destructive": "patch_file"},
    "file_manage": {"destructive": "delete_file"},
    "directory": {"read": "list_files list_dir tree", "destructive": "delete_directory rmdir"},
    "search": {"read": "search grep ripgrep find find_files glob"},
    "network": {"read": "http_get"},
}
TEXT = {"type": "string"}
NEEDED = {**TEXT, "required": True}
#: Seed 000, section 3.2: types, defaults, enumerations and bounds, without the descriptions.
SEED: dict[str, dict[str, dict[str, object]]] = {
    "file_read.read_file": {
        "path": NEEDED,
        "start_line": {"type": "integer", "minimum": 1},
        "end_line": {"type": "integer", "minimum": 1},
        "encoding": {"type": "string", "default": "utf-8", "enum": ["utf-8", "ascii", "latin-1", "utf-16"]},
    },
    "file_write.write_file": {
        "path": NEEDED,
        "content": NEEDED,
        "create_directories": {"type": "boolean", "default": True},
        "mode": {"type": "string", "default": "overwrite", "enum": ["overwrite", "append"]},
    },
    "file_write.edit_file": {  # The default of occurrence is left out: decision 023.
        "path": NEEDED,
        "old_content": NEEDED,
        "new_content": NEEDED,
        "occurrence": {"type": "string", "enum": ["first", "last", "all"]},
    },
    "directory.list_files": {
        "path": {"type": "string", "default": "."},
        "recursive": {"type": "boolean", "default": False},
        "include_hidden": {"type": "boolean", "default": False},
        "pattern": TEXT,
        "max_depth": {"type": "integer", "default": 10, "minimum": 1},
    },
    "search.search": {
        "pattern": NEEDED,
        "path": {"type": "string", "default": "."},
        "type": {"type": "string", "default": "literal", "enum": ["regex", "literal"]},
        "case_sensitive": {"type": "boolean", "default": True},
        "include_pattern": TEXT,
        "exclude_pattern": TEXT,
        "max_results": {"type": "integer", "default": 50, "minimum": 1, "maximum": 1000},
        "context_lines": {"type": "integer", "default": 2, "minimum": 0, "maximum": 10},
    },
    "execution.bash": {
        "command": NEEDED,
        "working_directory": TEXT,
        "timeout_seconds": {"type": "integer", "default": 30, "minimum": 1, "maximum": 300},
        "env": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "reasoning.think": {"thought": NEEDED},
    "control.submit": {"answer": TEXT, "confidence": {"type": "number", "minimum": 0.0, "maximum": 1.0}},
}


def schema_of(identity: str) -> Any:
    name, _, tool = identity.partition(".")
    return thaw(next(one for one in BUNDLED[name].invokers if one.name == tool).arguments)


@pytest.mark.parametrize("name", EFFECTS)
def test_effects_are_honest(name: str) -> None:
    expected = {tool: effect for effect, tools in EFFECTS[name].items() for tool in tools.split()}
    for invoker in BUNDLED[name].invokers:
        assert invoker.policy.effect == expected.pop(invoker.name, "write")
        assert invoker.policy.idempotent or name != "reasoning"
    assert not expected


@pytest.mark.parametrize("name", BUNDLED)
def test_schemas_are_narrow(name: str) -> None:
    for invoker in BUNDLED[name].invokers:
        schema = schema_of(f"{name}.{invoker.name}")
        assert schema["additionalProperties"] is False, invoker.name
        assert name != "network" or schema["properties"]["url"]["maxLength"] == 8192


@pytest.mark.parametrize("identity", SEED)
def test_schemas_are_the_seeds(identity: str) -> None:
    schema = schema_of(identity)
    found = {
        key: {word: value for word, value in one.items() if word not in ("description", "maxLength")}
        | ({"required": True} if key in schema["required"] else {})
        for key, one in schema["properties"].items()
    }
    assert found == SEED[identity]
