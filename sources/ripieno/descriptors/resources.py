"""The resources that calls read and write: how they are written down, and whether their places are arguments."""

from collections.abc import Mapping
from typing import Any

from ripieno.descriptors.kinds import Several, Text
from ripieno.descriptors.positions import Path
from ripieno.descriptors.problems import Problems, spelling
from ripieno.jsonvalues import is_table
from ripieno.templates import Template

#: A kind, alone or with a template of a value.
RESOURCES = Several(
    item=Text(
        pattern=r"[a-z][a-z0-9_-]*(?::(?:[^{}]|\{\{|\}\}|\{[A-Za-z_][A-Za-z0-9_.-]*\})+)?",
        shape='a resource such as "file:{path}" or "network"',
    ),
    items='resources such as "file:{path}"',
    bare=True,
)
#: Keywords by which a schema may declare arguments that cannot be seen in its ``properties``.
_ELSEWHERE = frozenset({"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas"})


def check_resources(table: Mapping[str, Any], path: Path, problems: Problems, arguments: Mapping[str, Any]) -> None:
    """Places in ``reads`` and ``writes`` must be for arguments, as far as these can be seen."""
    properties = arguments.get("properties", {})
    if not _ELSEWHERE.isdisjoint(arguments) or not is_table(properties):
        return
    for key in ("reads", "writes"):
        for index, text in enumerate(table.get(key, ())):
            for name in Template.parse(text).placeholders:
                if name not in properties:
                    problems.add((*path, key, index), f"{name!r} is none of the arguments", spelling(name, properties))
