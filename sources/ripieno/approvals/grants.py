"""Grants: an approval is a token that is valid once, for one call exactly as it was approved, and for some minutes.

It is bound to the conversation, the invocation, the tool and the digest of its definition, the digest of the canonical
arguments, and the digest of the rules that applied. Source: measured threats "approve A, run B" and replay.
"""

import dataclasses
import hashlib
import hmac
import math
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

from ripieno.approvals.grant_stores import GrantStore, Held, MemoryStore
from ripieno.canisters.controls import Rules
from ripieno.canisters.faults import Effect
from ripieno.exceptions import InputError, PermissionFault
from ripieno.jsonvalues import EMPTY, digest
from ripieno.values import Value, unprinted

#: Seconds for which a grant is valid by default.
LIFETIME = 600.0
#: Seconds by which the clocks of processes may differ.
_DRIFT = 5.0


def digest_definition(
    *, description: str, schema: Mapping[str, Any], effect: Effect, origin: str, presets: Mapping[str, Any] = EMPTY
) -> str:
    """The digest of the parts of a tool's definition on which an approval relies. Errors: ``JsonInvalidity``."""
    return digest(
        {"description": description, "schema": schema, "effect": effect, "origin": origin, "presets": presets}
    )


def digest_rules(rules: Rules) -> str:
    """The digest of rules."""
    return digest(dataclasses.asdict(rules))


class Binding(Value, kw_only=True):
    """The one call that is approved. ``definition``, ``arguments`` and ``rules`` are digests."""

    conversation: str
    invocation: str
    tool: str
    definition: str
    arguments: str
    rules: str

    @property
    def parts(self) -> tuple[str, ...]:
        """The hashes of its fields, in their order; all have the same length."""
        return tuple(_hash(field) for field in dataclasses.astuple(self))


@unprinted("token")
class Grant(Value, kw_only=True):
    """A token, its binding, and its end in seconds since 1970. The token is a secret until it is used."""

    token: str
    binding: Binding
    expires: float


class Grants:
    """Issues grants and redeems them, with a store, by default in memory."""

    def __init__(self, store: GrantStore | None = None, *, clock: Callable[[], float] = time.time) -> None:
        self._store: GrantStore = store or MemoryStore()
        self._clock = clock

    def issue(self, binding: Binding, *, seconds: float = LIFETIME) -> Grant:
        """A grant for one call, which must be redeemed within ``seconds``.

        Errors: ``InputError`` when the store cannot be written, or ``seconds`` is invalid.
        """
        if not (math.isfinite(seconds) and seconds > 0):
            raise InputError(f"The lifetime of a grant must be above 0 seconds, not {seconds}.")
        token, now = secrets.token_urlsafe(32), self._clock()
        self._store.add(_hash(token), Held(parts=binding.parts, issued=now, expires=now + seconds))
        return Grant(token=token, binding=binding, expires=now + seconds)

    def redeem(self, token: str, binding: Binding) -> None:
        """Uses up a grant for the call that is about to run; returns only if the call may run.

        Errors: ``PermissionFault`` whose ``code`` is in ``REASONS``. A refusal leaves the grant valid for its own call.
        """
        try:
            key, now = _hash(token), self._clock()
            held = self._store.find(key)
            reason = _compare(held, binding, now)
            if reason is None and not self._store.use(key, now):
                reason = "used_grant"
        except InputError as error:
            raise _refusal("unreadable_grants") from error
        if reason is not None:
            raise _refusal(reason)

    def revoke(self, token: str) -> bool:
        """Ends a grant. False if it was used or is unknown. Errors: ``InputError`` when the store cannot be written."""
        return self._store.use(_hash(token), self._clock())


_NOTHING = Held(parts=("",) * 6, issued=math.inf, expires=-math.inf)
#: The codes of refusals, with their reasons.
REASONS: Mapping[str, str] = {
    "unknown_grant": "no grant has this token",
    "used_grant": "it was used already",
    "expired_grant": "it has expired",
    "other_conversation": "it was given in another conversation",
    "other_invocation": "it was given for another call",
    "other_tool": "it was given for another tool",
    "other_definition": "the tool's definition is not the one that was approved",
    "other_arguments": "the arguments are not those that were approved",
    "other_rules": "the rules are not those that applied",
    "unreadable_grants": "the approvals cannot be read or written",
}
#: One for each field of a binding, in their order.
_MISMATCHES = tuple(code for code in REASONS if code.startswith("other_"))


def _compare(found: Held | None, binding: Binding, now: float) -> str | None:
    """Why a grant is not valid for a call, or None. All parts are compared, so that the time reveals nothing."""
    held = found or _NOTHING
    pairs = zip(held.parts, binding.parts, _MISMATCHES, strict=True)
    wrong = [name for before, after, name in pairs if not hmac.compare_digest(before, after)]
    # A grant from the future was issued before a clock was set back: its age is unknown.
    fresh = held.issued - _DRIFT <= now < held.expires
    if found is None:
        return "unknown_grant"
    if found.used is not None:
        return "used_grant"
    if wrong:
        return wrong[0]
    return None if fresh else "expired_grant"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _refusal(reason: str) -> PermissionFault:
    return PermissionFault(
        f"The approval is not valid: {REASONS[reason]}.",
        code=reason,
        suggestion="The user must approve the call as it is now.",
    )
