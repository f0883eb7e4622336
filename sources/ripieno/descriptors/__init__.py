"""Descriptors: the frozen, validated forms of TOML files. Mappings in, descriptors and problems out; no I/O.

Each kind of file is a table of declared keys (``keys``, ``kinds``). The readers, the JSON Schemas for editors and
the reference come from these same tables.
"""

from ripieno.descriptors.configuration import (
    AgentDescriptor,
    ConfigurationDescriptor,
    combine,
    read_configuration,
    read_parts,
)
from ripieno.descriptors.ensembles import ConnectionDescriptor, EnsembleDescriptor, read_ensemble
from ripieno.descriptors.generation import FILES, reference, schema
from ripieno.descriptors.invokers import NO_ARGUMENTS, InvocableDescriptor, InvokerDescriptor
from ripieno.descriptors.modelrows import ModelRow, find_idle
from ripieno.descriptors.policy import make_policy
from ripieno.descriptors.positions import Path, Positions, ScanFailure
from ripieno.descriptors.problems import Problems, Source, dotted, excerpt, printable, undotted
from ripieno.descriptors.profiles import ProfileDescriptor, read_profile
from ripieno.descriptors.providers import CAPABILITIES, ProviderDescriptor, lay_over, read_provider
from ripieno.descriptors.references import Reader
from ripieno.descriptors.serialization import deserialize, serialize

__all__ = [
    "CAPABILITIES",
    "FILES",
    "NO_ARGUMENTS",
    "AgentDescriptor",
    "ConfigurationDescriptor",
    "ConnectionDescriptor",
    "EnsembleDescriptor",
    "InvocableDescriptor",
    "InvokerDescriptor",
    "ModelRow",
    "Path",
    "Positions",
    "Problems",
    "ProfileDescriptor",
    "ProviderDescriptor",
    "Reader",
    "ScanFailure",
    "Source",
    "combine",
    "deserialize",
    "dotted",
    "excerpt",
    "find_idle",
    "lay_over",
    "make_policy",
    "printable",
    "read_configuration",
    "read_ensemble",
    "read_parts",
    "read_profile",
    "read_provider",
    "reference",
    "schema",
    "serialize",
    "undotted",
]
