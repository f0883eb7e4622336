"""Finds and reads the TOML files of all layers, and collects every problem with its line."""

from ripieno.descriptors.loading.catalogue import Catalogue
from ripieno.descriptors.loading.documents import Document, locate, parse_toml, read_toml
from ripieno.descriptors.loading.layers import (
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
