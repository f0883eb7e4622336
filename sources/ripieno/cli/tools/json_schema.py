"""``ripieno schema``: JSON Schemas of descriptor files, so that editors complete and check them."""

from collections.abc import Mapping
from typing import Any

import click

from ripieno.cli.common.options import common
from ripieno.cli.common.tables import print_json
from ripieno.descriptors.json_schema import FILES
from ripieno.descriptors.json_schema import schema as schema_of
from ripieno.jsonvalues import is_list, is_table
from ripieno.origins.mcp.settings import CONNECTION
from ripieno.origins.python import FACTORY

#: What stands under [connection] for the built-in origins that connect to something.
_CONNECTIONS = {"mcp": CONNECTION, "python": FACTORY}


@click.command()
@click.argument("kind", metavar="|".join(FILES))
@common
def schema(kind: str) -> None:
    """Print the JSON Schema of a kind of file, for editors.

    \b
    Example:
      ripieno schema ensemble > ensemble.schema.json
    """
    print_json(_with_connections(schema_of(kind)))


def _with_connections(value: Any) -> Any:
    """The same schema, with the keys of each built-in origin wherever there is a connection."""
    if is_list(value):
        return [_with_connections(item) for item in value]
    if not is_table(value):
        return value
    whole = {name: _with_connections(item) for name, item in value.items()}
    properties = whole.get("properties")
    if is_table(properties) and is_table(properties.get("connection")):
        connection = {**properties["connection"], "allOf": [_rule(origin) for origin in _CONNECTIONS]}
        whole["properties"] = {**properties, "connection": connection}
    return whole


def _rule(origin: str) -> Mapping[str, Any]:
    keys = _CONNECTIONS[origin].schema()
    # The origin itself is declared one level up, and this one has no other keys than its own.
    keys["properties"] = {"origin": {"const": origin, "description": "The origin."}, **keys["properties"]}
    return {"if": {"properties": {"origin": {"const": origin}}, "required": ["origin"]}, "then": keys}
