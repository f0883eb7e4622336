"""Finds and reads TOML, layer over layer. Everything wrong in any file is collected, with its line."""

from ripieno.loading.catalogues import Catalogue
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
from ripieno.loading.strangers import (
    Known,
    file_of,
    find_strange_choices,
    find_strange_models,
    find_strange_providers,
    models_of,
)

__all__ = [
    "Catalogue",
    "ConfigurationPart",
    "Document",
    "Found",
    "Known",
    "Layer",
    "LeftOut",
    "Loaded",
    "LoadedConfiguration",
    "LoadedProfiles",
    "LoadedProviders",
    "Shadowed",
    "file_of",
    "find_strange_choices",
    "find_strange_models",
    "find_strange_providers",
    "load_configuration",
    "load_ensembles",
    "load_profiles",
    "load_providers",
    "locate",
    "models_of",
    "parse_toml",
    "read_beneath",
    "read_configuration_part",
    "read_toml",
    "reader",
]
