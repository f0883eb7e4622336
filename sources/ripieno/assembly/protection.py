"""Values that are never written down: those of variables with names of secrets, and what descriptors take of others.

What nobody but its owner changes: what a program was configured with, and what is kept of trust and pins.
"""

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping, Sequence

from ripieno.assembly.configuration import LoadedConfiguration, variables_of
from ripieno.descriptors.templates import Placeholder
from ripieno.jsonvalues import is_list, is_table
from ripieno.sandbox import Sandbox


def sandbox_of(loaded: LoadedConfiguration) -> Sandbox:
    """The sandbox of what was loaded; nothing is tried yet."""
    return Sandbox(loaded.workspace, loaded.configuration.sandbox, protected=protected_by(loaded))


def protected_by(loaded: LoadedConfiguration) -> tuple[str, ...]:
    """What was read for it, and what is kept of trust and pins: neither programs nor file tools write there.

    Where a workspace is so wide that it has these in it. Folders have a slash at their end.
    """
    folders = [f"{path}/" for layer in loaded.layers for path in (*layer.folders, *layer.paths)]
    folders += [] if loaded.state is None else [f"{loaded.state}/"]
    return (*loaded.files, *folders)


def beneath(workspace: os.PathLike[str], paths: Sequence[str]) -> tuple[str, ...]:
    """Those of the paths that lie beneath the workspace, as they are named and where they lead."""
    base = os.path.realpath(workspace)
    known = [way(path) for path in paths for way in (os.path.abspath, os.path.realpath)]
    known += [os.path.join(base, os.path.relpath(path, workspace)) for path in paths]
    return tuple(dict.fromkeys(path for path in known if path.startswith(f"{base}/")))


#: A variable that holds a secret, by its name.
SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|AUTH(?!OR(?:S?_|S?\Z))|CREDENTIAL|COOKIE|BEARER|SIGNATURE"
    r"|(?:\A|_)(?:PASS|PWD|PAT|PIN|JWT|DSN)(?:_|\Z)"
)
#: Values that look random: long, of letters and digits, and no path, sentence or address.
_RANDOM = re.compile(r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9_+=.~-]{20,}")
#: Variables that everything has, and whose values stand in every path.
_PLAIN = frozenset({"HOME", "PWD", "OLDPWD", "PATH", "USER", "LOGNAME", "SHELL", "TMPDIR", "LANG", "TERM"})
_NAMED = re.compile(r"\{?env:([A-Za-z_][A-Za-z0-9_]*)")
#: Levels of nesting of settings.
_DEPTH = 64


def withheld(loaded: LoadedConfiguration, environment: Mapping[str, str]) -> frozenset[str]:
    """The values that are secrets, as far as anybody can tell by their names or their use."""
    variables = variables_of(loaded, environment)
    used = set(_used((loaded.ensembles, tuple(loaded.providers.values())), _DEPTH))
    return frozenset(
        value
        for name, value in variables.items()
        if name not in _PLAIN and (name in used or SECRET_NAME.search(name.upper()))
    )


def secrets_among(variables: Mapping[str, str]) -> tuple[str, ...]:
    """The values of variables that are secrets, by their names or looks. The others, such as HOME, stay readable."""
    return tuple(
        value
        for name, value in variables.items()
        if SECRET_NAME.search(name.upper()) or _RANDOM.fullmatch(value.strip())
    )


def _used(value: object, depth: int) -> Iterator[str]:
    """The names of the variables that settings name, wherever they stand."""
    if depth == 0:
        return
    if isinstance(value, str):
        yield from _NAMED.findall(value)
    elif isinstance(value, Placeholder):
        if value.variable:
            yield value.name
    elif is_table(value):
        for one in value.values():
            yield from _used(one, depth - 1)
    elif is_list(value):
        for one in value:
            yield from _used(one, depth - 1)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _used(getattr(value, field.name), depth - 1)
