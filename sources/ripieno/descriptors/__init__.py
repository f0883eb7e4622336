"""Descriptors: the frozen, validated forms of TOML files.

``reader`` reads declared keys and reports problems with their lines, ``loading`` finds files and merges layers,
``rules`` and ``templates`` implement the two small languages of values. The readers, the JSON Schemas for editors
and the reference use the same tables of keys.
"""

from ripieno.descriptors.configuration import AgentDescriptor, ConfigurationDescriptor
from ripieno.descriptors.ensembles import ConnectionDescriptor, EnsembleDescriptor
from ripieno.descriptors.gateway import GatewayDescriptor
from ripieno.descriptors.history import HistoryDescriptor
from ripieno.descriptors.invokers import InvocableDescriptor, InvokerDescriptor
from ripieno.descriptors.policies import Policy, RetryPolicy
from ripieno.descriptors.profiles import ProfileDescriptor
from ripieno.descriptors.providers import ProviderDescriptor
from ripieno.descriptors.serialization import deserialize, serialize

__all__ = [
    "AgentDescriptor",
    "ConfigurationDescriptor",
    "ConnectionDescriptor",
    "EnsembleDescriptor",
    "GatewayDescriptor",
    "HistoryDescriptor",
    "InvocableDescriptor",
    "InvokerDescriptor",
    "Policy",
    "ProfileDescriptor",
    "ProviderDescriptor",
    "RetryPolicy",
    "deserialize",
    "serialize",
]
