"""The one module that a plugin imports: ``from ripieno.plugin import …``. Built-in rooms are made of the same."""

import pluggy

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
from ripieno.ensembles import Connected, Context, Definition, Invocable, Origin, Outcome, Surroundings
from ripieno.exceptions import (
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
from ripieno.hookspecs import PROJECT
from ripieno.models import ControlsProcessor, InvocationsProcessor, MessagesProcessor, Protocol
from ripieno.sandbox import Confinement, Process, ProcessLimits, Spawner
from ripieno.schemas import Schema

#: Marks a function of a plugin as one of the hooks of ``ripieno.hookspecs``.
hookimpl = pluggy.HookimplMarker(PROJECT)

__all__ = [
    "Alert",
    "AudioContent",
    "Change",
    "Confinement",
    "Connected",
    "Content",
    "Context",
    "ControlsProcessor",
    "Definition",
    "DocumentContent",
    "EnsembleDescriptor",
    "ExecutionFault",
    "FatalFault",
    "ImageContent",
    "Invocable",
    "InvocationCanister",
    "InvocationsProcessor",
    "InvokerDescriptor",
    "MessagesProcessor",
    "NetworkFault",
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
    "Spawner",
    "Surroundings",
    "TextualContent",
    "TimeoutFault",
    "ToolFault",
    "ValidationFault",
    "hookimpl",
]
