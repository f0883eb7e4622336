"""The one module that a plugin imports: names, and the mark of its hooks. Built-in plugins use the same.

``ripieno.hooks`` has the hooks.
"""

from ripieno.canisters import (
    AudioContent,
    Content,
    DocumentContent,
    ImageContent,
    InvocationCanister,
    OpaqueContent,
    ResultCanister,
    TextualContent,
)
from ripieno.canisters.events import Alert
from ripieno.canisters.faults import Change
from ripieno.descriptors import EnsembleDescriptor, InvokerDescriptor
from ripieno.descriptors.reader.alternatives import TemplateText
from ripieno.descriptors.reader.keys import Key, Table
from ripieno.descriptors.reader.kinds import INVALID, Flag, Free, Named, Number, Several, Text
from ripieno.descriptors.templates import Template
from ripieno.ensembles import Connected, Context, Definition, Invocable, Origin, Outcome, Surroundings
from ripieno.ensembles.origin import McpTransport, NeededProgram, NeededVariable, while_connected
from ripieno.exceptions import (
    ConnectionFailure,
    ExecutionFault,
    FatalFault,
    NetworkFault,
    OutcomeUnknownFault,
    PermissionFault,
    Problem,
    QuotaFault,
    ResourceFault,
    TimeoutFault,
    ToolFault,
    ValidationFault,
)
from ripieno.hooks import hookimpl
from ripieno.models import ControlsProcessor, InvocationsProcessor, MessagesProcessor, Protocol
from ripieno.sandbox import Confinement, Process, ProcessLimits, Spawner
from ripieno.schemas import Schema

__all__ = [
    "INVALID",
    "Alert",
    "AudioContent",
    "Change",
    "Confinement",
    "Connected",
    "ConnectionFailure",
    "Content",
    "Context",
    "ControlsProcessor",
    "Definition",
    "DocumentContent",
    "EnsembleDescriptor",
    "ExecutionFault",
    "FatalFault",
    "Flag",
    "Free",
    "ImageContent",
    "Invocable",
    "InvocationCanister",
    "InvocationsProcessor",
    "InvokerDescriptor",
    "Key",
    "McpTransport",
    "MessagesProcessor",
    "Named",
    "NeededProgram",
    "NeededVariable",
    "NetworkFault",
    "Number",
    "OpaqueContent",
    "Origin",
    "Outcome",
    "OutcomeUnknownFault",
    "PermissionFault",
    "Problem",
    "Process",
    "ProcessLimits",
    "Protocol",
    "QuotaFault",
    "ResourceFault",
    "ResultCanister",
    "Schema",
    "Several",
    "Spawner",
    "Surroundings",
    "Table",
    "Template",
    "TemplateText",
    "Text",
    "TextualContent",
    "TimeoutFault",
    "ToolFault",
    "ValidationFault",
    "hookimpl",
    "while_connected",
]
