"""The one module that a plugin imports: names, and the mark of its hooks. Built-in plugins use the same.

``hooks`` has the hooks.
"""

from ripieno.lazy.interfaces import interface

_HOMES = {
    "Alert": "canisters.events",
    "AudioContent": "canisters",
    "Change": "canisters.faults",
    "Confinement": "sandbox",
    "Connected": "ensembles",
    "ConnectionFailure": "exceptions",
    "Content": "canisters",
    "Context": "ensembles",
    "ControlsProcessor": "models",
    "Definition": "ensembles",
    "DocumentContent": "canisters",
    "EnsembleDescriptor": "descriptors",
    "ExecutionFault": "exceptions",
    "FatalFault": "exceptions",
    "Flag": "descriptors.reader.kinds",
    "Free": "descriptors.reader.kinds",
    "INVALID": "descriptors.reader.kinds",
    "ImageContent": "canisters",
    "Invocable": "ensembles",
    "InvocationCanister": "canisters",
    "InvocationsProcessor": "models",
    "InvokerDescriptor": "descriptors",
    "Key": "descriptors.reader.keys",
    "McpTransport": "ensembles.origin",
    "MessagesProcessor": "models",
    "Named": "descriptors.reader.kinds",
    "NeededProgram": "ensembles.origin",
    "NeededVariable": "ensembles.origin",
    "NetworkFault": "exceptions",
    "Number": "descriptors.reader.kinds",
    "OpaqueContent": "canisters",
    "Origin": "ensembles",
    "Outcome": "ensembles",
    "OutcomeUnknownFault": "exceptions",
    "PermissionFault": "exceptions",
    "Problem": "exceptions",
    "Process": "sandbox",
    "ProcessLimits": "sandbox",
    "Protocol": "models",
    "QuotaFault": "exceptions",
    "ResourceFault": "exceptions",
    "ResultCanister": "canisters",
    "Schema": "schemas",
    "Several": "descriptors.reader.kinds",
    "Spawner": "sandbox",
    "Surroundings": "ensembles",
    "Table": "descriptors.reader.keys",
    "Template": "descriptors.templates",
    "TemplateText": "descriptors.reader.alternatives",
    "Text": "descriptors.reader.kinds",
    "TextualContent": "canisters",
    "TimeoutFault": "exceptions",
    "ToolFault": "exceptions",
    "ValidationFault": "exceptions",
    "hookimpl": "plugin.hooks",
    "while_connected": "ensembles.origin",
}

# pyright: reportUnsupportedDunderAll=false
__all__ = [*_HOMES]  # noqa: PLE0604  all of them are strings
__getattr__, __dir__ = interface(__name__, _HOMES)
