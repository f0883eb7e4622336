"""``ripieno new``: makes things that work already, to be changed into what one wants."""

import json
import pathlib
import re
import shlex
from typing import Any

import click

from ripieno.assembly.configuration import LoadedConfiguration, Places, load_configuration
from ripieno.cli.common.options import Settings, common, pass_settings
from ripieno.cli.tools.json_schema import whole_schema
from ripieno.conducting.observers.console import clean
from ripieno.descriptors.ensembles import ENSEMBLE_NAME
from ripieno.exceptions import InputError, nearest
from ripieno.jsonvalues import is_table

#: Where editors find the schema of an ensemble: beside it.
_SCHEMA = "ensemble.schema.json"
_DESCRIPTOR = """\
#:schema ./ensemble.schema.json

# An ensemble: tools that belong together. Editors complete and check it by the schema that the first line names.

[ensemble]
name = "{name}"
description = "Greets people"
prefix = "{prefix}"
module = "./{name}/tools.py"        # where the functions are; each has the name of its invoker

[defaults]
effect = "none"                     # none, read, write or destructive: the last two ask before each call
timeout = 10                        # seconds

[[invokers]]
name = "greet_person"               # you call it {name}.greet_person; a model sees {prefix}__greet_person
description = "Greets a person by name."

[invokers.arguments]
type = "object"
required = ["name"]

[invokers.arguments.properties.name]
type = "string"
description = "The person's name"

[invokers.arguments.properties.greeting]
type = "string"
description = "The word to greet with"
default = "Hello"
"""
_MODULE = '''\
"""The functions of the ensemble {name}. They are imported when they are first called."""

from ripieno.ensembles import Context
from ripieno.plugin import ValidationFault


def greet_person(context: Context, arguments: dict) -> str:
    """Arguments have been validated, and defaults filled in. What is returned may be a string or JSON."""
    name = arguments["name"].strip()
    if not name:
        # What a model should read, and can mend, is a fault; any other exception is a bug of this file.
        raise ValidationFault("The name is empty.", suggestion="Give the name of a person.")
    return f"{{arguments['greeting']}}, {{name}}!"
'''
#: Characters of a prefix, at most.
_PREFIX = 32


class Kinds(click.Group):
    """What can be made; a name that stands where its kind should gets the whole command."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            kinds = nearest(args[0], self.commands) or tuple(self.commands)
            rest = args[1:] if nearest(args[0], self.commands) else args
            commands = " or ".join(shlex.join(["ripieno", "new", kind, *rest]) for kind in kinds)
            raise click.UsageError(f"{args[0]!r} is no kind of thing that can be made. Did you mean: {commands}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=Kinds)
@common
def new() -> None:
    """Make something new that works already.

    \b
    Example:
      ripieno new ensemble mine
    """


@new.command(short_help="Write a small ensemble that works.")
@click.argument("name")
@click.option(
    "--folder",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=pathlib.Path),
    help="Where to write it, instead of your own folder of ensembles.",
)
@common
@pass_settings
def ensemble(settings: Settings, name: str, folder: pathlib.Path | None) -> None:
    """Write a small ensemble that works: NAME.toml, and NAME/tools.py with one function.

    Beside it, ensemble.schema.json is for editors that know the line "#:schema", such as Even Better TOML.

    Without --folder it goes where it plays at once: the folder "ensembles" of your own configuration.

    \b
    Example:
      ripieno new ensemble mine
      ripieno new ensemble mine --folder ./ensembles
    """
    if not re.fullmatch(ENSEMBLE_NAME.pattern or "", name):
        raise InputError(f"{name!r} cannot name an ensemble: it must be {ENSEMBLE_NAME.shape}.{_proposal(name)}")
    loaded = load_configuration(settings.config)
    _refuse_taken(loaded, name)
    place = (folder or Places.of_user().configuration / "ensembles").absolute()
    descriptor, module = place / f"{name}.toml", place / name / "tools.py"
    taken = [str(path) for path in (descriptor, module) if path.exists()]
    if taken:
        raise InputError(f"There is {' and '.join(taken)} already. Choose another name, or remove it first.")
    for path, text in ((descriptor, _DESCRIPTOR), (module, _MODULE)):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text.format(name=name, prefix=name[:_PREFIX]))
        click.echo(clean(f"Wrote {path}"))
    _write_schema(place / _SCHEMA, loaded)
    click.echo(clean(_next(settings, name, place, named=folder is not None)))


def _write_schema(path: pathlib.Path, loaded: LoadedConfiguration) -> None:
    """Writes the schema that editors check an ensemble by, also over an older one; another file stays as it is."""
    schema = whole_schema("ensemble", loaded.registry)
    try:
        ours: Any = json.loads(path.read_text(encoding="utf-8"))
        known = is_table(ours) and ours.get("title") == schema["title"]
    except FileNotFoundError:
        known = True
    except ValueError:
        known = False
    if known:
        path.write_text(f"{json.dumps(schema, indent=2, ensure_ascii=False)}\n", encoding="utf-8")
        click.echo(clean(f"Wrote {path}"))
    else:
        click.echo(clean(f"Kept {path}, which is no schema of ours: editors check {path.parent} by it."))


def _proposal(name: str) -> str:
    proposed = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_0123456789")
    return f" {proposed!r} would do." if proposed else ""


def _refuse_taken(loaded: LoadedConfiguration, name: str) -> None:
    """Errors: ``InputError`` for a name of somebody else's ensemble, which a file of that name would replace."""
    holder = loaded.known.outlines.get(name)
    if holder is not None and (holder.layer == "package" or holder.layer.startswith("plugin ")):
        owner = "a bundled ensemble" if holder.layer == "package" else f"an ensemble of the {holder.layer}"
        raise InputError(
            f"{name!r} is the name of {owner} ({holder.file}), which a file of yours with this name would replace. "
            f"Choose another name: ripieno new ensemble my-{name}"
        )


def _next(settings: Settings, name: str, place: pathlib.Path, *, named: bool) -> str:
    """What to do with it, which depends on where it is."""
    call = f"ripieno invoke {name}.greet_person name=Ada"
    if not named:
        loaded = load_configuration(settings.config)
        if not loaded.failures and all(descriptor.name != name for descriptor in loaded.ensembles):
            return f'Your configuration names what plays: add "{name}" to enabled under [ensembles]. Then: {call}'
        return f"Now try: {call}"
    return (
        f"Now check it: ripieno check {place / name}.toml\n"
        f'To play it, name its folder in a configuration: paths = ["{place}"] under [ensembles]. Then: {call}'
    )
