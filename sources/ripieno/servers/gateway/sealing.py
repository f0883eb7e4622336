"""Sealed compactions: summaries that only the gateway reads, bound to their caller, in the items that clients keep.

Nothing is stored. Authenticated encryption (AES-256-GCM) refuses an item that was changed, or that another caller got.
"""

import base64
import binascii
import dataclasses
import hashlib
import hmac
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ripieno.canisters import (
    AssistantCanister,
    Canister,
    Content,
    InvocationCanister,
    OpaqueContent,
    UserCanister,
)
from ripieno.canisters.serialization import deserialize, serialize
from ripieno.exceptions import InputError
from ripieno.jsonvalues import canonical, encode, parse
from ripieno.models.protocol import COMPACTION, Asked
from ripieno.values import Value

#: The most characters of a sealed text, as the open specification says; and the beginning of each, with its format.
_LONGEST = 10_485_760
_PREFIX = "ripieno1."
_PURPOSE = "ripieno compaction 1"
_NONCE = 12
_DEPTH = 128


class Unsealed(InputError):
    """A compaction item is not as this caller got it."""

    code = "invalid_compaction"


class Compaction(Value, kw_only=True):
    """A summary, and the calls that had no result yet."""

    summary: str
    calls: tuple[InvocationCanister, ...] = ()


class Sealer:
    """Seals and opens compactions. ``secret`` is the same in all processes that may receive them."""

    def __init__(self, secret: bytes) -> None:
        self._key = hmac.digest(secret, _PURPOSE.encode(), hashlib.sha256)

    def seal(self, compaction: Compaction, caller: str) -> str:
        """The sealed text for a caller. Errors: ``InputError`` if it is too long."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        data = encode({"summary": compaction.summary, "calls": [serialize(call) for call in compaction.calls]})
        nonce = os.urandom(_NONCE)
        sealed = nonce + AESGCM(self._key).encrypt(nonce, data, _bound(caller))
        text = _PREFIX + base64.urlsafe_b64encode(sealed).decode("ascii")
        if len(text) > _LONGEST:
            raise InputError("The calls without a result are too long for a compaction. Send their results before.")
        return text

    def open(self, text: object, caller: str) -> Compaction:
        """The compaction in a sealed text. Errors: ``Unsealed``."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        try:
            if not isinstance(text, str) or not text.startswith(_PREFIX) or len(text) > _LONGEST:
                raise ValueError
            sealed = base64.b64decode(text.removeprefix(_PREFIX), altchars=b"-_", validate=True)
            if _PREFIX + base64.urlsafe_b64encode(sealed).decode("ascii") != text:
                # The last character has bits that mean nothing.
                raise ValueError
            data = AESGCM(self._key).decrypt(sealed[:_NONCE], sealed[_NONCE:], _bound(caller))
        except (ValueError, binascii.Error, InvalidTag):
            raise Unsealed(
                "A compaction item was changed, or comes from elsewhere. Send it back unchanged, with the same key, or "
                "send the conversation instead."
            ) from None
        native: Any = parse(data, max_bytes=len(data), max_depth=_DEPTH)
        calls = tuple(deserialize(InvocationCanister, one) for one in native["calls"])
        return Compaction(summary=str(native["summary"]), calls=calls)

    def reveal(self, asked: Asked, protocol: str, caller: str) -> Asked:
        """The request with what its compactions contain in their place. Errors: ``Unsealed``."""
        if not any(_is_sealed(content, protocol) for content in _contents(asked.canisters)):
            return asked
        return dataclasses.replace(asked, canisters=tuple(self._revealed(asked.canisters, protocol, caller)))

    def _revealed(self, canisters: Iterable[Canister], protocol: str, caller: str) -> Iterator[Canister]:
        for canister in canisters:
            if not any(_is_sealed(content, protocol) for content in _contents([canister])):
                yield canister
                continue
            assert isinstance(canister, AssistantCanister)
            said: list[Content] = []
            for content in canister.content:
                if isinstance(content, OpaqueContent) and _is_sealed(content, protocol):
                    if said:
                        yield AssistantCanister(content=tuple(said))
                        said = []
                    compaction = self.open(content.data.get("encrypted_content"), caller)
                    yield UserCanister.of(compaction.summary)
                    if compaction.calls:
                        yield AssistantCanister()
                        yield from compaction.calls
                else:
                    said.append(content)
            if said:
                yield AssistantCanister(content=tuple(said))


def _bound(caller: str) -> bytes:
    return canonical([_PURPOSE, caller])


def _contents(canisters: Sequence[Canister]) -> Iterator[Content]:
    return (content for one in canisters if isinstance(one, AssistantCanister) for content in one.content)


def _is_sealed(content: Content, protocol: str) -> bool:
    return isinstance(content, OpaqueContent) and (content.protocol, content.kind) == (protocol, COMPACTION)
