"""Asks models: a model, the contract of a protocol, retries and fallback.

``protocols`` has one package for each wire format, ``transport`` the HTTP side.
"""

from ripieno.models.model import Model, Provider
from ripieno.models.protocol import ControlsProcessor, InvocationsProcessor, MessagesProcessor, Protocol

__all__ = ["ControlsProcessor", "InvocationsProcessor", "MessagesProcessor", "Model", "Protocol", "Provider"]
