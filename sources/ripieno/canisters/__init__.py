"""Immutable messages and their parts: canisters, contents, conversations and controls.

Events are in ``events``, faults and reports in ``faults``, the JSON forms in ``serialization``.
"""

from ripieno.canisters.canisters import (
    AssistantCanister,
    Canister,
    DocumentCanister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from ripieno.canisters.contents import (
    AudioContent,
    Content,
    DocumentContent,
    ImageContent,
    OpaqueContent,
    TextualContent,
)
from ripieno.canisters.controls import Controls
from ripieno.canisters.conversation import Conversation

__all__ = [
    "AssistantCanister",
    "AudioContent",
    "Canister",
    "Content",
    "Controls",
    "Conversation",
    "DocumentCanister",
    "DocumentContent",
    "ImageContent",
    "InvocationCanister",
    "OpaqueContent",
    "ResultCanister",
    "SupervisorCanister",
    "TextualContent",
    "UserCanister",
]
