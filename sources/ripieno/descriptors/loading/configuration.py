"""Reads one configuration file into parts, from which the assembly selects."""

import dataclasses
import os
from pathlib import Path
from typing import Any

from frozendict import frozendict

from ripieno.descriptors.configuration import change_paths, read_parts
from ripieno.descriptors.loading.documents import file_name, read_toml
from ripieno.descriptors.loading.layers import reader
from ripieno.exceptions import ConfigurationInvalidity, Problem
from ripieno.jsonvalues import EMPTY


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationPart:
    """The read keys of one file, table by table. ``files`` has the SHA-256 of each file that was read, by path."""

    parts: frozendict[str, Any] = EMPTY
    file: str
    layer: str = ""
    problems: tuple[Problem, ...] = ()
    files: frozendict[str, str] = EMPTY


def read_configuration_part(path: Path | str, *, layer: str = "") -> ConfigurationPart:
    """Reads one configuration file. Raises nothing: a missing file is a problem, too."""
    path = Path(os.path.abspath(path))
    try:
        document = read_toml(path)
    except ConfigurationInvalidity as invalidity:
        return ConfigurationPart(file=file_name(path), layer=layer, problems=invalidity.problems)
    files = {str(path): document.digest}
    parts, problems = read_parts(
        document.mapping, document.source, read=reader(path.parent, files), folder=str(path.parent), layer=layer
    )
    parts = frozendict[str, Any](change_paths(parts, os.path.expanduser))
    return ConfigurationPart(parts=parts, file=file_name(path), layer=layer, problems=problems, files=frozendict(files))
