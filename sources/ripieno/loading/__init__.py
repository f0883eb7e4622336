"""Finds and reads TOML, layer over layer. Everything wrong in any file is collected, with its line."""

from ripieno.loading.configurations import (
    ConfigurationPart,
    LoadedConfiguration,
    load_configuration,
    read_configuration_part,
)
from ripieno.loading.documents import Document, locate, parse_toml, read_beneath, read_toml
from ripieno.loading.layers import (
    Found,
    Layer,
    LeftOut,
    Loaded,
    LoadedProfiles,
    LoadedProviders,
    Shadowed,
    load_ensembles,
    load_profiles,
    load_providers,
    reader,
)

__all__ = [
    "ConfigurationPart",
    "Document",
    "Found",
    "Layer",
    "LeftOut",
    "Loaded",
    "LoadedConfiguration",
    "LoadedProfiles",
    "LoadedProviders",
    "Shadowed",
    "load_configuration",
    "load_ensembles",
    "load_profiles",
    "load_providers",
    "locate",
    "parse_toml",
    "read_beneath",
    "read_configuration_part",
    "read_toml",
    "reader",
]
