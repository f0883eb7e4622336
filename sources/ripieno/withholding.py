"""Values that are never written down: those of variables with names of secrets, and what descriptors take of others."""

import dataclasses
import re
from collections.abc import Iterator, Mapping

from ripieno.descriptors.templates import Placeholder
from ripieno.gathering import Gathered, variables_of
from ripieno.jsonvalues import is_list, is_table

#: A variable that holds a secret, by its name.
SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|AUTH(?!OR(?:S?_|S?\Z))|CREDENTIAL|COOKIE|BEARER|SIGNATURE"
    r"|(?:\A|_)(?:PASS|PWD|PAT|PIN|JWT|DSN)(?:_|\Z)"
)
#: Variables that everything has, and whose values stand in every path.
_PLAIN = frozenset({"HOME", "PWD", "OLDPWD", "PATH", "USER", "LOGNAME", "SHELL", "TMPDIR", "LANG", "TERM"})
_NAMED = re.compile(r"\{?env:([A-Za-z_][A-Za-z0-9_]*)")
#: Levels of nesting of settings.
_DEPTH = 64


def withheld(gathered: Gathered, environment: Mapping[str, str]) -> frozenset[str]:
    """The values that are secrets, as far as anybody can tell by their names or their use."""
    variables = variables_of(gathered, environment)
    used = set(_used((gathered.ensembles, tuple(gathered.providers.values())), _DEPTH))
    return frozenset(
        value
        for name, value in variables.items()
        if name not in _PLAIN and (name in used or SECRET_NAME.search(name.upper()))
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
