"""``ripieno schema``: JSON Schemas of descriptor files, for completion and validation in editors."""

import json
import pathlib
from typing import Any

import click

from ripieno.assembly.configuration import load_configuration
from ripieno.assembly.plugins import Registry
from ripieno.assembly.programs import find_origins
from ripieno.cli.common.options import Settings, common, pass_settings
from ripieno.cli.common.tables import print_json
from ripieno.descriptors.json_schema import FILES
from ripieno.descriptors.json_schema import schema as schema_of
from ripieno.descriptors.reader.regular_files import read_regular
from ripieno.ensembles.origin import tables_of
from ripieno.jsonvalues import is_table

_FILE = "ensemble.schema.json"
#: The first line of an ensemble beside its schema, for editors.
SCHEMA_LINE = f"#:schema ./{_FILE}\n\n"


@click.command()
@click.argument("kind", metavar="|".join(FILES))
@common
@pass_settings
def schema(settings: Settings, kind: str) -> None:
    """Print the JSON Schema of a kind of file, for editors.

    It includes the keys of all origins, also of those in plugins that your configuration allows.

    \b
    Example:
      ripieno schema ensemble > ensemble.schema.json
    """
    print_json(schema_with_origins(kind, load_configuration(settings.config).registry))


def schema_with_origins(kind: str, registry: Registry) -> dict[str, Any]:
    """The JSON Schema of a kind of file, with the keys of all origins. Errors: ``NameAbsence``."""
    origins = find_origins(registry.origins, registry)
    return schema_of(kind, {origin.name: tables_of(origin) for origin in origins})


def write_schema(folder: pathlib.Path, registry: Registry) -> str:
    """Writes the schema of ensembles into their folder, and returns a report. Replaces only an older schema."""
    path = folder / _FILE
    schema = schema_with_origins("ensemble", registry)
    try:
        current: Any = json.loads(read_regular(path))
        known = is_table(current) and current.get("title") == schema["title"]
    except FileNotFoundError:
        known = True
    except ValueError:
        known = False
    if not known:
        return f"Kept {path}, which ripieno did not write. Editors use it for the ensembles in {folder}."
    path.write_text(f"{json.dumps(schema, indent=2, ensure_ascii=False)}\n", encoding="utf-8")
    return f"Wrote {path}"
