"""Descriptors as JSON values with a kind and a version, and back."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from ripieno.descriptors.ensembles import EnsembleDescriptor, read_ensemble
from ripieno.descriptors.profiles import ProfileDescriptor, read_profile
from ripieno.descriptors.providers import ProviderDescriptor, read_provider
from ripieno.descriptors.reader.problems import Source
from ripieno.exceptions import SerializationInvalidity
from ripieno.jsonvalues import is_table

VERSION = 1
Serializable: TypeAlias = EnsembleDescriptor | ProviderDescriptor | ProfileDescriptor
_KINDS = {EnsembleDescriptor: "ensemble", ProviderDescriptor: "provider", ProfileDescriptor: "profile"}
_READERS: Mapping[str, Any] = {"ensemble": read_ensemble, "provider": read_provider, "profile": read_profile}


def serialize(descriptor: Serializable) -> dict[str, Any]:
    """``{"version", "kind", "layer", "file", "folder"?, "tables"}``, all of it JSON."""
    places = {"layer": descriptor.layer, "file": descriptor.file}
    if isinstance(descriptor, EnsembleDescriptor):
        places["folder"] = descriptor.folder
    return {"version": VERSION, "kind": _KINDS[type(descriptor)], **places, "tables": descriptor.mapping()}


def deserialize(value: Mapping[str, Any]) -> Serializable:
    """The descriptor of a mapping. Errors: ``SerializationInvalidity`` for an unknown version or kind."""
    version, kind, tables = value.get("version"), value.get("kind"), value.get("tables")
    if version != VERSION:
        raise SerializationInvalidity(f"The descriptor has version {version!r}; only version {VERSION} is supported.")
    if not isinstance(kind, str) or kind not in _READERS or not is_table(tables):
        raise SerializationInvalidity(f"The kind {kind!r} is unknown, or the tables are missing.")
    places = {"layer": value.get("layer", "")}
    if kind == "ensemble":
        places["folder"] = value.get("folder")
    descriptor, problems = _READERS[kind](tables, Source(file=value.get("file")), **places)
    if problems:
        raise SerializationInvalidity("\n".join(str(problem) for problem in problems))
    result: Serializable = descriptor
    return result
