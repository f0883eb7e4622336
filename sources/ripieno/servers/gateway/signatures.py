"""Signatures of the results of tools that run here, which verify results that clients send back.

Nothing is stored. A result of our tools counts only with the signature that its caller received, because a client
could send anything as the result. The results of a client's own tools need none.
"""

import base64
import hashlib
import hmac
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ripieno.canisters import (
    Canister,
    Content,
    DocumentContent,
    InvocationCanister,
    OpaqueContent,
    ResultCanister,
    TextualContent,
)
from ripieno.descriptors.gateway import SECRET_BYTES
from ripieno.exceptions import InputError
from ripieno.jsonvalues import canonical, is_list, is_table
from ripieno.models.protocol import Native
from ripieno.servers.gateway.history_checks import described

#: The prefix of a signature, which is that of an identifier.
_PREFIX = "fco_"
#: The purpose, which is signed as well.
_PURPOSE = "ripieno result 1"


class Unsigned(InputError):
    """A result of one of our tools is not as it was sent."""

    code = "unsigned_result"


class Signer:
    """Signs and verifies results. ``secret`` is the same in all processes that may receive them.

    Errors: ``InputError`` for a secret that is too short.
    """

    def __init__(self, secret: bytes) -> None:
        if len(secret) < SECRET_BYTES:
            raise InputError(
                f"The secret of the gateway has {len(secret)} bytes. Use {SECRET_BYTES} or more random bytes."
            )
        self._secret = secret

    def sign(self, call: InvocationCanister, result: ResultCanister, caller: str) -> str:
        """The signature of a result (47 characters), over its call, the arguments, and what a model reads of it."""
        parts = [_PURPOSE, caller, call.identifier, call.name, call.arguments, _read(result)]
        return _PREFIX + self._digest(parts)

    def _digest(self, parts: Sequence[Any]) -> str:
        digest = hmac.digest(self._secret, canonical(parts), hashlib.sha256)
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")

    def check(
        self, canisters: Sequence[Canister], ours: Collection[str], signatures: Mapping[str, Sequence[str]], caller: str
    ) -> None:
        """Checks the results of ``ours`` (names of tools). Errors: ``Unsigned``.

        ``signatures`` are those in the request, by identifiers of calls.
        """
        calls: dict[str, InvocationCanister] = {}
        for canister in canisters:
            if isinstance(canister, InvocationCanister):
                calls[canister.identifier] = canister
            elif isinstance(canister, ResultCanister):
                call = calls.get(canister.invocation_id)
                if call is None or call.name not in ours:
                    continue
                expected = self.sign(call, canister, caller).encode()
                given = signatures.get(canister.invocation_id, ())
                if not any(hmac.compare_digest(expected, one.encode("utf-8", "replace")) for one in given):
                    raise Unsigned(
                        f"{call.name!r} runs here, but the result of {described(call.name, call.identifier)} was "
                        "changed. Send the call and its result back unchanged, each with its item id, or neither."
                    )


def signatures_in(native: Native) -> Mapping[str, Sequence[str]]:
    """The identifiers of a request's result items, by those of their calls; none on a wire without such items."""
    found: dict[str, list[str]] = {}
    items = native.get("input")
    for item in items if is_list(items) else ():
        if is_table(item) and "output" in item:
            call, identifier = item.get("call_id"), item.get("id")
            if isinstance(call, str) and isinstance(identifier, str):
                found.setdefault(call, []).append(identifier)
    return found


def _read(result: ResultCanister) -> list[Any]:
    """The text that a model reads of a result, however a wire splits its texts."""
    pieces: list[Any] = []
    texts: list[str] = [] if result.error is None else [result.error.text(), "\n"]
    for content in result.content:
        if isinstance(content, TextualContent):
            texts.append(content.text)
        else:
            pieces += [*_joined(texts), _digest(content)]
            texts.clear()
    return [*pieces, *_joined(texts)]


def _joined(texts: Iterable[str]) -> list[str]:
    # Wires separate an error from further text by a newline, or by nothing if there is none.
    text = "".join(texts).rstrip("\n")
    return [text] if text else []


def _digest(content: Content) -> list[str]:
    if isinstance(content, DocumentContent) and content.url is not None:
        return ["url", content.url]
    if isinstance(content, OpaqueContent):
        return ["opaque", hashlib.sha256(canonical(content.data)).hexdigest()]
    data = b"" if isinstance(content, TextualContent) else content.data
    return ["data", hashlib.sha256(data or b"").hexdigest()]
