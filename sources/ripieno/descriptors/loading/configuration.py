"""One configuration of several files: each is read on its own, and later keys win."""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from frozendict import frozendict

from ripieno.descriptors.configuration import ConfigurationDescriptor, combine, read_parts
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LoadedConfiguration:
    """The configuration of all files together; None when any of them has problems."""

    configuration: ConfigurationDescriptor | None
    problems: tuple[Problem, ...] = ()
    parts: tuple[ConfigurationPart, ...] = ()


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


def load_configuration(paths: Sequence[Path | str]) -> LoadedConfiguration:
    """Reads configuration files, the one that wins last. Raises nothing for what is in them."""
    parts = tuple(read_configuration_part(path) for path in paths)
    problems = tuple(problem for part in parts for problem in part.problems)
    configuration = None if problems else combine([part.parts for part in parts])
    return LoadedConfiguration(configuration=configuration, problems=problems, parts=parts)


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
