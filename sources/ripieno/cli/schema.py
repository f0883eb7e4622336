"""``ripieno schema``: JSON Schemas of descriptor files, so that editors complete and check them."""

import click

from ripieno.cli.settings import common
from ripieno.cli.tables import print_json
from ripieno.descriptors import FILES
from ripieno.descriptors import schema as schema_of


@click.command()
@click.argument("kind", metavar="|".join(FILES))
@common
def schema(kind: str) -> None:
    """Print the JSON Schema of a kind of file, for editors.

    \b
    Example:
      ripieno schema ensemble > ensemble.schema.json
    """
    print_json(schema_of(kind))
