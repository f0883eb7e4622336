"""Secret values that are never recorded, and paths that tools may never write."""

import dataclasses
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import PathFinder

from ripieno.assembly.configuration import LoadedConfiguration, variables_of
from ripieno.descriptors.templates import Placeholder
from ripieno.jsonvalues import is_list, is_table
from ripieno.lazy.expressions import expression
from ripieno.sandbox import Sandbox


def sandbox_of(loaded: LoadedConfiguration) -> Sandbox:
    """The sandbox of a loaded configuration; nothing is tried yet."""
    return Sandbox(loaded.workspace, loaded.configuration.sandbox, protected=protected_by(loaded))


def protected_by(loaded: LoadedConfiguration) -> tuple[str, ...]:
    """The paths that no tool may write: configuration, named and importable code, trust and pins.

    This matters if the workspace contains them. Folders end with a slash.
    """
    places: list[os.PathLike[str]] = [path for layer in loaded.layers for path in (*layer.folders, *layer.paths)]
    places += filter(None, (loaded.state, loaded.own))
    folders = [os.fspath(path) if os.path.isfile(path) else f"{path}/" for path in places]
    return (*loaded.files, *loaded.named.files, *folders, *_importable(loaded))


def _importable(loaded: LoadedConfiguration) -> Iterator[str]:
    """The paths of the workspace that this process may import: folders of its import path, and modules of ensembles."""
    base = os.path.realpath(loaded.workspace)
    for folder in dict.fromkeys(map(os.path.realpath, filter(None, (*sys.path, sys.prefix, sys.exec_prefix)))):
        if folder.startswith(f"{base}/"):
            yield f"{folder}/"
    for descriptor in loaded.ensembles:
        settings = [one.invocable.settings for one in descriptor.invokers]
        settings += [] if descriptor.connection is None else [descriptor.connection.settings]
        named = (one.get(key) for one in settings for key in ("function", "preview", "factory"))
        for name in {str(one).partition(":")[0].partition(".")[0] for one in (descriptor.module, *named) if one}:
            found = PathFinder.find_spec(name) if name else None
            if found is not None and found.origin is not None:
                yield found.origin
                yield f"{os.path.dirname(found.origin)}/__pycache__/"
            yield from () if found is None else (f"{one}/" for one in found.submodule_search_locations or ())


def beneath(workspace: os.PathLike[str], paths: Sequence[str]) -> tuple[str, ...]:
    """The paths that lie beneath the workspace, as they are named and with links resolved."""
    base = os.path.realpath(workspace)
    known = [way(path) for path in paths for way in (os.path.abspath, os.path.realpath)]
    known += [os.path.join(base, os.path.relpath(path, workspace)) for path in paths]
    return tuple(dict.fromkeys(path for path in known if path.startswith(f"{base}/")))


#: Names of variables that hold a secret.
SECRET_NAME = expression(
    r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|AUTH(?!OR(?:S?_|S?\Z))|CREDENTIAL|COOKIE|BEARER|SIGNATURE"
    r"|(?:\A|_)(?:PASS|PWD|PAT|PIN|JWT|DSN)(?:_|\Z)"
)
#: Values that look random: long, with letters and digits, and not a path, a sentence or an address.
_RANDOM = expression(r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9_+=.~-]{20,}")
#: Common variables whose values are in every path.
_PLAIN = frozenset({"HOME", "PWD", "OLDPWD", "PATH", "USER", "LOGNAME", "SHELL", "TMPDIR", "LANG", "TERM"})
_NAMED = expression(r"\{?env:([A-Za-z_][A-Za-z0-9_]*)")
#: Levels of nesting of settings.
_DEPTH = 64


def withheld(loaded: LoadedConfiguration, environment: Mapping[str, str]) -> frozenset[str]:
    """The values that are secrets, by the names of their variables or by their use in descriptors."""
    variables = variables_of(loaded, environment)
    used = named_variables((loaded.ensembles, tuple(loaded.providers.values()), loaded.configuration.journal_url))
    return frozenset(
        value
        for name, value in variables.items()
        if (name in used or SECRET_NAME.search(name.upper())) and not _is_public(name, value)
    )


def secrets_among(variables: Mapping[str, str]) -> tuple[str, ...]:
    """The values of variables that are secrets, by their names or form. The others, such as HOME, stay readable."""
    return tuple(
        value
        for name, value in variables.items()
        if (SECRET_NAME.search(name.upper()) or _RANDOM.fullmatch(value.strip())) and not _is_public(name, value)
    )


def _is_public(name: str, value: str) -> bool:
    """Whether a variable is no secret, whatever its name is: its value is in every path, or is itself a path here.

    The name of ``PWD``, for example, is that of a password, and its value is the folder in which everything happens.
    """
    path = value.strip()
    return name in _PLAIN or (os.path.isabs(path) and os.path.exists(path))


def named_variables(value: object) -> frozenset[str]:
    """The variables that settings name as ``{env:NAME}`` or ``env:NAME``, in any key. It may have more, never fewer."""
    return frozenset(_used(value, _DEPTH))


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
