"""Reads one configuration file as parts, so that the assembly can decide which of them count."""

import dataclasses
import os
from pathlib import Path
from typing import Any

from frozendict import frozendict

from ripieno.descriptors.configuration import read_parts
from ripieno.descriptors.loading.documents import file_name, read_toml
from ripieno.descriptors.loading.layers import reader
from ripieno.exceptions import ConfigurationInvalidity, Problem
from ripieno.jsonvalues import EMPTY


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationPart:
    """The read keys of one file, table by table, for whoever decides which of them count.

    ``files`` has the SHA-256 of each file that was reached, by its path.
    """

    parts: frozendict[str, Any] = EMPTY
    file: str
    layer: str = ""
    problems: tuple[Problem, ...] = ()
    files: frozendict[str, str] = EMPTY


def read_configuration_part(path: Path | str, *, layer: str = "") -> ConfigurationPart:
    """Reads one configuration file. Raises nothing for what is in it, nor when it is missing: that is a problem."""
    path = Path(os.path.abspath(path))
    try:
        document = read_toml(path)
    except ConfigurationInvalidity as invalidity:
        return ConfigurationPart(file=file_name(path), layer=layer, problems=invalidity.problems)
    files = {str(path): document.digest}
    parts, problems = read_parts(
        document.mapping, document.source, read=reader(path.parent, files), folder=str(path.parent), layer=layer
    )
    return ConfigurationPart(
        parts=_at_home(parts), file=file_name(path), layer=layer, problems=problems, files=frozendict(files)
    )


def _at_home(parts: frozendict[str, Any]) -> frozendict[str, Any]:
    """Paths with ~ written out."""
    ensembles, workspace = parts.get("ensembles", frozendict()), parts.get("workspace", frozendict())
    if "paths" in ensembles:
        expanded = tuple(os.path.expanduser(path) for path in ensembles["paths"])
        parts = parts.set("ensembles", ensembles.set("paths", expanded))
    if "root" in workspace:
        parts = parts.set("workspace", workspace.set("root", os.path.expanduser(workspace["root"])))
    sandbox = parts.get("sandbox", frozendict())
    for key in ("readable", "writable"):
        if key in sandbox:
            sandbox = sandbox.set(key, tuple(os.path.expanduser(path) for path in sandbox[key]))
            parts = parts.set("sandbox", sandbox)
    return parts
