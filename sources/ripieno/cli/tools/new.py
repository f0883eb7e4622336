"""``ripieno new``: creates working examples to adapt."""

import pathlib
import re
import shlex

import click

from ripieno.assembly.availability import how_to_include
from ripieno.assembly.configuration import load_configuration
from ripieno.assembly.trust import ENSEMBLES_NAME, find_project, trust_command
from ripieno.canisters.display import clean
from ripieno.cli.common.layers import owner_of
from ripieno.cli.common.options import FOLDER, Settings, common, pass_settings
from ripieno.cli.tools.json_schema import SCHEMA_LINE, write_schema
from ripieno.descriptors.ensembles import ENSEMBLE_NAME
from ripieno.exceptions import InputError, nearest
from ripieno.jsonvalues import EMPTY
from ripieno.storage.places import Places

_DESCRIPTOR = (
    SCHEMA_LINE
    + """\
# An ensemble: tools that belong together. Editors complete and check this file by the schema in the first line.

[ensemble]
name = "{name}"
description = "Greets people"
prefix = "{prefix}"
module = "./{name}/tools.py"        # the functions; each has the name of its invoker

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
)
_MODULE = '''\
"""The functions of the ensemble {name}. This file is imported at the first call."""

from ripieno.plugin import Context, ValidationFault


def greet_person(context: Context, arguments: dict) -> str:
    """Greets a person. Arguments are validated and have their defaults. The result may be a string or JSON."""
    name = arguments["name"].strip()
    if not name:
        # A fault is an error that the model can fix; any other exception is a bug in this file.
        raise ValidationFault("The name is empty.", suggestion="Give the name of a person.")
    return f"{{arguments['greeting']}}, {{name}}!"
'''
#: The maximum length of a prefix, in characters.
_PREFIX = 32


class Kinds(click.Group):
    """The kinds of things to create. A name in place of a kind gets the whole command as a hint."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            kinds = nearest(args[0], self.commands) or tuple(self.commands)
            named = len(args) > 1 and not args[1].startswith("-")
            rest = args[1:] if named or nearest(args[0], self.commands) else args
            commands = " or ".join(shlex.join(["ripieno", "new", kind, *rest]) for kind in kinds)
            raise click.UsageError(f"{args[0]!r} cannot be created. Did you mean: {commands}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=Kinds)
@common
def new() -> None:
    """Create a small ensemble that works.

    \b
    Example:
      ripieno new ensemble mine
    """


@new.command(short_help="Create a small ensemble that works.")
@click.argument("name")
@click.option(
    "--folder", metavar="DIR", type=FOLDER, help="The folder to write to, instead of your own ensembles folder."
)
@common
@pass_settings
def ensemble(settings: Settings, name: str, folder: pathlib.Path | None) -> None:
    """Create a small ensemble that works: NAME.toml, and NAME/tools.py with one function.

    Also writes ensemble.schema.json, for editors that support "#:schema", such as Even Better TOML.

    Without --folder, it is written to the folder "ensembles" of your own configuration, and is enabled at once.

    \b
    Example:
      ripieno new ensemble mine
      ripieno new ensemble mine --folder ./ensembles
    """
    if not re.fullmatch(ENSEMBLE_NAME.pattern or "", name):
        proposed = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_0123456789")
        raise InputError(
            f"{name!r} is not a valid name of an ensemble: use lower-case letters, digits, _ and -, and begin with a "
            f"letter.{f' For example: {proposed!r}.' if proposed else ''}"
        )
    loaded = load_configuration(settings.config)
    if owner := owner_of(loaded, name):
        raise InputError(
            f"{name!r} is the name of {owner} ({loaded.known.outlines[name].file}), which the new file would replace. "
            f"Choose another name: ripieno new ensemble my-{name}"
        )
    place = (folder or Places.of_user().configuration / "ensembles").absolute()
    descriptor, module = place / f"{name}.toml", place / name / "tools.py"
    taken = [str(path) for path in (descriptor, module) if path.exists()]
    if taken:
        raise InputError(f"Already exists: {' and '.join(taken)}. Choose another name, or remove it first.")
    for path, text in ((descriptor, _DESCRIPTOR), (module, _MODULE)):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text.format(name=name, prefix=name[:_PREFIX]))
        click.echo(clean(f"Wrote {path}"))
    click.echo(clean(write_schema(place, loaded.registry)))
    click.echo(clean(_next(settings, name, place, named=folder is not None)))


def _next(settings: Settings, name: str, place: pathlib.Path, *, named: bool) -> str:
    call = f"ripieno invoke {name}.greet_person name=Ada"
    if not named:
        loaded = load_configuration(settings.config)
        if not loaded.failures and all(descriptor.name != name for descriptor in loaded.ensembles):
            return f"{how_to_include(name)} Then: {call}"
        return f"Now try: {call}"
    check = f"Now check it: {shlex.join(['ripieno', 'check', str(place / f'{name}.toml')])}\n"
    if place == settings.folder.absolute() / ENSEMBLES_NAME and (project := find_project(settings.folder)) is not None:
        table = EMPTY if project.part is None else project.part.parts.get("ensembles", EMPTY)
        first = (
            f"add {name!r} to enabled in {project.part.file}, then run"
            if project.part and "enabled" in table
            else "run"
        )
        return f"{check}To enable it, {first}: {trust_command(settings.folder)}\nThen: {call}"
    return (
        f"{check}"
        f'To enable it, add its folder: paths = ["{place}"] under [ensembles], in {Places.of_user().file}. Then: {call}'
    )
