"""Finds and reads TOML files, layer over layer. Every problem in any file is collected, with its line."""

from ripieno.descriptors.loading.documents import Document, locate, parse_toml, read_toml
from ripieno.descriptors.loading.layers import (
    Catalogue,
    Layer,
    Loaded,
    LoadedProfiles,
    LoadedProviders,
    load_ensembles,
    load_profiles,
    load_providers,
)

__all__ = [
    "Catalogue",
    "Document",
    "Layer",
    "Loaded",
    "LoadedProfiles",
    "LoadedProviders",
    "load_ensembles",
    "load_profiles",
    "load_providers",
    "locate",
    "parse_toml",
    "read_toml",
]
