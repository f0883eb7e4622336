"""``ripieno new``: makes things that work already, to be changed into what one wants."""

import pathlib
import re

import click

from ripieno.cli.settings import Settings, common, pass_settings
from ripieno.descriptors.ensembles import ENSEMBLE_NAME
from ripieno.exceptions import InputError
from ripieno.gathering import Places, gather
from ripieno.showing import clean

_DESCRIPTOR = """\
# An ensemble: tools that belong together. `ripieno schema ensemble` prints what may stand here.

[ensemble]
name = "{name}"
description = "Says things about texts"
module = "./{name}/tools.py"        # where the functions are; each has the name of its invoker

[defaults]
effect = "none"                     # none, read, write or destructive: the last two ask before each call
timeout = 10                        # seconds

[[invokers]]
name = "count_words"
description = "Counts the words of a text, and how often the most frequent ones occur."

[invokers.arguments]
type = "object"
required = ["text"]

[invokers.arguments.properties.text]
type = "string"
description = "The text"

[invokers.arguments.properties.top]
type = "integer"
description = "How many of the most frequent words to name"
minimum = 0
maximum = 100
default = 3
"""
_MODULE = '''\
"""The functions of the ensemble {name}. They are imported when they are first called."""

import collections

from ripieno.plugin import Context, ValidationFault


def count_words(context: Context, arguments: dict) -> dict:
    """Arguments have been validated, and defaults filled in. What is returned may be a string or JSON."""
    words = arguments["text"].lower().split()
    if not words:
        raise ValidationFault("The text has no words.", suggestion="Give it a text with words in it.")
    frequent = collections.Counter(words).most_common(arguments["top"])
    return {{"words": len(words), "frequent": dict(frequent)}}
'''


@click.group()
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

    Without --folder it goes where it plays at once: the folder "ensembles" of your own configuration.

    \b
    Example:
      ripieno new ensemble mine
      ripieno new ensemble mine --folder ./ensembles
    """
    if not re.fullmatch(ENSEMBLE_NAME.pattern or "", name):
        raise InputError(f"{name!r} cannot name an ensemble: it must be {ENSEMBLE_NAME.shape}.{_proposal(name)}")
    place = (folder or Places.of_user().configuration / "ensembles").absolute()
    descriptor, module = place / f"{name}.toml", place / name / "tools.py"
    taken = [str(path) for path in (descriptor, module) if path.exists()]
    if taken:
        raise InputError(f"There is {' and '.join(taken)} already. Choose another name, or remove it first.")
    for path, text in ((descriptor, _DESCRIPTOR), (module, _MODULE)):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text.format(name=name))
        click.echo(clean(f"Wrote {path}"))
    click.echo(clean(_next(settings, name, place, named=folder is not None)))


def _proposal(name: str) -> str:
    proposed = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_0123456789")
    return f" {proposed!r} would do." if proposed else ""


def _next(settings: Settings, name: str, place: pathlib.Path, *, named: bool) -> str:
    """What to do with it, which depends on where it is."""
    call = f'ripieno invoke {name}.count_words text="to be or not to be"'
    if not named:
        gathered = gather(settings.config)
        if not gathered.failures and all(descriptor.name != name for descriptor in gathered.ensembles):
            return f'Your configuration names what plays: add "{name}" to enabled under [ensembles]. Then: {call}'
        return f"Now try: {call}"
    return (
        f"Now check it: ripieno check {place / name}.toml\n"
        f'To play it, name its folder in a configuration: paths = ["{place}"] under [ensembles]. Then: {call}'
    )
