"""Secret values that are never recorded, and paths that tools may never write."""

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping, Sequence

from ripieno.assembly.configuration import LoadedConfiguration, variables_of
from ripieno.descriptors.templates import Placeholder
from ripieno.jsonvalues import is_list, is_table
from ripieno.sandbox import Sandbox


def sandbox_of(loaded: LoadedConfiguration) -> Sandbox:
    """The sandbox of a loaded configuration; nothing is tried yet."""
    return Sandbox(loaded.workspace, loaded.configuration.sandbox, protected=protected_by(loaded))


def protected_by(loaded: LoadedConfiguration) -> tuple[str, ...]:
    """The files and folders of the configuration, trust and pins, which neither programs nor file tools may write.

    This matters if the workspace contains them. Folders end with a slash.
    """
    folders = [f"{path}/" for layer in loaded.layers for path in (*layer.folders, *layer.paths)]
    folders += [] if loaded.state is None else [f"{loaded.state}/"]
    return (*loaded.files, *folders)


def beneath(workspace: os.PathLike[str], paths: Sequence[str]) -> tuple[str, ...]:
    """The paths that lie beneath the workspace, as they are named and with links resolved."""
    base = os.path.realpath(workspace)
    known = [way(path) for path in paths for way in (os.path.abspath, os.path.realpath)]
    known += [os.path.join(base, os.path.relpath(path, workspace)) for path in paths]
    return tuple(dict.fromkeys(path for path in known if path.startswith(f"{base}/")))


#: Names of variables that hold a secret.
SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|AUTH(?!OR(?:S?_|S?\Z))|CREDENTIAL|COOKIE|BEARER|SIGNATURE"
    r"|(?:\A|_)(?:PASS|PWD|PAT|PIN|JWT|DSN)(?:_|\Z)"
)
#: Values that look random: long, with letters and digits, and not a path, a sentence or an address.
_RANDOM = re.compile(r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9_+=.~-]{20,}")
#: Common variables whose values are in every path.
_PLAIN = frozenset({"HOME", "PWD", "OLDPWD", "PATH", "USER", "LOGNAME", "SHELL", "TMPDIR", "LANG", "TERM"})
_NAMED = re.compile(r"\{?env:([A-Za-z_][A-Za-z0-9_]*)")
#: Levels of nesting of settings.
_DEPTH = 64


def withheld(loaded: LoadedConfiguration, environment: Mapping[str, str]) -> frozenset[str]:
    """The values that are secrets, by the names of their variables or by their use in descriptors."""
    variables = variables_of(loaded, environment)
    used = set(_used((loaded.ensembles, tuple(loaded.providers.values())), _DEPTH))
    return frozenset(
        value
        for name, value in variables.items()
        if name not in _PLAIN and (name in used or SECRET_NAME.search(name.upper()))
    )


def secrets_among(variables: Mapping[str, str]) -> tuple[str, ...]:
    """The values of variables that are secrets, by their names or form. The others, such as HOME, stay readable."""
    return tuple(
        value
        for name, value in variables.items()
        if SECRET_NAME.search(name.upper()) or _RANDOM.fullmatch(value.strip())
    )


def _used(value: object, depth: int) -> Iterator[str]:
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
