"""Asks models: a model, the contract of a protocol, retries and fallback.

``protocols`` has one package for each wire format, ``transport`` the HTTP side.
"""

from ripieno.lazy.interfaces import interface

_HOMES = {
    "ControlsProcessor": "models.protocol",
    "InvocationsProcessor": "models.protocol",
    "MessagesProcessor": "models.protocol",
    "Model": "models.model",
    "Protocol": "models.protocol",
    "Provider": "models.model",
}

# pyright: reportUnsupportedDunderAll=false
__all__ = [*_HOMES]  # noqa: PLE0604  all of them are strings
__getattr__, __dir__ = interface(__name__, _HOMES)
