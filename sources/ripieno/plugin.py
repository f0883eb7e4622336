"""The one module that a plugin imports: names and hooks. Built-in plugins use the same.

Every hook returns plain values and dotted paths, does no I/O, and changes nothing. A dotted path is
``"package.module:NAME"``; it is imported when it is first needed. Signatures only gain arguments; an implementation
takes those that it needs.
"""

import pathlib
from collections.abc import Mapping, Sequence

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
from ripieno.models import ControlsProcessor, InvocationsProcessor, MessagesProcessor, Protocol
from ripieno.sandbox import Confinement, Process, ProcessLimits, Spawner
from ripieno.schemas import Schema

#: The name of the entry-point group, and of the hooks' project.
PROJECT = "ripieno"

hookspec = pluggy.HookspecMarker(PROJECT)


@hookspec
def ripieno_data() -> Sequence[pathlib.Path]:  # type: ignore[empty-body]
    """Folders with ``ensembles/``, ``providers/`` and ``profiles/`` of TOML files."""


@hookspec
def ripieno_origins() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Origins: the name in ``origin = "…"``, and the dotted path of the ``Origin``."""


@hookspec
def ripieno_transports() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Transports of MCP servers: the name in ``transport = "…"``, and the dotted path of the ``McpTransport``."""


@hookspec
def ripieno_protocols() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Wire formats: the name in ``protocol = "…"``, and the dotted path of the ``Protocol``."""


@hookspec
def ripieno_sandboxes() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Sandboxes: the name in ``[sandbox] provider``, and the dotted path of a function that returns the ``Spawner``.

    It has no arguments. The spawner gets a ``Confinement`` with each program, and starts only confined programs.
    """


@hookspec
def ripieno_commands() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Commands of ``ripieno``: the name, and the dotted path of the click command."""


#: Marks a function of a plugin as an implementation of a hook.
hookimpl = pluggy.HookimplMarker(PROJECT)

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
