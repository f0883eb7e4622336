"""The stored rows: a response with its own input, and the limits of a store."""

from collections.abc import Mapping
from typing import Any

from ripieno.exceptions import InputError
from ripieno.values import Value

#: The statuses of a response whose run has not ended.
OPEN_STATUSES = ("queued", "in_progress")


class StoreFull(InputError):
    """A caller has as much stored as the limits allow."""

    code = "store_full"


class ConversationLocked(InputError):
    """Another response of the conversation is in progress, or has taken it."""

    code = "conversation_locked"


class ChainBroken(InputError):
    """A response, or one of those that it continues, is not there."""

    code = "previous_response_not_found"


class ChainTooLong(InputError):
    """A chain of responses, or a conversation, has reached its limit."""

    code = "chain_too_long"


class StoreLimits(Value, kw_only=True):
    """Seconds until a response expires, and its events after their end; the most rows and bytes of a caller.

    ``links`` and ``chain`` are the most responses, and bytes of their contents, that one continues.
    """

    seconds: float = 30 * 86_400.0
    event_seconds: float = 600.0
    rows: int = 10_000
    size: int = 2**30
    links: int = 1000
    chain: int = 32 * 2**20


class StoredResponse(Value, kw_only=True):
    """One response. ``body`` is JSON: its ``input`` and ``output`` as history, and the ``response`` as clients get it.

    ``links`` and ``chain`` count the responses up to this one, and their bytes. ``lost``: its process has ended without
    an end of the response.
    """

    caller: str
    identifier: str
    body: Mapping[str, Any]
    status: str
    parent: str | None = None
    conversation: str | None = None
    background: bool = False
    holder: str = ""
    links: int = 1
    chain: int = 0
    lost: bool = False

    @property
    def open(self) -> bool:
        """Whether its run has not ended."""
        return self.status in OPEN_STATUSES


class StoredConversation(Value, kw_only=True):
    """One conversation, without its items. ``body`` is JSON."""

    caller: str
    identifier: str
    body: Mapping[str, Any]
